//! Answers: each goes to exactly the question that it names, once.

use std::fmt;

use serde::Serialize;

use super::{
    Thread,
    state::{Survey, SurveyedQuestion},
};
use crate::{
    CallId, CheckpointError, RunError, Status, ThreadId, ValueError,
    checkpoint::{Commit, Expect, Key},
    storage::{self, Answer},
    value::Payload,
};

/// How often an answer is tried again when the thread changes under it.
const TRIES: u32 = 100;

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
    /// Several open questions have the key: say which by its id.
    Ambiguous {
        /// The key.
        key: String,
        /// The ids of the open questions with it.
        ids: Vec<CallId>,
    },
    /// The question was answered with another value.
    Conflict {
        /// The question.
        question: CallId,
        /// The value that counts, as JSON text.
        answered: String,
    },
    /// The value cannot be recorded.
    Value(ValueError),
    /// The thread's journal could not be read, or the answer not be stored.
    Run(RunError),
}

/// Which question is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The open question with this key.
    Key(String),
    /// The question of this identity.
    Id(CallId),
}

impl From<&str> for Which {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<String> for Which {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<CallId> for Which {
    fn from(id: CallId) -> Self {
        Self::Id(id)
    }
}

impl Thread {
    /// Answers an open question, named by its key or its id. The answer is durable when this returns, and waits for the
    /// run to go on: by a [`resume`](Self::resume), or by itself if the run is driven in this process.
    ///
    /// The same answer again is taken as the same answer. Whether it is of the type that the code wants shows when the run
    /// goes on: if not, the question stays open, and its [`refused`](crate::Question::refused) says why.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was changed then.
    pub async fn answer(&self, which: impl Into<Which>, value: impl Serialize) -> Result<(), AnswerError> {
        let value = Payload::encode(&value).map_err(AnswerError::Value)?;
        self.answer_recorded(which.into(), value).await
    }

    async fn answer_recorded(&self, which: Which, value: Payload) -> Result<(), AnswerError> {
        let checkpointer = self.runtime.checkpointer();
        for _ in 0..TRIES {
            let head = storage::head(checkpointer, &self.id).await.map_err(RunError::from)?;
            let Some((head, row)) = head else {
                return Err(AnswerError::NoPendingInterrupt { thread: self.id.clone(), status: None });
            };
            if !head.status.is_unfinished() || head.status == Status::Failed {
                return Err(AnswerError::NoPendingInterrupt { thread: self.id.clone(), status: Some(head.status) });
            }
            if storage::cancel_request(checkpointer, &self.id).await.map_err(RunError::from)?.is_some() {
                // Its questions are withdrawn.
                return Err(AnswerError::NoPendingInterrupt { thread: self.id.clone(), status: Some(head.status) });
            }
            let records = storage::load_run(checkpointer, &self.id, head.run).await?;
            let mut questions = Survey::of(&records).questions;
            for (id, answer) in storage::answers(checkpointer, &self.id).await.map_err(RunError::from)? {
                for asked in questions.iter_mut().filter(|asked| asked.question.id == id) {
                    asked.answer.get_or_insert_with(|| answer.value.clone());
                }
            }
            let question = match self.find(&which, &questions, head.status)? {
                Found::Open(question) => question,
                Found::Answered(question, answered) => {
                    return if answered.bytes == value.bytes {
                        Ok(())
                    } else {
                        Err(AnswerError::Conflict { question, answered: answered.to_json() })
                    };
                }
            };
            let answer = Answer { value: value.clone(), at_ms: self.runtime.inner.environment.now_ms() };
            // The head changes with every pause and end of the run: if it is the same, the question is still open.
            let expect = vec![
                Expect::Equals(Key::Head, row),
                Expect::Absent(storage::answer_key(question)),
                Expect::Absent(storage::CANCEL),
            ];
            let mut changes = Vec::new();
            storage::answer_changes(&self.id, question, &answer, &mut changes).map_err(RunError::from)?;
            match checkpointer.commit(Commit { thread: self.id.clone(), expect, changes }).await {
                Ok(()) => {
                    if let Some(run) = self.runtime.inner.driven(&self.id) {
                        run.deliver(question, value);
                    }
                    return Ok(());
                }
                Err(CheckpointError::Conflict { .. }) => {}
                Err(error) => return Err(RunError::from(error).into()),
            }
        }
        Err(RunError::Busy { thread: self.id.clone() }.into())
    }

    /// The question that is meant, if it is exactly one.
    fn find(&self, which: &Which, questions: &[SurveyedQuestion], status: Status) -> Result<Found, AnswerError> {
        let named = |asked: &&SurveyedQuestion| match which {
            Which::Key(key) => asked.question.key == *key,
            Which::Id(id) => asked.question.id == *id,
        };
        let open: Vec<&SurveyedQuestion> = questions.iter().filter(|asked| asked.is_open()).collect();
        let meant: Vec<CallId> = open.iter().copied().filter(named).map(|asked| asked.question.id).collect();
        match (meant.as_slice(), which) {
            ([one], _) => return Ok(Found::Open(*one)),
            ([], _) => {}
            (several, Which::Key(key)) => {
                return Err(AnswerError::Ambiguous { key: key.clone(), ids: several.to_vec() });
            }
            ([first, ..], Which::Id(_)) => return Ok(Found::Open(*first)),
        }
        // No such question is open; the newest one that was answered may be meant again.
        let answered =
            questions.iter().rev().find(named).and_then(|asked| Some((asked.question.id, asked.answer.clone()?)));
        if let Some((question, answer)) = answered {
            return Ok(Found::Answered(question, answer));
        }
        if open.is_empty() {
            return Err(AnswerError::NoPendingInterrupt { thread: self.id.clone(), status: Some(status) });
        }
        let asked = match which {
            Which::Key(key) => format!("{key:?}"),
            Which::Id(id) => id.to_string(),
        };
        let known = open.iter().map(|asked| (asked.question.key.clone(), asked.question.id)).collect();
        Err(AnswerError::UnknownInterrupt { asked, known })
    }
}

enum Found {
    Open(CallId),
    Answered(CallId, Payload),
}

impl From<RunError> for AnswerError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
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
                write!(f, "there is no question {asked}; open are: ")?;
                for (place, (key, id)) in known.iter().enumerate() {
                    write!(f, "{}{key:?} ({id})", if place == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Ambiguous { key, ids } => {
                write!(f, "{} open questions have the key {key:?}: name one by its id, one of", ids.len())?;
                for (place, id) in ids.iter().enumerate() {
                    write!(f, "{} {id}", if place == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Conflict { question, answered } => {
                write!(f, "question {question} was answered already, with {answered}; that answer stands")
            }
            Self::Value(error) => write!(f, "the answer cannot be recorded: {error}"),
            Self::Run(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for AnswerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Value(error) => Some(error),
            Self::Run(error) => Some(error),
            _ => None,
        }
    }
}
