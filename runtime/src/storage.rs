//! A thread's rows as what they mean: its head, the records of its runs, the answers that have arrived.

mod inbox;
mod runs;

use std::{collections::BTreeMap, fmt, sync::Arc};

pub(crate) use inbox::{
    Answer, Entry, EntryState, Stored, answer_changes, answer_open, entry, inbox, named, open_changes, open_questions,
    remove_answers, take_changes, withdraw_changes,
};
pub(crate) use runs::{
    kept, load_record, load_records, load_run, load_stored, oldest, oldest_changes, records_of, run_rows, saved,
};
use serde::{Deserialize, Serialize};

use crate::{
    CheckpointError, RunError, ThreadId,
    checkpoint::{Change, Checkpointer, Key, Listing, rows},
    id::{RunNo, Seq},
    journal::Record,
};

/// The longest reason that a head keeps, in bytes; the whole error went to the caller.
const REASON: usize = 1000;

/// From this class on, what is listed is kept like a thread and is none.
pub(crate) const RESERVED_CLASSES: u8 = 128;

/// The class of threads of any status but sleeping that somebody has to look at at a moment.
pub(crate) const DUE_CLASS: u8 = 10;

/// What a thread is doing, or how its last run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Status {
    /// A run is going on, or was cut off by a crash; [`recover`](crate::Runtime::recover) drives on what was cut off.
    Running,
    /// The run waits for answers.
    Interrupted,
    /// The run waits for a moment.
    Sleeping,
    /// The run was stopped before its next body, or is a fork or a staged input that was not begun: to be resumed.
    Drained,
    /// The run waits for a person to say what became of a call.
    InDoubt,
    /// The last run returned a value.
    Completed,
    /// The last run returned an error or panicked.
    Failed,
    /// The last run was given up.
    Cancelled,
    /// The run met something that only other code or an operator can mend.
    Stuck,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Running,
        Self::Interrupted,
        Self::Sleeping,
        Self::Drained,
        Self::InDoubt,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Stuck,
    ];

    /// The class under which threads of this status are listed; stored, so never to be changed.
    pub(crate) fn class(self) -> u8 {
        match self {
            Self::Running => 1,
            Self::Interrupted => 2,
            Self::Sleeping => 3,
            Self::Drained => 4,
            Self::InDoubt => 5,
            Self::Completed => 6,
            Self::Failed => 7,
            Self::Cancelled => 8,
            Self::Stuck => 9,
        }
    }

    /// Whether the run has not ended.
    #[must_use]
    pub fn is_unfinished(self) -> bool {
        match self {
            Self::Running
            | Self::Interrupted
            | Self::Sleeping
            | Self::Drained
            | Self::InDoubt
            | Self::Failed
            | Self::Stuck => true,
            Self::Completed | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Sleeping => "sleeping",
            Self::Drained => "drained",
            Self::InDoubt => "in doubt",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stuck => "stuck",
        })
    }
}

/// What is known of a thread as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) status: Status,
    /// The current run, or the last one.
    pub(crate) run: RunNo,
    pub(crate) entrypoint: String,
    pub(crate) version: u32,
    /// The record that holds what the last success saved.
    pub(crate) saved: Option<(RunNo, Seq)>,
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// Why it is stuck or failed, cut short.
    pub(crate) reason: Option<String>,
    /// When somebody has to look at the paused run: the nearest sleep ends, or its deadline passes.
    pub(crate) due_ms: Option<u64>,
    /// Whether the paused run may have clean-ups to run when it ends.
    pub(crate) cleans_up: bool,
    /// What a user marked the thread with.
    pub(crate) tags: BTreeMap<String, String>,
}

/// The most tags of a thread, and the most bytes of each one's key and value: a head is one row.
const TAGS: usize = 8;
const TAG: usize = 120;

