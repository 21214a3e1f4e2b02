//! A clock that a test sets by hand: it stands still until it is set, forward or back.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use durably::Clock;
use tokio::sync::watch;

/// A clock that stands still until it is set. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct HandClock(Arc<watch::Sender<SystemTime>>);

impl Default for HandClock {
    fn default() -> Self {
        // Far from 1970, so that it can be set back by years.
        Self::at(Duration::from_secs(1 << 31))
    }
}

impl HandClock {
    /// A clock that stands at so much after the beginning of 1970.
    #[must_use]
    pub fn at(since_1970: Duration) -> Self {
        Self(Arc::new(watch::Sender::new(UNIX_EPOCH + since_1970)))
    }

    /// Sets it to so much after the beginning of 1970, forward or back.
    pub fn set(&self, since_1970: Duration) {
        self.0.send_replace(UNIX_EPOCH + since_1970);
    }

    /// Sets it forward.
    pub fn forward(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }

    /// Sets it back.
    pub fn back(&self, by: Duration) {
        self.0.send_modify(|now| *now -= by);
    }

    /// Returns once somebody waits for this clock.
    pub async fn waited_for(&self) {
        while self.0.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl Clock for HandClock {
    fn now(&self) -> SystemTime {
        *self.0.borrow()
    }

    fn sleep_until(&self, moment: SystemTime) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            // Without a sender left nobody will set the clock.
            if now.wait_for(|now| *now >= moment).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
