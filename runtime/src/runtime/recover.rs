//! Runs that were cut off, driven on by the names of their entrypoints.

use std::{marker::PhantomData, sync::Arc};

use super::{Runtime, listed};
use crate::{
    Definition, Outcome, RunError, Status, Thread, ThreadId,
    checkpoint::BoxFuture,
    journal, storage,
    value::{Payload, ValueError},
};

/// How many threads are looked at at a time.
const PAGE: usize = 256;

/// An entrypoint that a runtime knows by name.
pub(crate) trait Registered: Send + Sync {
    /// Drives on the thread's run.
    fn resume(&self, thread: Thread) -> BoxFuture<'static, Result<Outcome<Payload>, RunError>>;

    /// Where it is defined.
    fn definition(&self) -> journal::Definition;
}

/// A definition as a [`Registered`] entrypoint.
pub(super) struct Registration<D>(PhantomData<fn() -> D>);

impl<D> Registration<D> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<D: Definition> Registered for Registration<D> {
    fn resume(&self, thread: Thread) -> BoxFuture<'static, Result<Outcome<Payload>, RunError>> {
        Box::pin(thread.resume_definition::<D>().drive())
    }

    fn definition(&self) -> journal::Definition {
        D::SPEC.definition
    }
}

/// A run that [`Runtime::recover`] or [`Runtime::run_due`] drives on. Dropping it only detaches.
#[derive(Debug)]
pub struct Recovered {
    thread: ThreadId,
    task: tokio::task::JoinHandle<Result<Outcome<Payload>, RunError>>,
}

impl Recovered {
    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// Waits for what the run comes to; its value as JSON text.
    ///
    /// # Errors
    ///
    /// As [`Thread::resume`]; and [`RunError::Aborted`] if the tokio runtime ended it.
    pub async fn outcome(self) -> Result<Outcome<String>, RunError> {
        match self.task.await {
            Ok(outcome) => outcome?.try_map(|value| Ok(value.to_json())),
            Err(error) => Err(RunError::ended(format!("the drive of thread {}", self.thread), error)),
        }
    }

    /// Waits for what the run comes to, with its value as a type.
    ///
    /// # Errors
    ///
    /// As [`outcome`](Self::outcome), and [`RunError::Value`] if the value is of another type.
    pub async fn outcome_as<T: serde::de::DeserializeOwned>(self) -> Result<Outcome<T>, RunError> {
        let what = format!("the value of thread {}", self.thread);
        let outcome = match self.task.await {
            Ok(outcome) => outcome?,
            Err(error) => return Err(RunError::ended(what, error)),
        };
        outcome.try_map(|value| value.decode().map_err(|source: ValueError| RunError::Value { what, source }))
    }
}

impl Runtime {
    /// Drives on all threads whose run was cut off, each on the tokio pool. For the start of a process.
    ///
    /// Runs that wait for answers, sleep, are stuck or failed are left as they are.
    ///
    /// # Errors
    ///
    /// [`RunError::UnknownEntrypoint`] if a run's entrypoint is not registered: nothing is driven then.
    /// [`RunError::Checkpoint`] if the store cannot be read.
    pub async fn recover(&self) -> Result<Vec<Recovered>, RunError> {
        let mut found = Vec::new();
        self.find(Status::Running, &mut found).await?;
        Ok(self.drive_on(found))
    }

    /// Drives on all threads whose run waits for a moment that has come, each on the tokio pool: the end of a sleep, also
    /// beside a question, its deadline, or a request to cancel it. For a call now and then, or by a timer of the process;
    /// [`background`](Self::background) does it by itself. Costs what is due, however many threads wait. Shared values that
    /// have expired are removed by the way.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durably::{Runtime, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn remind(text: String) -> String {
    ///     durably::sleep(Duration::from_millis(5)).await;
    ///     text
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().entrypoint(remind).park_after(Duration::ZERO).memory();
    /// runtime.thread("tea")?.invoke(remind("it is ready".to_owned())).await?; // sleeps, out of memory
    /// tokio::time::sleep(Duration::from_millis(20)).await;
    /// for due in runtime.run_due().await? {
    ///     assert_eq!(due.outcome_as::<String>().await?.completed().as_deref(), Some("it is ready"));
    /// }
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`recover`](Self::recover).
    pub async fn run_due(&self) -> Result<Vec<Recovered>, RunError> {
        self.purge_cache().await?;
        let (due, _) = listed::due(self.checkpointer(), self.inner.environment.now_ms()).await?;
        let mut found = Vec::with_capacity(due.len());
        for listed in due {
            if !self.checkpointer().is_leased(&listed.thread) {
                let head = storage::parse_head(&listed.thread, &listed.head)?;
                found.push((listed.thread, self.registered(head.entrypoint)?));
            }
        }
        Ok(self.drive_on(found))
    }

    /// Adds the threads of a status that nobody drives, with their entrypoints.
    async fn find(&self, status: Status, found: &mut Vec<(ThreadId, Arc<dyn Registered>)>) -> Result<(), RunError> {
        let mut after = None;
        loop {
            let page = self.threads().status(status).limit(PAGE).after(after).await?;
            for summary in page.threads {
                if !self.checkpointer().is_leased(&summary.thread) {
                    found.push((summary.thread, self.registered(summary.entrypoint)?));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// The entrypoint of this name.
    pub(crate) fn registered(&self, name: String) -> Result<Arc<dyn Registered>, RunError> {
        if let Some(entrypoint) = self.inner.entrypoints.get(name.as_str()) {
            return Ok(Arc::clone(entrypoint));
        }
        let mut known: Vec<String> = self.inner.entrypoints.keys().map(|name| (*name).to_owned()).collect();
        known.sort();
        Err(RunError::UnknownEntrypoint { name, known })
    }

    pub(super) fn drive_on(&self, found: Vec<(ThreadId, Arc<dyn Registered>)>) -> Vec<Recovered> {
        let driven = found.into_iter().map(|(thread, entrypoint)| {
            let drive = entrypoint.resume(Thread::new(self.clone(), thread.clone()));
            Recovered { thread, task: tokio::spawn(drive) }
        });
        driven.collect()
    }
}