/// The tags with others added, which count more.
pub(crate) fn tagged(
    mut tags: BTreeMap<String, String>,
    more: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, RunError> {
    tags.extend(more);
    if let Some((key, _)) = tags.iter().find(|(key, value)| key.len() + value.len() > TAG) {
        let detail = format!(
            "tag {key:?} and its value have more than {TAG} bytes; tag with an id, and keep the rest elsewhere"
        );
        return Err(RunError::Tag { detail });
    }
    if tags.len() > TAGS {
        return Err(RunError::Tag { detail: format!("a thread has at most {TAGS} tags, these are {}", tags.len()) });
    }
    Ok(tags)
}

impl Head {
    /// The head with another status, and the reason for it.
    pub(crate) fn with(&self, status: Status, reason: Option<String>, at_ms: u64) -> Self {
        let reason = reason.map(|mut reason| {
            if reason.len() > REASON {
                let cut = (0..=REASON).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
                reason.truncate(cut);
                reason.push('…');
            }
            reason
        });
        Self { status, reason, updated_ms: at_ms, due_ms: None, cleans_up: false, ..self.clone() }
    }
}

/// A head's rows, and its place in the list of threads.
pub(crate) fn head_changes(thread: &ThreadId, head: &Head, changes: &mut Vec<Change>) -> Result<(), CheckpointError> {
    let bytes = rmp_serde::to_vec(head).expect("a head has nothing that cannot be written");
    rows::seal(thread, Key::Head, &bytes, rows::PAYLOAD_LIMIT, changes)?;
    changes.push(Change::List(listing(head)));
    Ok(())
}

/// Where a thread with this head stands in the list of threads.
pub(crate) fn listing(head: &Head) -> Listing {
    match head.due_ms {
        Some(at_ms) if head.status == Status::Sleeping => Listing { class: head.status.class(), at_ms },
        Some(at_ms) => Listing { class: DUE_CLASS, at_ms },
        None => Listing { class: head.status.class(), at_ms: head.updated_ms },
    }
}

/// Reads a head row.
pub(crate) fn parse_head(thread: &ThreadId, row: &[u8]) -> Result<Head, CheckpointError> {
    read_head(thread, &rows::unseal_one(thread, Key::Head, row.to_vec())?)
}

/// Reads a head from its bytes.
pub(crate) fn read_head(thread: &ThreadId, bytes: &[u8]) -> Result<Head, CheckpointError> {
    rmp_serde::from_slice(bytes).map_err(|error| damaged(thread, Key::Head, &error))
}

/// Reads an answer from its bytes; `None` if they are none.
pub(crate) fn read_answer(bytes: &[u8]) -> Option<Answer> {
    rmp_serde::from_slice(bytes).ok()
}

/// A thread's head, and its row as stored; `None` if the thread has never run.
pub(crate) async fn head(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
) -> Result<Option<(Head, Vec<u8>)>, CheckpointError> {
    match checkpointer.get(thread, Key::Head).await? {
        None => Ok(None),
        Some(row) => Ok(Some((parse_head(thread, &row)?, row))),
    }
}

/// A record's rows.
pub(crate) fn record_changes(
    thread: &ThreadId,
    run: RunNo,
    seq: Seq,
    record: &Record,
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    let key = Key::Record { run: run.0, seq: seq.0, chunk: 0 };
    rows::seal(thread, key, &record.to_bytes(), rows::PAYLOAD_LIMIT, changes)
}

/// Names the record that a damaged row belongs to.
fn corrupt_record(thread: &ThreadId, run: RunNo, error: CheckpointError) -> RunError {
    match error {
        CheckpointError::Corrupt { key: Some(Key::Record { seq, .. }), detail, .. } => {
            RunError::Corrupt { thread: thread.clone(), run, seq: Seq(seq), detail }
        }
        error => error.into(),
    }
}

/// A request to cancel a thread's run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CancelRequest {
    pub(crate) reason: Option<String>,
    pub(crate) at_ms: u64,
}

/// Where a request to cancel waits for its run.
pub(crate) const CANCEL: Key = Key::Aside { space: 2, id: 0, chunk: 0 };

/// A request's rows.
pub(crate) fn cancel_changes(
    thread: &ThreadId,
    request: &CancelRequest,
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    let bytes = rmp_serde::to_vec(request).expect("a request has nothing that cannot be written");
    rows::seal(thread, CANCEL, &bytes, rows::PAYLOAD_LIMIT, changes)
}

/// Removes a request.
pub(crate) fn remove_cancel() -> Change {
    rows::remove(CANCEL)
}

/// Removes all that the outside has sent to a run, and what it was to be sent to.
pub(crate) fn remove_requests() -> Vec<Change> {
    let mut changes = remove_answers().to_vec();
    changes.push(remove_cancel());
    changes
}

/// The request to cancel a thread's run that waits for whoever drives it, if there is one.
pub(crate) async fn cancel_request(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
) -> Result<Option<CancelRequest>, CheckpointError> {
    let stored = checkpointer.scan(thread, CANCEL, CANCEL.with_chunk(u16::MAX)).await?;
    let Some((key, bytes)) = rows::unseal(thread, stored)?.into_iter().next() else { return Ok(None) };
    rmp_serde::from_slice(&bytes).map(Some).map_err(|error| damaged(thread, key, &error))
}

fn damaged(thread: &ThreadId, key: Key, error: &dyn fmt::Display) -> CheckpointError {
    CheckpointError::Corrupt { thread: Some(thread.clone()), key: Some(key), detail: error.to_string() }
}
