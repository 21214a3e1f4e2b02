//! Values that are being made in this process: one call makes each, equal ones that come meanwhile wait for it.
//!
//! Only calls of entrypoints take part. A call in a task's body neither leads nor waits: whoever leads waits for nobody,
//! so that no two can wait for each other.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use super::CacheKey;
use crate::{
    checkpoint::{Checkpointer, Commit, Ticket},
    value::Payload,
};

/// What a value that was being made came to.
#[derive(Clone, Debug)]
pub(crate) enum Landed {
    /// Not yet.
    InTheAir,
    /// This value.
    Value(Payload),
    /// Nothing: whoever made it failed, was dropped, or waits for the outside.
    GivenUp,
}

/// A value that somebody else makes.
pub(crate) type Flight = watch::Receiver<Landed>;

/// What a call for a value does.
pub(crate) enum Turn {
    /// It makes the value.
    Leads(Arc<Lead>),
    /// It waits for the one that does.
    Waits(Flight),
}

/// All values that are being made.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: HashMap<CacheKey, watch::Sender<Landed>>,
    /// Grows with each clearing: what was begun before one is not kept after it.
    cleared: u64,
}

/// The right and the duty to make a value.
pub(crate) struct Lead {
    flights: Arc<Flights>,
    key: CacheKey,
    flight: watch::Sender<Landed>,
}

impl Flights {
    /// Takes a place: the first one leads.
    pub(crate) fn join(self: &Arc<Self>, key: CacheKey) -> Turn {
        let mut state = self.lock();
        if let Some(flight) = state.open.get(&key) {
            return Turn::Waits(flight.subscribe());
        }
        let flight = watch::Sender::new(Landed::InTheAir);
        state.open.insert(key, flight.clone());
        Turn::Leads(Arc::new(Lead { flights: self.clone(), key, flight }))
    }

    /// How many clearings there were.
    pub(crate) fn cleared(&self) -> u64 {
        self.lock().cleared
    }

    /// Commits a value that was begun at this count of clearings; `None` if there was another since.
    pub(crate) fn commit(&self, begun: u64, checkpointer: &Arc<dyn Checkpointer>, commit: Commit) -> Option<Ticket> {
        // Under the lock, so that a clearing comes either before this, or after the commit is queued.
        let state = self.lock();
        (state.cleared == begun).then(|| checkpointer.commit(commit))
    }

    /// Has what is made now be kept by nobody, and new calls not wait for it.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.cleared += 1;
        state.open.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// The value is there.
    pub(crate) fn land(&self, value: &Payload) {
        self.end(Landed::Value(value.clone()));
    }

    /// The value does not come from here, or not soon; one of those that wait makes it.
    pub(crate) fn give_up(&self) {
        self.end(Landed::GivenUp);
    }

    /// The first end counts.
    fn end(&self, how: Landed) {
        {
            let mut state = self.flights.lock();
            if state.open.get(&self.key).is_some_and(|open| open.same_channel(&self.flight)) {
                state.open.remove(&self.key);
            }
        }
        self.flight.send_if_modified(|landed| {
            let first = matches!(landed, Landed::InTheAir);
            if first {
                *landed = how;
            }
            first
        });
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("key", &self.key).finish_non_exhaustive()
    }
}
