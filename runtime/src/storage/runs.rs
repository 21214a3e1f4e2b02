//! The runs of a thread as rows: how many records one has, a few of them, what was pruned, what a run saved.

use std::sync::Arc;

use super::{corrupt_record, damaged};
use crate::{
    CheckpointError, CheckpointId, RunError, ThreadId,
    checkpoint::{Change, Checkpointer, Expect, Key, Rows, rows},
    id::{RunNo, Seq},
    journal::{Names, Record},
    value::Payload,
};

/// Where it is noted which run is the oldest that was not pruned.
const OLDEST: Key = Key::Aside { space: 6, id: 0, chunk: 0 };

/// The oldest run that was not pruned, and what a commit expects that relies on it.
pub(crate) struct Oldest {
    pub(crate) run: RunNo,
    pub(crate) expect: Expect,
}

/// The oldest run of a thread that was not pruned; the first if none was.
pub(crate) async fn oldest(checkpointer: &Arc<dyn Checkpointer>, thread: &ThreadId) -> Result<Oldest, CheckpointError> {
    let Some(row) = checkpointer.get(thread, OLDEST).await? else {
        return Ok(Oldest { run: RunNo(1), expect: Expect::Absent(OLDEST) });
    };
    let bytes = rows::unseal_one(thread, OLDEST, row.clone())?;
    let bytes = bytes.try_into().map_err(|_| damaged(thread, OLDEST, &"it is no number of a run"))?;
    Ok(Oldest { run: RunNo(u32::from_be_bytes(bytes)), expect: Expect::Equals(OLDEST, row) })
}

/// Notes that runs before this one were pruned.
pub(crate) fn oldest_changes(thread: &ThreadId, run: RunNo, changes: &mut Vec<Change>) -> Result<(), CheckpointError> {
    rows::seal(thread, OLDEST, &run.0.to_be_bytes(), rows::PAYLOAD_LIMIT, changes)
}

/// The first and the last key of a run's records from `from` to `to`, both included.
pub(crate) fn run_rows(run: RunNo, from: u32, to: u32) -> (Key, Key) {
    (Key::Record { run: run.0, seq: from, chunk: 0 }, Key::Record { run: run.0, seq: to, chunk: u16::MAX })
}

/// How many records a run has, found by a few reads of single rows: twice the logarithm of the number.
pub(crate) async fn records_of(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    run: RunNo,
) -> Result<u32, CheckpointError> {
    let there = async |seq: u32| {
        let row = checkpointer.get(thread, Key::Record { run: run.0, seq, chunk: 0 }).await?;
        Ok::<bool, CheckpointError>(row.is_some())
    };
    let (mut below, mut step) = (0, 1);
    while there(below).await? {
        let Some(next) = below.checked_add(step) else { break };
        (below, step) = (next, step.saturating_mul(2));
    }
    // The number is above the last one that was there, and at most the one that was not.
    let (mut low, mut high) = (below.saturating_sub(step / 2), below);
    while low < high {
        let middle = low + (high - low) / 2;
        if there(middle).await? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// The records of a run, whole and in order from its start.
pub(crate) async fn load_run(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    run: RunNo,
) -> Result<Vec<(Seq, Record)>, RunError> {
    load_records(checkpointer, thread, run, (0, u32::MAX)).await
}

/// One record of a run.
pub(crate) async fn load_record(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    run: RunNo,
    seq: Seq,
) -> Result<Option<Record>, RunError> {
    let records = load_records(checkpointer, thread, run, (seq.0, seq.0)).await?;
    Ok(records.into_iter().next().map(|(_, record)| record))
}

/// The records of a run from `from` to `to`, both included, as far as they are there.
pub(crate) async fn load_records(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    run: RunNo,
    (from, to): (u32, u32),
) -> Result<Vec<(Seq, Record)>, RunError> {
    let (first, last) = run_rows(run, from, to);
    let stored = checkpointer.scan(thread, first, last).await?;
    let items = rows::unseal(thread, stored).map_err(|error| corrupt_record(thread, run, error))?;
    let mut records = Vec::with_capacity(items.len());
    let mut names = Names::default();
    for (key, bytes) in items {
        let Key::Record { seq, .. } = key else { continue };
        let damage = |detail: String| RunError::Corrupt { thread: thread.clone(), run, seq: Seq(seq), detail };
        let wanted = from as usize + records.len();
        if seq as usize != wanted {
            return Err(damage(format!("record {wanted} is missing before it")));
        }
        records.push((Seq(seq), Record::from_bytes(&bytes, &mut names).map_err(|error| damage(error.0))?));
    }
    Ok(records)
}

/// A record with its first row as stored, for a commit that must find it there still.
pub(crate) async fn load_stored(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    (run, seq): (RunNo, Seq),
) -> Result<(Record, Expect), RunError> {
    let (first, last) = run_rows(run, seq.0, seq.0);
    let stored: Rows = checkpointer.scan(thread, first, last).await?;
    let expect = stored.first().map(|(key, row)| Expect::Equals(*key, row.clone()));
    let items = rows::unseal(thread, stored).map_err(|error| corrupt_record(thread, run, error))?;
    let (Some(expect), Some((_, bytes))) = (expect, items.into_iter().next()) else {
        return Err(gone(checkpointer, thread, (run, seq)).await?);
    };
    let damage = |detail: String| RunError::Corrupt { thread: thread.clone(), run, seq, detail };
    Ok((Record::from_bytes(&bytes, &mut Names::default()).map_err(|error| damage(error.0))?, expect))
}

/// The value that a record saved for the next run.
pub(crate) async fn saved(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    (run, seq): (RunNo, Seq),
) -> Result<Payload, RunError> {
    let (record, _) = load_stored(checkpointer, thread, (run, seq)).await?;
    record.saved().cloned().ok_or_else(|| RunError::Corrupt {
        thread: thread.clone(),
        run,
        seq,
        detail: "the value that the last success saved is not there".to_owned(),
    })
}

/// Why a record that is pointed at is not there.
async fn gone(
    checkpointer: &Arc<dyn Checkpointer>,
    thread: &ThreadId,
    (run, seq): (RunNo, Seq),
) -> Result<RunError, CheckpointError> {
    let thread = thread.clone();
    Ok(if run < oldest(checkpointer, &thread).await?.run {
        RunError::Pruned { thread, checkpoint: CheckpointId { run, seq } }
    } else {
        RunError::Corrupt { thread, run, seq, detail: "the value that the last success saved is not there".to_owned() }
    })
}

/// The records that must be there beside the newest runs: what the thread's next run, or its unfinished one, sees.
pub(crate) fn kept(saved: Option<(RunNo, Seq)>, before: RunNo) -> Option<(RunNo, Seq)> {
    saved.filter(|(run, _)| *run < before)
}
