//! The runs of a thread, newest first.

use std::{collections::BTreeMap, fmt, future::IntoFuture, time::SystemTime};

use super::Thread;
use crate::{
    CheckpointId, RunError, Status, ThreadId,
    checkpoint::BoxFuture,
    environment::moment,
    id::{RunNo, Seq},
    journal::{End, Ended, Origin, Record},
    storage::{self, Head},
};

/// How many runs a page has unless another number is asked for.
const PAGE: usize = 100;

/// One run of a thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunSummary {
    /// Which one.
    pub run: RunNo,
    /// Its entrypoint.
    pub entrypoint: String,
    /// The version of that entrypoint when it was started.
    pub version: u32,
    /// How it ended; of the thread's newest run, what it is doing. A run that went on as a new one is `Completed`.
    pub status: Status,
    /// When it began.
    pub started: SystemTime,
    /// When its newest record was made.
    pub updated: SystemTime,
    /// Where it was forked, if it is a fork.
    pub forked_from: Option<ForkedFrom>,
    /// What the thread was marked with when it began.
    pub tags: BTreeMap<String, String>,
    /// Its newest checkpoint.
    pub newest: CheckpointId,
    /// Whether it is no run of code: a saved value that was set from outside, or came along with a fork.
    pub is_update: bool,
}

/// Where a run was forked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkedFrom {
    /// The thread, if it is another one.
    pub thread: Option<ThreadId>,
    /// The checkpoint there. It may have been pruned since.
    pub checkpoint: CheckpointId,
}

/// What a run's first record says of it.
pub(super) struct RunHead {
    pub(super) entrypoint: String,
    pub(super) version: u32,
    pub(super) previous: Option<(RunNo, Seq)>,
    pub(super) at_ms: u64,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) forked_from: Option<ForkedFrom>,
    is_update: bool,
}

impl RunHead {
    /// `None` if the record begins no run.
    pub(super) fn of(first: &Record) -> Option<Self> {
        let from = |origin: &Origin| ForkedFrom {
            thread: origin.thread.as_ref().and_then(|name| ThreadId::new(name).ok()),
            checkpoint: CheckpointId { run: origin.run, seq: origin.seq },
        };
        match first {
            Record::Start(start) => Some(Self {
                entrypoint: start.entrypoint.clone(),
                version: start.version,
                previous: start.previous,
                at_ms: start.at_ms,
                tags: start.tags.clone(),
                forked_from: start.forked.as_ref().map(from),
                is_update: false,
            }),
            Record::Update(update) => Some(Self {
                entrypoint: update.entrypoint.clone(),
                version: update.version,
                previous: None,
                at_ms: update.at_ms,
                tags: update.tags.clone(),
                forked_from: update.taken.as_ref().map(from),
                is_update: true,
            }),
            _ => None,
        }
    }
}

/// A question for a thread's runs; await it.
#[must_use = "the runs are read only when this is awaited"]
pub struct Runs {
    thread: Thread,
    before: Option<RunNo>,
    limit: usize,
}

impl Thread {
    /// The thread's runs, newest first, as far as they were not pruned. Each costs a few reads, however long it is.
    ///
    /// ```
    /// # use durably::{Runtime, Status, entrypoint};
    /// # #[entrypoint] async fn greet() -> u32 { 1 }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// thread.invoke(greet()).await?;
    /// thread.invoke(greet()).await?;
    /// let runs = thread.runs().await?;
    /// assert_eq!(runs.iter().map(|run| run.run.get()).collect::<Vec<_>>(), [2, 1]);
    /// assert_eq!(runs[1].status, Status::Completed);
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runs(&self) -> Runs {
        Runs { thread: self.clone(), before: None, limit: PAGE }
    }

    /// How a run stands that has so many records.
    pub(super) async fn run_status(&self, head: &Head, run: RunNo, records: u32) -> Result<Status, RunError> {
        if run == head.run {
            return Ok(head.status);
        }
        let last = Seq(records.saturating_sub(1));
        let last = storage::load_record(self.runtime.checkpointer(), &self.id, run, last).await?;
        Ok(status_after(last.as_ref()))
    }

    /// The checkpoint before a run's first.
    pub(super) async fn parent_of_run(
        &self,
        run: RunNo,
        known: &RunHead,
        oldest: RunNo,
    ) -> Result<Option<CheckpointId>, RunError> {
        match &known.forked_from {
            Some(ForkedFrom { thread: Some(_), .. }) => return Ok(None),
            Some(ForkedFrom { thread: None, checkpoint }) => {
                return Ok((checkpoint.run >= oldest).then_some(*checkpoint));
            }
            None => {}
        }
        let before = RunNo(run.0.saturating_sub(1));
        if before < oldest {
            return Ok(None);
        }
        let records = storage::records_of(self.runtime.checkpointer(), &self.id, before).await?;
        Ok(records.checked_sub(1).map(|seq| CheckpointId { run: before, seq: Seq(seq) }))
    }
}

/// How an earlier run stands that has this as its last record.
fn status_after(last: Option<&Record>) -> Status {
    match last {
        Some(Record::Update(_) | Record::End(End { how: Ended::Completed { .. } | Ended::Continued, .. })) => {
            Status::Completed
        }
        Some(Record::End(End {
            how: Ended::Failed { .. } | Ended::Panicked { .. } | Ended::Unclean { .. } | Ended::TimedOut { .. },
            ..
        })) => Status::Failed,
        // Given up; a damaged one without a record of that.
        _ => Status::Cancelled,
    }
}

impl Runs {
    /// Only runs before this one.
    pub fn before(mut self, run: RunNo) -> Self {
        self.before = Some(run);
        self
    }

    /// At most so many (0 counts as 1). Default: 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    async fn read(self) -> Result<Vec<RunSummary>, RunError> {
        let Thread { runtime, id } = &self.thread;
        let checkpointer = runtime.checkpointer();
        let Some((head, _)) = storage::head(checkpointer, id).await? else { return Ok(Vec::new()) };
        let oldest = storage::oldest(checkpointer, id).await?.run;
        let mut found = Vec::new();
        let newest = self.before.map_or(head.run.0, |before| before.0.saturating_sub(1).min(head.run.0));
        for run in (oldest.0..=newest).rev().map(RunNo) {
            if found.len() == self.limit {
                break;
            }
            let Some(first) = storage::load_record(checkpointer, id, run, Seq(0)).await? else { continue };
            let Some(known) = RunHead::of(&first) else { continue };
            let records = storage::records_of(checkpointer, id, run).await?;
            if records == 0 {
                // It was pruned while it was read.
                continue;
            }
            let last = Seq(records - 1);
            let record = storage::load_record(checkpointer, id, run, last).await?;
            let status = if run == head.run { head.status } else { status_after(record.as_ref()) };
            let updated = record.and_then(|record| record.at_ms()).unwrap_or(known.at_ms);
            found.push(RunSummary {
                run,
                entrypoint: known.entrypoint,
                version: known.version,
                status,
                started: moment(known.at_ms),
                updated: moment(updated),
                forked_from: known.forked_from,
                tags: known.tags,
                newest: CheckpointId { run, seq: last },
                is_update: known.is_update,
            });
        }
        Ok(found)
    }
}

impl IntoFuture for Runs {
    type Output = Result<Vec<RunSummary>, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("thread", &self.thread.id).field("before", &self.before).finish_non_exhaustive()
    }
}
