//! A thread's checkpoints, newest first, read a page at a time.

use std::{
    fmt,
    future::IntoFuture,
    time::{Duration, SystemTime},
};

use super::{
    Thread,
    kinds::CheckpointKind,
    runs::{ForkedFrom, RunHead},
    saved::RecordedValue,
};
use crate::{
    AnswerKind, CallId, CheckpointId, Failure, RunError, Status,
    checkpoint::BoxFuture,
    environment::moment,
    id::{RunNo, Seq},
    journal::{CallInfo, CallSketch, Ended, Record, Waited, Why},
    output::Recorded,
    storage,
};

/// How many checkpoints a page has unless another number is asked for.
const PAGE: usize = 100;
/// The most records that are read at a time.
const BLOCK: u32 = 64;

/// One checkpoint: the state of a thread after one record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Its name, for [`Thread::state_at`] and [`Thread::fork`].
    pub id: CheckpointId,
    /// The one before it: in its run; for a run's first, where it was forked, or the last one of the run before. `None`
    /// for a thread's first, for a fork from another thread, and where what comes before was pruned.
    pub parent: Option<CheckpointId>,
    /// The entrypoint of its run.
    pub entrypoint: String,
    /// Where its run was forked, if it is a fork.
    pub forked_from: Option<ForkedFrom>,
    /// When the record was made. A [`CheckpointWhat::Unread`] has no time.
    pub at: Option<SystemTime>,
    /// What was recorded.
    pub what: CheckpointWhat,
}

/// What a record says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CheckpointWhat {
    /// The run began.
    Started {
        /// With this input: the list of the entrypoint's parameters.
        input: RecordedValue,
    },
    /// A call gave a value.
    Value {
        /// Its identity.
        id: CallId,
        /// The call.
        call: CallSketch,
        /// The value.
        value: RecordedValue,
    },
    /// A call failed, and its retries are used up.
    Failure {
        /// Its identity.
        id: CallId,
        /// The call.
        call: CallSketch,
        /// The failure.
        failure: Failure,
    },
    /// An attempt failed, and another one was to follow.
    Attempt {
        /// The call's identity.
        id: CallId,
        /// The call.
        call: CallSketch,
        /// Which attempt, from 1.
        number: u32,
        /// Its error.
        error: String,
    },
    /// A body that may run at most once was about to begin.
    Begun {
        /// The call's identity.
        id: CallId,
        /// The call.
        call: CallSketch,
        /// Which attempt, from 1.
        number: u32,
    },
    /// Nobody knew what had become of such a body: somebody was to say so.
    InDoubt {
        /// The call's identity.
        id: CallId,
        /// The call.
        call: CallSketch,
        /// What its reconcile function came to, if it has one.
        why: Option<String>,
    },
    /// A question was asked.
    Question {
        /// The question's identity.
        id: CallId,
        /// The interrupt.
        call: CallSketch,
        /// What is shown to whoever answers.
        payload: RecordedValue,
    },
    /// A question was answered.
    Answer {
        /// The question's identity.
        id: CallId,
        /// The interrupt.
        call: CallSketch,
        /// The answer; `null` if the question was cancelled.
        value: RecordedValue,
        /// How it came.
        how: AnswerKind,
        /// Who answered, if they said so.
        by: Option<String>,
    },
    /// An answer could not be used; the question stayed open.
    Refused {
        /// The question's identity.
        id: CallId,
        /// The interrupt.
        call: CallSketch,
        /// Why.
        reason: String,
    },
    /// A question was dropped unanswered by the code.
    Withdrawn {
        /// The question's identity.
        id: CallId,
        /// The interrupt.
        call: CallSketch,
    },
    /// A sleep began.
    Sleep {
        /// Its identity.
        id: CallId,
        /// The sleep.
        call: CallSketch,
        /// When it is over.
        until: SystemTime,
    },
    /// A run that had failed was gone on with; these calls were opened again.
    Resumed {
        /// Their identities.
        reopened: Vec<CallId>,
    },
    /// A call was woken and nobody looked: a note for replay.
    Unread {
        /// Its identity.
        id: CallId,
        /// The call.
        call: CallSketch,
    },
    /// The entrypoint's code told its readers something, with [`emit`](crate::emit).
    Emitted {
        /// What it told.
        value: RecordedValue,
    },
    /// The run returned a value.
    Completed {
        /// What the caller got.
        output: RecordedValue,
        /// What the next run got as `previous`; the output itself, unless the code said otherwise.
        saved: RecordedValue,
    },
    /// The run returned an error.
    Failed {
        /// The error.
        failure: Option<Failure>,
    },
    /// The run's code panicked.
    Panicked {
        /// Where and with what message.
        message: String,
    },
    /// The run's own entrypoint failed, and is run again.
    Again {
        /// Which attempt failed, from 1.
        number: u32,
        /// Its error.
        error: String,
        /// The failures that it did not get past: the next attempt opens them again.
        reopened: Vec<CallId>,
    },
    /// The run was told to stop: its code is dropped here, and it cleans up.
    Stopped {
        /// Why, in the words of whoever cancelled it.
        reason: Option<String>,
        /// How long it was allowed to take, if its deadline stopped it.
        limit: Option<Duration>,
    },
    /// What the run had left to be done at its end failed.
    CleanUpFailed {
        /// What failed.
        message: String,
    },
    /// The run ended by its deadline.
    TimedOut {
        /// How long it was allowed to take.
        limit: Duration,
    },
    /// The run ended as cancelled.
    Cancelled {
        /// Why, in the words of whoever cancelled it.
        reason: Option<String>,
    },
    /// The run was given up.
    Discarded,
    /// The run went on as a new run.
    Continued,
    /// The saved value was set from outside, or came along with a fork from another thread.
    Updated {
        /// The value.
        value: RecordedValue,
    },
}

