//! How many task bodies of a run are live at a time, and which calls wait for their turn.
//!
//! Only bodies of calls that stand in no other task's body count: what a body calls is covered by the body's own permit,
//! so that a body never waits for a permit that it holds. A body that waits for the outside, or that nobody reads, is not
//! live and holds none; before it goes on it waits for one like a call that has not begun.

use std::{collections::VecDeque, sync::Arc};

use super::{
    liveness::Liveness,
    run::{Run, State},
};
use crate::journal::{Journal, Order, Slot};

/// A run's permits.
#[derive(Debug, Default)]
pub(super) struct Permits {
    /// How many there are; `None`: as many as are wanted.
    pub(super) limit: Option<u32>,
    /// How many live bodies hold one.
    pub(super) live: u32,
    /// Calls whose turn has come, and that have not been polled since.
    granted: Vec<Slot>,
    /// Calls that wait for a turn, in the order in which they asked.
    waiting: VecDeque<Slot>,
    /// Waits for the outside that are over, in bodies that go on once there is a permit.
    returning: VecDeque<Slot>,
}

impl Permits {
    fn is_free(&self) -> bool {
        let taken = self.live as usize + self.granted.len();
        self.limit.is_none_or(|limit| taken < limit as usize)
    }

    /// Whether the call may take a permit; if not, it waits for its turn. `waits`: whether it does by now.
    fn ask(&mut self, slot: Slot, waits: &mut bool) -> bool {
        if self.limit.is_none() || self.take_back(slot) || (self.waiting.is_empty() && self.is_free()) {
            return true;
        }
        if !std::mem::replace(waits, true) {
            self.waiting.push_back(slot);
        }
        false
    }

    /// The call's turn is over, if it had come; whether it had.
    pub(super) fn take_back(&mut self, slot: Slot) -> bool {
        let place = self.granted.iter().position(|granted| *granted == slot);
        place.map(|place| self.granted.swap_remove(place)).is_some()
    }

    /// Whether a wait in a body is over for it; if not, it is told later.
    fn ask_to_return(&mut self, slot: Slot) -> bool {
        if self.is_free() {
            return true;
        }
        if !self.returning.contains(&slot) {
            self.returning.push_back(slot);
        }
        false
    }
}

/// Whose turn has come.
enum Turn {
    Returns(Slot),
    Starts(Slot),
}

impl Run {
    /// At most so many bodies of the run's tasks are live at a time.
    pub(crate) fn limit_concurrency(&self, limit: Option<u32>) {
        self.lock().liveness.permits.limit = limit;
    }

    /// Gives free permits to calls that wait for them; whether any was given.
    pub(crate) fn grant(self: &Arc<Self>) -> bool {
        let mut granted = false;
        let mut detached = Vec::new();
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            while let Some(turn) = state.next_turn() {
                granted = true;
                match turn {
                    // Whether it looks is seen only later: no other is given a permit until then.
                    Turn::Returns(slot) => {
                        wakers.extend(state.liveness.of(slot).body.take());
                        break;
                    }
                    Turn::Starts(slot) => match state.journal.call(slot).map(|call| (call.dropped, call.scope.order)) {
                        Some((false, Order::Released(frame))) => state.signals[frame.index()].nudge(slot),
                        Some((true, _)) => detached.push(slot),
                        _ => {}
                    },
                }
            }
        }
        self.start_detached(&detached);
        wakers.into_iter().for_each(std::task::Waker::wake);
        granted
    }

    /// Whether the body that this wait stands in may go on, now that the wait is over; told later if not.
    pub(super) fn may_return(state: &mut State, slot: Slot) -> bool {
        let State { journal, liveness, .. } = state;
        liveness.may_return(journal, slot)
    }
}

impl State {
    fn next_turn(&mut self) -> Option<Turn> {
        let Self { journal, liveness, .. } = self;
        let waits = |slot: Slot| journal.call(slot).is_some();
        let permits = &mut liveness.permits;
        permits.granted.retain(|slot| waits(*slot));
        while permits.is_free() {
            if let Some(slot) = permits.returning.pop_front() {
                if waits(slot) {
                    return Some(Turn::Returns(slot));
                }
                continue;
            }
            let slot = permits.waiting.pop_front()?;
            if waits(slot) {
                permits.granted.push(slot);
                liveness.activities[slot.index()].queued = false;
                return Some(Turn::Starts(slot));
            }
        }
        None
    }
}

impl Liveness {
    /// Whether a call whose body is to begin may take a permit; if not, it waits for its turn.
    pub(super) fn ask_for_permit(&mut self, slot: Slot) -> bool {
        let Self { activities, permits, .. } = self;
        permits.ask(slot, &mut activities[slot.index()].queued)
    }

    /// Whether a body that was begun may go on: not before it has a permit again, if it gave its own back.
    pub(super) fn goes_on(&mut self, slot: Slot) -> bool {
        let wants = self.of(slot).wants_a_permit();
        let starved = wants && !self.ask_for_permit(slot);
        self.of(slot).starved = starved;
        !starved
    }

    /// The outermost body that a call stands in holds a permit again when this wait is over.
    fn may_return(&mut self, journal: &Journal, slot: Slot) -> bool {
        if self.permits.limit.is_none() {
            return true;
        }
        let Some(call) = journal.call(slot) else { return true };
        let owners = journal.owners(&call.scope);
        let Some(body) = owners.into_iter().find(|owner| self.of(*owner).limited) else { return true };
        let body = self.of(body);
        // One that waits for something else too is not live then either.
        body.is_live() || body.blocked > 1 || self.permits.ask_to_return(slot)
    }
}
