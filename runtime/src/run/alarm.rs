//! A run's deadline while it is driven.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use crate::{checkpoint::BoxFuture, environment::moment, journal::Why, scope::Run};

/// Wakes the driver when the run's deadline passes.
#[derive(Default)]
pub(super) struct Alarm {
    sleep: Option<BoxFuture<'static, ()>>,
    /// Whether it has told the run.
    over: bool,
}

impl Alarm {
    /// Has the run stopped if its deadline has passed; wakes whoever polls when it does.
    pub(super) fn poll(&mut self, run: &Arc<Run>, cx: &mut Context<'_>) {
        let Some((deadline, limit_ms)) = run.deadline.filter(|_| !self.over) else { return };
        loop {
            if deadline <= run.environment.now_ms() {
                self.over = true;
                return run.want_cancel(Why::TimedOut { limit_ms });
            }
            let sleep = self.sleep.get_or_insert_with(|| run.environment.clock.sleep_until(moment(deadline)));
            match sleep.as_mut().poll(cx) {
                Poll::Pending => return,
                // The clock may have been set back meanwhile.
                Poll::Ready(()) => self.sleep = None,
            }
        }
    }
}
