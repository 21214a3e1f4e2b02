//! Runs that were cut off, driven on by the names of their entrypoints.

use std::{marker::PhantomData, sync::Arc};

use super::Runtime;
use crate::{
    Definition, Outcome, RunError, Status, Thread, ThreadId,
    checkpoint::BoxFuture,
    journal,
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

/// A run that [`Runtime::recover`] drives on. Dropping it only detaches.
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
    /// As [`Thread::resume`]; and [`RunError::Panicked`] if the tokio runtime ended it.
    pub async fn outcome(self) -> Result<Outcome<String>, RunError> {
        match self.task.await {
            Ok(outcome) => outcome?.try_map(|value| Ok(value.to_json())),
            Err(error) => Err(RunError::Panicked {
                what: format!("the drive of thread {}", self.thread),
                message: error.to_string(),
            }),
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
            Err(error) => return Err(RunError::Panicked { what, message: error.to_string() }),
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
        let mut cut_off = Vec::new();
        let mut after = None;
        loop {
            let page = self.threads(Some(Status::Running), PAGE, after).await?;
            for summary in page.threads {
                if self.checkpointer().is_leased(&summary.thread) {
                    continue;
                }
                let Some(entrypoint) = self.inner.entrypoints.get(summary.entrypoint.as_str()) else {
                    let mut known: Vec<String> = self.inner.entrypoints.keys().map(|name| (*name).to_owned()).collect();
                    known.sort();
                    return Err(RunError::UnknownEntrypoint { name: summary.entrypoint, known });
                };
                cut_off.push((summary.thread, Arc::clone(entrypoint)));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let recovered = cut_off.into_iter().map(|(thread, entrypoint)| {
            let drive = entrypoint.resume(Thread::new(self.clone(), thread.clone()));
            Recovered { thread, task: tokio::spawn(drive) }
        });
        Ok(recovered.collect())
    }
}
