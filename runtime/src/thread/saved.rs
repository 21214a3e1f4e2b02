//! Recorded values as a reader gets them: an output, an input, what a thread has saved.

use serde::de::DeserializeOwned;

use super::{Thread, ThreadState};
use crate::{
    CheckpointId, RunError, ThreadId, ValueError,
    id::{RunNo, Seq},
    storage,
    value::Payload,
};

/// A value that a journal has, readable as JSON text without its Rust type, or as the type that it was recorded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedValue(pub(crate) Payload);

impl RecordedValue {
    /// The value as JSON text.
    #[must_use]
    pub fn json(&self) -> String {
        self.0.to_json()
    }

    /// The value as a type.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if it is of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        self.0.decode()
    }
}

/// What a thread has saved for its next run, as far as it is still there.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Nothing,
    Value(RecordedValue),
    Pruned(CheckpointId),
}

impl ThreadState {
    /// What the thread's next run would see as `previous`; for a run that has not ended, what it sees itself.
    ///
    /// # Errors
    ///
    /// [`RunError::Pruned`] if it was there and is no more: only at a checkpoint before the newest run.
    pub fn saved(&self) -> Result<Option<RecordedValue>, RunError> {
        match &self.saved {
            Kept::Nothing => Ok(None),
            Kept::Value(value) => Ok(Some(value.clone())),
            Kept::Pruned(checkpoint) => Err(RunError::Pruned { thread: self.thread.clone(), checkpoint: *checkpoint }),
        }
    }

    /// What a completed run gave; `None` for any other.
    #[must_use]
    pub fn output(&self) -> Option<&RecordedValue> {
        self.output.as_ref()
    }
}

impl Thread {
    pub(super) async fn kept(&self, place: Option<(RunNo, Seq)>) -> Result<Kept, RunError> {
        let Some(place) = place else { return Ok(Kept::Nothing) };
        match storage::saved(self.runtime.checkpointer(), &self.id, place).await {
            Ok(value) => Ok(Kept::Value(RecordedValue(value))),
            Err(RunError::Pruned { checkpoint, .. }) => Ok(Kept::Pruned(checkpoint)),
            Err(error) => Err(error),
        }
    }
}

/// The value of which it is said in an error that it cannot be recorded.
pub(super) fn unwritable(what: &str, thread: &ThreadId, source: ValueError) -> RunError {
    RunError::Value { what: format!("{what} of thread {thread}"), source }
}
