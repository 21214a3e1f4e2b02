//! Cancelling a run: a request that is durable at once, and whoever carries it out.

use std::{fmt, future::IntoFuture, sync::Arc};

use super::Thread;
use crate::{
    CheckpointError, Outcome, RunError, Status, ThreadId,
    checkpoint::{BoxFuture, Commit, Expect, Key},
    id::Seq,
    journal::{self, End, Ended, Record, Why},
    scope::Hold,
    storage::{self, CancelRequest, Head},
};

/// How often a request is tried again when the thread changes under it.
const TRIES: u32 = 100;

/// What became of a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cancellation {
    /// The run has ended as cancelled, and has cleaned up.
    Cancelled,
    /// The request is durable. Whoever drives the run carries it out: a drive of this process has been told, else it is the
    /// next one, by a [`resume`](Thread::resume), [`recover`](crate::Runtime::recover) or
    /// [`run_due`](crate::Runtime::run_due).
    Requested,
}

/// Why a run was not cancelled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CancelError {
    /// The thread has no run that has not ended; nothing was stored.
    NothingToCancel {
        /// The thread.
        thread: ThreadId,
        /// How its last run ended; `None`: it has never run.
        status: Option<Status>,
    },
    /// The thread could not be read or written; or the request is durable, and carrying it out stopped with this.
    Run(RunError),
}

/// A request to cancel a thread's run; await it. See [`Thread::cancel`].
#[derive(Debug)]
#[must_use = "nothing is cancelled until this is awaited"]
pub struct Cancel {
    thread: Thread,
    reason: Option<String>,
}

impl Thread {
    /// Gives the thread's run up: its code is dropped where it awaits, its bodies are ended, its questions are withdrawn,
    /// what it left to be done with [`defer`](crate::defer) is done, and the thread is [`Status::Cancelled`].
    ///
    /// The request is durable when this returns, in every durability mode, also for a run that is paused, drained, failed,
    /// stuck or was cut off by a crash. It has its place in the order of the run's outcomes: after a crash in the middle of
    /// the cancellation the run comes to the same place again, and goes on cleaning up there. A run that comes to its end
    /// before the request reaches it keeps that end.
    ///
    /// A paused run that has nothing left to be done, and a failed one, which has cleaned up, end at once. Any other needs
    /// the entrypoint's code: it is driven to its end here if the entrypoint is registered with the runtime, else by the
    /// next drive. A clean-up that has begun is not cancelled.
    ///
    /// ```
    /// use durably::{Cancellation, RunError, Runtime, Status, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn publish(text: String) -> bool {
    ///     interrupt("publish?", &text).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("essay")?;
    /// thread.invoke(publish("Dear all".to_owned())).await?;
    /// assert_eq!(thread.cancel().because("out of date").await?, Cancellation::Cancelled);
    /// assert!(matches!(thread.resume(publish).await, Err(RunError::Cancelled { .. })));
    /// assert_eq!(thread.state().await?.and_then(|state| state.reason).as_deref(), Some("out of date"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CancelError::NothingToCancel`] if the thread has never run, or its last run has completed or was cancelled.
    /// [`CancelError::Run`] if the store fails, or the run stopped again while it was driven to its end.
    pub fn cancel(&self) -> Cancel {
        Cancel { thread: self.clone(), reason: None }
    }

    /// Carries a request out that waits for the thread's run, if that needs no code; whether it is carried out.
    pub(super) async fn carry_out_cancel(&self, hold: &Hold, head: &Head) -> Result<bool, RunError> {
        let checkpointer = self.runtime.checkpointer();
        let Some(request) = storage::cancel_request(checkpointer, &self.id).await? else { return Ok(false) };
        match head.status {
            Status::Interrupted | Status::Sleeping | Status::Drained if !head.cleans_up => {}
            Status::Failed => {}
            Status::Interrupted
            | Status::Sleeping
            | Status::Drained
            | Status::InDoubt
            | Status::Stuck
            | Status::Running
            | Status::Completed
            | Status::Cancelled => return Ok(false),
        }
        let records = storage::load_run(checkpointer, &self.id, head.run).await?;
        if head.status == Status::Failed {
            // After a panic or in the middle of its clean-up it is not over.
            let Some((_, Record::End(End { how: Ended::Failed { .. } | Ended::TimedOut { .. }, .. }))) = records.last()
            else {
                return Ok(false);
            };
        }
        let at_ms = self.runtime.inner.environment.now_ms();
        let CancelRequest { reason, .. } = request;
        let new = head.with(Status::Cancelled, reason.clone(), at_ms);
        let cancel = Record::Cancel(journal::Cancel { why: Why::Asked { reason: reason.clone() }, at_ms });
        let end = Record::End(End { how: Ended::Cancelled { reason }, at_ms });
        let mut changes = storage::remove_requests();
        let first = u32::try_from(records.len()).unwrap_or(u32::MAX);
        for (seq, record) in (first..).zip([cancel, end]) {
            storage::record_changes(&self.id, head.run, Seq(seq), &record, &mut changes)?;
        }
        storage::head_changes(&self.id, &new, &mut changes)?;
        let expect = vec![Expect::Lease(hold.lease.epoch)];
        checkpointer.commit(Commit { thread: self.id.clone(), expect, changes }).await?;
        Ok(true)
    }
}