impl CheckpointWhat {
    fn of(record: Record) -> Self {
        let sketch = |call: &CallInfo| (call.id, CallSketch::from(call));
        match record {
            Record::Start(start) => Self::Started { input: RecordedValue(start.input) },
            Record::Outcome(outcome) => {
                let (id, call) = sketch(&outcome.call);
                match &*outcome.recorded {
                    Recorded::Value(value) => {
                        let value = RecordedValue(value.clone());
                        match call.kind {
                            crate::CallKind::Interrupt => {
                                let (how, by) = match outcome.answered {
                                    Some(answered) => (answered.kind, answered.by),
                                    None => (AnswerKind::Given, None),
                                };
                                Self::Answer { id, call, value, how, by }
                            }
                            _ => Self::Value { id, call, value },
                        }
                    }
                    Recorded::Failure(failure) => Self::Failure { id, call, failure: failure.clone() },
                }
            }
            Record::Attempt(attempt) => {
                let (id, call) = sketch(&attempt.call);
                Self::Attempt { id, call, number: attempt.number, error: attempt.error }
            }
            Record::Begin(begin) => {
                let (id, call) = sketch(&begin.call);
                Self::Begun { id, call, number: begin.number }
            }
            Record::Wait(wait) => {
                let (id, call) = sketch(&wait.call);
                match wait.what {
                    Waited::Answer(asked) => Self::Question { id, call, payload: RecordedValue(asked.payload.clone()) },
                    Waited::Until { due_ms } => Self::Sleep { id, call, until: moment(due_ms) },
                    Waited::Refused { reason } => Self::Refused { id, call, reason },
                    Waited::Withdrawn => Self::Withdrawn { id, call },
                    Waited::InDoubt(doubt) => Self::InDoubt { id, call, why: doubt.why.clone() },
                }
            }
            Record::Resume(resume) => Self::Resumed { reopened: resume.reopened },
            Record::Unread(unread) => {
                let (id, call) = sketch(&unread.call);
                Self::Unread { id, call }
            }
            Record::Emitted(emitted) => Self::Emitted { value: RecordedValue(emitted.value) },
            Record::End(end) => match end.how {
                Ended::Completed { output, save } => {
                    let saved = RecordedValue(save.unwrap_or_else(|| output.clone()));
                    Self::Completed { output: RecordedValue(output), saved }
                }
                Ended::Failed { failure: Recorded::Failure(failure), .. } => Self::Failed { failure: Some(failure) },
                Ended::Failed { failure: Recorded::Value(_), .. } => Self::Failed { failure: None },
                Ended::Panicked { message, .. } => Self::Panicked { message },
                Ended::Unclean { message, .. } => Self::CleanUpFailed { message },
                Ended::TimedOut { limit_ms, .. } => Self::TimedOut { limit: Duration::from_millis(limit_ms) },
                Ended::Cancelled { reason } => Self::Cancelled { reason },
                Ended::Discarded => Self::Discarded,
                Ended::Continued => Self::Continued,
            },
            Record::Again(again) => Self::Again { number: again.number, error: again.error, reopened: again.reopened },
            Record::Cancel(cancel) => match cancel.why {
                Why::Asked { reason } => Self::Stopped { reason, limit: None },
                Why::TimedOut { limit_ms } => {
                    Self::Stopped { reason: None, limit: Some(Duration::from_millis(limit_ms)) }
                }
            },
            Record::Update(update) => Self::Updated { value: RecordedValue(update.value) },
        }
    }

