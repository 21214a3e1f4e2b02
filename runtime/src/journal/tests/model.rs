//! What the state machine is to answer, said simply: lists that are searched, one for each thing that is known.

use super::*;

/// What a run's journal is, as far as an entrypoint with branches and tasks with tasks in them can tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// Equal calls that were made in a scope, by what is equal.
    ordinals: HashMap<(ScopeId, &'static str, u8), u32>,
    /// What is on record of each call that ended.
    outcomes: HashMap<CallId, Recorded>,
    /// How many attempts are on record of each call.
    attempts: HashMap<CallId, u32>,
    /// The order of the run's own entrypoint: first what was loaded, then what is recorded in this process.
    order: VecDeque<Entry>,
    claimed: HashSet<CallId>,
    /// Calls whose futures are alive, or whose bodies go on.
    pub(super) calls: Vec<Known>,
    /// Failures that code has taken, with no call made in the scope since.
    taken: Vec<(ScopeId, CallId)>,
    /// Failures that code has not taken.
    untaken: Vec<(ScopeId, CallId)>,
    /// Opened again while on their way to the store.
    reopened: Vec<CallId>,
}

#[derive(Clone, Debug)]
struct Entry {
    call: CallId,
    /// Its place in the journal, if it was loaded.
    seq: Option<Seq>,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Outcome(Recorded),
    Attempt,
    Wait,
    /// An outcome that was taken back.
    Voided,
    Unread,
}

/// A call that is made.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) slot: Slot,
    pub(super) id: CallId,
    pub(super) scope: Scope,
    pub(super) stage: State,
    /// Whether its future is gone, its body or its outcome not.
    pub(super) dropped: bool,
    /// Its body's outcome, while that is on its way to its turn.
    pub(super) in_flight: bool,
    pub(super) attempts: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    Waiting,
    Ready,
    Working,
    Finished,
    Released(Recorded),
    Taken,
}

/// What an entrypoint is given next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Release(CallId, bool),
    Wake(CallId),
    Live(Vec<CallId>),
    Diverged(Seq),
    Nothing,
}

pub(super) fn inner(id: CallId) -> ScopeId {
    call::body_scope_id(id)
}

impl Model {
    pub(super) fn load(records: &[(Seq, Record)]) -> Self {
        let mut model = Self::default();
        for (seq, record) in records {
            match record {
                Record::Outcome(Outcome { call, recorded, .. }) => {
                    model.outcomes.insert(call.id, (**recorded).clone());
                    if matches!(**recorded, Recorded::Failure(_)) {
                        model.untaken.push((call.scope, call.id));
                    } else {
                        model.forget(inner(call.id));
                    }
                    model.note(call, *seq, What::Outcome((**recorded).clone()));
                }
                Record::Attempt(Attempt { call, number, reopened, .. }) => {
                    model.attempts.insert(call.id, *number);
                    model.note(call, *seq, What::Attempt);
                    model.void(reopened);
                }
                Record::Wait(Wait { call, .. }) => model.note(call, *seq, What::Wait),
                Record::Unread(Unread { call, ahead }) => {
                    let outcomes: Vec<usize> = model.places_of_outcomes();
                    let entry = Entry { call: call.id, seq: Some(*seq), what: What::Unread };
                    match *ahead as usize {
                        0 => model.order.push_back(entry),
                        ahead => model.order.insert(outcomes[outcomes.len() - ahead], entry),
                    }
                }
                Record::Resume(Resume { reopened, .. }) | Record::Again(Again { reopened, .. }) => model.void(reopened),
                Record::Begin(_)
                | Record::Start(_)
                | Record::Emitted(_)
                | Record::End(_)
                | Record::Update(_)
                | Record::Cancel(_) => {}
            }
        }
        model
    }

    fn places_of_outcomes(&self) -> Vec<usize> {
        let is_outcome = |(_, entry): &(usize, &Entry)| matches!(entry.what, What::Outcome(_) | What::Voided);
        self.order.iter().enumerate().filter(is_outcome).map(|(place, _)| place).collect()
    }

    fn note(&mut self, call: &CallInfo, seq: Seq, what: What) {
        if call.frame.is_some() {
            self.order.push_back(Entry { call: call.id, seq: Some(seq), what });
        }
    }

