//! What a run does for values that equal calls share: who makes one, who lets others make it, who is given one.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::run::{Run, State};
use crate::{
    CachePolicy,
    cache::Lead,
    environment::Event,
    journal::{Call, Slot},
    output::Recorded,
};

impl Run {
    /// Has the value of a call be shared, if its body is not begun yet.
    pub(crate) fn share(&self, slot: Slot, policy: CachePolicy) {
        let mut state = self.lock();
        if state.journal.call(slot).is_some() {
            state.liveness.of(slot).shared = Some(Box::new(policy));
        }
    }

    /// Takes what was said of how the call's value is shared, where the call is made.
    pub(crate) fn shared(&self, slot: Slot) -> Option<CachePolicy> {
        let mut state = self.lock();
        state.journal.call(slot)?;
        state.liveness.of(slot).shared.take().map(|policy| *policy)
    }

    /// Looks at a claimed call.
    pub(crate) fn with_call<T>(&self, slot: Slot, look: impl FnOnce(&Call) -> T) -> Option<T> {
        self.lock().journal.call(slot).map(look)
    }

    /// Whether the call stands in a task's body.
    pub(crate) fn is_inner(&self, slot: Slot) -> bool {
        let state = self.lock();
        state.journal.call(slot).is_some_and(|call| state.journal.is_in_a_body(call.scope))
    }

    /// The call makes a value that others wait for, as long as its body is live.
    pub(crate) fn leads(&self, slot: Slot, lead: Arc<Lead>) {
        self.lock().liveness.leading.push((slot, lead));
    }

    /// A call is given the value that an equal one left.
    pub(crate) fn finish_cached(self: &Arc<Self>, slot: Slot, recorded: Recorded) {
        self.observe(slot, |call, _| Event::Cached { call }, "");
        self.lock().journal.is_cached(slot);
        self.finish(slot, recorded, 0);
    }

    /// Tells observers that a shared value could not be used or kept, and why.
    pub(crate) fn cache_failed(&self, slot: Slot, reason: &str) {
        self.observe(slot, |call, reason| Event::CacheFailed { call, reason }, reason);
    }

    /// Whether the call is held back since the runtime drains; the waker is told of a drain.
    pub(crate) fn poll_held_back(self: &Arc<Self>, slot: Slot, cx: &mut Context<'_>) -> Poll<()> {
        if self.holds_back(slot, cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl State {
    /// Lets others make the values of bodies that are not live any more, or that nobody reads.
    pub(super) fn give_up_leads(&mut self) {
        if !self.liveness.leading.is_empty() {
            for lead in self.liveness.leads_of_others(&self.journal) {
                lead.give_up();
            }
        }
    }
}
