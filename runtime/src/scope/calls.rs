//! What a run does for the calls made in it: claims them, says what their futures are to do, takes in what bodies leave.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

use super::{
    Signal,
    run::{Run, Step},
};
use crate::{
    RunError,
    id::CallId,
    journal::{Call, CallKind, ClaimError, Definition, Frame, Journal, NewCall, Order, Scope, Slot, Stage, Waited},
    output::Recorded,
};

impl Run {
    /// Claims a call in a scope; `None` if the run is stopped by it.
    pub(crate) fn claim(self: &Arc<Self>, scope: &Scope, new: NewCall) -> Option<Slot> {
        let mut state = self.lock();
        if state.stop.is_some() || (state.continues() && scope.owner.is_none()) {
            return None;
        }
        if matches!(new.kind, CallKind::Interrupt | CallKind::Approval)
            && let Some(once) = state.journal.once_around(scope)
        {
            let task = state.journal.call(once).map(|call| call.name.clone().into_owned()).unwrap_or_default();
            drop(state);
            self.fail(RunError::AsksInOnce { task, asked: new.name.into_owned() });
            return None;
        }
        let claimed = state.journal.claim(scope, new);
        match claimed {
            Ok(slot) => {
                state.liveness.claimed(slot);
                state.beat_owners(scope);
                Some(slot)
            }
            Err(error) => {
                if error == ClaimError::Stale {
                    // What it stands in would wait for good, and the run for it.
                    let owners = state.journal.owners(scope);
                    state.spawned.iter().filter(|(slot, _)| owners.contains(slot)).for_each(|(_, body)| body.abort());
                }
                drop(state);
                if let Some(error) = refusal(error) {
                    self.fail(error);
                }
                None
            }
        }
    }

    pub(crate) fn branch(&self, scope: &Scope, name: &str) -> Scope {
        self.lock().journal.branch(scope, name)
    }

    pub(crate) fn leave_branch(&self, parent: &Scope, branch: &Scope) {
        self.lock().journal.leave_branch(parent, branch);
    }

    /// Whether the journal has the call's outcome, so that no body is needed.
    pub(crate) fn is_recorded(&self, slot: Slot) -> bool {
        self.lock().journal.call(slot).is_some_and(|call| call.replayed)
    }

    pub(crate) fn call_id(&self, slot: Slot) -> Option<CallId> {
        Some(self.lock().journal.call(slot)?.id)
    }

    /// The call's future is polled: what it is to do, and whom to wake later.
    pub(crate) fn step(&self, slot: Slot, waker: &Waker) -> Step {
        let mut state = self.lock();
        let state = &mut *state;
        if state.stop.is_some() {
            return Step::Wait;
        }
        let Some(call) = state.journal.call(slot) else { return Step::Wait };
        if state.continues() && call.scope.owner.is_none() && !call.dropped {
            return Step::Wait;
        }
        match call.stage {
            Stage::Released(_) => {
                let recorded = state.journal.take(slot).expect("it is released");
                return Step::Release(recorded);
            }
            Stage::Taken => return Step::Wait,
            Stage::Waiting | Stage::Ready | Stage::Working | Stage::Finished => {}
        }
        let begun = state.liveness.polled(slot, waker).begun;
        let work = match call.stage {
            Stage::Ready if !begun => {
                let inner = state.journal.is_in_a_body(call.scope);
                let limited = call.kind == CallKind::Task && !inner;
                let held_back = match call.kind {
                    CallKind::Interrupt => false,
                    // What is in it is held back.
                    CallKind::Entrypoint if self.environment.replays_only => false,
                    _ if self.environment.replays_only => true,
                    _ => self.environment.draining.load(Ordering::Acquire) && !inner,
                };
                if state.journal.is_cut() && !may_be_entered(&state.journal, call) {
                    state.liveness.permits.take_back(slot);
                    false
                } else if held_back {
                    state.held_back = true;
                    state.liveness.permits.take_back(slot);
                    false
                } else if is_foreign(&state.signals, call)
                    || (limited && !state.liveness.ask_for_permit(&state.journal, slot))
                {
                    false
                } else {
                    let activity = state.liveness.of(slot);
                    // A nested entrypoint is as alive as what is in it.
                    (activity.begun, activity.limited) = (call.kind != CallKind::Entrypoint, limited);
                    true
                }
            }
            Stage::Ready | Stage::Working | Stage::Finished => state.liveness.goes_on(&state.journal, slot),
            _ => false,
        };
        state.liveness.recount(slot);
        if work { Step::Work } else { Step::Wait }
    }

    /// The entrypoint that a call stands in directly, to be told of its body's wakes; `None` in a task's body.
    pub(crate) fn signal_of(&self, slot: Slot) -> Option<Arc<Signal>> {
        let state = self.lock();
        match state.journal.call(slot)?.scope.order {
            Order::Released(frame) => Some(state.signals[frame.index()].clone()),
            Order::AtOnce => None,
        }
    }

