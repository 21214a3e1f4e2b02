//! A thread's inbox: its run's questions as they can be answered, each in a row of its own.
//!
//! The journal is the truth about a run; these rows follow it, in the commits that its records are in, so that an answer
//! costs a look at its question and not at the run. A question's row is where whoever answers first is decided:
//!
//! ```text
//! asked: open ── answered ── taken (the answer is a record)
//!          └ withdrawn: gone  └ refused: open
//! ```
//!
//! Open questions have a second row by their key, and a key has one for the question with it that was answered last.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::damaged;
use crate::{
    CheckpointError, ThreadId,
    checkpoint::{Change, Checkpointer, Commit, Expect, Key, rows},
    id::{CallId, Seq},
    journal::{AnswerKind, Answered, Asked, Doubted, Wait},
    value::Payload,
};

/// Open questions by key: the digest of the key, its last 32 bits replaced by the place of the question's record.
const OPEN: u8 = 0x20;
/// The question that was answered last, by the digest of the key.
const LAST: u8 = 0x21;

/// A question of a run, as it can be answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// First, so that the first of its rows differs whenever this does.
    pub(crate) state: EntryState,
    /// The record that asks it.
    pub(crate) asked: Seq,
    pub(crate) key: String,
    /// The type that the answer must have, by name.
    pub(crate) expects: String,
    /// Where the code asks it.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// Whether its record has a schema.
    pub(crate) schema: bool,
    pub(crate) cancellable: bool,
    /// Whether it is no question of the code's: somebody is to say what became of a task's body.
    #[serde(default)]
    pub(crate) doubt: bool,
}

/// How far a question has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum EntryState {
    /// It can be answered.
    Open,
    /// An answer has arrived, and is not a record yet.
    Answered(Answer),
    /// The answer is this record; a digest of what was answered, to tell the same answer from another.
    Taken(Seq, #[serde(with = "serde_bytes")] [u8; 16]),
}

/// An answer that has arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// `None`: the question was cancelled.
    pub(crate) value: Option<Payload>,
    pub(crate) how: Answered,
}

impl Answer {
    /// The question's default, at this time.
    pub(crate) fn at_deadline(default: Payload, at_ms: u64) -> Self {
        Self { value: Some(default), how: Answered { kind: AnswerKind::Deadline, by: None, at_ms } }
    }

    /// What a reconcile function found out.
    pub(crate) fn reconciled(value: Option<Payload>, at_ms: u64) -> Self {
        Self { value, how: Answered { kind: AnswerKind::Reconciled, by: None, at_ms } }
    }

    /// A digest of what is answered, whoever says it.
    pub(crate) fn digest(&self) -> [u8; 16] {
        let digest = match &self.value {
            None => Sha256::new_with_prefix(b"durably.cancelled.1\0"),
            Some(value) => Sha256::new_with_prefix(b"durably.answer.1\0").chain_update(&value.bytes),
        };
        half(digest)
    }
}

impl Entry {
    /// The entry of a question that is asked by this record.
    pub(crate) fn new(seq: Seq, wait: &Wait, asked: &Asked) -> Self {
        Self {
            state: EntryState::Open,
            asked: seq,
            key: wait.call.name.clone().into_owned(),
            expects: asked.expects.clone(),
            file: wait.call.file.clone().into_owned(),
            line: wait.call.line,
            schema: asked.schema.is_some(),
            cancellable: asked.cancellable,
            doubt: false,
        }
    }

    /// The entry of a call that this record puts in doubt.
    pub(crate) fn in_doubt(seq: Seq, wait: &Wait, doubted: &Doubted) -> Self {
        Self {
            state: EntryState::Open,
            asked: seq,
            key: wait.call.name.clone().into_owned(),
            expects: doubted.expects.clone(),
            file: wait.call.file.clone().into_owned(),
            line: wait.call.line,
            schema: false,
            cancellable: true,
            doubt: true,
        }
    }
}

