//! What a run waits for outside of the process: answers and moments. And when it waits for nothing else.

use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    liveness::Waits,
    run::{Run, State},
};
use crate::{
    ValueError,
    id::CallId,
    journal::{Call, Slot, Waited},
    value::Payload,
};

/// What a run waits for when nothing in it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// Something is still going on.
    Not,
    /// Answers; or the end of the nearest sleep beside them, if there is one, in milliseconds since 1970.
    Questions(Option<u64>),
    /// This moment, in milliseconds since 1970.
    Until(u64),
    /// The end of the drain.
    Drained,
    /// Nothing that could ever come.
    Stalled,
}

impl Run {
    /// Opens the call's question, unless an earlier drive did.
    pub(crate) fn open_question(self: &Arc<Self>, slot: Slot, payload: Payload, expects: &str) {
        {
            let mut state = self.lock();
            if state.journal.call(slot).is_none() {
                return;
            }
            if state.journal.loaded_wait(slot).is_none() {
                let now = self.environment.now_ms();
                let what = Waited::Answer { payload: payload.clone(), expects: expects.to_owned() };
                state.journal.wait(slot, what, now);
            }
            state.begin_wait(slot, Waits::Answer(payload));
        }
        self.nudge();
    }

    /// Sets the call's timer, unless an earlier drive did; when it is due.
    pub(crate) fn set_timer(self: &Arc<Self>, slot: Slot, pause: Duration) -> u64 {
        let now = self.environment.now_ms();
        let due = {
            let mut state = self.lock();
            if let Some(Waited::Until { due_ms }) = state.journal.loaded_wait(slot) {
                *due_ms
            } else {
                let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                // Rounded up: a sleep is never shorter than asked for.
                let due_ms = now.saturating_add(pause).saturating_add(1);
                state.journal.wait(slot, Waited::Until { due_ms }, now);
                due_ms
            }
        };
        let left = Duration::from_millis(due.saturating_sub(now));
        // One that is over parks in no case: nothing would ever wake it.
        if !left.is_zero() && left >= self.environment.park_after {
            self.lock().begin_wait(slot, Waits::Until(due));
        }
        self.nudge();
        due
    }

    /// The answer to the call's question, once there is one.
    pub(crate) fn poll_answer(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<Payload> {
        let mut state = self.lock();
        let Some(id) = state.journal.call(slot).map(|call| call.id) else { return Poll::Pending };
        if state.answers.contains_key(&id)
            && Self::may_return(&mut state, slot)
            && let Some(answer) = state.answers.remove(&id)
        {
            return Poll::Ready(answer);
        }
        state.liveness.of(slot).body = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits, after a wait for the outside is over, until the body that it stands in may go on.
    pub(crate) fn poll_return(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.journal.call(slot).is_none() {
            return Poll::Pending;
        }
        if Self::may_return(&mut state, slot) {
            return Poll::Ready(());
        }
        state.liveness.of(slot).body = Some(cx.waker().clone());
        Poll::Pending
    }

    /// How long the call's body has waited for the outside, all in all: its timeout stands still meanwhile.
    pub(crate) fn paused(&self, slot: Slot) -> Duration {
        let state = self.lock();
        if state.journal.call(slot).is_some() { state.liveness.paused(slot) } else { Duration::ZERO }
    }

    /// Refuses an answer that is not of the type that the code wants; the question stays open.
    pub(crate) fn refuse_answer(self: &Arc<Self>, slot: Slot, error: &ValueError) {
        let now = self.environment.now_ms();
        let reason = error.of_an_answer();
        {
            let mut state = self.lock();
            if let Some(id) = state.journal.call(slot).map(|call| call.id) {
                state.refused.insert(id, reason.clone());
            }
            state.journal.wait(slot, Waited::Refused { reason }, now);
        }
        self.nudge();
    }

    /// Takes over what earlier drives refused.
    pub(crate) fn remember_refusals(&self, refused: HashMap<CallId, String>) {
        self.lock().refused = refused;
    }

    /// An answer has arrived while the run is driven.
    pub(crate) fn deliver(self: &Arc<Self>, question: CallId, answer: Payload) {
        let waker = {
            let mut state = self.lock();
            let State { answers, journal, liveness, .. } = &mut *state;
            answers.insert(question, answer);
            let slot = liveness
                .waits()
                .find_map(|(slot, _)| journal.call(*slot).is_some_and(|call| call.id == question).then_some(*slot));
            slot.and_then(|slot| liveness.of(slot).body.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether any call waits for the outside.
    pub(super) fn waits_outside(&self) -> bool {
        self.lock().liveness.waits().next().is_some()
    }

    /// What the run waits for, once its entrypoint has settled.
    pub(crate) fn quiet(&self) -> Quiet {
        let mut state = self.lock();
        if state.is_alive() || state.journal.has_appended() || state.outbox.holds_back(self.mode) {
            return Quiet::Not;
        }
        let mut until = None;
        let mut asks = false;
        for (slot, waits) in state.liveness.waits() {
            if state.journal.call(*slot).is_some_and(|call| state.journal.is_orphaned(&call.scope)) {
                // The body on the pool that asked is being ended: its question goes with it, and is withdrawn.
                return Quiet::Not;
            }
            match waits {
                Waits::Until(due) => until = Some(until.map_or(*due, |until: u64| until.min(*due))),
                Waits::Answer(_) => {
                    asks = true;
                    let is_answered = |call: &Call| state.answers.contains_key(&call.id);
                    if state.journal.call(*slot).is_some_and(is_answered)
                        && state.liveness.would_look(&state.journal, *slot)
                    {
                        return Quiet::Not;
                    }
                }
            }
        }
        if asks {
            return Quiet::Questions(until);
        }
        match until {
            _ if state.held_back => Quiet::Drained,
            Some(due) => Quiet::Until(due),
            None => Quiet::Stalled,
        }
    }

    /// The open questions, in the order in which they were asked: id, key, payload, and why the newest answer was refused.
    pub(crate) fn questions(&self) -> Vec<(CallId, String, Payload, Option<String>)> {
        let state = self.lock();
        let asked = state.liveness.waits().filter_map(|(slot, waits)| match waits {
            Waits::Answer(payload) => {
                let call = state.journal.call(*slot)?;
                let refused = state.refused.get(&call.id).cloned();
                Some((call.id, call.name.clone().into_owned(), payload.clone(), refused))
            }
            Waits::Until(_) => None,
        });
        asked.collect()
    }
}

impl State {
    fn is_alive(&mut self) -> bool {
        self.liveness.is_alive(&self.journal)
    }

    fn begin_wait(&mut self, slot: Slot, waits: Waits) {
        self.liveness.begin_wait(&self.journal, slot, waits);
        self.give_up_leads();
    }
}