    /// The call that it is about, if it is about one: what [`Fork::edit`](crate::Fork::edit) takes.
    #[must_use]
    pub fn call(&self) -> Option<(CallId, &CallSketch)> {
        match self {
            Self::Value { id, call, .. }
            | Self::Failure { id, call, .. }
            | Self::Attempt { id, call, .. }
            | Self::Begun { id, call, .. }
            | Self::InDoubt { id, call, .. }
            | Self::Question { id, call, .. }
            | Self::Answer { id, call, .. }
            | Self::Refused { id, call, .. }
            | Self::Withdrawn { id, call }
            | Self::Sleep { id, call, .. }
            | Self::Unread { id, call } => Some((*id, call)),
            Self::Started { .. }
            | Self::Resumed { .. }
            | Self::Emitted { .. }
            | Self::Again { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Panicked { .. }
            | Self::Stopped { .. }
            | Self::CleanUpFailed { .. }
            | Self::TimedOut { .. }
            | Self::Cancelled { .. }
            | Self::Discarded
            | Self::Continued
            | Self::Updated { .. } => None,
        }
    }
}

/// A question for a thread's checkpoints; await it.
#[must_use = "a history is read only when this is awaited"]
pub struct History {
    thread: Thread,
    before: Option<CheckpointId>,
    limit: usize,
    entrypoint: Option<String>,
    status: Option<Status>,
    tags: Vec<(String, String)>,
    kinds: Vec<CheckpointKind>,
}

impl Thread {
    /// The thread's checkpoints, newest first: one for each record of each run that was not pruned.
    ///
    /// A page costs the records on it and a few reads for each run that it comes by; runs that a filter leaves out cost
    /// their first record, and for a filter by status their last. Page on with [`History::before`] the last one.
    ///
    /// ```
    /// use durably::{CheckpointKind, Runtime, entrypoint, task};
    ///
    /// #[task]
    /// async fn double(n: u32) -> u32 { n * 2 }
    ///
    /// #[entrypoint]
    /// async fn sum(n: u32) -> u32 { double(n).await + 1 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// thread.invoke(sum(4)).await?;
    /// let all = thread.history().await?;
    /// assert_eq!(all.iter().map(|at| at.id.to_string()).collect::<Vec<_>>(), ["1.2", "1.1", "1.0"]);
    /// let doubled = thread.history().kind(CheckpointKind::Outcome).limit(1).await?;
    /// assert_eq!(doubled[0].what.call().map(|(_, call)| call.name.as_str()), Some("double"));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn history(&self) -> History {
        History {
            thread: self.clone(),
            before: None,
            limit: PAGE,
            entrypoint: None,
            status: None,
            tags: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// The thread as it was after this record: calls, open questions, what was saved. Of a run that went on from there its
    /// status is `Interrupted` if a question was open, else `Running`.
    ///
    /// # Errors
    ///
    /// [`RunError::UnknownCheckpoint`], [`RunError::Pruned`]; and as [`Thread::state`].
    pub async fn state_at(&self, at: CheckpointId) -> Result<crate::ThreadState, RunError> {
        let checkpointer = self.runtime.checkpointer();
        let records = self.records_at(at).await?;
        let (now, _) = storage::head(checkpointer, &self.id).await?.ok_or_else(|| self.unknown(at))?;
        let newest = now.run == at.run && storage::records_of(checkpointer, &self.id, at.run).await? == at.seq.0 + 1;
        if newest {
            let inbox = storage::inbox(checkpointer, &self.id).await?;
            return self.state_of(now, &records, inbox).await;
        }
        let run = RunHead::of(&records[0].1).ok_or_else(|| self.unknown(at))?;
        let last = &records[records.len() - 1].1;
        let (status, reason) = super::fork::stands(std::slice::from_ref(last));
        let status = match last {
            Record::End(end) => match end.how {
                Ended::Discarded | Ended::Continued | Ended::Cancelled { .. } => Status::Cancelled,
                _ => status,
            },
            Record::Update(_) => status,
            _ => {
                let all: Vec<Record> = records.iter().map(|(_, record)| record.clone()).collect();
                match super::fork::stands(&all).0 {
                    status @ (Status::Interrupted | Status::InDoubt) => status,
                    _ => Status::Running,
                }
            }
        };
        let saved = if last.saved().is_some() { Some((at.run, at.seq)) } else { run.previous };
        let head = storage::Head {
            status,
            run: at.run,
            entrypoint: run.entrypoint,
            version: run.version,
            saved,
            updated_ms: last.at_ms().unwrap_or(run.at_ms),
            reason,
            due_ms: None,
            tags: run.tags,
            ..now
        };
        self.state_of(head, &records, Vec::new()).await
    }

    /// The records of a run up to a checkpoint and with it.
    pub(super) async fn records_at(&self, at: CheckpointId) -> Result<Vec<(Seq, Record)>, RunError> {
        let checkpointer = self.runtime.checkpointer();
        // First, so that it tells of a prune that comes in between.
        let records = storage::load_records(checkpointer, &self.id, at.run, (0, at.seq.0)).await;
        if at.run.0 > 0 && storage::oldest(checkpointer, &self.id).await?.run > at.run {
            return Err(RunError::Pruned { thread: self.id.clone(), checkpoint: at });
        }
        let records = records?;
        if records.len() as u64 != u64::from(at.seq.0) + 1 {
            return Err(self.unknown(at));
        }
        Ok(records)
    }

    fn unknown(&self, checkpoint: CheckpointId) -> RunError {
        RunError::UnknownCheckpoint { thread: self.id.clone(), checkpoint }
    }
}

impl History {
    /// Only checkpoints that are older than this one, in the order of the list: of its run those before it, and all of
    /// earlier runs.
    pub fn before(mut self, checkpoint: CheckpointId) -> Self {
        self.before = Some(checkpoint);
        self
    }

