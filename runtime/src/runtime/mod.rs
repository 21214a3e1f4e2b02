//! A process's durable runtime: its store, its resources, its entrypoints, and the runs that are driven in it.

mod background;
mod builder;
mod cache;
mod drain;
mod import;
mod listed;
mod recover;
mod retention;
mod threads;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
};

pub use background::Background;
pub use builder::RuntimeBuilder;
pub use drain::DrainReport;
pub(crate) use drain::Drive;
pub use recover::Recovered;
pub(crate) use recover::Registered;
pub use threads::{RuntimeStats, ThreadList, ThreadSummary, Threads};

use crate::{
    CheckpointError, Durability, Thread, ThreadId, ThreadIdError, checkpoint::Checkpointer, environment::Environment,
    scope::Run,
};

/// A durable runtime: opens a store once, and gives threads to run entrypoints on. Cheap to clone.
///
/// ```
/// use durably::{Runtime, entrypoint, task};
///
/// #[task]
/// async fn double(n: u32) -> u32 { n * 2 }
///
/// #[entrypoint]
/// async fn quadruple(n: u32) -> u32 { double(double(n).await).await }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let runtime = Runtime::builder().memory();
/// let outcome = runtime.thread("sums")?.invoke(quadruple(3)).await?;
/// assert_eq!(outcome.completed(), Some(12));
/// # Ok::<(), durably::RunError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) environment: Arc<Environment>,
    pub(crate) entrypoints: HashMap<&'static str, Arc<dyn Registered>>,
    pub(crate) durability: Durability,
    /// Which runs of a thread are kept when one of them ends; `None`: all.
    pub(super) retention: Option<crate::Keep>,
    /// The prunes that are under way.
    pub(super) prunes: retention::Prunes,
    /// The runs that are driven in this process, to be told of answers.
    running: Mutex<HashMap<ThreadId, Weak<Run>>>,
    /// All drives of this process, also those that have not come to a run.
    pub(crate) drives: drain::Drives,
}

impl Runtime {
    /// Begins to build a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// The thread of this name, a text or a [`ThreadId`]; nothing is read or written until one of its verbs is used.
    ///
    /// # Errors
    ///
    /// [`ThreadIdError`] if the name is empty or longer than 512 bytes.
    pub fn thread(&self, name: impl AsRef<str>) -> Result<Thread, ThreadIdError> {
        Ok(Thread::new(self.clone(), ThreadId::new(name)?))
    }

    /// Stops every run of this runtime before its next body starts; bodies that run are let to end. Runs that are
    /// invoked or resumed meanwhile stop in the same way. [`resume`](Thread::resume) continues, in this process after
    /// [`undrain`](Self::undrain) or in the next one.
    pub fn drain(&self) {
        self.inner.environment.draining.store(true, Ordering::Release);
        for run in self.inner.all_driven() {
            run.drains();
        }
    }

    /// Ends a drain for runs that are invoked or resumed from now on; those that are being stopped still stop.
    pub fn undrain(&self) {
        self.inner.environment.draining.store(false, Ordering::Release);
    }

    /// Waits for all that is queued in the store, then closes it. Every later verb fails with
    /// [`CheckpointError::Closed`].
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if what was queued could not be made durable.
    pub async fn close(&self) -> Result<(), CheckpointError> {
        self.inner.prunes.ended().await;
        self.inner.environment.checkpointer.close().await
    }

    pub(crate) fn checkpointer(&self) -> &Arc<dyn Checkpointer> {
        &self.inner.environment.checkpointer
    }
}

impl Inner {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, Weak<Run>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a run is driven here, so that answers reach it.
    pub(crate) fn announce(&self, run: &Arc<Run>) {
        let mut running = self.running();
        if running.len() >= 64 && running.len().is_power_of_two() {
            running.retain(|_, run| run.strong_count() > 0);
        }
        running.insert(run.thread.clone(), Arc::downgrade(run));
    }

    /// The runs that are driven here.
    fn all_driven(&self) -> Vec<Arc<Run>> {
        self.running().values().filter_map(Weak::upgrade).collect()
    }

    /// How many runs are driven here.
    fn driven_now(&self) -> u64 {
        let running = self.running();
        let driven = running.values().filter_map(Weak::upgrade).filter(|run| !run.is_stopped());
        driven.count() as u64
    }

    /// The run that is driven here on a thread, if there is one.
    pub(crate) fn driven(&self, thread: &ThreadId) -> Option<Arc<Run>> {
        self.running().get(thread)?.upgrade()
    }

    /// Forgets the run of a thread whose drive has ended; another drive of it may have begun since.
    pub(crate) fn forget(&self, thread: &ThreadId) {
        let mut running = self.running();
        if running.get(thread).is_some_and(|run| run.upgrade().is_none_or(|run| run.is_stopped())) {
            running.remove(thread);
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entrypoints: Vec<&&str> = self.inner.entrypoints.keys().collect();
        f.debug_struct("Runtime")
            .field("checkpointer", &self.inner.environment.checkpointer)
            .field("entrypoints", &entrypoints)
            .finish_non_exhaustive()
    }
}