    fn void(&mut self, calls: &[CallId]) {
        for call in calls {
            self.outcomes.remove(call);
            self.attempts.remove(call);
            self.untaken.retain(|(_, other)| other != call);
            self.order.retain(|entry| entry.call != *call || entry.what != What::Attempt);
            for entry in self.order.iter_mut().filter(|entry| entry.call == *call && entry.seq.is_some()) {
                if matches!(entry.what, What::Outcome(_)) {
                    entry.what = What::Voided;
                }
            }
        }
    }

    /// What is known of a scope whose calls are covered, or made anew.
    fn forget(&mut self, scope: ScopeId) -> Vec<CallId> {
        let (gone, taken) = std::mem::take(&mut self.taken).into_iter().partition(|(other, _)| *other == scope);
        let (gone_too, untaken) = std::mem::take(&mut self.untaken).into_iter().partition(|(other, _)| *other == scope);
        (self.taken, self.untaken) = (taken, untaken);
        self.ordinals.retain(|(other, ..), _| *other != scope);
        let gone: Vec<(ScopeId, CallId)> = gone;
        let gone_too: Vec<(ScopeId, CallId)> = gone_too;
        gone.into_iter().chain(gone_too).map(|(_, id)| id).collect()
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.order.iter().any(|entry| entry.seq.is_some())
    }

    pub(super) fn at(&mut self, slot: Slot) -> &mut Known {
        self.calls.iter_mut().find(|call| call.slot == slot).expect("the bench knows it")
    }

    /// The identity that a call gets.
    pub(super) fn identity(&mut self, scope: &Scope, name: &'static str, argument: u8) -> CallId {
        let ordinal = self.ordinals.entry((scope.id, name, argument)).or_default();
        let id = CallId {
            base: call::base(call::family(scope.id, CallKind::Task, name), &task(name, argument).arguments.digest()),
            ordinal: *ordinal,
        };
        *ordinal += 1;
        id
    }

    pub(super) fn claim(&mut self, slot: Slot, id: CallId, scope: Scope) {
        let passed: Vec<CallId> =
            self.taken.iter().filter(|(other, _)| *other == scope.id).map(|(_, id)| *id).collect();
        self.taken.retain(|(other, _)| *other != scope.id);
        for passed in passed {
            self.forget(inner(passed));
        }
        self.claimed.insert(id);
        let recorded = self.outcomes.get(&id).cloned();
        if matches!(recorded, Some(Recorded::Failure(_))) && !self.untaken.contains(&(scope.id, id)) {
            self.untaken.push((scope.id, id));
        }
        let stage = match (scope.order, recorded) {
            (Order::AtOnce, Some(recorded)) => State::Released(recorded),
            (Order::Released(_), Some(_)) => State::Waiting,
            (Order::Released(_), None) if self.is_replaying() => State::Waiting,
            (_, None) => State::Ready,
        };
        let attempts = self.attempts.get(&id).copied().unwrap_or_default();
        self.calls.push(Known { slot, id, scope, stage, dropped: false, in_flight: false, attempts });
    }

    pub(super) fn start(&mut self, slot: Slot) {
        let call = self.at(slot);
        call.stage = State::Working;
        call.attempts += 1;
        let scope = inner(call.id);
        self.taken.retain(|(other, _)| *other != scope);
        self.ordinals.retain(|(other, ..), _| *other != scope);
    }

    /// Whether it counts: not if it was made in an attempt that is over.
    pub(super) fn finish(&mut self, slot: Slot, recorded: &Recorded) -> bool {
        if let Some((owner, attempt)) = self.at(slot).scope.owner
            && !self
                .calls
                .iter()
                .any(|call| call.slot == owner && call.attempts == attempt && call.stage == State::Working)
        {
            self.calls.retain(|call| call.slot != slot);
            return false;
        }
        let call = self.at(slot);
        (call.stage, call.in_flight) = (State::Finished, true);
        let (id, scope) = (call.id, call.scope.id);
        match recorded {
            Recorded::Failure(_) => self.untaken.push((scope, id)),
            Recorded::Value(_) => drop(self.forget(inner(id))),
        }
        true
    }

