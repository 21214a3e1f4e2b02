//! What a caller of a thread's verbs can be told instead of an outcome.

mod answer;

use std::fmt;

pub use answer::AnswerError;

use crate::{
    CallId, CallKind, CheckpointError, CheckpointId, EventNo, Failure, Nondeterminism, RunNo, Seq, Status, ThreadId,
    ThreadIdError, ValueError, journal::CallSketch, panics::panic_message,
};

/// Why a run did not come to an outcome, or a verb was refused.
///
/// What the framework itself has to report never reaches the entrypoint as an `Err` of the user's type: the entrypoint
/// stays where it is, and the caller gets one of these.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The entrypoint returned an error. It is recorded; resuming opens the failures that led to it again.
    Failed(Failure),
    /// The entrypoint or one of its tasks panicked. Resuming runs that call again.
    Panicked {
        /// What panicked, and for a task where it is defined.
        what: String,
        /// The panic's message.
        message: String,
    },
    /// The run did not come to its end before its deadline. It has cleaned up. What had finished is kept; resuming goes on
    /// with it, and gives it as long again.
    TimedOut {
        /// The entrypoint.
        entrypoint: String,
        /// How long it was allowed to take.
        limit: std::time::Duration,
    },
    /// The run is over, but something that its code left to be done at its end failed. Resuming tries again what failed there.
    CleanUpFailed {
        /// The entrypoint that cleaned up.
        entrypoint: String,
        /// What failed.
        message: String,
    },
    /// The drive was ended from outside, as a crash would end it: by [`Started::abort`](crate::Started::abort), or with
    /// its tokio runtime. The run can be resumed.
    Aborted {
        /// What was ended.
        what: String,
    },
    /// The code no longer makes the calls that its journal has.
    Nondeterminism(Box<Nondeterminism>),
    /// A value could not be recorded, or its record not be read as the type wanted.
    Value {
        /// What it is the value of.
        what: String,
        /// Why.
        source: ValueError,
    },
    /// The entrypoint was woken by something that is not recorded, such as a timer, a socket or another task.
    ForeignWake {
        /// The entrypoint.
        entrypoint: String,
    },
    /// The entrypoint waits, but for nothing that is recorded or running.
    Stalled {
        /// The entrypoint.
        entrypoint: String,
    },
    /// The entrypoint wakes itself again and again without ever coming to rest.
    Unsettled {
        /// The entrypoint.
        entrypoint: String,
        /// How often it was polled.
        polls: u32,
    },
    /// Two definitions have one name in a run, so that their records could be taken for each other's.
    TwoDefinitions {
        /// What sort of thing they are.
        kind: CallKind,
        /// The name.
        name: String,
        /// Where the one stands.
        first: String,
        /// Where the other stands.
        second: String,
    },
    /// Two different calls have one identity. Never seen unless somebody can break SHA-256.
    Collision {
        /// The one that the journal has.
        recorded: Box<CallSketch>,
        /// The one that the code made.
        called: Box<CallSketch>,
    },
    /// The store failed.
    Checkpoint(CheckpointError),
    /// The stored journal is damaged at this record.
    Corrupt {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunNo,
        /// The record.
        seq: Seq,
        /// What is wrong.
        detail: String,
    },
    /// Somebody else runs the thread now.
    Busy {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread has a run that has not ended.
    Unfinished {
        /// The thread.
        thread: ThreadId,
        /// What it is doing.
        status: Status,
    },
    /// The thread has never run.
    NothingToResume {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread's run was discarded or cancelled.
    Cancelled {
        /// The thread.
        thread: ThreadId,
    },
    /// The thread belongs to another entrypoint: what that saved is not this one's `previous`.
    WrongEntrypoint {
        /// The thread.
        thread: ThreadId,
        /// The entrypoint of its current or last run.
        recorded: String,
        /// The entrypoint that was given.
        given: String,
    },
    /// The unfinished run was started with another input.
    InputMismatch {
        /// The thread.
        thread: ThreadId,
        /// The recorded input, for people.
        recorded: String,
        /// The given input, for people.
        given: String,
    },
    /// A run's entrypoint is not registered with the runtime, so that it cannot be driven by name.
    UnknownEntrypoint {
        /// The name that the run was started with.
        name: String,
        /// The names that are registered.
        known: Vec<String>,
    },
    /// The thread's journals have no event of this number: it is of another thread, or they were deleted since.
    NoSuchEvent {
        /// The thread.
        thread: ThreadId,
        /// The number.
        number: EventNo,
    },
    /// A thread's name is none.
    ThreadId(ThreadIdError),
    /// An answer of a command was not taken, so that the run was not gone on with.
    Answer(Box<AnswerError>),
    /// The thread has no such checkpoint.
    UnknownCheckpoint {
        /// The thread.
        thread: ThreadId,
        /// What was asked for.
        checkpoint: CheckpointId,
    },
    /// What stood there was pruned.
    Pruned {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint that is gone.
        checkpoint: CheckpointId,
    },
    /// A fork was to have another outcome of a call that has none by that checkpoint.
    NoOutcome {
        /// The call.
        call: CallId,
        /// Where the fork was to be made.
        checkpoint: CheckpointId,
    },
    /// A thread of this name is there already.
    ThreadExists {
        /// The thread.
        thread: ThreadId,
    },
    /// A question was asked in the body of a task that may run at most once: waiting for the answer, the run would leave the
    /// body, and could not go on in it.
    AsksInOnce {
        /// The task.
        task: String,
        /// The question's key.
        asked: String,
    },
    /// A call was made in a task's reconcile function, which has no place in the journal.
    CallInReconcile {
        /// The task.
        task: String,
        /// What was called.
        called: String,
    },
    /// A tag is too long, or there are too many.
    Tag {
        /// What is wrong.
        detail: String,
    },
}

impl RunError {
    /// The name under which this is counted and logged; stable.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Panicked { .. } => "panicked",
            Self::TimedOut { .. } => "timed out",
            Self::CleanUpFailed { .. } => "clean-up failed",
            Self::Aborted { .. } => "aborted",
            Self::Nondeterminism(_) => "nondeterminism",
            Self::Value { .. } => "value",
            Self::ForeignWake { .. } => "foreign wake",
            Self::Stalled { .. } => "stalled",
            Self::Unsettled { .. } => "unsettled",
            Self::TwoDefinitions { .. } => "two definitions",
            Self::Collision { .. } => "collision",
            Self::Checkpoint(_) => "checkpoint",
            Self::Corrupt { .. } => "corrupt",
            Self::Busy { .. } => "busy",
            Self::Unfinished { .. } => "unfinished",
            Self::NothingToResume { .. } => "nothing to resume",
            Self::Cancelled { .. } => "cancelled",
            Self::WrongEntrypoint { .. } => "wrong entrypoint",
            Self::InputMismatch { .. } => "input mismatch",
            Self::UnknownEntrypoint { .. } => "unknown entrypoint",
            Self::NoSuchEvent { .. } => "no such event",
            Self::ThreadId(_) => "thread id",
            Self::Answer(_) => "answer",
            Self::UnknownCheckpoint { .. } => "unknown checkpoint",
            Self::Pruned { .. } => "pruned",
            Self::NoOutcome { .. } => "no outcome",
            Self::ThreadExists { .. } => "thread exists",
            Self::AsksInOnce { .. } => "asks in once",
            Self::CallInReconcile { .. } => "call in reconcile",
            Self::Tag { .. } => "tag",
        }
    }

    /// What became of a drive on the pool that did not come to its end.
    pub(crate) fn ended(what: String, error: tokio::task::JoinError) -> Self {
        match error.try_into_panic() {
            Ok(panic) => Self::Panicked { what, message: panic_message(&*panic) },
            Err(_) => Self::Aborted { what },
        }
    }

    /// What the thread is left as by this error; `None`: as it was.
    pub(crate) fn leaves(&self) -> Option<Status> {
        match self {
            Self::Failed(_) | Self::Panicked { .. } | Self::TimedOut { .. } | Self::CleanUpFailed { .. } => {
                Some(Status::Failed)
            }
            Self::Nondeterminism(_)
            | Self::Value { .. }
            | Self::ForeignWake { .. }
            | Self::Stalled { .. }
            | Self::Unsettled { .. }
            | Self::TwoDefinitions { .. }
            | Self::Collision { .. }
            | Self::Corrupt { .. }
            | Self::Pruned { .. }
            | Self::AsksInOnce { .. }
            | Self::CallInReconcile { .. }
            | Self::Checkpoint(CheckpointError::TooLarge { .. }) => Some(Status::Stuck),
            Self::Aborted { .. }
            | Self::Checkpoint(_)
            | Self::Busy { .. }
            | Self::Unfinished { .. }
            | Self::NothingToResume { .. }
            | Self::Cancelled { .. }
            | Self::WrongEntrypoint { .. }
            | Self::InputMismatch { .. }
            | Self::UnknownEntrypoint { .. }
            | Self::NoSuchEvent { .. }
            | Self::ThreadId(_)
            | Self::Answer(_)
            | Self::UnknownCheckpoint { .. }
            | Self::NoOutcome { .. }
            | Self::ThreadExists { .. }
            | Self::Tag { .. } => None,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // With all its causes: a failure is kept as messages, so there is no source that could tell them.
            Self::Failed(failure) => {
                write!(f, "the entrypoint failed: {failure}")?;
                failure.messages().iter().skip(1).try_for_each(|cause| write!(f, ": {cause}"))
            }
            Self::Panicked { what, message } => write!(f, "{what} panicked: {message}"),
            Self::TimedOut { entrypoint, limit } => write!(
                f,
                "entrypoint {entrypoint:?} did not end within {limit:?}; what had finished is kept, and resuming gives it as long again"
            ),
            Self::CleanUpFailed { entrypoint, message } => write!(
                f,
                "the end of entrypoint {entrypoint:?} could not be cleaned up: {message}; resume the thread to try that again"
            ),
            Self::Aborted { what } => write!(f, "{what} was ended from outside; resume the thread to go on"),
            Self::Nondeterminism(divergence) => fmt::Display::fmt(divergence, f),
            Self::Value { what, source } => write!(f, "{what}: {source}"),
            Self::ForeignWake { entrypoint } => write!(
                f,
                "entrypoint {entrypoint:?} was woken by something that is not recorded (a timer, a socket, another task's channel): do such waiting inside a #[task], or use durably::sleep and durably::interrupt"
            ),
            Self::Stalled { entrypoint } => write!(
                f,
                "entrypoint {entrypoint:?} waits, but neither for a call nor for an answer: it awaits something that is not recorded, or that never comes (a timer, a socket, something spawned); do such waiting inside a #[task], or use durably::sleep and durably::interrupt"
            ),
            Self::Unsettled { entrypoint, polls } => write!(
                f,
                "entrypoint {entrypoint:?} woke itself {polls} times without coming to rest: look for a loop that awaits only what is ready at once (yield_now, a busy channel)"
            ),
            Self::TwoDefinitions { kind, name, first, second } => write!(
                f,
                "two definitions of {} {name:?} are called in one run, at {first} and at {second}: give one of them another name with `name = \"..\"`",
                kind.word()
            ),
            Self::Collision { recorded, called } => {
                write!(f, "two calls have one identity, {recorded} and {called}: change one's name or key")
            }
            Self::Checkpoint(error) => {
                write!(f, "the store failed, and the run stopped before its next effect: {error}")
            }
            Self::Corrupt { thread, run, seq, detail } => write!(
                f,
                "the journal of thread {thread} is damaged at run {run}, record {seq}: {detail}; restore it from a backup, or discard the run"
            ),
            Self::Busy { thread } => {
                write!(f, "thread {thread} is running elsewhere; wait for it with `.wait()`, or try again later")
            }
            Self::Unfinished { thread, status } => write!(
                f,
                "thread {thread} has a run that has not ended ({status}): resume it, or choose with `.if_unfinished(..)` what becomes of it"
            ),
            Self::NothingToResume { thread } => write!(f, "thread {thread} has never run; start it with `invoke`"),
            Self::Cancelled { thread } => {
                write!(f, "the last run of thread {thread} was given up; start a new one with `invoke`")
            }
            Self::WrongEntrypoint { thread, recorded, given } => write!(
                f,
                "thread {thread} belongs to entrypoint {recorded:?}, not to {given:?}; use its own, or another thread (a run that has not ended can be discarded)"
            ),
            Self::InputMismatch { thread, recorded, given } => write!(
                f,
                "the unfinished run of thread {thread} was started with other input ({recorded}) than is given now ({given}); resume it with its own input, or discard it"
            ),
            Self::UnknownEntrypoint { name, known } => write!(
                f,
                "entrypoint {name:?} is not registered with the runtime (known: {}); add it with `Runtime::builder().entrypoint(..)`",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
            Self::NoSuchEvent { thread, number } => write!(
                f,
                "thread {thread} has no event {number}: the number is of another thread, or what it was of is deleted; read it from its beginning, with `None`"
            ),
            Self::ThreadId(error) => fmt::Display::fmt(error, f),
            Self::Answer(error) => fmt::Display::fmt(error, f),
            Self::UnknownCheckpoint { thread, checkpoint } => {
                write!(f, "thread {thread} has no checkpoint {checkpoint}; `history()` lists those that it has")
            }
            Self::Pruned { thread, checkpoint } => write!(
                f,
                "checkpoint {checkpoint} of thread {thread} was pruned; fork from a newer run, or keep more of them"
            ),
            Self::NoOutcome { call, checkpoint } => write!(
                f,
                "call {call} has no recorded outcome by checkpoint {checkpoint}, so none can be replaced: fork at a later one"
            ),
            Self::ThreadExists { thread } => write!(
                f,
                "thread {thread} is there already, and a copy needs a fresh one: use another name, or delete it first"
            ),
            Self::AsksInOnce { task, asked } => write!(
                f,
                "question {asked:?} was asked in task {task:?}, which is at_most_once: ask in the entrypoint, before or after the task"
            ),
            Self::CallInReconcile { task, called } => write!(
                f,
                "{called:?} was called in the reconcile function of task {task:?}, which has no place in the journal: do there directly what is to be done"
            ),
            Self::Tag { detail } => f.write_str(detail),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Nondeterminism(divergence) => Some(divergence),
            Self::Value { source, .. } => Some(source),
            Self::Checkpoint(error) => Some(error),
            Self::ThreadId(error) => Some(error),
            Self::Answer(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<CheckpointError> for RunError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Busy { thread } => Self::Busy { thread },
            error => Self::Checkpoint(error),
        }
    }
}

impl From<ThreadIdError> for RunError {
    fn from(error: ThreadIdError) -> Self {
        Self::ThreadId(error)
    }
}

impl From<AnswerError> for RunError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Run(error) => error,
            error => Self::Answer(Box::new(error)),
        }
    }
}
