//! A clock for tests: time goes on only when it is told to.

use std::{
    fmt,
    future::{Future, poll_fn},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::{Duration, SystemTime},
};

use crate::{
    Clock,
    checkpoint::BoxFuture,
    environment::{millis, moment},
};

/// Where a [`TestClock`] begins: the first moment of 2030, UTC.
const BEGINS_MS: u64 = 1_893_456_000_000;

/// A clock whose time goes on only when it is told to, so that a test of sleeps and back-offs waits for nothing. Clones
/// are the same clock; it goes on over the processes of a test.
///
/// ```
/// use std::time::Duration;
///
/// use durably::{Outcome, Runtime, entrypoint, testing::TestClock};
///
/// #[entrypoint]
/// async fn remind(text: String) -> String {
///     durably::sleep(Duration::from_secs(3600)).await;
///     text
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let clock = TestClock::new();
/// let thread = Runtime::builder().clock(clock.clone()).memory().thread("tea")?;
/// let Outcome::Sleeping { until } = thread.invoke(remind("ready".to_owned())).await? else { unreachable!() };
/// clock.advance_to(until);
/// assert_eq!(thread.resume(remind).await?, Outcome::Completed("ready".to_owned()));
/// # Ok::<(), durably::RunError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TestClock(Arc<Mutex<State>>);

struct State {
    now_ms: u64,
    next: u64,
    /// Those that wait, by their number: until when, and whom to wake.
    sleepers: Vec<(u64, u64, Waker)>,
    /// Whoever waits for another sleeper to come.
    watcher: Option<Waker>,
}

impl TestClock {
    /// A clock that stands at the first moment of 2030, UTC.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { now_ms: BEGINS_MS, next: 0, sleepers: Vec::new(), watcher: None })))
    }

    /// Lets time go on by so much, to the millisecond.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let to = self.state().now_ms.saturating_add(by);
        self.advance_to_ms(to);
    }

    /// Lets time go on to a moment; nothing happens if it has passed.
    pub fn advance_to(&self, to: SystemTime) {
        self.advance_to_ms(millis(to));
    }

    /// Sets time back, or on, without waking anybody before: what a system's clock may do.
    pub fn jump_to(&self, to: SystemTime) {
        self.state().now_ms = millis(to);
        self.advance_to(to);
    }

    /// When the nearest of the sleeps that are being waited for ends; `None` if there are none.
    #[must_use]
    pub fn next_due(&self) -> Option<SystemTime> {
        self.state().sleepers.iter().map(|(_, due_ms, _)| *due_ms).min().map(moment)
    }

    /// Waits until a sleep begins.
    pub(crate) fn another_sleep(&self) -> impl Future<Output = ()> + use<> {
        let (clock, mut seen) = (self.clone(), None);
        poll_fn(move |cx| {
            let mut state = clock.state();
            let next = *seen.get_or_insert(state.next);
            if state.next != next {
                return Poll::Ready(());
            }
            state.watcher = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    fn advance_to_ms(&self, to_ms: u64) {
        let due = {
            let mut state = self.state();
            state.now_ms = state.now_ms.max(to_ms);
            let now_ms = state.now_ms;
            let (due, left) =
                std::mem::take(&mut state.sleepers).into_iter().partition(|(_, due_ms, _)| *due_ms <= now_ms);
            state.sleepers = left;
            due
        };
        let mut due: Vec<(u64, u64, Waker)> = due;
        due.sort_by_key(|(number, due_ms, _)| (*due_ms, *number));
        for (_, _, waker) in due {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        moment(self.state().now_ms)
    }

    fn sleep_until(&self, until: SystemTime) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { clock: self.clone(), due_ms: millis(until), number: None })
    }
}

/// One sleep; dropped, nobody waits for it any more.
struct Sleep {
    clock: TestClock,
    due_ms: u64,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let watcher = {
            let mut state = this.clock.state();
            if state.now_ms >= this.due_ms {
                return Poll::Ready(());
            }
            let known = this.number.and_then(|number| state.sleepers.iter_mut().find(|(other, ..)| *other == number));
            match known {
                Some((_, _, waker)) => {
                    waker.clone_from(cx.waker());
                    None
                }
                None => {
                    let number = state.next;
                    state.next += 1;
                    this.number = Some(number);
                    state.sleepers.push((number, this.due_ms, cx.waker().clone()));
                    state.watcher.take()
                }
            }
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.clock.state().sleepers.retain(|(other, ..)| *other != number);
        }
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("TestClock").field("now_ms", &state.now_ms).field("sleepers", &state.sleepers.len()).finish()
    }
}
