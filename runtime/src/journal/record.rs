//! The records of a run, and their bytes: one kind byte, then the fields in order, as MessagePack or more compact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    compact,
    text::{Names, Text},
};
use crate::{
    id::{CallId, RunNo, ScopeId, Seq},
    output::Recorded,
    value::Payload,
};

/// One journal entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A run began.
    Start(Start),
    /// A call ended; its outcome is handed on from this record, live as on replay.
    Outcome(Outcome),
    /// An attempt failed and another one follows.
    Attempt(Attempt),
    /// A body that may run at most once is about to begin.
    Begin(Begin),
    /// A call began to wait for the outside: a question is open, or a timer is set.
    Wait(Wait),
    /// A run that had failed goes on; these calls are opened again.
    Resume(Resume),
    /// A call was woken and nobody looked.
    Unread(Unread),
    /// An entrypoint's code told its readers something.
    Emitted(Emitted),
    /// The entrypoint failed and is run again.
    Again(Again),
    /// The run ended.
    End(End),
    /// The run was told to stop: its code is dropped where this is released.
    Cancel(Cancel),
    /// A run that is nothing but a saved value: set from outside, or taken along by a fork from another thread.
    Update(Update),
}

/// What a run began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) entrypoint: String,
    pub(crate) version: u32,
    pub(crate) input: Payload,
    /// The digest of the canonical input, to compare inputs.
    pub(crate) digest: [u8; 32],
    /// Where the saved value stands that this run sees as `previous`.
    pub(crate) previous: Option<(RunNo, Seq)>,
    pub(crate) at_ms: u64,
    /// How many of its tasks may be live at a time, if whoever started it said so.
    pub(crate) max_concurrency: Option<u32>,
    /// How long the run may take, from here or from its last resume after an end.
    pub(crate) limit_ms: Option<u64>,
    /// The thread's tags by then.
    pub(crate) tags: BTreeMap<String, String>,
    /// Where the records up to its own first one come from, if it is a fork.
    pub(crate) forked: Option<Origin>,
}

/// The record that a fork was made at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The name of its thread; `None`: the same thread.
    pub(crate) thread: Option<String>,
    pub(crate) run: RunNo,
    pub(crate) seq: Seq,
}

/// A saved value that no run of code made. It is the only record of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) entrypoint: String,
    pub(crate) version: u32,
    /// What the next run gets as `previous`.
    pub(crate) value: Payload,
    /// What a resume gives, if it is something else.
    pub(crate) output: Option<Payload>,
    /// The input of the run whose place it takes, and its digest.
    pub(crate) input: Option<(Payload, [u8; 32])>,
    /// Where the value comes from, if a fork took it along.
    pub(crate) taken: Option<Origin>,
    pub(crate) at_ms: u64,
    pub(crate) tags: BTreeMap<String, String>,
}

/// What sort of thing a call is. Part of its identity, so that no user's name can stand for one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallKind {
    /// A task.
    Task,
    /// A nested entrypoint.
    Entrypoint,
    /// A question to the outside.
    Interrupt,
    /// A sleep.
    Timer,
    /// A reading of the clock.
    Now,
    /// A random number or an id made of one.
    Random,
    /// A marker of changed code.
    Patch,
    /// A step of an approval.
    Approval,
}

impl CallKind {
    /// The number that stands for it in records, so never to be changed.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Task => 0,
            Self::Entrypoint => 1,
            Self::Interrupt => 2,
            Self::Timer => 3,
            Self::Now => 4,
            Self::Random => 5,
            Self::Patch => 6,
            Self::Approval => 20,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Self> {
        let all = [
            Self::Task,
            Self::Entrypoint,
            Self::Interrupt,
            Self::Timer,
            Self::Now,
            Self::Random,
            Self::Patch,
            Self::Approval,
        ];
        all.into_iter().find(|kind| kind.code() == code)
    }

    /// The word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Entrypoint => "entrypoint",
            Self::Interrupt => "interrupt",
            Self::Timer => "sleep",
            Self::Now => "now",
            Self::Random => "random",
            Self::Patch => "patched",
            Self::Approval => "approval",
        }
    }
}

/// A call as its records know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallInfo {
    pub(crate) id: CallId,
    pub(crate) kind: CallKind,
    /// Where it stands.
    pub(crate) scope: ScopeId,
    /// The entrypoint whose release order it is in, if it is in one: calls made in a task's body are in none.
    pub(crate) frame: Option<ScopeId>,
    pub(crate) name: Text,
    /// SHA-256 of the canonical arguments.
    #[serde(with = "serde_bytes")]
    pub(crate) digest: [u8; 32],
    /// How many canonical bytes the arguments have.
    pub(crate) length: u32,
    /// The arguments for people, cut short.
    pub(crate) preview: String,
    pub(crate) file: Text,
    pub(crate) line: u32,
    /// The calls in whose bodies it stands, the outermost first. For people: its identity is in its scope.
    pub(crate) within: Vec<Around>,
}

/// A call in whose body another one stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Around {
    pub(crate) id: CallId,
    pub(crate) name: Text,
}