    pub(super) fn attempt_failed(&mut self, slot: Slot) -> Vec<CallId> {
        let call = self.at(slot);
        call.stage = State::Finished;
        let id = call.id;
        let mut open = self.forget(inner(id));
        let on_the_way = open.iter().copied().filter(|id| !self.outcomes.contains_key(id));
        self.reopened.extend(on_the_way);
        self.void(&open);
        open.sort_unstable();
        open.dedup();
        open
    }

    /// An outcome is durable.
    pub(super) fn durable(&mut self, slot: Slot, recorded: &Recorded) {
        let Some(place) = self.calls.iter().position(|call| call.slot == slot) else { return };
        let Known { id, scope, dropped, .. } = self.calls[place].clone();
        if let Order::Released(_) = scope.order {
            self.order.push_back(Entry { call: id, seq: None, what: What::Outcome(recorded.clone()) });
            return;
        }
        let reopened = self.reopened.len();
        self.reopened.retain(|other| *other != id);
        if reopened == self.reopened.len() {
            self.outcomes.insert(id, recorded.clone());
        }
        if dropped {
            self.calls.remove(place);
        } else {
            (self.calls[place].stage, self.calls[place].in_flight) = (State::Released(recorded.clone()), false);
        }
    }

    pub(super) fn next(&mut self) -> Given {
        loop {
            let waits = |call: &&mut Known| {
                call.stage == State::Waiting
                    && !self.outcomes.contains_key(&call.id)
                    && call.scope.order != Order::AtOnce
            };
            if !self.order.iter().any(|entry| entry.seq.is_some()) {
                let mut ready = Vec::new();
                for call in self.calls.iter_mut().filter(waits) {
                    call.stage = State::Ready;
                    ready.push(call.id);
                }
                if !ready.is_empty() {
                    return Given::Live(ready);
                }
            }
            let Some(entry) = self.order.front().cloned() else { return Given::Nothing };
            let binding = matches!(entry.what, What::Outcome(_) | What::Attempt | What::Wait);
            if let (Some(seq), true) = (entry.seq, binding)
                && !self.claimed.contains(&entry.call)
            {
                return Given::Diverged(seq);
            }
            self.order.pop_front();
            let Some(call) = self.calls.iter_mut().find(|call| call.id == entry.call) else { continue };
            let dropped = call.dropped;
            match entry.what {
                What::Attempt | What::Wait | What::Voided => {}
                What::Unread if dropped => {}
                What::Unread => return Given::Wake(entry.call),
                What::Outcome(_) if dropped => self.calls.retain(|call| call.id != entry.call),
                What::Outcome(recorded) => {
                    call.in_flight = false;
                    call.stage = State::Released(recorded);
                    return Given::Release(entry.call, entry.seq.is_some());
                }
            }
        }
    }

    pub(super) fn take(&mut self, slot: Slot) {
        let call = self.at(slot);
        if let State::Released(recorded) = std::mem::replace(&mut call.stage, State::Taken)
            && matches!(recorded, Recorded::Failure(_))
        {
            let place = (call.scope.id, call.id);
            self.untaken.retain(|other| *other != place);
            self.taken.push(place);
        }
    }

    pub(super) fn drop_call(&mut self, slot: Slot, detached: bool) {
        self.at(slot).dropped = true;
        if !self.at(slot).in_flight && !detached {
            self.calls.retain(|call| call.slot != slot);
        }
    }

    pub(super) fn leave_branch(&mut self, parent: &Scope, branch: &Scope) {
        for (scope, _) in self.taken.iter_mut().filter(|(scope, _)| *scope == branch.id) {
            *scope = parent.id;
        }
    }

    pub(super) fn open(&self) -> Vec<CallId> {
        let mut open: Vec<CallId> = self.taken.iter().chain(&self.untaken).map(|(_, id)| *id).collect();
        open.sort_unstable();
        open.dedup();
        open
    }

    /// The first record whose call was not made.
    pub(super) fn left(&self) -> Option<Seq> {
        let left = self.order.iter().find(|entry| {
            matches!(entry.what, What::Outcome(_) | What::Attempt | What::Wait)
                && entry.seq.is_some()
                && !self.claimed.contains(&entry.call)
        });
        left.and_then(|entry| entry.seq)
    }

    /// Calls on record that were not made yet, to be made.
    pub(super) fn unclaimed(&self) -> Vec<CallId> {
        self.order.iter().map(|entry| entry.call).filter(|call| !self.claimed.contains(call)).collect()
    }
}