/// An entry as it is stored.
pub(crate) struct Stored {
    pub(crate) entry: Entry,
    /// Its first row, which differs in each of its states.
    row: Vec<u8>,
}

fn entry_key(question: CallId) -> Key {
    Key::Answer { question: (question.base, question.ordinal), chunk: 0 }
}

fn key_digest(key: &str) -> u128 {
    u128::from_be_bytes(half(Sha256::new_with_prefix(b"durably.question.1\0").chain_update(key)))
}

fn half(digest: Sha256) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&digest.finalize()[..16]);
    half
}

fn open_key(key: &str, asked: Seq) -> Key {
    let id = key_digest(key) & !u128::from(u32::MAX) | u128::from(asked.0);
    Key::Aside { space: OPEN, id, chunk: 0 }
}

fn last_key(key: &str) -> Key {
    Key::Aside { space: LAST, id: key_digest(key), chunk: 0 }
}

fn put<T: Serialize>(thread: &ThreadId, key: Key, item: &T, changes: &mut Vec<Change>) -> Result<(), CheckpointError> {
    let bytes = rmp_serde::to_vec(item).expect("an entry has nothing that cannot be written");
    rows::seal(thread, key, &bytes, rows::PAYLOAD_LIMIT, changes)
}

/// A question is open: asked, or asked again since its answer was refused.
pub(crate) fn open_changes(
    thread: &ThreadId,
    question: CallId,
    entry: &Entry,
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    changes.push(rows::remove(entry_key(question)));
    put(thread, entry_key(question), entry, changes)?;
    if entry.doubt {
        // It has no key that code gave it.
        return Ok(());
    }
    put(thread, open_key(&entry.key, entry.asked), &(&entry.key, question), changes)
}

/// A question is answered.
pub(crate) fn answer_changes(
    thread: &ThreadId,
    question: CallId,
    entry: &Entry,
    answer: Answer,
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    if !entry.doubt {
        changes.push(rows::remove(open_key(&entry.key, entry.asked)));
        changes.push(rows::remove(last_key(&entry.key)));
        put(thread, last_key(&entry.key), &(&entry.key, question), changes)?;
    }
    let entry = Entry { state: EntryState::Answered(answer), ..entry.clone() };
    changes.push(rows::remove(entry_key(question)));
    put(thread, entry_key(question), &entry, changes)
}

/// A question's answer is a record.
pub(crate) fn take_changes(
    thread: &ThreadId,
    question: CallId,
    entry: &Entry,
    outcome: Seq,
    answer: [u8; 16],
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    changes.push(rows::remove(entry_key(question)));
    let entry = Entry { state: EntryState::Taken(outcome, answer), ..entry.clone() };
    put(thread, entry_key(question), &entry, changes)
}

/// A question is no longer asked.
pub(crate) fn withdraw_changes(question: CallId, entry: &Entry, changes: &mut Vec<Change>) {
    changes.push(rows::remove(entry_key(question)));
    if !entry.doubt {
        changes.push(rows::remove(open_key(&entry.key, entry.asked)));
    }
}

/// Removes all of a thread's questions and answers: its run has ended.
pub(crate) fn remove_answers() -> [Change; 2] {
    let (first, last) = all_entries();
    let first_aside = Key::Aside { space: OPEN, id: 0, chunk: 0 };
    let last_aside = Key::Aside { space: LAST, id: u128::MAX, chunk: u16::MAX };
    [Change::RemoveRange(first, last), Change::RemoveRange(first_aside, last_aside)]
}

fn all_entries() -> (Key, Key) {
    let last = Key::Answer { question: (u128::MAX, u32::MAX), chunk: u16::MAX };
    (Key::Answer { question: (0, 0), chunk: 0 }, last)
}

/// All questions of a thread's run: open, answered and taken.
pub(crate) async fn inbox(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
) -> Result<Vec<(CallId, Entry)>, CheckpointError> {
    let (first, last) = all_entries();
    let items = rows::unseal(thread, checkpointer.scan(thread, first, last).await?)?;
    let mut entries = Vec::with_capacity(items.len());
    for (key, bytes) in items {
        if let Key::Answer { question: (base, ordinal), .. } = key {
            let entry = rmp_serde::from_slice(&bytes).map_err(|error| damaged(thread, key, &error))?;
            entries.push((CallId { base, ordinal }, entry));
        }
    }
    Ok(entries)
}

