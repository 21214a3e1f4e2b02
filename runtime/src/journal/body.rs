//! Bodies: what an attempt begins, what it waits for, what it leaves.

use std::sync::Arc;

use super::{
    Answered, Attempt, Begin, CallKind, Failing, Journal, Order, Outcome, Record, Scope, Slot, Stage, Then, Wait,
    Waited, call,
    load::{changes_the_wait, waited_for},
};
use crate::{
    id::{CallId, ScopeId},
    output::Recorded,
};

impl Journal {
    /// Marks the body as running, in a new attempt; the number of the attempt, from 1.
    pub(crate) fn start(&mut self, slot: Slot) -> u32 {
        let Some(call) = self.calls.get_mut(slot) else { return 0 };
        call.stage = Stage::Working;
        call.attempts += 1;
        let (attempts, parent) = (call.attempts, call.scope.id);
        let inner = call.body_scope(slot, Order::AtOnce).id;
        self.begin_scope(inner);
        self.scopes.entry(parent).or_default().within.push(inner);
        attempts
    }

    /// Notes that a body which may run at most once is about to begin. It may once that is durable.
    pub(crate) fn begin(&mut self, slot: Slot, at_ms: u64) {
        if self.is_cut() {
            return;
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        (call.stage, call.begun) = (Stage::Finished, true);
        let (number, scope) = (call.attempts + 1, call.scope);
        let call = self.info(slot);
        if self.is_in_a_body(scope) {
            // Another attempt of the body around it finds it in doubt.
            let loaded = self.loaded_call(call.clone());
            self.note_begin(loaded, number);
        }
        self.append_durable(Record::Begin(Begin { call, number, at_ms }), Then::TryAgain(slot));
    }

    /// Whether the scope stands in a body that may run at most once; its call.
    pub(crate) fn once_around(&self, scope: &Scope) -> Option<Slot> {
        self.owners(scope).into_iter().find(|owner| self.calls.get(*owner).is_some_and(|call| call.begun))
    }

    /// Takes the released outcome. A failure counts from here on as one that the code has not got past: not from its
    /// release, since code may go on for a while before it looks.
    pub(crate) fn take(&mut self, slot: Slot) -> Option<Arc<Recorded>> {
        let call = self.calls.get_mut(slot)?;
        match std::mem::replace(&mut call.stage, Stage::Taken) {
            Stage::Released(recorded) => {
                let (id, scope) = (call.id, call.scope);
                if matches!(*recorded, Recorded::Failure(_)) && self.is_current(&scope) {
                    let state = self.scopes.entry(scope.id).or_default();
                    state.unseen.remove(&id);
                    state.unpassed.push(id);
                }
                Some(recorded)
            }
            stage => {
                call.stage = stage;
                None
            }
        }
    }

    /// Notes that an attempt failed and another will be made.
    pub(crate) fn attempt_failed(&mut self, slot: Slot, error: String, at_ms: u64, next_ms: u64) {
        if self.is_cut() {
            return;
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.stage = Stage::Finished;
        call.next_ms = next_ms;
        let number = call.attempts;
        let inner = call.body_scope(slot, Order::AtOnce).id;
        let reopened = self.restart_scope(inner);
        self.void(&reopened);
        let record = Record::Attempt(Attempt { call: self.info(slot), number, error, reopened, at_ms, next_ms });
        self.append(record, Then::TryAgain(slot), false);
    }

    /// Begins a scope for an attempt. What failed in it and was not looked at, in an earlier process, still is that.
    fn begin_scope(&mut self, scope: ScopeId) {
        let Some(state) = self.scopes.get_mut(&scope) else { return };
        state.ordinals.clear();
        state.branches.clear();
        state.emits.clear();
        state.unpassed.clear();
        for within in std::mem::take(&mut state.within) {
            self.begin_scope(within);
        }
    }

    /// Ends a scope, for another attempt or for good; what it had not got past.
    pub(super) fn restart_scope(&mut self, scope: ScopeId) -> Vec<CallId> {
        let Some(state) = self.scopes.remove(&scope) else { return Vec::new() };
        let mut unpassed = state.unpassed;
        unpassed.extend(state.unseen);
        let failed = unpassed.iter().map(|call| call::body_scope_id(*call)).collect::<Vec<_>>();
        for within in state.within.into_iter().chain(failed) {
            unpassed.extend(self.restart_scope(within));
        }
        unpassed
    }

    /// Notes that the call waits for the outside.
    pub(crate) fn wait(&mut self, slot: Slot, what: Waited, at_ms: u64) {
        if self.calls.get(slot).is_none() {
            return;
        }
        let (then, at_once) = match what {
            Waited::Answer(_) | Waited::InDoubt(_) => (Then::Opened(slot), true),
            Waited::Refused { .. } | Waited::Withdrawn => (Then::Nothing, true),
            Waited::Until { .. } => (Then::Nothing, false),
        };
        let call = self.info(slot);
        if self.calls.get(slot).is_some_and(|call| self.is_in_a_body(call.scope)) && changes_the_wait(&what) {
            // Another attempt of the body goes on waiting for the same.
            let loaded = self.loaded_call(call.clone());
            self.loaded[loaded as usize].wait = waited_for(what.clone());
        }
        let record = Record::Wait(Wait { call, what, at_ms });
        self.append(record, then, at_once);
    }

    /// Notes what a body left. A call that is gone leaves nothing, unless it was detached.
    pub(crate) fn finish(&mut self, slot: Slot, recorded: Recorded, at_ms: u64, took_ms: u32) {
        if self.is_cut() {
            return;
        }
        let Some(call) = self.calls.get(slot) else { return };
        if !self.is_current(&call.scope) {
            // A detached call that outlived the attempt it was made in.
            self.calls.remove(slot);
            return;
        }
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.stage = Stage::Finished;
        call.in_flight = true;
        let (attempts, scope, inner) = (call.attempts, call.scope, call.body_scope(slot, Order::AtOnce).id);
        let (cached, asked, answered) = (call.cached, call.asked, call.answered.take());
        let (at_once, begun) = (call.kind == CallKind::Interrupt, call.begun);
        let info = self.info(slot);
        let recorded = Arc::new(recorded);
        match *recorded {
            Recorded::Failure(_) => {
                self.scopes.entry(info.scope).or_default().unseen.insert(info.id);
                if self.is_in_a_body(scope) {
                    self.failing.insert(info.id, Failing { reopened: false, frame: info.frame });
                }
            }
            // The calls within are covered by this outcome.
            Recorded::Value(_) => drop(self.restart_scope(inner)),
        }
        let then = match scope.order {
            Order::Released(frame) => {
                self.frames[frame.0 as usize].ahead += 1;
                Then::Queue(frame, slot, recorded.clone())
            }
            Order::AtOnce => Then::HandOn(slot, recorded.clone()),
        };
        let outcome = Outcome { call: info, recorded, attempts, at_ms, took_ms, cached, asked, answered };
        match begun {
            true => self.append_durable(Record::Outcome(outcome), then),
            false => self.append(Record::Outcome(outcome), then, at_once),
        }
    }

    /// Says that the call's value, which is about to be noted, is one that an equal call left.
    pub(crate) fn is_cached(&mut self, slot: Slot) {
        if let Some(call) = self.calls.get_mut(slot) {
            call.cached = true;
        }
    }

    /// Notes how the call's question was answered, for its outcome.
    pub(crate) fn note_answer(&mut self, slot: Slot, answered: Answered) {
        if let Some(call) = self.calls.get_mut(slot) {
            call.answered = Some(answered);
        }
    }
}
