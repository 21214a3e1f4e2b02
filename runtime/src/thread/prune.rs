//! What a thread takes in the store, and giving some of it back: old runs pruned.

use std::time::Duration;

use super::{Thread, ground::TRIES};
use crate::{
    CheckpointError, RunError,
    checkpoint::{Change, Commit, Expect, Key},
    environment::millis,
    id::{RunNo, Seq},
    storage::{self, Head},
};

/// The most runs that one commit removes, so that none becomes endless; a prune that is cut off goes on at the next one.
const RUNS: u32 = 256;

/// Which runs of a thread are kept. The newest one always is.
///
/// ```
/// use std::time::Duration;
/// use durably::Keep;
///
/// let keep = Keep::runs(10).or_younger_than(Duration::from_secs(7 * 24 * 3600));
/// assert_ne!(keep, Keep::runs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "this says what to keep, and does nothing by itself"]
pub struct Keep {
    runs: Option<u32>,
    younger_than: Option<Duration>,
}

impl Keep {
    /// The newest runs, so many of them (0 counts as 1).
    pub const fn runs(count: u32) -> Self {
        Self { runs: Some(count), younger_than: None }
    }

    /// Runs whose newest record is younger than this, and all after the first such one.
    pub const fn younger_than(age: Duration) -> Self {
        Self { runs: None, younger_than: Some(age) }
    }

    /// These, and also runs younger than this.
    pub const fn or_younger_than(mut self, age: Duration) -> Self {
        self.younger_than = Some(age);
        self
    }

    /// These, and also the newest runs, so many of them.
    pub const fn or_runs(mut self, count: u32) -> Self {
        self.runs = Some(count);
        self
    }
}

/// What was pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// How many runs.
    pub runs: u64,
}

/// What a thread takes in the store: payloads and the six bytes before each, without keys and the engine's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadSize {
    /// Each run that is there, oldest first.
    pub runs: Vec<RunSize>,
    /// The saved value of a pruned run that is still needed.
    pub kept: RunSize,
    /// The thread's head, answers on their way, and what else is kept beside its runs.
    pub beside: RunSize,
}

/// What a part of a thread takes in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSize {
    /// The number of the run; 0 for what is of no run.
    pub run: u32,
    /// How many rows; a record has one for each 4 KiB that it has begun.
    pub rows: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl ThreadSize {
    /// All rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.parts().map(|part| part.rows).sum()
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts().map(|part| part.bytes).sum()
    }

    fn parts(&self) -> impl Iterator<Item = &RunSize> {
        self.runs.iter().chain([&self.kept, &self.beside])
    }
}

