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
    /// Calls whose turn has come, and that have not been polled since.
    granted: Vec<Slot>,
    /// Calls that wait for a turn, in the order in which they asked.
    waiting: VecDeque<Slot>,
    /// Waits for the outside that are over, in bodies that go on once there is a permit.
    returning: VecDeque<Slot>,
}

impl Permits {
    /// The call's turn is over, if it had come; whether it had.
    pub(super) fn take_back(&mut self, slot: Slot) -> bool {
        let place = self.granted.iter().position(|granted| *granted == slot);
        place.map(|place| self.granted.swap_remove(place)).is_some()
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
        liveness.withdraw(journal);
        while liveness.has_free_permit(journal) {
            if let Some(slot) = liveness.permits.returning.pop_front() {
                if journal.call(slot).is_some() {
                    return Some(Turn::Returns(slot));
                }
                continue;
            }
            let slot = liveness.next_to_start(journal)?;
            liveness.permits.granted.push(slot);
            return Some(Turn::Starts(slot));
        }
        None
    }
}

impl Liveness {
    fn has_free_permit(&self, journal: &Journal) -> bool {
        let Some(limit) = self.permits.limit else { return true };
        let taken = self.limited_and_live(journal) + self.permits.granted.len();
        taken < limit as usize
    }

    /// Whether a call whose body is to begin may take a permit; if not, it waits for its turn.
    pub(super) fn ask_for_permit(&mut self, journal: &Journal, slot: Slot) -> bool {
        if self.permits.limit.is_none() || self.permits.take_back(slot) {
            return true;
        }
        if self.permits.waiting.is_empty() && self.has_free_permit(journal) {
            return true;
        }
        if !std::mem::replace(&mut self.of(slot).queued, true) {
            self.permits.waiting.push_back(slot);
        }
        false
    }

    /// Takes back the permits of calls that are gone, or that stand where nobody reads since: these wait on.
    fn withdraw(&mut self, journal: &Journal) {
        for slot in std::mem::take(&mut self.permits.granted) {
            if journal.call(slot).is_none() {
                continue;
            }
            if self.would_look(journal, slot) {
                self.permits.granted.push(slot);
            } else {
                self.permits.waiting.push_front(slot);
                self.of(slot).queued = true;
            }
        }
    }

    /// The call whose turn is next: the first one that somebody reads.
    fn next_to_start(&mut self, journal: &Journal) -> Option<Slot> {
        let mut place = 0;
        loop {
            let slot = *self.permits.waiting.get(place)?;
            if journal.call(slot).is_none() {
                self.permits.waiting.remove(place);
            } else if self.would_look(journal, slot) {
                self.permits.waiting.remove(place);
                self.of(slot).queued = false;
                return Some(slot);
            } else {
                place += 1;
            }
        }
    }

    /// Whether a body that was begun may go on: not before it has a permit again, if it gave its own back.
    pub(super) fn goes_on(&mut self, journal: &Journal, slot: Slot) -> bool {
        let wants = self.of(slot).wants_a_permit();
        let starved = wants && !self.ask_for_permit(journal, slot);
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
        if body.is_live() || body.blocked > 1 || self.has_free_permit(journal) {
            return true;
        }
        if !self.permits.returning.contains(&slot) {
            self.permits.returning.push_back(slot);
        }
        false
    }
}
