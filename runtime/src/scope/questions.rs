//! A run's open questions as its inbox has them: they follow the journal, so that both are written in one commit.

use std::collections::HashMap;

use crate::{
    CheckpointError, ThreadId,
    checkpoint::Change,
    id::{CallId, Seq},
    journal::{Begin, CallKind, End, Ended, Outcome, Record, Wait, Waited},
    storage::{self, Answer, Entry},
};

/// The questions that are open or answered, and whose answers are no records yet.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<CallId, Entry>,
    /// Dropped by the code, which is on its way to the journal.
    leaving: HashMap<CallId, Entry>,
    /// Withdrawn since the run was stopped from outside.
    cut: HashMap<CallId, Entry>,
    /// Whether the newest end is one by the run's deadline: going on after it, they are asked again.
    timed_out: bool,
    /// Digests of the answers whose outcomes are on their way to the journal.
    taken: HashMap<CallId, [u8; 16]>,
}

/// What the records of earlier drives say of a run's questions.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    pub(super) questions: Questions,
    /// Why the newest answers were not taken.
    pub(super) refused: HashMap<CallId, String>,
}

impl Earlier {
    /// Looks through the records.
    pub(crate) fn of(records: &[(Seq, Record)]) -> Self {
        let mut earlier = Self::default();
        for (seq, record) in records {
            if let Record::Wait(Wait { call, what: Waited::Refused { reason }, .. }) = record {
                earlier.refused.insert(call.id, reason.clone());
            }
            earlier.questions.load(*seq, record);
        }
        earlier
    }

    /// The inbox of a run that has these records, and nothing answered.
    pub(crate) fn open_changes(&self, thread: &ThreadId, changes: &mut Vec<Change>) -> Result<(), CheckpointError> {
        let mut open = self.questions.open.iter();
        open.try_for_each(|(question, entry)| storage::open_changes(thread, *question, entry, changes))
    }
}

/// Whether calls of this kind have questions, or can be in doubt.
fn asks(kind: CallKind) -> bool {
    matches!(kind, CallKind::Interrupt | CallKind::Approval | CallKind::Task)
}

impl Questions {
    /// Takes in a record of an earlier drive.
    fn load(&mut self, seq: Seq, record: &Record) {
        match record {
            Record::Wait(wait) => match &wait.what {
                Waited::Answer(asked) => drop(self.open.insert(wait.call.id, Entry::new(seq, wait, asked))),
                Waited::InDoubt(doubt) => drop(self.open.insert(wait.call.id, Entry::in_doubt(seq, wait, doubt))),
                Waited::Withdrawn => drop(self.open.remove(&wait.call.id)),
                Waited::Refused { .. } | Waited::Until { .. } => {}
            },
            Record::Begin(Begin { call, .. }) | Record::Outcome(Outcome { call, .. }) if asks(call.kind) => {
                self.open.remove(&call.id);
            }
            Record::Cancel(_) => self.cut = std::mem::take(&mut self.open),
            Record::End(End { how, .. }) => self.timed_out = matches!(how, Ended::TimedOut { .. }),
            Record::Resume(_) => {
                let again = std::mem::take(&mut self.cut);
                if std::mem::take(&mut self.timed_out) {
                    self.open.extend(again);
                }
            }
            _ => {}
        }
    }

    /// Adds what a record that is being written changes in the inbox.
    pub(super) fn follow(
        &mut self,
        thread: &ThreadId,
        seq: Seq,
        record: &Record,
        changes: &mut Vec<Change>,
    ) -> Result<(), CheckpointError> {
        match record {
            Record::Wait(Wait { call, what: Waited::Refused { .. }, .. }) => match self.open.get(&call.id) {
                Some(entry) => storage::open_changes(thread, call.id, entry, changes),
                None => Ok(()),
            },
            Record::Wait(Wait { call, what: Waited::Withdrawn, .. }) => {
                let left = self.leaving.remove(&call.id).or_else(|| self.open.remove(&call.id));
                if let Some(entry) = left {
                    storage::withdraw_changes(call.id, &entry, changes);
                }
                Ok(())
            }
            Record::Wait(wait) => match &wait.what {
                Waited::Answer(asked) => {
                    let entry = Entry::new(seq, wait, asked);
                    storage::open_changes(thread, wait.call.id, &entry, changes)?;
                    self.open.insert(wait.call.id, entry);
                    Ok(())
                }
                Waited::InDoubt(doubt) => {
                    let entry = Entry::in_doubt(seq, wait, doubt);
                    storage::open_changes(thread, wait.call.id, &entry, changes)?;
                    self.open.insert(wait.call.id, entry);
                    Ok(())
                }
                Waited::Until { .. } | Waited::Refused { .. } | Waited::Withdrawn => Ok(()),
            },
            // Most runs ask nothing, and make many calls.
            Record::Outcome(_) if self.open.is_empty() => Ok(()),
            Record::Begin(Begin { call, .. }) | Record::Outcome(Outcome { call, .. }) if asks(call.kind) => {
                match (self.open.remove(&call.id), self.taken.remove(&call.id)) {
                    // It was settled by something else than its answer.
                    (Some(entry), None) if call.kind != CallKind::Interrupt => {
                        storage::withdraw_changes(call.id, &entry, changes);
                        Ok(())
                    }
                    (Some(entry), Some(answer)) => storage::take_changes(thread, call.id, &entry, seq, answer, changes),
                    (Some(_) | None, _) => Ok(()),
                }
            }
            Record::Cancel(_) => {
                for (question, entry) in &self.open {
                    storage::withdraw_changes(*question, entry, changes);
                }
                self.cut = std::mem::take(&mut self.open);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The code dropped the question: no answer is for it from here on.
    pub(super) fn leave(&mut self, question: CallId) {
        if let Some(entry) = self.open.remove(&question) {
            self.leaving.insert(question, entry);
        }
    }

    /// The question ends with this answer.
    pub(super) fn take(&mut self, question: CallId, answer: &Answer) {
        self.taken.insert(question, answer.digest());
    }

    /// An open question, as its row has it.
    pub(super) fn get(&self, question: CallId) -> Option<&Entry> {
        self.open.get(&question)
    }

    /// The open questions that have no row here: the journal was copied without them.
    pub(super) fn missing(&self, rows: &HashMap<CallId, Entry>) -> Vec<(CallId, Entry)> {
        let missing = self.open.iter().filter(|(question, _)| !rows.contains_key(question));
        missing.map(|(question, entry)| (*question, entry.clone())).collect()
    }
}