impl Cancel {
    /// Says why, for whoever looks at the thread later.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    async fn make(self) -> Result<Cancellation, CancelError> {
        let Self { thread, reason } = self;
        let reason = request(&thread, reason).await?;
        if let Some(run) = thread.runtime.inner.driven(&thread.id) {
            run.want_cancel(Why::Asked { reason });
            return Ok(Cancellation::Requested);
        }
        let checkpointer = thread.runtime.checkpointer();
        let lease = match checkpointer.acquire(&thread.id).await {
            Ok(lease) => lease,
            // Somebody begins to drive it, and looks for requests when he does.
            Err(CheckpointError::Busy { .. }) => return Ok(Cancellation::Requested),
            Err(error) => return Err(RunError::from(error).into()),
        };
        let hold: Arc<Hold> = Hold::new(checkpointer.clone(), lease);
        let head = storage::head(checkpointer, &thread.id).await.map_err(RunError::from)?.map(|(head, _)| head);
        let Some(head) = head else {
            return Err(CancelError::NothingToCancel { thread: thread.id, status: None });
        };
        match head.status {
            Status::Cancelled => return Ok(Cancellation::Cancelled),
            Status::Completed => {
                return Err(CancelError::NothingToCancel { thread: thread.id, status: Some(head.status) });
            }
            _ if thread.carry_out_cancel(&hold, &head).await? => return Ok(Cancellation::Cancelled),
            _ => {}
        }
        drop(hold);
        let Some(entrypoint) = thread.runtime.inner.entrypoints.get(head.entrypoint.as_str()) else {
            return Ok(Cancellation::Requested);
        };
        // On the pool: dropping the request does not cut the clean-up off.
        let drive = tokio::spawn(entrypoint.resume(thread.clone()));
        match drive.await.unwrap_or_else(|error| Err(RunError::ended("the drive of the run".to_owned(), error))) {
            Ok(Outcome::Cancelled) | Err(RunError::Cancelled { .. }) => Ok(Cancellation::Cancelled),
            Ok(Outcome::Completed(_)) => {
                Err(CancelError::NothingToCancel { thread: thread.id, status: Some(Status::Completed) })
            }
            // Its clean-up waits for something.
            Ok(Outcome::Interrupted(_) | Outcome::InDoubt(_) | Outcome::Sleeping { .. } | Outcome::Drained)
            | Err(RunError::Busy { .. }) => Ok(Cancellation::Requested),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes the request durable, unless there is one; the reason that counts.
async fn request(thread: &Thread, reason: Option<String>) -> Result<Option<String>, CancelError> {
    let checkpointer = thread.runtime.checkpointer();
    let environment = &thread.runtime.inner.environment;
    for _ in 0..TRIES {
        let read = storage::head(checkpointer, &thread.id).await.map_err(RunError::from)?;
        let Some((head, row)) = read else {
            return Err(CancelError::NothingToCancel { thread: thread.id.clone(), status: None });
        };
        if !head.status.is_unfinished() {
            let status = Some(head.status);
            return Err(CancelError::NothingToCancel { thread: thread.id.clone(), status });
        }
        if let Some(made) = storage::cancel_request(checkpointer, &thread.id).await.map_err(RunError::from)? {
            return Ok(made.reason);
        }
        let at_ms = environment.now_ms();
        let mut changes = Vec::new();
        let request = CancelRequest { reason: reason.clone(), at_ms };
        storage::cancel_changes(&thread.id, &request, &mut changes).map_err(RunError::from)?;
        let rests = head.status != Status::Running;
        if rests {
            // Whoever takes it up says that it runs before he does anything; until then it is listed as due.
            let due = Head { due_ms: Some(at_ms), ..head };
            storage::head_changes(&thread.id, &due, &mut changes).map_err(RunError::from)?;
        }
        // The head changes with every pause and end of the run: if it is the same, there is a run to be cancelled.
        let expect = vec![Expect::Equals(Key::Head, row), Expect::Absent(storage::CANCEL)];
        match checkpointer.commit(Commit { thread: thread.id.clone(), expect, changes }).await {
            Ok(()) => {
                environment.told_of_due(rests.then_some(at_ms));
                return Ok(reason);
            }
            Err(CheckpointError::Conflict { .. }) => {}
            Err(error) => return Err(RunError::from(error).into()),
        }
    }
    Err(RunError::Busy { thread: thread.id.clone() }.into())
}

impl IntoFuture for Cancel {
    type Output = Result<Cancellation, CancelError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

impl From<RunError> for CancelError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl fmt::Display for CancelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToCancel { thread, status: Some(status) } => {
                write!(f, "thread {thread} has no run to cancel (the last one is {status}); nothing was stored")
            }
            Self::NothingToCancel { thread, status: None } => {
                write!(f, "thread {thread} has never run, so there is nothing to cancel; nothing was stored")
            }
            Self::Run(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for CancelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NothingToCancel { .. } => None,
            Self::Run(error) => Some(error),
        }
    }
}
