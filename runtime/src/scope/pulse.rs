//! Signs of life of bodies, and how long they have run: what their timeouts are measured by.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Ambient,
    run::{Run, State},
};
use crate::{
    environment::{CallView, Event},
    id::CallId,
    journal::{CallKind, Scope, Slot},
    value::Arguments,
};

impl Run {
    /// The body that the code stands in, and those around it, are alive.
    pub(crate) fn beat(&self, ambient: &Ambient) {
        let mut state = self.lock();
        if !state.journal.is_current(&ambient.scope) {
            return;
        }
        state.beat_owners(&ambient.scope);
    }

    /// When the call's body last gave a sign of life, if it ever did.
    /// And how long it had waited for the outside by then.
    pub(crate) fn last_beat(&self, slot: Slot) -> Option<(Instant, Duration)> {
        let mut state = self.lock();
        state.journal.call(slot).is_some().then(|| state.liveness.of(slot).beat).flatten()
    }

    /// Whether the attempt of the call's body still is the one that counts.
    pub(crate) fn is_working(&self, slot: Slot, attempt: u32) -> bool {
        let state = self.lock();
        state.stop.is_none() && state.journal.call(slot).is_some_and(|call| call.is_working(attempt))
    }

    /// Whether the call's body is polled by the pool and not where the call is awaited.
    pub(crate) fn is_on_the_pool(&self, slot: Slot) -> bool {
        let mut state = self.lock();
        state.journal.call(slot).is_some() && state.liveness.of(slot).polls.is_some()
    }

    /// What observers are told of a call, to tell them later, when it may be gone; `None` if there are none.
    pub(crate) fn portrait(self: &Arc<Self>, slot: Slot) -> Option<Portrait> {
        if self.environment.observers.is_empty() {
            return None;
        }
        let state = self.lock();
        let call = state.journal.call(slot)?;
        let (id, kind, name, arguments) = (call.id, call.kind, call.name.clone(), call.arguments.clone());
        Some(Portrait { run: self.clone(), id, kind, name, arguments })
    }
}

impl State {
    /// The bodies that this scope stands in are alive.
    pub(super) fn beat_owners(&mut self, scope: &Scope) {
        if scope.owner.is_none() {
            return;
        }
        let now = Instant::now();
        for owner in self.journal.owners(scope) {
            let paused = self.liveness.paused(owner);
            self.liveness.of(owner).beat = Some((now, paused));
        }
    }
}

/// A call, for observers, also when it is gone.
pub(crate) struct Portrait {
    pub(crate) run: Arc<Run>,
    id: CallId,
    kind: CallKind,
    name: std::borrow::Cow<'static, str>,
    arguments: Arguments,
}

impl Portrait {
    /// The body has run for longer than it may, and could not be ended.
    pub(crate) fn overdue(&self, attempt: u32, limit: Duration) {
        self.observe(|call| Event::Overdue { call, attempt, limit });
    }

    /// The body left something that does not count any more.
    pub(crate) fn refused(&self, attempt: u32) {
        self.observe(|call| Event::Refused { call, attempt });
    }

    fn observe<'a>(&'a self, event: impl FnOnce(CallView<'a>) -> Event<'a>) {
        let Self { run, id, kind, name, arguments } = self;
        let call = CallView { run: run.view(), id: *id, kind: *kind, name, arguments };
        run.environment.observe(|| event(call));
    }
}
