//! Stopping the runs of a runtime in order, within a time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{Inner, Runtime};
use crate::{Outcome, RunError, ThreadId};

/// How long a drain waits, after its time is over, for what was cut off to write down what it has.
const GRACE: Duration = Duration::from_secs(1);

/// What a drain came to, by thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainReport {
    /// Runs that were stopped before their next body.
    pub drained: Vec<ThreadId>,
    /// Runs that ended or paused by themselves meanwhile, or stopped with an error.
    pub ended: Vec<ThreadId>,
    /// Runs whose bodies did not end in time, and were stopped as a crash would: these bodies run again.
    pub cut_off: Vec<ThreadId>,
}

/// The drives of a runtime that have not ended.
#[derive(Default)]
pub(crate) struct Drives {
    /// How many there are of a thread; one may wait for another.
    going: Mutex<HashMap<ThreadId, u32>>,
    /// How each ended that ended while somebody wants to know.
    ended: Mutex<Option<Vec<(ThreadId, How)>>>,
    changed: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Drained,
    CutOff,
    Otherwise,
}

/// One drive, until it ends or is dropped.
pub(crate) struct Drive {
    inner: Arc<Inner>,
    thread: ThreadId,
    how: How,
}

impl Drive {
    /// A drive of this thread begins.
    pub(crate) fn new(inner: Arc<Inner>, thread: ThreadId) -> Self {
        *lock(&inner.drives.going).entry(thread.clone()).or_default() += 1;
        Self { inner, thread, how: How::Otherwise }
    }

    /// What it came to.
    pub(crate) fn came<T>(&mut self, outcome: &Result<Outcome<T>, RunError>) {
        self.how = match outcome {
            Ok(Outcome::Drained) => How::Drained,
            Err(RunError::Aborted { .. }) => How::CutOff,
            _ => How::Otherwise,
        };
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.inner.forget(&self.thread);
        let drives = &self.inner.drives;
        if let Some(ended) = &mut *lock(&drives.ended) {
            ended.push((self.thread.clone(), self.how));
        }
        let mut going = lock(&drives.going);
        if let Some(count) = going.get_mut(&self.thread) {
            *count -= 1;
            if *count == 0 {
                going.remove(&self.thread);
            }
        }
        drop(going);
        drives.changed.notify_waiters();
    }
}

impl Drives {
    /// Waits until there are none.
    async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if lock(&self.going).is_empty() {
                return;
            }
            changed.await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// As [`drain`](Self::drain), and waits: until every run of this runtime has stopped, or at most so long. Bodies that
    /// still run then are stopped as a crash would stop them: what is recorded is kept, in every durability mode, and they
    /// run again when their thread is resumed or [recovered](Self::recover). For the end of a process.
    ///
    /// The time is real time, whatever the runtime's clock says. A body that blocks its thread cannot be stopped: this does
    /// not wait for it, and its thread is held until it ends. Runs that are started meanwhile are stopped too, and so are
    /// later ones, until [`undrain`](Self::undrain).
    ///
    /// ```
    /// use std::time::Duration;
    /// use durably::{Runtime, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn greet() -> u32 { 1 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().memory();
    /// let _ = runtime.thread("t")?.invoke(greet()).start();
    /// let report = runtime.drain_within(Duration::from_secs(30)).await;
    /// assert!(report.cut_off.is_empty());
    /// runtime.close().await?;
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn drain_within(&self, limit: Duration) -> DrainReport {
        let drives = &self.inner.drives;
        let until = Instant::now() + limit;
        lock(&drives.ended).get_or_insert_default();
        self.drain();
        let in_time = tokio::time::timeout_at(until, drives.ended()).await.is_ok();
        if !in_time {
            for run in self.inner.all_driven() {
                run.cut_off();
            }
            // What does not end even so is told below.
            let _ = tokio::time::timeout(GRACE, drives.ended()).await;
        }
        let mut report = DrainReport::default();
        let ended = lock(&drives.ended).take().unwrap_or_default();
        for (thread, how) in ended {
            match how {
                How::Drained => report.drained.push(thread),
                How::CutOff => report.cut_off.push(thread),
                How::Otherwise => report.ended.push(thread),
            }
        }
        report.cut_off.extend(lock(&drives.going).keys().cloned());
        for threads in [&mut report.drained, &mut report.ended, &mut report.cut_off] {
            threads.sort();
            threads.dedup();
        }
        report
    }
}