    /// At most so many (0 counts as 1). Default: 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// Only those of runs of this entrypoint.
    pub fn entrypoint(mut self, name: impl Into<String>) -> Self {
        self.entrypoint = Some(name.into());
        self
    }

    /// Only those of runs that stand so now: how they ended, and for the newest what it is doing.
    pub fn status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Only those of runs before or at whose start the thread was marked so. Of several, all must hold.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Only those of this kind; said more than once, of any of these.
    pub fn kind(mut self, kind: CheckpointKind) -> Self {
        self.kinds.push(kind);
        self
    }

    async fn read(self) -> Result<Vec<Checkpoint>, RunError> {
        let Thread { runtime, id } = &self.thread;
        let checkpointer = runtime.checkpointer();
        let Some((head, _)) = storage::head(checkpointer, id).await? else { return Ok(Vec::new()) };
        let oldest = storage::oldest(checkpointer, id).await?.run;
        let mut found = Vec::new();
        let mut run = self.before.map_or(head.run, |before| before.run.min(head.run));
        while run >= oldest && found.len() < self.limit {
            let upto = match self.before {
                Some(before) if before.run == run => before.seq.0,
                _ => u32::MAX,
            };
            if upto > 0 {
                let before = found.len();
                if let Err(error) = self.read_run(run, upto, &head, oldest, &mut found).await {
                    if storage::oldest(checkpointer, id).await?.run <= run {
                        return Err(error);
                    }
                    // It was pruned while it was read.
                    found.truncate(before);
                    break;
                }
            }
            match run.0.checked_sub(1) {
                Some(earlier) => run = RunNo(earlier),
                None => break,
            }
        }
        Ok(found)
    }

    /// Adds the checkpoints of one run that are wanted, from before `upto` down.
    async fn read_run(
        &self,
        run: RunNo,
        upto: u32,
        head: &storage::Head,
        oldest: RunNo,
        found: &mut Vec<Checkpoint>,
    ) -> Result<(), RunError> {
        let Thread { runtime, id } = &self.thread;
        let checkpointer = runtime.checkpointer();
        let Some(first) = storage::load_record(checkpointer, id, run, Seq(0)).await? else { return Ok(()) };
        let Some(known) = RunHead::of(&first) else { return Ok(()) };
        if self.entrypoint.as_ref().is_some_and(|wanted| *wanted != known.entrypoint)
            || self.tags.iter().any(|(key, value)| known.tags.get(key) != Some(value))
        {
            return Ok(());
        }
        let records = storage::records_of(checkpointer, id, run).await?;
        if let Some(wanted) = self.status
            && self.thread.run_status(head, run, records).await? != wanted
        {
            return Ok(());
        }
        let mut upto = upto.min(records);
        while upto > 0 && found.len() < self.limit {
            let missing = u32::try_from(self.limit - found.len()).unwrap_or(u32::MAX);
            let block = if self.kinds.is_empty() { missing.min(BLOCK) } else { BLOCK };
            let from = upto.saturating_sub(block);
            for (seq, record) in storage::load_records(checkpointer, id, run, (from, upto - 1)).await?.into_iter().rev()
            {
                let at = record.at_ms().map(moment);
                let what = CheckpointWhat::of(record);
                if found.len() == self.limit || !(self.kinds.is_empty() || self.kinds.contains(&what.kind())) {
                    continue;
                }
                let parent = match seq.0.checked_sub(1) {
                    Some(before) => Some(CheckpointId { run, seq: Seq(before) }),
                    None => self.thread.parent_of_run(run, &known, oldest).await?,
                };
                found.push(Checkpoint {
                    id: CheckpointId { run, seq },
                    parent,
                    entrypoint: known.entrypoint.clone(),
                    forked_from: known.forked_from.clone(),
                    at,
                    what,
                });
            }
            upto = from;
        }
        Ok(())
    }
}

impl IntoFuture for History {
    type Output = Result<Vec<Checkpoint>, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("thread", &self.thread.id).field("before", &self.before).finish_non_exhaustive()
    }
}
