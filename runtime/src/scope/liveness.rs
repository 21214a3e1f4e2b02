//! Which of a run's calls are alive, who is to be woken for them, and what waits for the outside.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use tokio::time::Instant;

use super::{InnerSignal, Polls, permits::Permits};
use crate::{
    CachePolicy,
    cache::Lead,
    environment::AnswerCheck,
    id::CallId,
    journal::{Asked, Doubted, Journal, Slot},
};

/// What a call waits for outside of the process.
#[derive(Clone, Debug)]
pub(super) enum Waits {
    /// An answer to this question, which today's code checks so.
    Answer(Arc<Asked>, AnswerCheck),
    /// Somebody who says what became of its body; its value is checked so.
    Settlement(Arc<Doubted>, AnswerCheck),
    /// This moment, in milliseconds since 1970.
    Until(u64),
}

/// What is known of a run's calls beside its journal.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub(super) activities: Vec<Activity>,
    /// The places of the bodies that are alive: begun, read by somebody, and not waiting for the outside.
    live: BTreeSet<usize>,
    /// Calls that were found to be read by nobody; some of them may be read again since.
    unread: Vec<Slot>,
    /// Calls that wait for the outside, in the order in which they began to.
    waits: BTreeMap<u64, (Slot, Waits)>,
    next_wait: u64,
    /// Which calls wait for answers, by their questions.
    asking: HashMap<CallId, Slot>,
    /// How many bodies may be live at a time.
    pub(super) permits: Permits,
    /// Calls that make a value which others wait for.
    pub(super) leading: Vec<(Slot, Arc<Lead>)>,
}

/// What is known of a call beside the journal.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of one another")]
pub(super) struct Activity {
    /// The call.
    slot: Option<Slot>,
    /// The polls of its body, if that is on the pool, where it goes on whoever reads the call.
    pub(super) polls: Option<Arc<Polls>>,
    /// Whether its body is read, if that is polled in place within another body.
    pub(super) inner: Option<Arc<InnerSignal>>,
    /// Of the code that awaits the call.
    pub(super) waker: Option<Waker>,
    /// Of the body, while it waits for us.
    pub(super) body: Option<Waker>,
    /// Whether the body waits until its question is open.
    pub(super) waits_to_open: bool,
    /// Whether it was told that there is something new beside its question.
    pub(super) told: bool,
    /// Whether it has a body that was begun and has not ended.
    pub(super) begun: bool,
    /// It was woken, and not polled since.
    nudged: bool,
    /// It was woken once, and the code settled without polling it: a stream that is not being read.
    unread: bool,
    /// What it waits for, in the order of waits.
    wait: Option<u64>,
    /// How many waits for the outside there are in or beneath its body.
    pub(super) blocked: u32,
    /// How long it was blocked in all, and since when it is.
    paused: Duration,
    paused_since: Option<Instant>,
    /// Whether it is counted as live.
    counted: bool,
    /// Whether its body takes a permit while it is live.
    pub(super) limited: bool,
    /// Whether it was begun, and waits for a permit to go on.
    pub(super) starved: bool,
    /// Whether it waits for its turn to be given a permit.
    pub(super) queued: bool,
    /// When it last gave a sign of life, and how long it had waited for the outside by then.
    pub(super) beat: Option<(Instant, Duration)>,
    /// How its value is shared, if that was said where it is made.
    pub(super) shared: Option<Box<CachePolicy>>,
}

impl Activity {
    pub(super) fn is_live(&self) -> bool {
        self.begun && self.blocked == 0 && !self.unread && !self.starved
    }

    /// Whether its body takes a permit, was begun, and gave it back.
    pub(super) fn wants_a_permit(&self) -> bool {
        self.limited && self.begun && self.blocked == 0 && !self.counted
    }
}

impl Liveness {
    /// A call was claimed at this place.
    pub(super) fn claimed(&mut self, slot: Slot) {
        let index = slot.index();
        if self.activities.len() <= index {
            self.activities.resize_with(index + 1, Activity::default);
        }
        self.activities[index] = Activity { slot: Some(slot), ..Activity::default() };
        self.live.remove(&index);
    }

    /// What is known of a claimed call.
    pub(super) fn of(&mut self, slot: Slot) -> &mut Activity {
        &mut self.activities[slot.index()]
    }

