//! How what a function returns becomes a record and comes back: plain values, typed errors, and errors kept as messages.

use serde::{Deserialize, Serialize};

use crate::value::{Payload, ValueError};

/// What a finished body left: what the journal keeps and what is handed on from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Recorded {
    /// A value; for a `Result`, what stood in its `Ok`.
    Value(Payload),
    /// What stood in an `Err`.
    Failure(Failure),
}

/// A recorded failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The error itself, if its type can be recorded; else only its messages are kept.
    pub(crate) typed: Option<Payload>,
    /// What kind of failure it was.
    pub(crate) kind: TaskErrorKind,
    /// The error's message and those of its causes.
    pub(crate) chain: Vec<String>,
}

/// How a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TaskErrorKind {
    /// Its body returned an error.
    Failed,
    /// An attempt took longer than the task's `timeout`.
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
}

/// A task's failure as the entrypoint sees it when the error's own type cannot be recorded: its messages.
#[derive(Clone, Debug)]
pub struct TaskError {
    pub(crate) task: String,
    pub(crate) kind: TaskErrorKind,
    pub(crate) chain: Vec<String>,
}

/// How one output type is recorded and read. Chosen by the macro at the user's type.
#[derive(Debug)]
pub struct OutputCodec<T> {
    /// Records an output; the name is the task's, for messages.
    pub(crate) encode: fn(&T) -> Result<Recorded, ValueError>,
    /// Reads one back, live as on replay; the name is the task's.
    pub(crate) decode: fn(&Recorded, &str) -> Result<T, ValueError>,
    /// Makes an output of a failure that the body did not return itself (a timeout), where the type can hold one.
    pub(crate) from_error: Option<fn(TaskError) -> T>,
    /// Whether the output is an `Err`.
    pub(crate) is_failure: fn(&T) -> bool,
}

impl<T> Clone for OutputCodec<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for OutputCodec<T> {}