    /// The call's future is gone.
    pub(crate) fn drop_call(self: &Arc<Self>, slot: Slot, detached: bool) {
        let mut state = self.lock();
        if state.journal.call(slot).is_none() {
            return;
        }
        let counted = !detached && state.liveness.is_begun(slot);
        if !detached {
            // Dropped by the code itself, and not by a pause: nobody is to answer it any more.
            if state.stop.is_none() && !state.halted && state.liveness.asks(slot) {
                state.journal.wait(slot, Waited::Withdrawn, self.environment.now_ms());
                if let Some(id) = state.journal.call(slot).map(|call| call.id) {
                    // An answer that has arrived is not for the same question asked anew.
                    state.answers.remove(&id);
                    state.questions.leave(id);
                }
            }
            state.end_activity(slot);
        }
        state.journal.drop_call(slot, detached);
        drop(state);
        if counted {
            // It may have been the last thing that was alive, and on the pool nobody else would have the driver look.
            self.nudge();
        }
    }

    pub(crate) fn body_scope(&self, slot: Slot) -> Option<Scope> {
        self.lock().journal.body_scope(slot)
    }

    /// Enters a nested entrypoint whose body starts.
    pub(crate) fn enter_nested(&self, slot: Slot) -> Option<(Frame, Scope, Arc<Signal>)> {
        let mut state = self.lock();
        let (frame, scope) = state.journal.enter_nested(slot)?;
        let signal = Arc::<Signal>::default();
        state.signals.push(signal.clone());
        Some((frame, scope, signal))
    }

    pub(crate) fn root_signal(&self) -> Arc<Signal> {
        self.lock().signals[0].clone()
    }

    /// Notes what a body left.
    pub(crate) fn finish(self: &Arc<Self>, slot: Slot, recorded: Recorded, took_ms: u32) {
        self.finish_if(slot, recorded, took_ms, |_| true);
    }

    /// Notes what an attempt of a body left, if that attempt is the one that counts; whether it is.
    pub(crate) fn finish_attempt(self: &Arc<Self>, slot: Slot, attempt: u32, recorded: Recorded, took_ms: u32) -> bool {
        self.finish_if(slot, recorded, took_ms, |call| call.is_working(attempt))
    }

    fn finish_if(
        self: &Arc<Self>,
        slot: Slot,
        recorded: Recorded,
        took_ms: u32,
        counts: impl FnOnce(&Call) -> bool,
    ) -> bool {
        {
            let mut state = self.lock();
            let Some(call) = state.journal.call(slot).filter(|call| counts(call)) else { return false };
            if state.stop.is_some() {
                return false;
            }
            let scope = call.scope;
            state.beat_owners(&scope);
            state.end_activity(slot);
            let now = self.environment.now_ms();
            state.journal.finish(slot, recorded, now, took_ms);
        }
        self.nudge();
        true
    }

    /// Answers a call without a record, which only replay needs.
    pub(crate) fn answer_unrecorded(&self, slot: Slot, recorded: Recorded) {
        self.lock().journal.answer_unrecorded(slot, recorded);
    }

    /// Whether the call waits for replay to end and has no record.
    pub(crate) fn waits_for_replay(&self, slot: Slot) -> bool {
        let state = self.lock();
        state.journal.call(slot).is_some_and(|call| {
            matches!(call.stage, Stage::Waiting)
                && !call.replayed
                && matches!(call.scope.order, Order::Released(frame) if state.journal.is_replaying(frame))
        })
    }
}

/// Whether the call is a nested entrypoint that comes to where it was before the run is stopped: it may have left something
/// to be done. One in a task's body goes with that.
fn may_be_entered(journal: &Journal, call: &Call) -> bool {
    call.kind == CallKind::Entrypoint && !journal.is_in_a_body(call.scope)
}

/// Whether the entrypoint that the call stands in was woken by something foreign: nothing new starts then.
fn is_foreign(signals: &[Arc<Signal>], call: &Call) -> bool {
    match call.scope.order {
        Order::Released(frame) => signals[frame.index()].is_foreign(),
        Order::AtOnce => false,
    }
}

/// A refused claim as what its caller is told; `None`: nothing, the call stays pending.
fn refusal(error: ClaimError) -> Option<RunError> {
    let place = |definition: Definition| format!("{} ({}:{})", definition.module, definition.file, definition.line);
    match error {
        ClaimError::Stale => None,
        ClaimError::TwoDefinitions { kind, name, first, second } => {
            Some(RunError::TwoDefinitions { kind, name, first: place(first), second: place(second) })
        }
        ClaimError::Collision(pair) => {
            let (recorded, called) = *pair;
            Some(RunError::Collision { recorded: Box::new(recorded), called: Box::new(called) })
        }
    }
}