    /// Whether any body is alive, but for those within calls that nobody reads: they are polled by nobody either.
    pub(super) fn is_alive(&mut self, journal: &Journal) -> bool {
        let Self { activities, unread, .. } = self;
        let is_unread = |slot: &Slot| activities[slot.index()].unread;
        unread.retain(|slot| journal.call(*slot).is_some() && is_unread(slot));
        // Where nothing waits for the outside nobody could bring the run to go on: it is not looked at so closely.
        let all_count = self.unread.is_empty() && self.waits.is_empty();
        let is_polled = |place: &usize| self.is_polled(journal, &self.activities[*place]);
        !self.live.is_empty() && (all_count || self.live.iter().any(is_polled))
    }

    /// How many bodies that take a permit are alive, but for those within calls that nobody reads.
    pub(super) fn limited_and_live(&self, journal: &Journal) -> usize {
        let live = self.live.iter().map(|place| &self.activities[*place]);
        live.filter(|of| of.limited && self.is_polled(journal, of)).count()
    }

    /// Whether the body is alive, and everything around it is read.
    fn is_polled(&self, journal: &Journal, activity: &Activity) -> bool {
        activity.counted && self.is_read(journal, activity)
    }

    /// Whether the call waits where its body and everything around it are read, as far as is known.
    pub(super) fn would_look(&self, journal: &Journal, slot: Slot) -> bool {
        self.is_read(journal, &self.activities[slot.index()])
    }

    fn is_read(&self, journal: &Journal, activity: &Activity) -> bool {
        let (mut activity, mut next) = (activity, activity.slot);
        while let Some(call) = next.and_then(|slot| journal.call(slot)) {
            if activity.unread || activity.inner.as_ref().is_some_and(|inner| inner.is_unread()) {
                return false;
            }
            let Some((owner, _)) = call.scope.owner.filter(|_| activity.polls.is_none()) else { return true };
            (activity, next) = (&self.activities[owner.index()], Some(owner));
        }
        // What it stands in is gone: it is a body on the pool that is about to end.
        true
    }

