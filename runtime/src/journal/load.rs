//! From records to a journal: what each call has, what each entrypoint is given and in which order.

use std::collections::{HashMap, HashSet};

use super::{
    Again, Attempt, Begin, BrokenJournal, CallInfo, Emitted, Journal, Loaded, Outcome, Record, RecordedStep, Resume,
    Scope, Step, Table, Unread, Wait, Waited, call, cut::Cut,
};
use crate::{
    id::{CallId, ScopeId, Seq},
    output::Recorded,
};

impl Journal {
    /// A journal of the records after a run's start; `next_seq` is the place after the last of them.
    pub(crate) fn load(records: Vec<(Seq, Record)>, next_seq: u32) -> Result<Self, BrokenJournal> {
        let mut journal = Self {
            next_seq,
            calls: Table::default(),
            frames: Vec::new(),
            scopes: HashMap::default(),
            loaded: Vec::new(),
            loaded_calls: HashMap::default(),
            loaded_frames: HashMap::default(),
            definitions: HashMap::new(),
            appended: Vec::new(),
            failing: HashMap::default(),
            emitted: HashSet::default(),
            cut: Cut::default(),
        };
        for (seq, record) in records {
            journal.take_in(seq, record)?;
        }
        journal.enter(Scope::ROOT.id, false);
        Ok(journal)
    }

    pub(super) fn take_in(&mut self, seq: Seq, record: Record) -> Result<(), BrokenJournal> {
        match record {
            Record::Outcome(Outcome { call, recorded, attempts, asked, .. }) => {
                let (id, scope) = (call.id, call.scope);
                match *recorded {
                    Recorded::Failure(_) => drop(self.scopes.entry(scope).or_default().unseen.insert(id)),
                    // The calls within are covered by this outcome.
                    Recorded::Value(_) => drop(self.scopes.remove(&call::body_scope_id(id))),
                }
                let loaded = self.loaded_call(call);
                let entry = &mut self.loaded[loaded as usize];
                entry.asked |= asked;
                entry.wait.take_if(|wait| matches!(wait, Waited::InDoubt(_)));
                if self.loaded[loaded as usize].outcome.replace((recorded, attempts)).is_some() {
                    return Err(BrokenJournal { seq, detail: format!("call {id} has two outcomes") });
                }
                self.order_step(loaded, seq, RecordedStep::Outcome);
            }
            Record::Attempt(Attempt { call, number, reopened, next_ms, .. }) => {
                let loaded = self.loaded_call(call);
                let entry = &mut self.loaded[loaded as usize];
                (entry.attempts, entry.next_ms) = (number, next_ms);
                self.order_step(loaded, seq, RecordedStep::Attempt);
                self.void(&reopened);
            }
            Record::Begin(Begin { call, number, .. }) => {
                let loaded = self.loaded_call(call);
                self.note_begin(loaded, number);
                self.order_step(loaded, seq, RecordedStep::Begin);
            }
            Record::Wait(Wait { call, what, .. }) => {
                let loaded = self.loaded_call(call);
                if changes_the_wait(&what) {
                    self.loaded[loaded as usize].wait = waited_for(what);
                }
                self.order_step(loaded, seq, RecordedStep::Wait);
            }
            Record::Again(Again { reopened, .. }) => self.void(&reopened),
            Record::Resume(Resume { reopened, .. }) => {
                self.undo_end();
                self.void(&reopened);
            }
            Record::Cancel(cancel) => self.load_cancel(cancel),
            Record::Unread(Unread { call, ahead }) => {
                let (frame, loaded) = (call.frame, self.loaded_call(call));
                self.order_unread(frame, loaded, ahead).ok_or_else(|| BrokenJournal {
                    seq,
                    detail: format!("it stands before {ahead} outcomes of its entrypoint, which are not there"),
                })?;
            }
            Record::Emitted(Emitted { id, .. }) => drop(self.emitted.insert(id)),
            // An end that was followed by a resume: its list is in the resume.
            Record::End(end) => self.load_end(&end),
            Record::Start(_) | Record::Update(_) => {
                return Err(BrokenJournal { seq, detail: "a second start of the run".to_owned() });
            }
        }
        Ok(())
    }

