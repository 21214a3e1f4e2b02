//! One entered entrypoint, the run's own or a nested one: polls it until it settles, then hands on one outcome, and so on.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::task::{Unconstrained, unconstrained};

use crate::{
    RunError,
    checkpoint::BoxFuture,
    entrypoint::Returned,
    journal::{Frame, Scope, Slot},
    panics::panic_message,
    scope::{Ambient, Run, Signal, Within},
};

/// How often an entrypoint may wake itself without coming to rest. A loop that passes messages between branches takes
/// one poll a message; one that never rests takes a fraction of a second to be noticed.
const RESTLESS: u32 = 1_000_000;

/// An entrypoint that is being run.
pub(crate) struct Entered<O> {
    run: Arc<Run>,
    frame: Frame,
    signal: Arc<Signal>,
    waker: Waker,
    name: String,
    /// tokio's budget would make the entrypoint's own channels pend and wake it from outside.
    future: Option<Within<Unconstrained<BoxFuture<'static, Returned<O>>>>>,
    /// Whether it is to be polled before anything is handed on.
    unsettled: bool,
}

impl<O> Entered<O> {
    pub(crate) fn new(
        run: Arc<Run>,
        (frame, scope, signal): (Frame, Scope, Arc<Signal>),
        name: impl Into<String>,
        future: BoxFuture<'static, Returned<O>>,
    ) -> Self {
        let ambient = Ambient { run: run.clone(), scope, body: None, reconciles: None };
        let future = Some(Within::new(ambient, unconstrained(future)));
        Self { run, frame, waker: Waker::from(signal.clone()), signal, name: name.into(), future, unsettled: true }
    }

    /// Runs it as far as it comes. Pending also when the run is stopped: whoever drives it looks.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Returned<O>> {
        self.signal.driver.register(cx.waker());
        let mut nudged: Vec<Slot> = Vec::new();
        loop {
            let polls = self.signal.take_own() || std::mem::take(&mut self.unsettled);
            let returned = if polls { self.settle() } else { None };
            if self.run.is_over(self.frame) {
                return Poll::Pending;
            }
            // Also if it returned: on replay, what woke it would not come.
            if self.signal.is_foreign() {
                self.run.fail(RunError::ForeignWake { entrypoint: self.name.clone() });
                return Poll::Pending;
            }
            if let Some(returned) = returned {
                return Poll::Ready(returned);
            }
            if !nudged.is_empty() {
                self.run.note_unread(&nudged);
                nudged.clear();
            }
            if !self.run.advance(self.frame, &self.signal, &mut nudged) {
                return Poll::Pending;
            }
        }
    }

    /// Polls until no wake has come from within its own poll; what it returned, if it did.
    fn settle(&mut self) -> Option<Returned<O>> {
        let future = self.future.as_mut()?;
        let mut cx = Context::from_waker(&self.waker);
        for _ in 0..RESTLESS {
            let polled =
                self.signal.polling(|| catch_unwind(AssertUnwindSafe(|| Pin::new(&mut *future).poll(&mut cx))));
            match polled {
                Ok(Poll::Ready(returned)) => {
                    // What it held is dropped before its order is ended: calls still held are gone now.
                    self.future = None;
                    return self.run.leave(self.frame).then_some(returned);
                }
                Ok(Poll::Pending) => {}
                Err(panic) => {
                    self.future = None;
                    self.panicked(&*panic);
                    return None;
                }
            }
            if self.run.is_over(self.frame) || !self.signal.take_own() {
                return None;
            }
        }
        self.run.fail(RunError::Unsettled { entrypoint: self.name.clone(), polls: RESTLESS });
        None
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        let what = format!("entrypoint {:?}", self.name);
        self.run.fail(RunError::Panicked { what, message: panic_message(panic) });
    }
}

impl<O> Drop for Entered<O> {
    fn drop(&mut self) {
        // The calls it holds first: then what it was given can become its journal again.
        if let Some(future) = self.future.take() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
                self.panicked(&*panic);
            }
            self.run.abandon(self.frame);
        }
    }
}
