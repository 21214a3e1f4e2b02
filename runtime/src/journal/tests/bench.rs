//! Random uses of a journal beside the model: process after process, each going on from what was recorded before.

use super::{
    model::{Given, Known, Model, State, inner},
    *,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

type Looks = HashMap<CallId, (ScopeId, &'static str, u8)>;

struct Bench<'d> {
    dice: &'d mut Dice,
    journal: Journal,
    model: Model,
    /// The run's scope and its branches, with the scope around each.
    scopes: Vec<(Scope, Option<Scope>)>,
    /// Appended and not durable yet.
    on_the_way: VecDeque<Appended>,
    records: Vec<(Seq, Record)>,
    /// What calls look like by their identity, over all processes.
    looks: Looks,
    diverged: bool,
}

#[test]
fn a_journal_answers_as_the_model_does() {
    cases(|dice| {
        let (mut records, mut looks) = (Vec::new(), HashMap::new());
        for _ in 0..=dice.below(3) {
            let next = u32::try_from(records.len()).unwrap();
            let mut bench = Bench {
                journal: Journal::load(records.clone(), next).unwrap(),
                model: Model::load(&records),
                scopes: vec![(Scope::ROOT, None)],
                on_the_way: VecDeque::new(),
                records,
                looks,
                diverged: false,
                dice,
            };
            for _ in 0..bench.dice.below(40) {
                bench.act();
                if bench.diverged {
                    break;
                }
                bench.compare();
            }
            (records, looks) = bench.end();
            if dice.one_in(3) {
                // A crash takes the newest ones.
                let left = dice.below(records.len() + 1);
                records.truncate(left);
            }
        }
    });
}

impl Bench<'_> {
    fn act(&mut self) {
        match self.dice.below(24) {
            0..=5 => self.claim(),
            6..=8 => self.on(|call| call.stage == State::Ready, Self::start),
            9..=11 => self.on(|call| call.stage == State::Working, Self::finish),
            12 => self.on(|call| call.stage == State::Working, Self::attempt_failed),
            13..=15 => self.durable(),
            16..=18 => self.next(),
            19 | 20 => self.on(|call| matches!(call.stage, State::Released(_)) && !call.dropped, Self::take),
            21 => self.on(|call| !call.dropped, Self::drop_call),
            22 => self.branch(),
            _ => {
                let held = |call: &Known| !call.dropped && call.scope.order != Order::AtOnce;
                self.on(held, |bench, call| match bench.dice.below(2) {
                    0 => bench.journal.wait(call.slot, Waited::Until { due_ms: 1 }, 0),
                    _ if call.stage == State::Waiting => {}
                    _ => bench.journal.unread(call.slot),
                });
            }
        }
        self.take_appended();
    }

    fn on(&mut self, which: impl Fn(&Known) -> bool, what: impl Fn(&mut Self, Known)) {
        let fitting: Vec<Known> = self.model.calls.iter().filter(|call| which(call)).cloned().collect();
        if let Some(call) = self.dice.pick(&fitting) {
            what(self, call);
        }
    }

    fn take_appended(&mut self) {
        for appended in self.journal.take_appended() {
            assert_eq!(appended.seq.0 as usize, self.records.len());
            let record = Record::from_bytes(&appended.record.to_bytes(), &mut Names::default()).unwrap();
            assert_eq!(record, appended.record);
            self.records.push((appended.seq, record));
            self.on_the_way.push_back(appended);
        }
    }

    fn claim(&mut self) {
        let unclaimed = self.model.unclaimed();
        // Most often what the journal waits for; in a body, or something new, else.
        if let Some(id) = unclaimed.first()
            && !self.dice.one_in(4)
        {
            let (scope, name, argument) = self.looks[id];
            if let Some((scope, _)) = self.scopes.iter().find(|(known, _)| known.id == scope).copied() {
                return self.claim_in(scope, name, argument);
            }
            return self.branch();
        }
        let (name, argument) = (self.dice.pick(&NAMES).unwrap(), u8::try_from(self.dice.below(2)).unwrap());
        let bodies: Vec<Known> = self
            .model
            .calls
            .iter()
            .filter(|call| call.stage == State::Working && call.scope.order != Order::AtOnce)
            .cloned()
            .collect();
        let (mut scope, _) = self.dice.pick(&self.scopes).unwrap();
        if let Some(owner) = self.dice.pick(&bodies).filter(|_| self.dice.one_in(2)) {
            scope = self.journal.body_scope(owner.slot).unwrap();
            assert_eq!((scope.id, scope.order), (inner(owner.id), Order::AtOnce));
        }
        self.claim_in(scope, name, argument);
    }

    fn claim_in(&mut self, scope: Scope, name: &'static str, argument: u8) {
        let id = self.model.identity(&scope, name, argument);
        self.looks.insert(id, (scope.id, name, argument));
        let slot = self.journal.claim(&scope, task(name, argument)).unwrap();
        assert_eq!(self.journal.call(slot).unwrap().id, id);
        self.model.claim(slot, id, scope);
    }

    fn start(&mut self, call: Known) {
        // What the earlier attempt made is gone when the next one starts.
        self.drop_inner(&call, false);
        self.journal.start(call.slot);
        self.model.start(call.slot);
    }

    fn finish(&mut self, call: Known) {
        // A body holds its calls; but one that was detached may outlive it, and leaves nothing then.
        let outlives = self.dice.one_in(2);
        self.drop_inner(&call, outlives);
        let recorded = if self.dice.one_in(3) { failure(self.dice.next()) } else { value(self.dice.next()) };
        self.journal.finish(call.slot, recorded.clone(), 0, 0);
        if !self.model.finish(call.slot, &recorded) {
            // It stale the attempt that it was made in.
            return assert!(self.journal.call(call.slot).is_none());
        }
        let stale: Vec<Known> = self.inner_of(&call).into_iter().filter(|call| !call.in_flight).collect();
        for call in stale {
            self.journal.finish(call.slot, value(0), 0, 0);
            assert!(self.journal.call(call.slot).is_none());
            self.model.calls.retain(|other| other.slot != call.slot);
        }
    }

    fn attempt_failed(&mut self, call: Known) {
        self.drop_inner(&call, false);
        let open = self.model.attempt_failed(call.slot);
        self.journal.attempt_failed(call.slot, "not yet".to_owned(), 0, 0);
        self.take_appended();
        let Some((_, Record::Attempt(attempt))) = self.records.last() else { panic!("an attempt is recorded") };
        let mut reopened = attempt.reopened.clone();
        reopened.sort_unstable();
        reopened.dedup();
        assert_eq!(reopened, open);
    }

    fn inner_of(&self, owner: &Known) -> Vec<Known> {
        self.model.calls.iter().filter(|call| call.scope.id == inner(owner.id)).cloned().collect()
    }

    fn drop_inner(&mut self, owner: &Known, detached: bool) {
        for call in self.inner_of(owner) {
            if !call.dropped {
                let detached = detached && call.stage == State::Working;
                self.journal.drop_call(call.slot, detached);
                self.model.drop_call(call.slot, detached);
            }
        }
    }

    fn durable(&mut self) {
        for _ in 0..=self.dice.below(3) {
            let Some(appended) = self.on_the_way.pop_front() else { return };
            match &appended.then {
                Then::Queue(_, slot, recorded) | Then::HandOn(slot, recorded) => self.model.durable(*slot, recorded),
                Then::TryAgain(slot) => {
                    if let Some(call) = self.model.calls.iter_mut().find(|call| call.slot == *slot) {
                        call.stage = State::Ready;
                    }
                }
                Then::Nothing | Then::Opened(_) | Then::Cancel => {}
            }
            self.journal.recorded(appended.then);
        }
    }

    fn next(&mut self) {
        let id = |slot: Slot, journal: &Journal| journal.call(slot).expect("what is given is alive").id;
        let given = match self.journal.next(Frame::ROOT) {
            Next::Release { slot, replayed } => Given::Release(id(slot, &self.journal), replayed),
            Next::Wake(slot) => Given::Wake(id(slot, &self.journal)),
            Next::Live(slots) => Given::Live(slots.into_iter().map(|slot| id(slot, &self.journal)).collect()),
            Next::Diverged(divergence) => Given::Diverged(divergence.seq),
            Next::Cancel(_) => unreachable!("nothing stops this run"),
            Next::Nothing => Given::Nothing,
        };
        self.diverged = matches!(given, Given::Diverged(_));
        assert_eq!(given, self.model.next());
    }

    fn take(&mut self, call: Known) {
        let recorded = self.journal.take(call.slot).unwrap();
        assert_eq!(State::Released((*recorded).clone()), call.stage);
        assert!(self.journal.take(call.slot).is_none());
        self.model.take(call.slot);
    }

    fn drop_call(&mut self, call: Known) {
        let detached = call.stage == State::Working && self.dice.one_in(3);
        if !detached {
            self.drop_inner(&call, false);
        }
        self.journal.drop_call(call.slot, detached);
        self.model.drop_call(call.slot, detached);
    }

    fn branch(&mut self) {
        if self.scopes.len() > 3 {
            let (branch, parent) = self.scopes[self.dice.below(3) + 1];
            let parent = parent.expect("only the first has none");
            self.journal.leave_branch(&parent, &branch);
            return self.model.leave_branch(&parent, &branch);
        }
        let (parent, _) = self.dice.pick(&self.scopes).unwrap();
        let branch = self.journal.branch(&parent, "branch");
        assert!(self.scopes.iter().all(|(scope, _)| scope.id != branch.id), "a branch has a scope of its own");
        self.scopes.push((branch, Some(parent)));
    }

    fn compare(&mut self) {
        assert_eq!(self.journal.is_replaying(Frame::ROOT), self.model.is_replaying());
        assert_eq!(self.journal.unpassed(), self.model.open());
        for known in &self.model.calls {
            let call = self.journal.call(known.slot).unwrap_or_else(|| panic!("{known:?} is gone"));
            let stage = match &call.stage {
                Stage::Waiting => State::Waiting,
                Stage::Ready => State::Ready,
                Stage::Working => State::Working,
                Stage::Finished => State::Finished,
                Stage::Released(recorded) => State::Released((**recorded).clone()),
                Stage::Taken => State::Taken,
            };
            assert_eq!((call.id, stage), (known.id, known.stage.clone()));
        }
    }

    /// The process ends: by a crash, or with the entrypoint.
    fn end(mut self) -> (Vec<(Seq, Record)>, Looks) {
        if self.dice.one_in(2) && !self.diverged {
            let left = self.model.left();
            let divergence = self.journal.leave(Frame::ROOT).err();
            assert_eq!(divergence.as_ref().map(|divergence| divergence.seq), left);
            assert!(divergence.is_none_or(|divergence| divergence.ended));
        }
        if self.dice.one_in(2) {
            let reopened = self.journal.unpassed();
            self.journal.append_plain(Record::Resume(Resume { reopened, at_ms: 0 }));
            self.take_appended();
        }
        (self.records, self.looks)
    }
}
