//! The kinds of checkpoints.

use super::CheckpointWhat;

/// The kinds of checkpoints, to ask for some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckpointKind {
    /// A run's start.
    Started,
    /// A call's value or failure, other than an answer.
    Outcome,
    /// A failed attempt, of a call or of the run's own entrypoint, with another one to follow.
    Attempt,
    /// The beginning of a body that may run at most once, and that nobody knows what became of it.
    Begin,
    /// A question, also one that was withdrawn.
    Question,
    /// An answer, also one that was refused.
    Answer,
    /// A sleep's beginning.
    Sleep,
    /// A failed run that was gone on with.
    Resumed,
    /// What an entrypoint's code told its readers.
    Emitted,
    /// A cancellation or a deadline that stopped the run.
    Stopped,
    /// A run's end, however it ended.
    Ended,
    /// A saved value that was set from outside.
    Updated,
    /// A note for replay.
    Note,
}

impl CheckpointWhat {
    /// Of which kind it is.
    #[must_use]
    pub fn kind(&self) -> CheckpointKind {
        match self {
            Self::Started { .. } => CheckpointKind::Started,
            Self::Value { .. } | Self::Failure { .. } => CheckpointKind::Outcome,
            Self::Attempt { .. } | Self::Again { .. } => CheckpointKind::Attempt,
            Self::Begun { .. } | Self::InDoubt { .. } => CheckpointKind::Begin,
            Self::Question { .. } | Self::Withdrawn { .. } => CheckpointKind::Question,
            Self::Answer { .. } | Self::Refused { .. } => CheckpointKind::Answer,
            Self::Sleep { .. } => CheckpointKind::Sleep,
            Self::Resumed { .. } => CheckpointKind::Resumed,
            Self::Unread { .. } => CheckpointKind::Note,
            Self::Emitted { .. } => CheckpointKind::Emitted,
            Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Panicked { .. }
            | Self::CleanUpFailed { .. }
            | Self::TimedOut { .. }
            | Self::Cancelled { .. }
            | Self::Discarded
            | Self::Continued => CheckpointKind::Ended,
            Self::Stopped { .. } => CheckpointKind::Stopped,
            Self::Updated { .. } => CheckpointKind::Updated,
        }
    }
}
