//! How what a function returns becomes a record and comes back: plain values, typed errors, and errors kept as messages.
//!
//! The form is chosen at compile time, where the macro wrote the output's type ([`probe`]); a record says in which form
//! its error is, so that a later `derive` on the error's type does not break old journals.

mod arguments;
mod bounds;
mod codec;
mod error;
pub mod probe;
mod result;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub(crate) use self::codec::{plain, result as result_of};
pub use self::{
    arguments::{ArgumentError, ArgumentsBuilder},
    bounds::{Journaled, RetriedArgument, TaskArgument, TaskFailure, TimeoutFailure},
    codec::{OutputCodec, plain_codec, result_codec},
    error::{TaskError, TaskErrorKind},
    result::ResultType,
};
use crate::value::{Payload, ValueError};

/// What a finished body left: what the journal keeps and what is handed on from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Recorded {
    /// A value; for a `Result`, what stood in its `Ok`.
    Value(Payload),
    /// What stood in an `Err`.
    Failure(Failure),
}

/// A recorded failure: the error itself if its type can be recorded, and its messages.
///
/// Its `Display` is the error's message; [`Failure::messages`] has those of its causes too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The error itself, if its type can be recorded; else only its messages are kept.
    pub(crate) typed: Option<Payload>,
    /// What kind of failure it was.
    pub(crate) kind: TaskErrorKind,
    /// The error's message and those of its causes.
    pub(crate) chain: Vec<String>,
}

impl Failure {
    /// The error's message and those of its causes, outermost first. Empty if its type has no `Display`.
    #[must_use]
    pub fn messages(&self) -> &[String] {
        &self.chain
    }

    /// The recorded error, if it was recorded as a value and not only as messages.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if it is of another type.
    #[must_use]
    pub fn decode<E: DeserializeOwned>(&self) -> Option<Result<E, ValueError>> {
        self.typed.as_ref().map(Payload::decode)
    }

    /// The same failure as an error of the task of this name.
    pub(crate) fn to_task_error(&self, task: &str) -> TaskError {
        let chain = match (self.chain.is_empty(), &self.typed) {
            (true, Some(typed)) => vec![typed.preview(PREVIEW_CHARACTERS)],
            _ => self.chain.clone(),
        };
        TaskError::new(task, self.kind.clone(), chain)
    }
}

/// How much of a recorded error stands in for its message, where its type has none.
const PREVIEW_CHARACTERS: usize = 200;

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.chain.first(), &self.typed) {
            (Some(message), _) => f.write_str(message),
            (None, Some(typed)) => f.write_str(&typed.preview(PREVIEW_CHARACTERS)),
            (None, None) => f.write_str("an error without a message"),
        }
    }
}

/// The failure that an attempt over its limit leaves; always as messages, whatever the error's type.
impl From<&TaskError> for Failure {
    fn from(error: &TaskError) -> Self {
        Self { typed: None, kind: error.kind().clone(), chain: error.messages().map(str::to_owned).collect() }
    }
}
