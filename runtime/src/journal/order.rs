//! Entrypoints and what they are given: entering one, the next outcome, the end of replay, leaving.

use std::sync::Arc;

use super::{
    CallSketch, Frame, FrameState, Journal, Next, Nondeterminism, Order, Record, RecordedStep, SHOWN, Scope, Slot,
    Stage, Step, Then, Unread,
};
use crate::{
    id::{ScopeId, Seq},
    output::Recorded,
};

impl Journal {
    /// Enters an entrypoint: the run's own, or a nested one whose body starts.
    pub(crate) fn enter(&mut self, scope: ScopeId, may_be_entered_again: bool) -> Frame {
        let queue = self.loaded_frames.remove(&scope).unwrap_or_default();
        let frame = Frame(u32::try_from(self.frames.len()).expect("a run has fewer than 2^32 entrypoints"));
        let history = may_be_entered_again.then(Vec::new);
        self.frames.push(FrameState {
            scope,
            replaying: queue.len(),
            queue,
            ahead: 0,
            waiting: Vec::new(),
            history,
            abandoned: false,
        });
        frame
    }

    /// Whether the entrypoint still has loaded records to release.
    pub(crate) fn is_replaying(&self, frame: Frame) -> bool {
        self.frames[frame.0 as usize].replaying > 0
    }

    /// The scope of the calls in the body of `slot`: a nested entrypoint's, which is entered.
    pub(crate) fn enter_nested(&mut self, slot: Slot) -> Option<(Frame, Scope)> {
        let call = self.calls.get(slot)?;
        let again = self.is_in_a_body(call.scope);
        let scope = call.body_scope(slot, Order::AtOnce);
        let frame = self.enter(scope.id, again);
        Some((frame, Scope { order: Order::Released(frame), ..scope }))
    }

    /// Whether a scope stands in a task's body, however deep: a nested entrypoint's own scope does not by itself.
    pub(crate) fn is_in_a_body(&self, scope: Scope) -> bool {
        match (scope.order, scope.owner) {
            (Order::AtOnce, _) => true,
            (Order::Released(_), None) => false,
            (Order::Released(_), Some((owner, _))) => {
                self.calls.get(owner).is_some_and(|call| self.is_in_a_body(call.scope))
            }
        }
    }

    /// A record's outcome is durable: it takes its turn. The call to wake, if its outcome is handed on at once.
    pub(crate) fn recorded(&mut self, then: Then) -> Option<Slot> {
        match then {
            Then::Nothing | Then::Opened(_) => None,
            Then::Cancel => {
                self.queue_cancel();
                None
            }
            Then::TryAgain(slot) => {
                self.calls.get_mut(slot)?.stage = Stage::Ready;
                Some(slot)
            }
            Then::Queue(frame, slot, recorded) => {
                let state = &mut self.frames[frame.0 as usize];
                if !state.abandoned {
                    state.queue.push_back(Step::Live { slot, recorded });
                } else if state.history.is_some() {
                    let scope = state.scope;
                    if let Some(step) = self.remember(slot, recorded) {
                        self.loaded_frames.entry(scope).or_default().push_back(step);
                    }
                    self.calls.remove(slot);
                }
                None
            }
            Then::HandOn(slot, recorded) => {
                let call = self.calls.get_mut(slot)?;
                call.in_flight = false;
                call.stage = Stage::Released(recorded.clone());
                let dropped = call.dropped;
                self.remember(slot, recorded);
                if dropped {
                    self.calls.remove(slot);
                    return None;
                }
                Some(slot)
            }
        }
    }

    /// Keeps a live outcome for a later attempt of the body it was made in, as if it had been loaded.
    pub(super) fn remember(&mut self, slot: Slot, recorded: Arc<Recorded>) -> Option<Step> {
        let call = self.calls.get(slot)?;
        let (attempts, asked) = (call.attempts, call.asked);
        if self.failing.remove(&call.id).is_some_and(|failing| failing.reopened) {
            return None;
        }
        let loaded = self.loaded_call(self.info(slot));
        let entry = &mut self.loaded[loaded as usize];
        entry.outcome = Some((recorded, attempts));
        entry.asked |= asked;
        Some(Step::Loaded { loaded, seq: Seq(self.next_seq), step: RecordedStep::Outcome, voided: false })
    }

    /// What the settled entrypoint is given next.
    pub(crate) fn next(&mut self, frame: Frame) -> Next {
        loop {
            let state = &mut self.frames[frame.0 as usize];
            if matches!(state.queue.front(), Some(Step::Cancel)) {
                return Next::Cancel(self.release_cancel(frame));
            }
            if state.replaying == 0 && !state.waiting.is_empty() {
                let ready = self.go_live(frame);
                if !ready.is_empty() {
                    return Next::Live(ready);
                }
                continue;
            }
            let Some(step) = state.queue.front() else { return Next::Nothing };
            match step {
                Step::Cancel => unreachable!("it has its turn above"),
                Step::Live { .. } => {
                    let Some(Step::Live { slot, recorded }) = state.queue.pop_front() else {
                        unreachable!("it is the front")
                    };
                    state.ahead -= 1;
                    if self.release(frame, slot, &recorded, None) {
                        return Next::Release { slot, replayed: false };
                    }
                }
                &Step::Unread { loaded } => {
                    let passed = state.queue.pop_front();
                    state.replaying -= 1;
                    if let (Some(history), Some(step)) = (&mut state.history, passed) {
                        history.push(step);
                    }
                    if let Some(slot) = self.loaded[loaded as usize].holder {
                        return Next::Wake(slot);
                    }
                }
                &Step::Loaded { loaded, seq, step, voided } => {
                    let entry = &self.loaded[loaded as usize];
                    if !voided && !entry.claimed {
                        return Next::Diverged(Box::new(self.diverged(frame, seq, loaded, step, false)));
                    }
                    let passed = state.queue.pop_front();
                    state.replaying -= 1;
                    if let (Some(history), Some(step)) = (&mut state.history, passed) {
                        history.push(step);
                    }
                    let holder = entry.holder;
                    let recorded = entry.outcome.as_ref().map(|(recorded, _)| recorded.clone());
                    if !voided
                        && step == RecordedStep::Outcome
                        && let (Some(slot), Some(recorded)) = (holder, recorded)
                        && self.release(frame, slot, &recorded, Some(loaded))
                    {
                        return Next::Release { slot, replayed: true };
                    }
                }
            }
        }
    }