/// A call's end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) call: CallInfo,
    pub(crate) recorded: std::sync::Arc<Recorded>,
    /// How many attempts there were, this one included.
    pub(crate) attempts: u32,
    pub(crate) at_ms: u64,
    /// How long the last attempt took.
    pub(crate) took_ms: u32,
    /// Whether no attempt was made for it: its value is one that an equal call left.
    pub(crate) cached: bool,
    /// Whether a question was asked in its body or beneath it: others are not to be given its value.
    pub(crate) asked: bool,
    /// How it was answered, if it is a question.
    pub(crate) answered: Option<Answered>,
}

/// How an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AnswerKind {
    /// Somebody gave it.
    Given,
    /// Nobody gave one in time: it is the question's default.
    Deadline,
    /// Somebody cancelled the question.
    Cancelled,
    /// A reconcile function found out what became of a call that was in doubt.
    Reconciled,
}

/// How a question was answered, by whom, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) kind: AnswerKind,
    /// Whoever answered, as they were named.
    pub(crate) by: Option<String>,
    pub(crate) at_ms: u64,
}

/// A failed attempt with another one to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) call: CallInfo,
    /// Which attempt it was, from 1.
    pub(crate) number: u32,
    pub(crate) error: String,
    /// The inner calls that the next attempt opens again: failures that this one did not get past.
    pub(crate) reopened: Vec<CallId>,
    pub(crate) at_ms: u64,
    /// When the next attempt is due.
    pub(crate) next_ms: u64,
}

/// The beginning of a body that may run at most once; durable before its first line. Without an outcome after it, nobody
/// knows whether its effect happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) call: CallInfo,
    /// Which attempt begins, from 1.
    pub(crate) number: u32,
    pub(crate) at_ms: u64,
}

/// A wait's beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) call: CallInfo,
    pub(crate) what: Waited,
    pub(crate) at_ms: u64,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Waited {
    /// An answer to this question.
    Answer(std::sync::Arc<Asked>),
    /// This moment.
    Until {
        /// In milliseconds since 1970.
        due_ms: u64,
    },
    /// Another answer, since the one that came could not be used.
    Refused {
        /// Why.
        reason: String,
    },
    /// Nothing any more: the code dropped its question, as a race's loser.
    Withdrawn,
    /// Somebody who says what became of its body, which had begun and left no outcome.
    InDoubt(std::sync::Arc<Doubted>),
}

/// Why nobody knows what became of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Doubted {
    /// The type of the value that it would have left, by name.
    pub(crate) expects: String,
    /// What its reconcile function came to, if it has one.
    pub(crate) why: Option<String>,
}

/// A question, as it was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// What is shown to whoever answers.
    pub(crate) payload: Payload,
    /// The type that the answer must have, by name.
    pub(crate) expects: String,
    /// The JSON schema that the answer must fit, if one was given.
    pub(crate) schema: Option<Payload>,
    /// When it answers itself, if it does.
    pub(crate) deadline: Option<Deadline>,
    /// Whether it may be cancelled.
    pub(crate) cancellable: bool,
}

/// When a question answers itself, and with what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deadline {
    /// In milliseconds since 1970.
    pub(crate) due_ms: u64,
    pub(crate) default: Payload,
}

/// A failed run goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Resume {
    pub(crate) reopened: Vec<CallId>,
    pub(crate) at_ms: u64,
}

/// A wake of a call in an entrypoint that was not read by anybody. A stream keeps what was woken in a line, and reads it in
/// that order later: so the wake is repeated on replay, where no body is there to make it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unread {
    pub(crate) call: CallInfo,
    /// How many of the recorded outcomes of the same order had not been released by then: the newest ones.
    pub(crate) ahead: u32,
}

/// What an entrypoint's code told its readers; told once, however often the code runs again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Emitted {
    /// Where it was told, what, and how often the same was told there before: not to be told again.
    pub(crate) id: CallId,
    /// The calls in whose bodies the code stands, the outermost first.
    pub(crate) within: Vec<Around>,
    pub(crate) value: Payload,
    pub(crate) at_ms: u64,
}

/// The run's own entrypoint failed and is run again from its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Again {
    /// Which attempt failed, from 1 after the run's start or its last resume.
    pub(crate) number: u32,
    pub(crate) error: String,
    /// The failures that it did not get past; the next attempt opens them again.
    pub(crate) reopened: Vec<CallId>,
    pub(crate) at_ms: u64,
    /// When the next attempt is due.
    pub(crate) next_ms: u64,
}

/// A run's end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) how: Ended,
    pub(crate) at_ms: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Ended {
    /// With a value.
    Completed {
        /// What the caller gets.
        output: Payload,
        /// What the next run gets as `previous`, if it is something else.
        save: Option<Payload>,
    },
    /// With an error.
    Failed {
        /// The error.
        failure: Recorded,
        /// The failures it did not get past; resuming opens them again.
        open: Vec<CallId>,
    },
    /// With a panic of its own code or of a task's.
    Panicked {
        /// Where and with what message.
        message: String,
        /// The failures it did not get past.
        open: Vec<CallId>,
    },
    /// With a clean-up that did not come to its end; what the run's own code came to is not written down yet.
    Unclean {
        /// Which, and why.
        message: String,
        /// The failures that the clean-ups did not get past; resuming opens them again, and only them.
        open: Vec<CallId>,
    },
    /// By its deadline.
    TimedOut {
        /// How long it was allowed to take.
        limit_ms: u64,
        /// The failures it did not get past.
        open: Vec<CallId>,
    },
    /// By a caller who cancelled it.
    Cancelled {
        /// Why, in the caller's words.
        reason: Option<String>,
    },
    /// By a caller who gave it up for a new run.
    Discarded,
    /// By going on as a new run.
    Continued,
}

