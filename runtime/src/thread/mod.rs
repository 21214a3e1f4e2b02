//! One thread and its verbs: invoke, resume, answer, and what it is doing.

mod answer;
mod cancel;
mod command;
mod copy;
mod export;
mod file;
mod fork;
mod ground;
mod history;
mod invoke;
mod kinds;
mod prune;
mod runs;
mod saved;
mod settle;
mod state;
mod stream;
mod update;
mod watch;

use std::fmt;

pub use answer::Answering;
pub use cancel::{Cancel, CancelError, Cancellation};
pub use command::{Command, Which};
pub use file::{ImportError, ThreadFile};
pub use fork::Fork;
pub use history::{Checkpoint, CheckpointWhat, History};
pub use invoke::{Durability, IfUnfinished, Invoke, Resume, Started};
pub use kinds::CheckpointKind;
pub use prune::{Keep, Pruned, RunSize, ThreadSize};
pub use runs::{ForkedFrom, RunSummary, Runs};
pub use saved::RecordedValue;
pub use settle::{SettleError, Settlement, Settling};
pub use state::{AnswerState, CallState, CallStatus, ThreadState};
pub use stream::RunStream;
pub use update::{Stage, Update};
pub use watch::Watch;

use crate::{Definition, EntrypointCall, EntrypointFn, Runtime, ThreadId};

/// One conversation or job, named by the caller; holds runs one after another. Cheap to clone.
#[derive(Clone)]
pub struct Thread {
    runtime: Runtime,
    id: ThreadId,
}

impl Thread {
    pub(crate) fn new(runtime: Runtime, id: ThreadId) -> Self {
        Self { runtime, id }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Starts a run of an entrypoint; await it to drive it in place.
    ///
    /// Dropping what this gives, while it is awaited, stops the run as a crash would; `.start()` drives it on the pool instead.
    pub fn invoke<D: Definition>(&self, call: EntrypointCall<D>) -> Invoke<D> {
        Invoke::new(self.clone(), call)
    }

    /// Goes on with the thread's run: after a crash, a pause, a drain or a failure. On a completed thread it gives the
    /// last output again and runs nothing.
    ///
    /// ```
    /// use durably::{Outcome, Runtime, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn publish(text: String) -> bool {
    ///     interrupt("publish?", &text).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().memory();
    /// let thread = runtime.thread("essay")?;
    /// let paused = thread.invoke(publish("Dear all".to_owned())).await?;
    /// assert_eq!(paused.questions()[0].payload(), r#""Dear all""#);
    /// thread.answer("publish?", true).await?;
    /// assert_eq!(thread.resume(publish).await?, Outcome::Completed(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume<A, F>(&self, _entrypoint: F) -> Resume<F::Definition>
    where
        F: EntrypointFn<A>,
    {
        self.resume_definition()
    }

    /// As [`resume`](Self::resume), by the entrypoint's type.
    pub(crate) fn resume_definition<D: Definition>(&self) -> Resume<D> {
        Resume::new(self.clone())
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thread").field(&self.id).finish()
    }
}
