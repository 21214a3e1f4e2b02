//! Why an answer was not taken.

use std::fmt;

use super::RunError;
use crate::{CallId, CheckpointError, Status, ThreadId, ValueError, journal::AnswerKind};

/// Why an answer was not taken; nothing was changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnswerError {
    /// The thread waits for no answer.
    NoPendingInterrupt {
        /// The thread.
        thread: ThreadId,
        /// What it is doing; `None`: it has never run.
        status: Option<Status>,
    },
    /// There is no such question.
    UnknownInterrupt {
        /// What was named.
        asked: String,
        /// The keys and ids of the open questions.
        known: Vec<(String, CallId)>,
    },
    /// Several open questions are meant: say which by its id, or answer each in one map.
    Ambiguous {
        /// The key that they have; `None`: none was named.
        key: Option<String>,
        /// The keys and ids of the open questions that are meant.
        open: Vec<(String, CallId)>,
    },
    /// The question was answered otherwise already.
    Conflict {
        /// The question.
        question: CallId,
        /// What counts, as JSON text; `null` if it was cancelled.
        answered: String,
        /// How that came.
        how: AnswerKind,
    },
    /// One map answers a question twice, and differently.
    Twice {
        /// The question.
        question: CallId,
    },
    /// The answer is not of the type that the code wants.
    WrongType {
        /// The question.
        question: CallId,
        /// Its key.
        key: String,
        /// Why it is not.
        source: ValueError,
    },
    /// The answer does not fit the question's schema.
    Schema {
        /// The question.
        question: CallId,
        /// Its key.
        key: String,
        /// The place in the answer: `.` for the answer itself, `items[3].price`.
        path: String,
        /// Why it does not fit.
        why: String,
    },
    /// The question does not say that it may be cancelled.
    NotCancellable {
        /// The question.
        question: CallId,
        /// Its key.
        key: String,
    },
    /// The value cannot be recorded.
    Value(ValueError),
    /// The thread's journal could not be read, or the answer not be stored.
    Run(RunError),
}

impl From<RunError> for AnswerError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<CheckpointError> for AnswerError {
    fn from(error: CheckpointError) -> Self {
        Self::Run(error.into())
    }
}

/// Questions by key and id.
struct Questions<'a>(&'a [(String, CallId)]);

impl fmt::Display for Questions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More than these help nobody.
        const SHOWN: usize = 20;
        for (place, (key, id)) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{key:?} ({id})", if place == 0 { "" } else { ", " })?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPendingInterrupt { thread, status: Some(status) } => {
                write!(f, "thread {thread} waits for no answer (it is {status}); nothing was stored")
            }
            Self::NoPendingInterrupt { thread, status: None } => {
                write!(f, "thread {thread} has never run, so it waits for no answer; nothing was stored")
            }
            Self::UnknownInterrupt { asked, known } => {
                write!(f, "there is no question {asked}; open are: {}", Questions(known))
            }
            Self::Ambiguous { key: Some(key), open } => {
                write!(f, "{} open questions have the key {key:?}: name one by its id, one of ", open.len())?;
                Questions(open).fmt(f)
            }
            Self::Ambiguous { key: None, open } => write!(
                f,
                "{} questions are open: name one by its key or id, or answer all in one map: {}",
                open.len(),
                Questions(open)
            ),
            Self::Conflict { question, how: AnswerKind::Cancelled, .. } => {
                write!(f, "question {question} was cancelled already")
            }
            Self::Conflict { question, answered, how: AnswerKind::Deadline } => write!(
                f,
                "question {question} has answered itself at its deadline, with {answered}; that answer stands"
            ),
            Self::Conflict { question, answered, how: AnswerKind::Given | AnswerKind::Reconciled } => {
                write!(f, "question {question} was answered already, with {answered}; that answer stands")
            }
            Self::Twice { question } => {
                write!(f, "question {question} is answered twice here, and differently; none of the answers was stored")
            }
            Self::WrongType { key, source, .. } => write!(f, "question {key:?}: {}", source.of_an_answer()),
            Self::Schema { key, path, why, .. } => {
                write!(f, "question {key:?}: the answer does not fit its schema")?;
                if path != "." {
                    write!(f, ", at `{path}`")?;
                }
                write!(f, ": {why}; answer again")
            }
            Self::NotCancellable { key, .. } => write!(
                f,
                "question {key:?} cannot be cancelled: its code does not say what then; answer it, or give up the run"
            ),
            Self::Value(error) => write!(f, "the answer cannot be recorded: {error}"),
            Self::Run(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for AnswerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Value(source) | Self::WrongType { source, .. } => Some(source),
            Self::Run(error) => Some(error),
            _ => None,
        }
    }
}
