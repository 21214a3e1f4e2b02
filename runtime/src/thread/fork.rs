//! Forks: a run that has the first records of another one, and goes on from there by itself.

use std::{fmt, future::IntoFuture, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    Thread,
    ground::{GivesUp, Ground, TRIES},
    saved::unwritable,
    state::{Survey, SurveyedQuestion},
};
use crate::{
    CallId, CheckpointError, CheckpointId, RunError, Status, ThreadIdError, ValueError,
    checkpoint::BoxFuture,
    id::{RunNo, Seq},
    journal::{End, Ended, Origin, Outcome, Record, Resume, Start, Update, Wait, Waited},
    output::Recorded,
    scope::Earlier,
    storage::{self, Head},
    value::Payload,
};

/// A fork to be made; await it, then resume the thread that it gives.
#[must_use = "a fork is made only when this is awaited"]
pub struct Fork {
    source: Thread,
    at: CheckpointId,
    target: Result<Thread, ThreadIdError>,
    edit: Option<(CallId, Result<Payload, ValueError>)>,
    discard: bool,
    wait: bool,
}

/// What a fork is made of: the run's records, and the saved value that its code sees.
struct Prefix {
    records: Vec<Record>,
    /// Where the saved value stands in the source.
    previous: Option<(RunNo, Seq)>,
}

impl Thread {
    /// Makes a new run of the records of an earlier one, up to a checkpoint and with it: what is recorded there does not
    /// run again, what follows does, under new idempotency keys. The old run stays in the history as it is.
    ///
    /// Await it, then [`resume`](Self::resume) the thread that it gives; a question that is open at the checkpoint can be
    /// answered at once. A fork at the end of a completed run is completed too; at the end of a run that was given up it is
    /// that run before it was.
    ///
    /// ```
    /// use durably::{Outcome, Runtime, entrypoint, interrupt, task};
    ///
    /// #[task]
    /// async fn draft(topic: &str) -> String { format!("All about {topic}") }
    ///
    /// #[entrypoint]
    /// async fn article(topic: String) -> Option<String> {
    ///     let draft = draft(&topic).await;
    ///     interrupt::<bool>("publish?", &draft).await.then_some(draft)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().memory();
    /// let thread = runtime.thread("article")?;
    /// let paused = thread.invoke(article("sled".to_owned())).await?;
    /// let asked = thread.state().await?.expect("it has run").checkpoint;
    /// thread.answer("publish?", true).await?;
    /// assert!(thread.resume(article).await?.completed().flatten().is_some());
    ///
    /// // What if the answer had been no?
    /// let other = thread.fork(asked).to("what-if").await?;
    /// other.answer("publish?", false).await?;
    /// assert_eq!(other.resume(article).await?, Outcome::Completed(None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(&self, at: CheckpointId) -> Fork {
        Fork { source: self.clone(), at, target: Ok(self.clone()), edit: None, discard: false, wait: false }
    }
}

impl Fork {
    /// Makes the fork on another thread, fresh or not: it becomes that one's newest run. Default: on the same thread.
    pub fn to(mut self, thread: impl AsRef<str>) -> Self {
        self.target = self.source.runtime.thread(thread);
        self
    }

    /// Gives a call another outcome than the recorded one, an interrupt another answer: what if it had said no? The fork
    /// ends with that outcome, since everything after it may depend on it. One call of a fork: the last one counts.
    ///
    /// The value must be of the type that the code expects there. An answer is checked now where this process has come by
    /// the question's code, or where the question has a schema: [`RunError::Value`], and no fork is made. All else of
    /// another type is found when the run goes on: the same error at that call, and the fork is stuck.
    pub fn edit(mut self, call: CallId, value: impl Serialize) -> Self {
        self.edit = Some((call, Payload::encode(&value)));
        self
    }

    /// Gives up the run of the thread that the fork is made on, if it has one that has not ended. Default: the fork is
    /// refused then, with [`RunError::Unfinished`]. Not while a call is in doubt.
    pub fn discard_unfinished(mut self) -> Self {
        self.discard = true;
        self
    }

    /// Waits while somebody runs the thread that the fork is made on, instead of failing with [`RunError::Busy`].
    pub fn wait(mut self) -> Self {
        self.wait = true;
        self
    }

