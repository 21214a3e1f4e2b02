//! The ambient run: which run, and where in it, the code stands that is being polled.

mod bodies;
mod calls;
mod cleaning;
mod doubts;
mod driving;
mod feed;
mod liveness;
mod outbox;
mod permits;
mod pulse;
mod questions;
mod run;
mod sharing;
mod waiting;
mod wake;

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

pub(crate) use cleaning::{Action, Cleaning};
pub(crate) use doubts::InDoubt;
pub(crate) use pulse::Portrait;
pub(crate) use questions::Earlier;
pub(crate) use run::{Driving, Hold, Mode, Run, Step, Stop};
pub(crate) use waiting::{Asking, OpenQuestion, Quiet};
pub(crate) use wake::{BodySignal, InnerSignal, Polls, Signal, outside, wake_for_release};

use crate::journal::{Scope, Slot};

thread_local! {
    static CURRENT: RefCell<Option<Ambient>> = const { RefCell::new(None) };
}

/// Where code stands: in which run, in which scope of it, in whose body.
#[derive(Clone, Debug)]
pub(crate) struct Ambient {
    pub(crate) run: Arc<Run>,
    pub(crate) scope: Scope,
    /// The call whose body it is, and which attempt; `None` in an entrypoint.
    pub(crate) body: Option<(Slot, u32)>,
    /// The task that is being reconciled here: no place for calls.
    pub(crate) reconciles: Option<&'static str>,
}

impl Ambient {
    /// Where the running code stands, if it stands in a run.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Whether the running code stands in a run.
    pub(crate) fn is_set() -> bool {
        CURRENT.with_borrow(Option::is_some)
    }
}

/// A future that is always polled in the same place of a run.
#[derive(Debug)]
pub(crate) struct Within<F> {
    /// Taken while the future is polled.
    ambient: Option<Ambient>,
    future: F,
}

impl<F> Within<F> {
    pub(crate) fn new(ambient: Ambient, future: F) -> Self {
        Self { ambient: Some(ambient), future }
    }
}

/// Puts the ambient run back where it was, also if the poll panics.
struct Entered<'a> {
    home: &'a mut Option<Ambient>,
}

impl<'a> Entered<'a> {
    fn new(home: &'a mut Option<Ambient>) -> Self {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, home));
        Self { home }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.home));
    }
}

impl<F: Future + Unpin> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { ambient, future } = self.get_mut();
        let _entered = Entered::new(ambient);
        Pin::new(future).poll(cx)
    }
}

/// Runs synchronous code in a place of a run.
pub(crate) fn within<T>(ambient: Ambient, work: impl FnOnce() -> T) -> T {
    let mut home = Some(ambient);
    let _entered = Entered::new(&mut home);
    work()
}