/// One question of a thread's run.
pub(crate) async fn entry(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    question: CallId,
) -> Result<Option<Stored>, CheckpointError> {
    let key = entry_key(question);
    let stored = checkpointer.scan(thread, key, key.with_chunk(u16::MAX)).await?;
    let Some((_, row)) = stored.first().cloned() else { return Ok(None) };
    let Some((_, bytes)) = rows::unseal(thread, stored)?.into_iter().next() else { return Ok(None) };
    let entry = rmp_serde::from_slice(&bytes).map_err(|error| damaged(thread, key, &error))?;
    Ok(Some(Stored { entry, row }))
}

impl Stored {
    /// That it is still as it was read.
    pub(crate) fn expect(&self, question: CallId) -> Expect {
        Expect::Equals(entry_key(question), self.row.clone())
    }
}

/// The open questions: all, or those with a key.
pub(crate) async fn open_questions(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    key: Option<&str>,
) -> Result<Vec<(String, CallId)>, CheckpointError> {
    let (first, last) = match key {
        Some(key) => (open_key(key, Seq(0)), open_key(key, Seq(u32::MAX))),
        None => (Key::Aside { space: OPEN, id: 0, chunk: 0 }, Key::Aside { space: OPEN, id: u128::MAX, chunk: 0 }),
    };
    let mut open = Vec::new();
    for (at, bytes) in rows::unseal(thread, checkpointer.scan(thread, first, last.with_chunk(u16::MAX)).await?)? {
        let Key::Aside { id, .. } = at else { continue };
        let named: (String, CallId) = rmp_serde::from_slice(&bytes).map_err(|error| damaged(thread, at, &error))?;
        // Two keys may share a digest's beginning.
        if key.is_none_or(|key| *key == *named.0) {
            open.push((id & u128::from(u32::MAX), named));
        }
    }
    // As they were asked.
    open.sort_by_key(|(asked, _)| *asked);
    Ok(open.into_iter().map(|(_, named)| named).collect())
}

/// The question with this key that was answered last.
pub(crate) async fn named(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    key: &str,
) -> Result<Option<CallId>, CheckpointError> {
    let at = last_key(key);
    let stored = checkpointer.scan(thread, at, at.with_chunk(u16::MAX)).await?;
    let Some((_, bytes)) = rows::unseal(thread, stored)?.into_iter().next() else { return Ok(None) };
    let (known, question): (String, CallId) =
        rmp_serde::from_slice(&bytes).map_err(|error| damaged(thread, at, &error))?;
    Ok((known == key).then_some(question))
}

/// Answers a question for the run that is driven under this lease, unless somebody was first; what it is answered with.
pub(crate) async fn answer_open(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    epoch: u64,
    (question, open): (CallId, &Entry),
    answer: Answer,
) -> Result<Answer, CheckpointError> {
    // What was queued before, its question's opening too, is applied before.
    let mut row = Vec::new();
    put(thread, entry_key(question), open, &mut row)?;
    let Some(Change::Put(key, row)) = row.into_iter().next() else { return Ok(answer) };
    let expect = vec![Expect::Lease(epoch), Expect::Equals(key, row)];
    let mut changes = Vec::new();
    answer_changes(thread, question, open, answer.clone(), &mut changes)?;
    match checkpointer.commit(Commit { thread: thread.clone(), expect, changes }).await {
        Ok(()) => Ok(answer),
        Err(CheckpointError::Conflict { .. }) => match entry(checkpointer, thread, question).await? {
            Some(Stored { entry: Entry { state: EntryState::Answered(first), .. }, .. }) => Ok(first),
            _ => Err(damaged(thread, key, &"an open question has lost its row")),
        },
        Err(error) => Err(error),
    }
}