    /// Hands a call its outcome, unless its future is gone.
    pub(super) fn release(&mut self, frame: Frame, slot: Slot, recorded: &Arc<Recorded>, loaded: Option<u32>) -> bool {
        let again = self.frames[frame.0 as usize].history.is_some();
        if loaded.is_none()
            && again
            && let Some(step) = self.remember(slot, recorded.clone())
        {
            self.frames[frame.0 as usize].history.as_mut().expect("asked above").push(step);
        }
        let Some(call) = self.calls.get_mut(slot) else { return false };
        call.in_flight = false;
        if call.dropped {
            self.calls.remove(slot);
            return false;
        }
        call.stage = Stage::Released(recorded.clone());
        true
    }

    /// Ends an entrypoint's replay if nothing loaded is left; the calls whose bodies may start now.
    pub(super) fn go_live(&mut self, frame: Frame) -> Vec<Slot> {
        let mut ready = std::mem::take(&mut self.frames[frame.0 as usize].waiting);
        ready.retain(|slot| match self.calls.get_mut(*slot) {
            Some(call) if matches!(call.stage, Stage::Waiting) => {
                call.stage = Stage::Ready;
                true
            }
            _ => false,
        });
        ready
    }

    /// Ends an entrypoint: what is left must belong to calls that were made. The calls whose bodies may start now, though
    /// their code is gone.
    pub(crate) fn leave(&mut self, frame: Frame) -> Result<Vec<Slot>, Box<Nondeterminism>> {
        let left = self.frames[frame.0 as usize].queue.iter().find_map(|step| match *step {
            Step::Loaded { loaded, seq, step, voided: false } if !self.loaded[loaded as usize].claimed => {
                Some((seq, loaded, step))
            }
            _ => None,
        });
        match left {
            Some((seq, loaded, step)) => Err(Box::new(self.diverged(frame, seq, loaded, step, true))),
            None => {
                let ready = self.go_live(frame);
                // It may have failed, and be made again by the body that it stands in.
                self.abandon(frame);
                Ok(ready)
            }
        }
    }

    /// Leaves an entrypoint. If the body it stands in may start again, so may it: what it was given becomes its journal.
    pub(crate) fn abandon(&mut self, frame: Frame) {
        let state = &mut self.frames[frame.0 as usize];
        state.abandoned = true;
        let Some(history) = &mut state.history else { return };
        let (scope, mut steps) = (state.scope, std::mem::take(history));
        let rest: Vec<Step> = state.queue.drain(..).collect();
        for step in rest {
            match step {
                Step::Loaded { .. } | Step::Unread { .. } => steps.push(step),
                Step::Live { slot, recorded } => steps.extend(self.remember(slot, recorded)),
                Step::Cancel => {}
            }
        }
        for step in &steps {
            if let Step::Loaded { loaded, .. } = step {
                let entry = &mut self.loaded[*loaded as usize];
                (entry.claimed, entry.holder) = (false, None);
            }
        }
        self.loaded_frames.insert(scope, steps.into());
    }

    pub(super) fn diverged(
        &self,
        frame: Frame,
        seq: Seq,
        loaded: u32,
        step: RecordedStep,
        ended: bool,
    ) -> Nondeterminism {
        let state = &self.frames[frame.0 as usize];
        // Also those that the journal has further on: the order may have changed.
        let early = state.queue.iter().filter_map(|step| match step {
            Step::Loaded { loaded, .. } => self.loaded[*loaded as usize].holder,
            Step::Live { .. } | Step::Unread { .. } | Step::Cancel => None,
        });
        let mut made: Vec<Slot> = state.waiting.iter().copied().chain(early).take(SHOWN).collect();
        made.dedup();
        let calls = made.into_iter().filter_map(|slot| self.calls.get(slot));
        let found = calls.map(|call| CallSketch::from(&call.info(None, Vec::new()))).collect();
        let expected = CallSketch::from(&self.loaded[loaded as usize].info);
        Nondeterminism { seq, expected, step, found, ended }
    }

    /// Notes that a call of an entrypoint was woken and nobody looked.
    pub(crate) fn unread(&mut self, slot: Slot) {
        let Some(Order::Released(frame)) = self.calls.get(slot).map(|call| call.scope.order) else { return };
        let call = self.info(slot);
        let ahead = self.frames[frame.0 as usize].ahead;
        if self.frames[frame.0 as usize].history.is_some() {
            let loaded = self.loaded_call(call.clone());
            self.frames[frame.0 as usize].history.as_mut().expect("asked above").push(Step::Unread { loaded });
        }
        self.append(Record::Unread(Unread { call, ahead }), Then::Nothing, false);
    }
}
