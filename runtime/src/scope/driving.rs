//! What a run does for whoever drives it: hands on one outcome at a time to an entrypoint that has settled.

use std::sync::Arc;

use super::{
    Signal,
    run::{Run, Stop},
    wake_for_release,
};
use crate::{
    RunError,
    environment::{CallView, Event, recall},
    journal::{Frame, Next, Slot, Stage},
};

impl Run {
    /// Gives the settled entrypoint what is next for it, and wakes whoever that is for; whether to poll it again.
    /// Bodies that are polled in place and were woken are added to `nudged`.
    pub(crate) fn advance(self: &Arc<Self>, frame: Frame, signal: &Signal, nudged: &mut Vec<Slot>) -> bool {
        let (wakers, released, ready) = {
            let mut state = self.lock();
            let state = &mut *state;
            if state.stop.is_some() {
                return false;
            }
            match state.journal.next(frame) {
                Next::Release { slot, replayed } => {
                    let waker = state.liveness.of(slot).waker.take();
                    (waker.into_iter().collect(), Some((slot, replayed)), Vec::new())
                }
                Next::Wake(slot) => {
                    let waker = state.liveness.of(slot).waker.clone();
                    (waker.into_iter().collect(), None, Vec::new())
                }
                Next::Live(ready) => {
                    let mut wakers = Vec::with_capacity(ready.len());
                    for slot in &ready {
                        // Whoever made a call that is detached is not to be woken for it.
                        if state.journal.call(*slot).is_some_and(|call| !call.dropped) {
                            wakers.extend(state.liveness.nudge(*slot, nudged));
                        }
                    }
                    (wakers, None, if state.later.is_empty() { Vec::new() } else { ready })
                }
                Next::Cancel(ready) => {
                    let wakers = ready.into_iter().filter_map(|slot| state.liveness.nudge(slot, nudged)).collect();
                    (wakers, None, Vec::new())
                }
                Next::Diverged(divergence) => {
                    state.stop = Some(Stop::Error(RunError::Nondeterminism(divergence)));
                    return false;
                }
                Next::Nothing => {
                    // Bodies that are polled in place are woken through the code that holds them.
                    let woken = signal.take_bodies();
                    if woken.is_empty() {
                        return false;
                    }
                    let mut wakers = Vec::with_capacity(woken.len());
                    for slot in woken {
                        if state.journal.call(slot).is_some() {
                            wakers.extend(state.liveness.nudge(slot, nudged));
                        }
                    }
                    (wakers, None, Vec::new())
                }
            }
        };
        self.start_detached(&ready);
        if let Some((slot, replayed)) = released {
            self.observe_release(slot, replayed);
        }
        for waker in &wakers {
            wake_for_release(waker);
        }
        true
    }

    pub(super) fn observe_release(&self, slot: Slot, replayed: bool) {
        if self.environment.observers.is_empty() {
            return;
        }
        let seen = {
            let state = self.lock();
            let Some(call) = state.journal.call(slot) else { return };
            let Stage::Released(recorded) = &call.stage else { return };
            (call.id, call.kind, call.name.clone(), call.arguments.clone(), recorded.clone())
        };
        let (id, kind, name, arguments, recorded) = &seen;
        let call = CallView { run: self.view(), id: *id, kind: *kind, name, arguments };
        self.environment.observe(|| Event::Released { call, replayed, value: recall(recorded) });
    }

    /// After the entrypoint settled: calls that were woken and not polled are read by nobody. That is recorded, since
    /// what holds them may read what was woken first, first.
    pub(crate) fn note_unread(self: &Arc<Self>, woken: &[Slot]) {
        let mut noted = false;
        {
            let mut state = self.lock();
            for slot in woken {
                if state.journal.call(*slot).is_some() && state.liveness.settled(*slot) {
                    state.journal.unread(*slot);
                    noted = true;
                }
            }
        }
        if noted {
            self.lock().give_up_leads();
            self.nudge();
        }
    }

    /// Ends an entrypoint's order: whether all that is left belongs to calls that were made.
    pub(crate) fn leave(self: &Arc<Self>, frame: Frame) -> bool {
        let left = self.lock().journal.leave(frame);
        match left {
            Ok(ready) => {
                self.start_detached(&ready);
                true
            }
            Err(divergence) => {
                self.fail(RunError::Nondeterminism(divergence));
                false
            }
        }
    }

    pub(crate) fn abandon(&self, frame: Frame) {
        self.lock().journal.abandon(frame);
    }
}