    async fn make(self) -> Result<Thread, RunError> {
        let Self { source, at, target, edit, discard, wait } = self;
        let target = target?;
        let edit = match edit {
            None => None,
            Some((call, Ok(value))) => Some((call, value)),
            Some((_, Err(error))) => return Err(unwritable("the edited outcome of a call", &source.id, error)),
        };
        let gives_up = if discard { GivesUp::Any } else { GivesUp::Nothing };
        for _ in 0..TRIES {
            let ground = Ground::take(&target, wait, gives_up).await?;
            let Prefix { mut records, previous } = Prefix::load(&source, at).await?;
            if let Some((call, value)) = &edit {
                let at_ms = source.runtime.inner.environment.now_ms();
                check_answer(&source, &records, *call, value)?;
                records =
                    edited(records, *call, value, at_ms).ok_or(RunError::NoOutcome { call: *call, checkpoint: at })?;
            }
            match write(&source, at, &target, ground, records, previous).await {
                // What it relies on was pruned meanwhile, or another fork of ours came first.
                Err(RunError::Checkpoint(CheckpointError::Conflict { .. })) => {}
                made => return made.map(|()| target),
            }
        }
        Err(RunError::Busy { thread: target.id })
    }
}

impl Prefix {
    async fn load(source: &Thread, at: CheckpointId) -> Result<Self, RunError> {
        let checkpointer = source.runtime.checkpointer();
        let records = source.records_at(at).await?;
        let mut records: Vec<Record> = records.into_iter().map(|(_, record)| record).collect();
        let previous = match records.first() {
            Some(Record::Start(start)) => start.previous,
            _ => None,
        };
        if let Some(Record::End(End { how: Ended::Discarded | Ended::Continued, .. })) = records.last() {
            records.pop();
        }
        // A fork of a run that was stopped from outside goes on from before that.
        if let Some(place) = stopped_at(&records) {
            records.truncate(place);
        }
        if let Some(place) = previous {
            // Known before anything is written: the code could not run without it.
            storage::load_stored(checkpointer, &source.id, place).await?;
        }
        Ok(Self { records, previous })
    }
}

/// Where a run was stopped from outside, if no resume has undone that.
fn stopped_at(records: &[Record]) -> Option<usize> {
    let place = records.iter().rposition(|record| matches!(record, Record::Cancel(_)))?;
    let is_undone = records[place..]
        .windows(2)
        .any(|pair| matches!(pair, [Record::End(End { how: Ended::TimedOut { .. }, .. }), Record::Resume(_)]));
    (!is_undone).then_some(place)
}

/// The records up to this call's outcome, with another one in its place.
fn edited(mut records: Vec<Record>, call: CallId, value: &Payload, at_ms: u64) -> Option<Vec<Record>> {
    let is_meant = |record: &Record| matches!(record, Record::Outcome(outcome) if outcome.call.id == call);
    let place = records.iter().rposition(is_meant)?;
    records.truncate(place + 1);
    if let Some(Record::Outcome(outcome)) = records.pop() {
        let recorded = Arc::new(Recorded::Value(value.clone()));
        // Nobody said so but whoever forks.
        records.push(Record::Outcome(Outcome { recorded, at_ms, answered: None, ..outcome }));
    }
    Some(records)
}

/// Refuses an answer that the code or the question's schema would not take, as far as this process knows.
fn check_answer(source: &Thread, records: &[Record], call: CallId, value: &Payload) -> Result<(), RunError> {
    let asked = records.iter().rev().find_map(|record| match record {
        Record::Wait(Wait { call: info, what: Waited::Answer(asked), .. }) if info.id == call => Some((info, asked)),
        _ => None,
    });
    let Some((info, asked)) = asked else { return Ok(()) };
    let unfit = |source| RunError::Value { what: format!("the edited answer to question {:?}", info.name), source };
    if let Some(check) = source.runtime.inner.environment.answer_types.check(&info.file, info.line, &asked.expects) {
        check(value).map_err(unfit)?;
    }
    let Some(schema) = &asked.schema else { return Ok(()) };
    schema.accepts(value).map_err(|misfit| {
        let type_name = "what the question's schema asks for";
        unfit(ValueError::Unreadable { type_name, path: misfit.path, cause: misfit.why, retyped: false })
    })
}

