//! A clock that a test sets by hand: it stands still until it is set, forward or back.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use durably::Clock;
use tokio::sync::watch;

/// A clock that stands still until it is set.
#[derive(Clone, Debug)]
pub struct HandClock(Arc<Mutex<watch::Sender<SystemTime>>>);

impl Default for HandClock {
    fn default() -> Self {
        // Far from 1970, so that it can be set back by years.
        Self(Arc::new(Mutex::new(watch::Sender::new(UNIX_EPOCH + Duration::from_secs(1 << 31)))))
    }
}

impl HandClock {
    /// Sets it forward.
    pub fn forward(&self, by: Duration) {
        self.lock().send_modify(|now| *now += by);
    }

    /// Sets it back.
    pub fn back(&self, by: Duration) {
        self.lock().send_modify(|now| *now -= by);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, watch::Sender<SystemTime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for HandClock {
    fn now(&self) -> SystemTime {
        *self.lock().borrow()
    }

    fn sleep_until(&self, moment: SystemTime) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let mut now = self.lock().subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock, and the clock as long as its runtime.
            let _ = now.wait_for(|now| *now >= moment).await;
        })
    }
}