    pub(super) fn loaded_call(&mut self, info: CallInfo) -> u32 {
        let next = u32::try_from(self.loaded.len()).expect("a run has fewer than 2^32 records");
        let loaded = *self.loaded_calls.entry(info.id).or_insert(next);
        if loaded == next {
            let (outcome, wait, holder) = (None, None, None);
            let (asked, begun, claimed) = (false, false, false);
            self.loaded.push(Loaded { info, outcome, attempts: 0, next_ms: 0, wait, asked, begun, claimed, holder });
        }
        loaded
    }

    /// A body of the call that may run at most once begins in this attempt.
    pub(super) fn note_begin(&mut self, loaded: u32, number: u32) {
        let entry = &mut self.loaded[loaded as usize];
        (entry.begun, entry.attempts, entry.next_ms) = (true, number, 0);
        entry.wait.take_if(|wait| matches!(wait, Waited::InDoubt(_)));
    }

    pub(super) fn order_step(&mut self, loaded: u32, seq: Seq, step: RecordedStep) {
        if let Some(frame) = self.loaded[loaded as usize].info.frame {
            let step = Step::Loaded { loaded, seq, step, voided: false };
            self.loaded_frames.entry(frame).or_default().push_back(step);
        }
    }

    /// Puts a wake before the newest outcomes of its order: those that were released only after it.
    pub(super) fn order_unread(&mut self, frame: Option<ScopeId>, loaded: u32, ahead: u32) -> Option<()> {
        let steps = self.loaded_frames.entry(frame?).or_default();
        let (mut place, mut left) = (steps.len(), ahead);
        while left > 0 {
            place = place.checked_sub(1)?;
            if matches!(steps[place], Step::Loaded { step: RecordedStep::Outcome, .. }) {
                left -= 1;
            }
        }
        steps.insert(place, Step::Unread { loaded });
        Some(())
    }

    /// Takes back what the journal has of these calls: they are opened again.
    pub(super) fn void(&mut self, calls: &[CallId]) {
        let mut frames = HashSet::new();
        let mut voided = HashSet::new();
        // The ends of these entrypoints do not count any more.
        let mut undone = HashSet::new();
        for call in calls {
            undone.insert(call::body_scope_id(*call));
            if let Some(failing) = self.failing.get_mut(call) {
                failing.reopened = true;
                undone.extend(failing.frame);
            }
            if let Some(&loaded) = self.loaded_calls.get(call) {
                let entry = &mut self.loaded[loaded as usize];
                (entry.outcome, entry.attempts, entry.next_ms) = (None, 0, 0);
                if let Some(state) = self.scopes.get_mut(&entry.info.scope) {
                    state.unseen.remove(call);
                }
                voided.insert(loaded);
                frames.extend(entry.info.frame);
            }
        }
        undone.extend(&frames);
        for scope in undone {
            self.end_undone(scope);
        }
        for frame in frames {
            for step in self.loaded_frames.get_mut(&frame).into_iter().flatten() {
                // An open question or a set timer is not a failure: its wait stands.
                if let Step::Loaded { loaded, voided: void, step, .. } = step
                    && *step != RecordedStep::Wait
                    && voided.contains(loaded)
                {
                    *void = true;
                }
            }
        }
    }
}

/// Whether this is what the call waits for from now on, and not only a note about the wait.
pub(super) fn changes_the_wait(what: &Waited) -> bool {
    !matches!(what, Waited::Refused { .. })
}

/// What is waited for. A question that was withdrawn is not open: it is asked anew if the code gets to wait for it again.
pub(super) fn waited_for(what: Waited) -> Option<Waited> {
    Some(what).filter(|what| *what != Waited::Withdrawn)
}