impl Thread {
    /// Removes the records of old runs, but for the newest ones that are to be kept; also while the thread runs. The
    /// newest run stays resumable and readable, and what the thread has saved for its next run stays.
    ///
    /// What is lost: a pruned run's checkpoints, and with them the `previous` of the oldest run that is kept: a fork of that
    /// run is [`RunError::Pruned`].
    ///
    /// ```
    /// # use durably::{Keep, Runtime, entrypoint};
    /// #[entrypoint]
    /// async fn count(#[previous] runs: Option<u32>) -> u32 { runs.unwrap_or(0) + 1 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// for _ in 0..3 {
    ///     thread.invoke(count()).await?;
    /// }
    /// assert_eq!(thread.prune(Keep::runs(1)).await?.runs, 2);
    /// assert_eq!(thread.invoke(count()).await?.completed(), Some(4));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store fails, [`RunError::Corrupt`] if what must be read for it is damaged. What was
    /// removed by then is whole runs.
    pub async fn prune(&self, keep: Keep) -> Result<Pruned, RunError> {
        let checkpointer = self.runtime.checkpointer();
        let mut pruned = Pruned::default();
        let mut tries = 0;
        loop {
            let Some((head, row)) = storage::head(checkpointer, &self.id).await? else { return Ok(pruned) };
            let oldest = storage::oldest(checkpointer, &self.id).await?;
            let wanted = self.first_to_keep(keep, &head, oldest.run).await?;
            let first = RunNo(wanted.0.min(oldest.run.0.saturating_add(RUNS)));
            if first <= oldest.run {
                return Ok(pruned);
            }
            let mut changes = Vec::new();
            remove_runs_before(first, storage::kept(head.saved, first), &mut changes);
            storage::oldest_changes(&self.id, first, &mut changes)?;
            // The head changes with every start and end of a run: if it is the same, so is what must be kept.
            let expect = vec![Expect::Equals(Key::Head, row), oldest.expect];
            match checkpointer.commit(Commit { thread: self.id.clone(), expect, changes }).await {
                Ok(()) => pruned.runs += u64::from(first.0 - oldest.run.0),
                Err(CheckpointError::Conflict { .. }) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn first_to_keep(&self, keep: Keep, head: &Head, oldest: RunNo) -> Result<RunNo, RunError> {
        let Keep { runs, younger_than } = keep;
        let by_number = runs.map(|runs| head.run.0.saturating_sub(runs.max(1) - 1));
        let newest = by_number.unwrap_or(head.run.0).min(head.run.0);
        let Some(age) = younger_than else { return Ok(RunNo(newest)) };
        let checkpointer = self.runtime.checkpointer();
        let since_ms = millis(self.runtime.inner.environment.clock.now())
            .saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        for run in oldest.0..newest {
            let records = storage::records_of(checkpointer, &self.id, RunNo(run)).await?;
            let last = Seq(records.saturating_sub(1));
            let record = storage::load_record(checkpointer, &self.id, RunNo(run), last).await?;
            if record.is_some_and(|record| record.at_ms().unwrap_or(u64::MAX) > since_ms) {
                return Ok(RunNo(run));
            }
        }
        Ok(RunNo(newest))
    }

    /// What the thread takes in the store, run by run. Reads all of it, one run at a time.
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store fails.
    pub async fn size(&self) -> Result<ThreadSize, RunError> {
        let checkpointer = self.runtime.checkpointer();
        let mut size = ThreadSize::default();
        let measured = async |run: u32, first: Key, last: Key| {
            let rows = checkpointer.scan(&self.id, first, last).await?;
            let bytes = rows.iter().map(|(_, row)| row.len() as u64).sum();
            Ok::<RunSize, CheckpointError>(RunSize { run, rows: rows.len() as u64, bytes })
        };
        size.beside = measured(0, Key::Head, Key::Head).await?;
        let after = Key::Answer { question: (0, 0), chunk: 0 };
        let more = measured(0, after, Key::LAST).await?;
        (size.beside.rows, size.beside.bytes) = (size.beside.rows + more.rows, size.beside.bytes + more.bytes);
        let Some((head, _)) = storage::head(checkpointer, &self.id).await? else { return Ok(size) };
        let oldest = storage::oldest(checkpointer, &self.id).await?.run;
        let before = Key::Record { run: oldest.0.saturating_sub(1), seq: u32::MAX, chunk: u16::MAX };
        size.kept = measured(0, Key::Record { run: 0, seq: 0, chunk: 0 }, before).await?;
        for run in oldest.0..=head.run.0 {
            let (first, last) = storage::run_rows(RunNo(run), 0, u32::MAX);
            size.runs.push(measured(run, first, last).await?);
        }
        Ok(size)
    }
}

/// Removes all records of runs before this one, but for one record.
fn remove_runs_before(first: RunNo, but: Option<(RunNo, Seq)>, changes: &mut Vec<Change>) {
    let begin = Key::Record { run: 0, seq: 0, chunk: 0 };
    let end = Key::Record { run: first.0.saturating_sub(1), seq: u32::MAX, chunk: u16::MAX };
    let Some((run, seq)) = but else {
        changes.push(Change::RemoveRange(begin, end));
        return;
    };
    let before = match (run.0, seq.0) {
        (run, 0) => Key::Record { run: run.saturating_sub(1), seq: u32::MAX, chunk: u16::MAX },
        (run, seq) => Key::Record { run, seq: seq - 1, chunk: u16::MAX },
    };
    let after = match seq.0.checked_add(1) {
        Some(seq) => Key::Record { run: run.0, seq, chunk: 0 },
        None => Key::Record { run: run.0.saturating_add(1), seq: 0, chunk: 0 },
    };
    changes.push(Change::RemoveRange(begin, before));
    changes.push(Change::RemoveRange(after, end));
}
