//! How long an attempt may take, and how long it may be silent.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::TaskSpec;
use crate::{
    journal::Slot,
    output::{TaskError, TaskErrorKind},
    scope::{Ambient, Portrait, Run},
    watchdog::Watched,
};

/// How long after its limit a body that could not be ended is told as overdue: an async runtime may be late too.
const GRACE: Duration = Duration::from_millis(100);

/// A sign of life of the running task's body: its `idle_timeout` counts anew from here, and so does that of each task
/// around it. Calls that the body makes are signs of life too, when they begin and when they end.
///
/// Works wherever the body runs: in place, on the pool, and in a `blocking` task. What a body starts on threads of its
/// own does not know the task; outside of a task this does nothing.
///
/// ```
/// use durably::task;
///
/// #[task(idle_timeout = "10s")]
/// async fn import(rows: Vec<String>) -> anyhow::Result<usize> {
///     for row in &rows {
///         // store the row
///         # let _ = row;
///         durably::heartbeat();
///     }
///     Ok(rows.len())
/// }
/// ```
pub fn heartbeat() {
    if let Some(ambient) = Ambient::current() {
        ambient.run.beat(&ambient);
    }
}

/// The limits of one attempt, from when it began.
pub(super) struct Limits {
    spec: &'static TaskSpec,
    run: Arc<Run>,
    slot: Slot,
    began: Instant,
    /// How long the call's body had waited for the outside by then.
    paused: Duration,
    /// The call for observers, who are told also when it is gone.
    call: Option<Portrait>,
}

impl Limits {
    pub(super) fn new(run: &Arc<Run>, slot: Slot, spec: &'static TaskSpec) -> Self {
        let (began, paused, call) = (Instant::now(), run.paused(slot), run.portrait(slot));
        Self { spec, run: run.clone(), slot, began, paused, call }
    }

    /// The attempt left a result, and does not count any more.
    pub(super) fn refuse(&self, attempt: u32) {
        if let Some(call) = &self.call {
            call.refused(attempt);
        }
    }

    /// How long the attempt has run, not counting what it waited for the outside.
    fn elapsed(&self) -> Duration {
        let paused = self.run.paused(self.slot).saturating_sub(self.paused);
        self.began.elapsed().saturating_sub(paused)
    }

    /// How long it has been silent, not counting what it waited for the outside.
    fn silent(&self) -> Duration {
        let elapsed = self.elapsed();
        let since = |(beat, paused): (Instant, Duration)| {
            beat.elapsed().saturating_sub(self.run.paused(self.slot).saturating_sub(paused))
        };
        // One of an earlier attempt is longer ago than this attempt began.
        self.run.last_beat(self.slot).map_or(elapsed, |beat| elapsed.min(since(beat)))
    }

    /// What the attempt has run into by now, if it has.
    pub(super) fn passed(&self) -> Option<TaskError> {
        let elapsed = self.elapsed();
        if let Some(limit) = self.spec.timeout.filter(|limit| elapsed >= *limit) {
            return Some(TaskError::timed_out(self.spec.name, limit, elapsed));
        }
        let limit = self.spec.idle_timeout.filter(|limit| self.silent() >= *limit)?;
        Some(TaskError::silent(self.spec.name, limit, elapsed))
    }

    /// How long until the attempt can run into a limit.
    fn left(&self) -> Duration {
        let run = self.spec.timeout.map(|limit| limit.saturating_sub(self.elapsed()));
        let idle = self.spec.idle_timeout.map(|limit| limit.saturating_sub(self.silent()));
        run.into_iter().chain(idle).min().unwrap_or(Duration::MAX)
    }

    /// Has somebody look, from outside of the async runtime, whether the attempt ends when it should. Observers and
    /// `overdue` are told once if it does not, since it blocks its thread.
    pub(super) fn watch(
        self: &Arc<Self>,
        attempt: u32,
        mut overdue: impl FnMut(TaskError) + Send + 'static,
    ) -> Watched {
        let limits = self.clone();
        // The process's own clock: a clock that a test has stopped stands still here too.
        let after = move |limits: &Self| std::time::Instant::now() + limits.left() + GRACE;
        let look = move || {
            if !limits.run.is_working(limits.slot, attempt) {
                return None;
            }
            let Some(error) = limits.passed() else { return Some(after(&limits)) };
            let limit = match error.kind() {
                TaskErrorKind::Silent { .. } => limits.spec.idle_timeout,
                TaskErrorKind::TimedOut { .. } | TaskErrorKind::Failed => limits.spec.timeout,
            };
            if let (Some(call), Some(limit)) = (&limits.call, limit) {
                call.overdue(attempt, limit);
            }
            overdue(error);
            None
        };
        self.run.environment.watchdog.watch(after(self), look)
    }

    /// Waits until the attempt has run into a limit.
    pub(super) async fn run_out(&self) -> TaskError {
        loop {
            if let Some(error) = self.passed() {
                return error;
            }
            // While it stands still, the time that is left does too: then there is no hurry to look again.
            tokio::time::sleep(self.left().max(Duration::from_millis(1))).await;
        }
    }
}