/// What stops a run from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cancel {
    pub(crate) why: Why,
    pub(crate) at_ms: u64,
}

/// Why a run is stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Why {
    /// Somebody cancelled it.
    Asked {
        /// In their words.
        reason: Option<String>,
    },
    /// Its deadline has passed.
    TimedOut {
        /// How long it was allowed to take.
        limit_ms: u64,
    },
}

/// Why stored bytes are not a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordError(pub(crate) String);

/// The layout of records that this version writes.
const FORMAT: u8 = 1;

impl Record {
    /// When it was made, in milliseconds since 1970; a note about a wake has no time.
    pub(crate) fn at_ms(&self) -> Option<u64> {
        match self {
            Self::Start(Start { at_ms, .. })
            | Self::Outcome(Outcome { at_ms, .. })
            | Self::Attempt(Attempt { at_ms, .. })
            | Self::Begin(Begin { at_ms, .. })
            | Self::Wait(Wait { at_ms, .. })
            | Self::Resume(Resume { at_ms, .. })
            | Self::Emitted(Emitted { at_ms, .. })
            | Self::Again(Again { at_ms, .. })
            | Self::End(End { at_ms, .. })
            | Self::Cancel(Cancel { at_ms, .. })
            | Self::Update(Update { at_ms, .. }) => Some(*at_ms),
            Self::Unread(_) => None,
        }
    }

    /// The value that it saves for the next run, if it does.
    pub(crate) fn saved(&self) -> Option<&Payload> {
        match self {
            Self::End(End { how: Ended::Completed { output, save }, .. }) => Some(save.as_ref().unwrap_or(output)),
            Self::Update(update) => Some(&update.value),
            _ => None,
        }
    }

    /// What the caller of a run gets whose last record this is, if it has ended well.
    pub(crate) fn output(&self) -> Option<&Payload> {
        match self {
            Self::End(End { how: Ended::Completed { output, .. }, .. }) => Some(output),
            Self::Update(update) => Some(update.output.as_ref().unwrap_or(&update.value)),
            _ => None,
        }
    }

    /// The record's bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Start(record) => bytes(0, record),
            Self::Outcome(record) => {
                let mut bytes = Vec::with_capacity(256);
                bytes.extend([FORMAT, 1]);
                compact::write(record, &mut bytes);
                bytes
            }
            Self::Attempt(record) => bytes(2, record),
            Self::Wait(record) => bytes(3, record),
            Self::Resume(record) => bytes(4, record),
            Self::End(record) => bytes(5, record),
            Self::Unread(record) => bytes(6, record),
            Self::Begin(record) => bytes(7, record),
            Self::Emitted(record) => bytes(8, record),
            Self::Cancel(record) => bytes(9, record),
            Self::Update(record) => bytes(20, record),
            Self::Again(record) => bytes(21, record),
        }
    }

    /// Reads a record; any bytes give one or an error.
    pub(crate) fn from_bytes(bytes: &[u8], names: &mut Names) -> Result<Self, RecordError> {
        let [FORMAT, kind, rest @ ..] = bytes else {
            return Err(RecordError(match bytes.first() {
                None => "an empty record".to_owned(),
                Some(format) => format!("a record of format {format}, this version reads format {FORMAT}"),
            }));
        };
        Ok(match kind {
            0 => Self::Start(parse(rest)?),
            1 => Self::Outcome(compact::read(rest, names)?),
            2 => Self::Attempt(parse(rest)?),
            3 => Self::Wait(parse(rest)?),
            4 => Self::Resume(parse(rest)?),
            5 => Self::End(parse(rest)?),
            6 => Self::Unread(parse(rest)?),
            7 => Self::Begin(parse(rest)?),
            8 => Self::Emitted(parse(rest)?),
            9 => Self::Cancel(parse(rest)?),
            20 => Self::Update(parse(rest)?),
            21 => Self::Again(parse(rest)?),
            other => return Err(RecordError(format!("a record of unknown kind {other}"))),
        })
    }
}

fn bytes<T: Serialize>(kind: u8, record: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend([FORMAT, kind]);
    rmp_serde::encode::write(&mut bytes, record)
        .expect("our own records have no map of unknown length and fit in memory");
    bytes
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    let mut rest = rmp_serde::Deserializer::new(bytes);
    let record = T::deserialize(&mut rest).map_err(|error| RecordError(error.to_string()))?;
    match rest.get_ref().len() {
        0 => Ok(record),
        left => Err(RecordError(format!("{left} bytes after the record's end"))),
    }
}