    /// Its future is polled, with this waker.
    pub(super) fn polled(&mut self, slot: Slot, waker: &Waker) -> &mut Activity {
        let activity = self.of(slot);
        (activity.nudged, activity.unread) = (false, false);
        if !activity.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            activity.waker = Some(waker.clone());
        }
        activity
    }

    /// What wakes the code that awaits the call, so that it polls the body; added to `nudged`, to see whether it does.
    pub(super) fn nudge(&mut self, slot: Slot, nudged: &mut Vec<Slot>) -> Option<Waker> {
        let activity = self.of(slot);
        let waker = activity.waker.clone()?;
        activity.nudged = true;
        nudged.push(slot);
        Some(waker)
    }

    /// The code settled: whether the call was nudged and not polled, so that nobody reads it.
    pub(super) fn settled(&mut self, slot: Slot) -> bool {
        let activity = self.of(slot);
        let missed = std::mem::take(&mut activity.nudged);
        if missed {
            self.permits.take_back(slot);
        }
        let activity = self.of(slot);
        if missed && !std::mem::replace(&mut activity.unread, true) {
            self.unread.push(slot);
            self.recount(slot);
        }
        missed
    }

    /// Counts a call as live or not, after something of it changed.
    pub(super) fn recount(&mut self, slot: Slot) {
        let activity = &mut self.activities[slot.index()];
        let live = activity.is_live();
        if live != activity.counted {
            activity.counted = live;
            if live {
                self.live.insert(slot.index());
            } else {
                self.live.remove(&slot.index());
            }
        }
    }

    /// The call waits for the outside: neither its body nor those around it are alive.
    pub(super) fn begin_wait(&mut self, journal: &Journal, slot: Slot, waits: Waits) {
        let activity = &mut self.activities[slot.index()];
        if activity.wait.is_some() {
            return;
        }
        activity.wait = Some(self.next_wait);
        if let (Waits::Answer(..) | Waits::Settlement(..), Some(call)) = (&waits, journal.call(slot)) {
            self.asking.insert(call.id, slot);
        }
        self.waits.insert(self.next_wait, (slot, waits));
        self.next_wait += 1;
        self.shift_blocked(journal, slot, true);
    }

    /// The call does not wait any more, and its body goes on.
    pub(super) fn end_wait(&mut self, journal: &Journal, slot: Slot) {
        if journal.call(slot).is_some()
            && let Some(place) = self.activities[slot.index()].wait.take()
        {
            self.waits.remove(&place);
            self.shift_blocked(journal, slot, false);
        }
    }

    /// The call's body is over, or gone.
    pub(super) fn end(&mut self, journal: &Journal, slot: Slot) {
        let Some(call) = journal.call(slot) else { return };
        if self.asking.get(&call.id) == Some(&slot) {
            self.asking.remove(&call.id);
        }
        self.permits.take_back(slot);
        if let Some(place) = self.leading.iter().position(|(leading, _)| *leading == slot) {
            self.leading.swap_remove(place).1.give_up();
        }
        let activity = &mut self.activities[slot.index()];
        activity.begun = false;
        if let Some(place) = activity.wait.take() {
            self.waits.remove(&place);
            self.shift_blocked(journal, slot, false);
        }
        self.recount(slot);
    }

    /// Counts a wait in or out for the body it stands in, and all bodies around that.
    fn shift_blocked(&mut self, journal: &Journal, slot: Slot, began: bool) {
        let mut next = Some(slot);
        while let Some(slot) = next {
            let Some(call) = journal.call(slot) else { return };
            next = call.scope.owner.map(|(owner, _)| owner);
            let activity = &mut self.activities[slot.index()];
            activity.blocked = if began { activity.blocked + 1 } else { activity.blocked.saturating_sub(1) };
            match (activity.blocked, activity.paused_since) {
                (0, Some(since)) => {
                    activity.paused += since.elapsed();
                    activity.paused_since = None;
                }
                (1.., None) => activity.paused_since = Some(Instant::now()),
                (0, None) | (1.., Some(_)) => {}
            }
            self.recount(slot);
        }
    }

    /// Takes out what is made by bodies that are not live, or that nobody reads.
    pub(super) fn leads_of_others(&mut self, journal: &Journal) -> Vec<Arc<Lead>> {
        let leading = std::mem::take(&mut self.leading);
        let lives =
            |slot: &Slot| journal.call(*slot).is_some() && self.is_polled(journal, &self.activities[slot.index()]);
        let (kept, others): (Vec<_>, Vec<_>) = leading.into_iter().partition(|(slot, _)| lives(slot));
        self.leading = kept;
        others.into_iter().map(|(_, lead)| lead).collect()
    }

    /// Whatever bodies wait for us with.
    pub(super) fn body_wakers(&mut self) -> Vec<Waker> {
        self.activities.iter_mut().filter_map(|activity| activity.body.take()).collect()
    }

    /// Whether the call has a body that was begun and has not ended.
    pub(super) fn is_begun(&self, slot: Slot) -> bool {
        self.activities[slot.index()].begun
    }

    /// Whether the call waits for an answer.
    pub(super) fn asks(&self, slot: Slot) -> bool {
        let wait = self.activities[slot.index()].wait;
        wait.and_then(|place| self.waits.get(&place)).is_some_and(|(_, waits)| !matches!(waits, Waits::Until(_)))
    }

    /// The call that waits for an answer to this question, and how today's code checks one.
    pub(super) fn asking(&self, question: CallId) -> Option<(Slot, AnswerCheck)> {
        let slot = *self.asking.get(&question)?;
        match self.waits.get(&self.activities[slot.index()].wait?)? {
            (_, Waits::Answer(_, check) | Waits::Settlement(_, check)) => Some((slot, *check)),
            (_, Waits::Until(_)) => None,
        }
    }

    /// The call that has opened this question and has not ended, whether it waits now or not.
    pub(super) fn asks_at(&self, question: CallId) -> Option<Slot> {
        self.asking.get(&question).copied()
    }

    /// How long its body has waited for the outside, all in all.
    pub(super) fn paused(&self, slot: Slot) -> Duration {
        let activity = &self.activities[slot.index()];
        activity.paused + activity.paused_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// What is waited for, in the order in which the waits began.
    pub(super) fn waits(&self) -> impl Iterator<Item = &(Slot, Waits)> {
        self.waits.values()
    }
}
