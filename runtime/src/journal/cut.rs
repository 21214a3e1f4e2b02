//! What stops a run from outside, and the ends of entrypoints: a cancellation in its place of the order, the scopes of
//! clean-ups, ends that a resume undoes.

use std::collections::{HashMap, HashSet};

use super::{
    Cancel, End, Ended, Frame, Journal, Order, Record, Scope, Slot, Step, Then, call, hasher::ByDigest, record::Why,
};
use crate::id::{CallId, ScopeId};

/// What stops the run, and how far its end is.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// On record: the run's code is dropped, or its end stands.
    cancel: Option<Cancel>,
    /// Whether the run's code is to be dropped now.
    released: bool,
    /// Whether the run's code is over, so that it cleans up.
    ending: bool,
    /// The failures that the run's code has not got past by then.
    behind: HashSet<CallId, ByDigest>,
    /// The newest loaded end: whether a resume undoes it.
    ended: bool,
    /// The clean-ups that were begun in this process.
    clean_ups: Vec<ScopeId>,
    /// How many ends of entrypoints were undone.
    undone: HashMap<ScopeId, u32, ByDigest>,
}

impl Cut {
    /// Whether this failure belongs to code that is over.
    pub(super) fn is_behind(&self, call: &CallId) -> bool {
        self.behind.contains(call)
    }
}

impl Journal {
    /// Records that the run is stopped, unless it is already, or is over by itself: whether it is recorded now.
    pub(crate) fn cancel(&mut self, why: Why, at_ms: u64) -> bool {
        if self.cut.cancel.is_some() || self.cut.ending {
            return false;
        }
        let cancel = Cancel { why, at_ms };
        self.append(Record::Cancel(cancel.clone()), Then::Cancel, true);
        self.cut.cancel = Some(cancel);
        true
    }

    /// Whether the run is being stopped: nothing of its own code starts or is recorded any more.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.cancel.is_some() && !self.cut.ending
    }

    /// Why the run is stopped, if it is.
    pub(crate) fn cancelled(&self) -> Option<&Why> {
        self.cut.cancel.as_ref().map(|cancel| &cancel.why)
    }

    /// Whether the run's code is to be dropped, once it has settled.
    pub(crate) fn is_cancel_released(&self) -> bool {
        self.cut.released
    }

    /// The record of the stop is durable: it takes its turn.
    pub(super) fn queue_cancel(&mut self) {
        self.frames[Frame::ROOT.index()].queue.push_back(Step::Cancel);
    }

    /// The stop has its turn: replay is over with it. The calls that are to look whether they may start.
    pub(super) fn release_cancel(&mut self, frame: Frame) -> Vec<Slot> {
        self.cut.released = true;
        let state = &mut self.frames[frame.index()];
        state.queue.clear();
        state.replaying = 0;
        self.go_live(frame)
    }

    /// The run's own code is over: from here on it cleans up. The failures that the code has not got past.
    pub(crate) fn begin_ending(&mut self) -> Vec<CallId> {
        let open = self.unpassed();
        self.cut.ending = true;
        self.cut.behind = open.iter().copied().collect();
        open
    }

    /// Whether the run's own code is over.
    pub(crate) fn is_ending(&self) -> bool {
        self.cut.ending
    }

    /// Calls whose code is gone, and their bodies with it.
    pub(crate) fn left_calls(&self) -> Vec<Slot> {
        self.calls.slots().filter(|slot| self.calls.get(*slot).is_some_and(|call| call.dropped)).collect()
    }

    /// The scope that an entrypoint's own calls stand in.
    pub(crate) fn entrypoint_scope(&self, frame: Frame, of: &Scope) -> Scope {
        Scope { id: self.frames[frame.index()].scope, order: Order::Released(frame), owner: of.owner }
    }

    /// Enters one clean-up of an entrypoint that is over, by its place among them. Each has an order of its own, so that
    /// one that failed can be opened again though others have come after it. It stands in no body, so that it outlives the
    /// entrypoint's call; within a task's body it goes with that.
    pub(crate) fn enter_clean_up(&mut self, entrypoint: &Scope, index: u32) -> (Frame, Scope) {
        let in_a_body = self.is_in_a_body(*entrypoint);
        let id = call::clean_up(entrypoint.id, self.cut.undone.get(&entrypoint.id).copied().unwrap_or(0), index);
        self.scopes.entry(entrypoint.id).or_default().within.push(id);
        self.cut.clean_ups.push(id);
        let frame = self.enter(id, in_a_body);
        (frame, Scope { id, order: Order::Released(frame), owner: entrypoint.owner.filter(|_| in_a_body) })
    }

    /// The failures that the clean-ups have not got past.
    pub(crate) fn unpassed_in_clean_ups(&self) -> Vec<CallId> {
        let mut open = Vec::new();
        let mut scopes = self.cut.clean_ups.clone();
        while let Some(scope) = scopes.pop() {
            let Some(state) = self.scopes.get(&scope) else { continue };
            for failed in state.unpassed.iter().chain(&state.unseen) {
                open.push(*failed);
                // And whatever failed within.
                scopes.push(call::body_scope_id(*failed));
            }
            scopes.extend(&state.within);
        }
        open.sort_unstable();
        open.dedup();
        open
    }

    /// A clean-up has come to its end: what failed in it is behind it.
    pub(crate) fn cleaned_up(&mut self, scope: &Scope) {
        if let Some(state) = self.scopes.get_mut(&scope.id) {
            state.unpassed.clear();
            state.unseen.clear();
        }
    }

    /// Something that an entrypoint had got to is opened again: if it had come to an end, that one does not count.
    pub(super) fn end_undone(&mut self, entrypoint: ScopeId) {
        *self.cut.undone.entry(entrypoint).or_default() += 1;
    }

    pub(super) fn load_cancel(&mut self, cancel: Cancel) {
        self.loaded_frames.entry(Scope::ROOT.id).or_default().push_back(Step::Cancel);
        self.cut.cancel = Some(cancel);
    }

    pub(super) fn load_end(&mut self, end: &End) {
        // The others leave the run where it was: with its code at a panic, or in its clean-ups.
        self.cut.ended = matches!(end.how, Ended::Failed { .. } | Ended::TimedOut { .. });
    }

    /// The run goes on after an end: its code too if it had cleaned up.
    pub(super) fn undo_end(&mut self) {
        if !std::mem::take(&mut self.cut.ended) {
            return;
        }
        self.end_undone(Scope::ROOT.id);
        if self.cut.cancel.take().is_some() {
            let steps = self.loaded_frames.entry(Scope::ROOT.id).or_default();
            steps.retain(|step| !matches!(step, Step::Cancel));
        }
    }
}
