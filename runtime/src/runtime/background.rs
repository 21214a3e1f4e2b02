//! The background driver: goes on with runs when their moment comes.

use std::{fmt, sync::Arc, time::Duration};

use super::{Runtime, listed};
use crate::{
    CheckpointError, RunError, Status,
    environment::{length_ms, moment},
    storage,
};

/// How long the driver sleeps at most before it looks at the clock again: somebody may have set it meanwhile. It is also how
/// long a thread is left alone that is due and could not be driven.
const LOOK: Duration = Duration::from_secs(60);

/// A background driver, for as long as this lives: see [`Runtime::background`].
#[must_use = "the background driver ends when this is dropped"]
pub struct Background {
    task: tokio::task::JoinHandle<()>,
}

impl Background {
    /// Ends the driver and waits until it has ended. Runs that it drives go on.
    pub async fn stop(mut self) {
        self.task.abort();
        // Being ended is no error.
        let _ = (&mut self.task).await;
    }

    /// Whether it has ended by itself: it does when the store is closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("finished", &self.is_finished()).finish()
    }
}

impl Runtime {
    /// Drives runs on in the background, for as long as what this gives lives: at once those that were cut off, as
    /// [`recover`](Self::recover) does, and from then on each that waits for a moment when that comes, as
    /// [`run_due`](Self::run_due) does: the end of a sleep, a deadline, a request to cancel it.
    ///
    /// It sleeps until the nearest moment by the runtime's [`Clock`](crate::Clock), is told of nearer ones that runs of this
    /// runtime come to, and looks at the clock once a minute, since that may be set. Runs whose entrypoint is not registered
    /// are left as they are. What becomes of a run is told to observers; its thread's state has it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durably::{Outcome, Runtime, Status, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn remind() -> u32 {
    ///     durably::sleep(Duration::from_millis(5)).await;
    ///     1
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().entrypoint(remind).park_after(Duration::ZERO).memory();
    /// let background = runtime.background();
    /// let thread = runtime.thread("tea")?;
    /// let parked = thread.invoke(remind()).await?; // out of memory
    /// assert!(matches!(parked, Outcome::Sleeping { .. }));
    /// while thread.state().await?.is_some_and(|state| state.status != Status::Completed) {
    ///     tokio::time::sleep(Duration::from_millis(5)).await;
    /// }
    /// background.stop().await;
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn background(&self) -> Background {
        Background { task: tokio::spawn(watch(self.clone())) }
    }

    /// Drives on what is due, as far as its entrypoint is known; the next moment at which something will be.
    async fn look(&self) -> Result<Option<u64>, RunError> {
        let (due, next) = listed::due(self.checkpointer(), self.inner.environment.now_ms()).await?;
        let mut found = Vec::with_capacity(due.len());
        for listed in due {
            let head = storage::parse_head(&listed.thread, &listed.head)?;
            if let Some(entrypoint) = self.inner.entrypoints.get(head.entrypoint.as_str())
                && !self.checkpointer().is_leased(&listed.thread)
            {
                found.push((listed.thread, Arc::clone(entrypoint)));
            }
        }
        drop(self.drive_on(found));
        Ok(next)
    }

    /// Drives on what was cut off, as far as its entrypoint is known.
    async fn recover_known(&self) -> Result<(), RunError> {
        let mut after = None;
        let mut found = Vec::new();
        loop {
            let page = self.threads().status(Status::Running).limit(256).after(after).await?;
            for summary in page.threads {
                if let Some(entrypoint) = self.inner.entrypoints.get(summary.entrypoint.as_str())
                    && !self.checkpointer().is_leased(&summary.thread)
                {
                    found.push((summary.thread, Arc::clone(entrypoint)));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        drop(self.drive_on(found));
        Ok(())
    }
}

async fn watch(runtime: Runtime) {
    let environment = runtime.inner.environment.clone();
    let mut recovered = false;
    loop {
        // Asked for before the look, so that none is missed that comes during it.
        let told = environment.due.notified();
        if !recovered {
            recovered = runtime.recover_known().await.is_ok();
        }
        let next = match runtime.look().await {
            Ok(next) => next,
            Err(RunError::Checkpoint(CheckpointError::Closed)) => return,
            // Whoever uses the store is told of it; here it is only tried again.
            Err(_) => None,
        };
        let latest = environment.now_ms().saturating_add(length_ms(LOOK));
        let wake = moment(next.map_or(latest, |next| next.min(latest)));
        tokio::select! {
            () = told => {}
            () = environment.clock.sleep_until(wake) => {}
        }
    }
}
