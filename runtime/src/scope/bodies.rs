//! The bodies of a run's calls: their attempts, and those that run on the pool.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::task::{AbortHandle, JoinHandle};

use super::{
    InnerSignal, Polls,
    run::{Run, State, Step},
};
use crate::{
    checkpoint::BoxFuture,
    environment::{Event, moment},
    journal::{Slot, Stage},
};

impl Run {
    /// Begins an attempt of the call's body; its number. Waits for good in a run that is stopped: nothing begins in it.
    pub(crate) async fn begin_attempt(self: &Arc<Self>, slot: Slot) -> u32 {
        let begun = {
            let mut state = self.lock();
            if state.stop.is_none() { Some((state.journal.start(slot), state.feed.is_some())) } else { None }
        };
        let Some((attempt, is_read)) = begun else { return std::future::pending().await };
        self.observe(slot, |call, _| Event::Started { call, attempt }, "");
        if is_read {
            self.tell_started(slot, attempt);
        }
        attempt
    }

    /// Waits until the next attempt is due. In a runtime that drains it does not come: it is held back.
    pub(crate) async fn next_attempt_is_due(self: &Arc<Self>, slot: Slot) {
        let due = self.next_attempt_ms(slot);
        // A first attempt is due at once, whatever the time is.
        if due > 0 && due > self.environment.now_ms() {
            let mut sleep = self.environment.clock.sleep_until(moment(due));
            let held = poll_fn(|cx| match sleep.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(false),
                Poll::Pending if self.holds_back(slot, cx.waker()) => Poll::Ready(true),
                Poll::Pending => Poll::Pending,
            });
            if !held.await && !self.holds_back(slot, Waker::noop()) {
                return;
            }
            std::future::pending::<()>().await;
        }
    }

    /// Whether no more bodies start where the call stands; woken by a drain.
    pub(super) fn holds_back(self: &Arc<Self>, slot: Slot, waker: &Waker) -> bool {
        let mut state = self.lock();
        let Some(call) = state.journal.call(slot) else { return false };
        if !self.environment.draining.load(Ordering::Acquire) || state.journal.is_in_a_body(call.scope) {
            state.liveness.of(slot).body = Some(waker.clone());
            return false;
        }
        state.held_back = true;
        state.end_activity(slot);
        drop(state);
        self.nudge();
        true
    }

    /// The runtime drains: bodies that wait for their next attempt look whether it still comes.
    pub(crate) fn drains(&self) {
        let wakers = self.lock().liveness.body_wakers();
        for waker in wakers {
            waker.wake();
        }
        self.driver.wake();
    }

    /// When the next attempt is due; 0: at once.
    fn next_attempt_ms(&self, slot: Slot) -> u64 {
        self.lock().journal.call(slot).map_or(0, |call| call.next_ms)
    }

    /// Notes that an attempt failed and another one follows.
    pub(crate) fn attempt_failed(self: &Arc<Self>, slot: Slot, attempt: u32, error: String, pause: Duration) {
        self.observe(slot, |call, error| Event::Retried { call, attempt, error, pause }, &error);
        let now = self.environment.now_ms();
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.lock().journal.attempt_failed(slot, error, now, now.saturating_add(pause));
        self.nudge();
    }

    /// Waits until the note of the failed attempt is kept, so that the next one may start.
    pub(crate) fn poll_try_again(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        match state.journal.call(slot).map(|call| &call.stage) {
            Some(Stage::Ready) => Poll::Ready(()),
            // Its call is gone, and its place may be another call's: that one's waker is not to be replaced.
            None => Poll::Pending,
            Some(_) => {
                state.liveness.of(slot).body = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Has a body run on the pool.
    pub(crate) fn spawn(self: &Arc<Self>, slot: Slot, work: BoxFuture<'static, ()>) -> AbortHandle {
        // The thread is kept until the body has ended, also if its run is gone.
        let hold = self.hold();
        let polls = Arc::<Polls>::default();
        self.lock().liveness.of(slot).polls = Some(polls.clone());
        let (mut work, run) = (work, self.clone());
        let handle = tokio::spawn(async move {
            poll_fn(|cx| {
                let polled = polls.count(cx, |cx| work.as_mut().poll(cx));
                // It may have settled without polling a body within it: then the run may pause.
                if polled.is_pending() && run.waits_outside() {
                    run.driver.wake();
                }
                polled
            })
            .await;
            drop(hold);
        });
        let abort = handle.abort_handle();
        self.keep_spawned(slot, handle);
        abort
    }

    /// What tells whether a body that is polled in place within another one is read by it.
    pub(crate) fn watch_inner(&self, slot: Slot) -> Arc<InnerSignal> {
        let mut state = self.lock();
        let mut polls = None;
        let mut around = state.journal.call(slot).and_then(|call| call.scope.owner);
        while let (Some((owner, _)), None) = (around, &polls) {
            around = state.journal.call(owner).and_then(|call| call.scope.owner);
            polls.clone_from(&state.liveness.of(owner).polls);
        }
        let signal = InnerSignal::new(polls.unwrap_or_else(|| self.polls.clone()));
        if state.journal.call(slot).is_some() {
            state.liveness.of(slot).inner = Some(signal.clone());
        }
        signal
    }

    /// Has a detached body, whose code is gone, run on the pool once it may start.
    pub(crate) fn start_later(self: &Arc<Self>, slot: Slot, work: BoxFuture<'static, ()>) {
        match self.step(slot, Waker::noop()) {
            Step::Work => drop(self.spawn(slot, work)),
            // Kept in a run that is stopped, what it holds would keep that run for good.
            Step::Wait if !self.is_stopped() => self.lock().later.push((slot, work)),
            Step::Wait | Step::Release(_) => {}
        }
    }

    /// Starts those of the detached bodies that may start by now.
    pub(super) fn start_detached(self: &Arc<Self>, ready: &[Slot]) {
        for slot in ready {
            let work = {
                let mut state = self.lock();
                let place = state.later.iter().position(|(later, _)| later == slot);
                place.map(|place| state.later.swap_remove(place))
            };
            if let Some((slot, work)) = work {
                self.start_later(slot, work);
            }
        }
    }

    /// Starts the detached bodies that a drain has held back, if it is over; whether any is left.
    pub(crate) fn start_held_back(self: &Arc<Self>) -> bool {
        let is_held_back =
            |state: &State, slot: Slot| state.journal.call(slot).is_some_and(|call| matches!(call.stage, Stage::Ready));
        let held_back: Vec<Slot> = {
            let state = self.lock();
            state.later.iter().map(|(slot, _)| *slot).filter(|slot| is_held_back(&state, *slot)).collect()
        };
        self.start_detached(&held_back);
        let state = self.lock();
        state.later.iter().any(|(slot, _)| is_held_back(&state, *slot))
    }

    fn keep_spawned(&self, slot: Slot, handle: JoinHandle<()>) {
        let mut state = self.lock();
        // Those that ended need not be kept.
        if state.spawned.len() >= 64 && state.spawned.len().is_power_of_two() {
            state.spawned.retain(|(_, handle)| !handle.is_finished());
        }
        state.spawned.push((slot, handle));
    }

    /// Ends the bodies on the pool and gives them to be waited for. `keep` says which go on.
    pub(crate) fn take_spawned(&self, abort: bool) -> Vec<JoinHandle<()>> {
        let spawned = std::mem::take(&mut self.lock().spawned);
        spawned
            .into_iter()
            .map(|(_, handle)| {
                if abort {
                    handle.abort();
                }
                handle
            })
            .collect()
    }
}