/// Writes the records as the target's newest run.
async fn write(
    source: &Thread,
    at: CheckpointId,
    target: &Thread,
    mut ground: Ground,
    mut records: Vec<Record>,
    previous: Option<(RunNo, Seq)>,
) -> Result<(), RunError> {
    let at_ms = target.runtime.inner.environment.now_ms();
    let elsewhere = source.id != target.id;
    let origin = |(run, seq)| Origin { thread: elsewhere.then(|| source.id.as_str().to_owned()), run, seq };
    let mut run = ground.next_run();
    let mut expect = Vec::new();
    let mut saved = previous;
    let (entrypoint, version, tags) = match records.first() {
        Some(
            Record::Start(Start { entrypoint, version, tags, .. })
            | Record::Update(Update { entrypoint, version, tags, .. }),
        ) => (entrypoint.clone(), *version, tags.clone()),
        _ => return Err(RunError::UnknownCheckpoint { thread: source.id.clone(), checkpoint: at }),
    };
    let tags = storage::tagged(ground.head.as_ref().map(|head| head.tags.clone()).unwrap_or_default(), tags)?;
    if let Some(place) = previous {
        let (record, stored) = storage::load_stored(source.runtime.checkpointer(), &source.id, place).await?;
        if elsewhere {
            // The other thread may lose the value at any time: it is taken along, in a run of its own.
            let value = record.saved().cloned().ok_or_else(|| RunError::Corrupt {
                thread: source.id.clone(),
                run: place.0,
                seq: place.1,
                detail: "the value that the last success saved is not there".to_owned(),
            })?;
            let (entrypoint, tags, taken) = (entrypoint.clone(), tags.clone(), Some(origin(place)));
            let update = Update { entrypoint, version, value, output: None, input: None, taken, at_ms, tags };
            storage::record_changes(&target.id, run, Seq(0), &Record::Update(update), &mut ground.changes)?;
            saved = Some((run, Seq(0)));
            run = RunNo(run.0.saturating_add(1));
        } else {
            expect.push(stored);
        }
    }
    match records.first_mut() {
        Some(Record::Start(start)) => {
            (start.previous, start.forked) = (saved, Some(origin((at.run, at.seq))));
            start.tags.clone_from(&tags);
        }
        Some(Record::Update(update)) => update.taken = Some(origin((at.run, at.seq))),
        _ => {}
    }
    let last = Seq(u32::try_from(records.len().saturating_sub(1)).unwrap_or(u32::MAX));
    let (status, reason) = stands(&records);
    if matches!(records.first(), Some(Record::Start(start)) if start.limit_ms.is_some())
        && matches!(status, Status::Interrupted | Status::Drained)
    {
        // Its time begins now.
        records.push(Record::Resume(Resume { reopened: Vec::new(), at_ms }));
    }
    if status == Status::Completed {
        saved = Some((run, last));
    }
    for (seq, record) in (0..).zip(&records) {
        storage::record_changes(&target.id, run, Seq(seq), record, &mut ground.changes)?;
    }
    let placed: Vec<(Seq, Record)> = (0..).map(Seq).zip(records).collect();
    Earlier::of(&placed).open_changes(&target.id, &mut ground.changes)?;
    let head = Head {
        status,
        run,
        entrypoint,
        version,
        saved,
        created_ms: ground.head.as_ref().map_or(at_ms, |head| head.created_ms),
        updated_ms: at_ms,
        reason: None,
        due_ms: None,
        // What its code has left to be done by then is known when the code runs.
        cleans_up: true,
        tags,
    };
    let head = Head { due_ms: due_ms(&placed), ..head.with(status, reason, at_ms) };
    storage::head_changes(&target.id, &head, &mut ground.changes)?;
    Ok(ground.commit(target, expect).await?)
}

/// When the nearest of the open questions answers itself.
fn due_ms(records: &[(Seq, Record)]) -> Option<u64> {
    let questions = Survey::of(records).questions.into_iter().filter(SurveyedQuestion::is_open);
    questions.filter_map(|asked| Some(asked.question.asked.deadline.as_ref()?.due_ms)).min()
}

/// How a run stands that has these records and that nobody drives.
pub(super) fn stands(records: &[Record]) -> (Status, Option<String>) {
    match records.last() {
        Some(Record::Update(_) | Record::End(End { how: Ended::Completed { .. }, .. })) => (Status::Completed, None),
        Some(Record::End(End { how: Ended::Failed { failure, .. }, .. })) => {
            let reason = match failure {
                Recorded::Failure(failure) => Some(failure.to_string()),
                Recorded::Value(_) => None,
            };
            (Status::Failed, reason)
        }
        Some(Record::End(End { how: Ended::Panicked { message, .. } | Ended::Unclean { message, .. }, .. })) => {
            (Status::Failed, Some(message.clone()))
        }
        Some(Record::End(End { how: Ended::TimedOut { limit_ms, .. }, .. })) => {
            (Status::Failed, Some(format!("it did not end within {:?}", Duration::from_millis(*limit_ms))))
        }
        _ => {
            let records: Vec<(Seq, Record)> = records.iter().map(|record| (Seq(0), record.clone())).collect();
            let survey = Survey::of(&records);
            let asks = survey.questions.iter().any(SurveyedQuestion::is_open);
            let doubts = survey.begun.iter().any(|(doubt, is_over)| doubt.awaited && !is_over);
            (
                if doubts {
                    Status::InDoubt
                } else if asks {
                    Status::Interrupted
                } else {
                    Status::Drained
                },
                None,
            )
        }
    }
}

impl IntoFuture for Fork {
    type Output = Result<Thread, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

impl fmt::Debug for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("source", &self.source.id).field("at", &self.at).finish_non_exhaustive()
    }
}
