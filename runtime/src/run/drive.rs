//! Drives one run: its entrypoint is stepped, what it leaves is committed, and its end or pause is written down.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::{
    Entered, Outcome,
    again::{Failed, again, back_off},
    alarm::Alarm,
    ends::{Conclusion, Rest, continue_as_new, end, end_cut, give_up, pause, rest},
};
use crate::{
    Definition, RunError, Status,
    checkpoint::Change,
    entrypoint::{Previous, Returned},
    environment::{Environment, Event, length_ms},
    id::{RunNo, Seq},
    journal::{End, Ended, Frame, Journal, Record, Resume, Scope, Start, Why},
    output::Recorded,
    panics::panic_message,
    scope::{Driving, Earlier, Hold, Mode, Quiet, Run, Stop},
    storage::{self, Head},
    stream::Line,
    value::Payload,
};

/// How many rounds of releases the driver makes before it lets others on its thread run.
const ROUNDS: u32 = 64;

/// What a run is driven from.
pub(crate) struct Plan {
    pub(crate) environment: Arc<Environment>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) mode: Mode,
    /// The thread's head as it was read under the lease, if the thread has ever run.
    pub(crate) head: Option<Head>,
    pub(crate) begin: Begin,
    /// How many of its tasks' bodies may be live at a time, if that was said for this drive.
    pub(crate) max_concurrency: Option<u32>,
    /// Told of the run once it can be reached by answers.
    pub(crate) announce: Announce,
    /// This drive's own reader.
    pub(crate) line: Option<Arc<Line>>,
}

/// Told of a run when its drive begins.
pub(crate) type Announce = Box<dyn Fn(&Arc<Run>) + Send + Sync>;

/// Whether a run starts or goes on.
pub(crate) enum Begin {
    /// It starts, with this input.
    Start {
        /// As recorded.
        input: Payload,
        /// Of the canonical input.
        digest: [u8; 32],
        /// How long it may take.
        limit: Option<Duration>,
        /// What becomes of the run before, in the same step.
        with: Vec<Change>,
        /// What the thread is marked with from now on, beside what it has.
        tags: BTreeMap<String, String>,
    },
    /// It goes on from its records.
    Replay(Vec<(Seq, Record)>),
}

/// How a drive came to its end.
pub(super) enum Came<O> {
    Returned(Returned<O>),
    Stopped(Stop),
    /// It was stopped from outside, and has come to the place where its code is to be dropped.
    Cut,
    /// It goes on as a new run with this input.
    Continues(Payload, [u8; 32]),
    /// Nothing in it is alive: it pauses as this; `None`: it waits for nothing that could come.
    Rests(Option<Rest>),
}

/// Drives the run to its end or to a pause.
pub(crate) async fn drive<D: Definition>(plan: Plan) -> Result<Outcome<Payload>, RunError> {
    let Plan { environment, hold, mode, mut head, mut begin, max_concurrency, announce, line } = plan;
    loop {
        let (run, start, failed) = match begin {
            Begin::Start { input, digest, limit, with, tags } => {
                let given = (input, digest, limit, tags, max_concurrency);
                let (run, start) =
                    begin_run::<D>(&environment, &hold, mode, &mut head, given, with, line.as_ref()).await?;
                (run, start, Failed::default())
            }
            Begin::Replay(records) => go_on(&environment, &hold, mode, &mut head, records, line.as_ref()).await?,
        };
        run.limit_concurrency(max_concurrency.or(start.max_concurrency).or(D::SPEC.max_concurrency));
        // Dropped before the end, this stops the run as a crash would.
        let _closed = Closing(run.clone());
        announce(&run);
        // Those who began to watch since, and did not find the run.
        run.join_watchers();
        // Read after it is announced: an answer that comes meanwhile is either read here or told to the run.
        let inbox = storage::inbox(&environment.checkpointer, &run.thread).await?;
        let missing = run.take_inbox(inbox);
        if !missing.is_empty() {
            let mut changes = Vec::new();
            for (question, entry) in &missing {
                storage::open_changes(&run.thread, *question, entry, &mut changes)?;
            }
            run.flush(true, changes);
            run.drained().await?;
        }
        if let Some(request) = storage::cancel_request(&environment.checkpointer, &run.thread).await? {
            run.want_cancel(Why::Asked { reason: request.reason });
        }
        let known = head.as_mut().expect("a run that was begun has a head");
        let driven = match back_off(&run, known, failed.due_ms).await {
            Ok(None) => drive_once::<D>(&run, known, &start, failed.attempts + 1).await,
            Ok(Some(paused)) => Ok(paused),
            Err(error) => Err(error),
        };
        let how = match &driven {
            Ok(Conclusion::Completed(_)) => "completed",
            Ok(Conclusion::Cancelled) => "cancelled",
            Ok(Conclusion::Paused(outcome)) => outcome.word(),
            Ok(Conclusion::Continue) => "continued",
            Ok(Conclusion::Again) => "retried",
            Err(error) => error.kind(),
        };
        environment.observe(|| Event::RunStopped { run: run.view(), how });
        run.part((!matches!(driven, Ok(Conclusion::Continue))).then_some(how));
        match driven? {
            Conclusion::Completed(output) => return Ok(Outcome::Completed(output)),
            Conclusion::Cancelled => return Ok(Outcome::Cancelled),
            Conclusion::Paused(outcome) => return Ok(outcome),
            Conclusion::Continue | Conclusion::Again => {
                // If it is a new one: the old run's end and its start were one commit.
                let records = storage::load_run(&environment.checkpointer, &run.thread, known.run).await?;
                if let (Some(line), Some((_, start)), true) = (&line, records.first(), known.run != run.no) {
                    line.tell_start((known.run, &known.entrypoint), start);
                }
                begin = Begin::Replay(records);
            }
        }
    }
}

/// Closes the run when its drive ends, however that is.
struct Closing(Arc<Run>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What a run begins with: its input and the digest of that, how long it may take, its tags, how many of its tasks may be
/// live at a time.
type Input = (Payload, [u8; 32], Option<Duration>, BTreeMap<String, String>, Option<u32>);

/// Writes down a run's start; it is durable before the first line of the user's code.
async fn begin_run<D: Definition>(
    environment: &Arc<Environment>,
    hold: &Arc<Hold>,
    mode: Mode,
    head: &mut Option<Head>,
    (input, digest, limit, tags, max_concurrency): Input,
    mut changes: Vec<Change>,
    line: Option<&Arc<Line>>,
) -> Result<(Arc<Run>, Start), RunError> {
    let at_ms = environment.now_ms();
    let no = RunNo(head.as_ref().map_or(1, |head| head.run.0.saturating_add(1)));
    // What another entrypoint saved on the thread before its run was discarded is not this one's.
    let saved = head.as_ref().filter(|head| head.entrypoint == D::SPEC.name).and_then(|head| head.saved);
    let tags = storage::tagged(head.as_ref().map(|head| head.tags.clone()).unwrap_or_default(), tags)?;
    let new = Head {
        status: Status::Running,
        run: no,
        entrypoint: D::SPEC.name.to_owned(),
        version: D::SPEC.version,
        saved,
        created_ms: head.as_ref().map_or(at_ms, |head| head.created_ms),
        updated_ms: at_ms,
        reason: None,
        due_ms: None,
        cleans_up: false,
        tags: tags.clone(),
    };
    let entrypoint = D::SPEC.name.to_owned();
    let version = D::SPEC.version;
    let limit_ms = limit.map(length_ms);
    let (previous, forked) = (saved, None);
    let start = Start { entrypoint, version, input, digest, previous, at_ms, max_concurrency, limit_ms, tags, forked };
    // One that was meant for the run before.
    changes.push(storage::remove_cancel());
    let journal = Journal::load(Vec::new(), 0).expect("no records are a journal");
    let deadline = deadline(&start, at_ms);
    let run = Run::new(environment.clone(), hold, no, (&start, deadline), mode, journal);
    run.join_readers(line);
    run.with_journal(|journal| journal.append_plain(Record::Start(start.clone())));
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    run.drained().await?;
    *head = Some(new);
    environment.observe(|| Event::RunStarted { run: run.view(), resumed: false });
    Ok((run, start))
}

/// When a run that began or was resumed at this moment has to have ended, and how long that is.
fn deadline(start: &Start, at_ms: u64) -> Option<(u64, u64)> {
    // Rounded up, as a sleep is.
    start.limit_ms.map(|limit_ms| (at_ms.saturating_add(limit_ms).saturating_add(1), limit_ms))
}

/// Takes a run up from its records.
async fn go_on(
    environment: &Arc<Environment>,
    hold: &Arc<Hold>,
    mode: Mode,
    head: &mut Option<Head>,
    records: Vec<(Seq, Record)>,
    line: Option<&Arc<Line>>,
) -> Result<(Arc<Run>, Start, Failed), RunError> {
    let thread = hold.lease.thread.clone();
    let head = head.as_mut().expect("a run that goes on has a head");
    let corrupt = |seq: Seq, detail: String| RunError::Corrupt { thread: thread.clone(), run: head.run, seq, detail };
    let next_seq = u32::try_from(records.len()).map_err(|_| corrupt(Seq(u32::MAX), "too many records".to_owned()))?;
    let mut records = records.into_iter();
    let Some((_, Record::Start(start))) = records.next() else {
        return Err(corrupt(Seq(0), "a run does not begin with its start".to_owned()));
    };
    let mut records: Vec<(Seq, Record)> = records.collect();
    // A run that ended with a failure goes on: the failures it did not get past are opened again.
    let mut resume = None;
    if let Some((
        _,
        Record::End(End {
            how:
                Ended::Failed { open, .. }
                | Ended::Panicked { open, .. }
                | Ended::Unclean { open, .. }
                | Ended::TimedOut { open, .. },
            ..
        }),
    )) = records.last()
    {
        let entry = Resume { reopened: open.clone(), at_ms: environment.now_ms() };
        records.push((Seq(next_seq), Record::Resume(entry.clone())));
        resume = Some(entry);
    }
    if records.is_empty() && start.limit_ms.is_some() && head.status == Status::Drained {
        // Its input was staged, or nothing of it had begun: its time begins now.
        let entry = Resume { reopened: Vec::new(), at_ms: environment.now_ms() };
        records.push((Seq(next_seq), Record::Resume(entry.clone())));
        resume = Some(entry);
    }
    let resumed = !records.is_empty();
    let resumed_at = records.iter().rev().find_map(|(_, record)| match record {
        Record::Resume(resume) => Some(resume.at_ms),
        _ => None,
    });
    let deadline = deadline(&start, resumed_at.unwrap_or(start.at_ms));
    let earlier = Earlier::of(&records);
    let failed = Failed::of(&records);
    let journal = Journal::load(records, next_seq).map_err(|broken| corrupt(broken.seq, broken.detail))?;
    let run = Run::new(environment.clone(), hold, head.run, (&start, deadline), mode, journal);
    run.join_readers(line);
    run.remember(earlier);
    if resume.is_some() || head.status != Status::Running {
        if let Some(resume) = resume {
            run.with_journal(|journal| journal.append_plain(Record::Resume(resume)));
        }
        let new = head.with(Status::Running, None, environment.now_ms());
        let mut changes = Vec::new();
        storage::head_changes(&thread, &new, &mut changes)?;
        run.flush(true, changes);
        run.drained().await?;
        *head = new;
    }
    environment.observe(|| Event::RunStarted { run: run.view(), resumed });
    Ok((run, start, failed))
}

/// Drives the entrypoint as far as it comes in this process, and writes down what that is.
async fn drive_once<D: Definition>(
    run: &Arc<Run>,
    head: &mut Head,
    start: &Start,
    attempt: u32,
) -> Result<Conclusion, RunError> {
    let came = match enter::<D>(run, start).await {
        Ok(mut entered) => {
            let came = step(run, &mut entered).await;
            if matches!(came, Came::Cut) {
                // What is dropped now is dropped by us, and not by the code.
                run.halt();
            }
            drop(entered);
            match (came, run.stopped()) {
                // What the entrypoint held panicked when it was dropped.
                (Came::Rests(_) | Came::Continues(..) | Came::Cut, Some(stop)) => Came::Stopped(stop),
                (came, _) => came,
            }
        }
        Err(error) => Came::Stopped(Stop::Error(error)),
    };
    match came {
        Came::Returned(returned) => match catch_unwind(AssertUnwindSafe(|| conclude::<D>(returned, attempt))) {
            Ok(Ok((how, None))) => end(run, head, how).await,
            Ok(Ok((how, Some(pause)))) => again(run, head, how, attempt, pause).await,
            Ok(Err(error)) => give_up(run, head, error).await,
            Err(panic) => {
                let what = format!("the output of entrypoint {:?}", D::SPEC.name);
                give_up(run, head, RunError::Panicked { what, message: panic_message(&*panic) }).await
            }
        },
        Came::Cut => end_cut(run, head).await,
        Came::Rests(Some(rest)) => pause(run, head, rest).await,
        Came::Rests(None) => give_up(run, head, RunError::Stalled { entrypoint: run.entrypoint.clone() }).await,
        Came::Continues(input, digest) => {
            // The new run is today's code's.
            let next = Start { version: D::SPEC.version, input, digest, forked: None, ..start.clone() };
            continue_as_new(run, head, next).await
        }
        Came::Stopped(Stop::Error(error)) => give_up(run, head, error).await,
        Came::Stopped(Stop::Gone) => unreachable!("only the end of this drive says so"),
    }
}

/// Begins the user's body with the recorded input and the saved value.
async fn enter<D: Definition>(run: &Arc<Run>, start: &Start) -> Result<Entered<D::Output>, RunError> {
    let input: D::Input = start.input.decode().map_err(|source| RunError::Value {
        what: format!("the recorded input of entrypoint {:?}", D::SPEC.name),
        source,
    })?;
    let previous = match start.previous {
        None => None,
        Some(place) => Some(storage::saved(&run.environment.checkpointer, &run.thread, place).await?),
    };
    let body = D::run(input, Previous(previous)).map_err(|source| RunError::Value {
        what: format!("the saved value of entrypoint {:?}", D::SPEC.name),
        source,
    })?;
    let place = (Frame::ROOT, Scope::ROOT, run.root_signal());
    Ok(Entered::new(run.clone(), place, D::SPEC.name, body))
}

/// Steps the run until it ends, stops, or nothing in it is alive.
pub(super) async fn step<O>(run: &Arc<Run>, entered: &mut Entered<O>) -> Came<O> {
    let mut alarm = Alarm::default();
    poll_fn(|cx| {
        run.driver.register(cx.waker());
        alarm.poll(run, cx);
        let _driving = Driving::new(run);
        for _ in 0..ROUNDS {
            run.take_up_cancel();
            if let Poll::Ready(returned) = run.polls.count(cx, |cx| entered.poll(cx)) {
                return Poll::Ready(Came::Returned(returned));
            }
            let changed = run.pump(cx);
            if let Some(stop) = run.stopped() {
                return Poll::Ready(Came::Stopped(stop));
            }
            if let Some((input, digest)) = run.next_input() {
                return Poll::Ready(Came::Continues(input, digest));
            }
            if changed || run.grant() {
                continue;
            }
            if run.with_journal(|journal| journal.is_cut() && journal.is_cancel_released()) {
                return Poll::Ready(Came::Cut);
            }
            return match run.quiet() {
                Quiet::Not => Poll::Pending,
                quiet => Poll::Ready(Came::Rests(rest(run, &quiet))),
            };
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// What a returned value is recorded as; and after which pause the entrypoint is run again, if it failed and is to be.
fn conclude<D: Definition>(returned: Returned<D::Output>, attempt: u32) -> Result<(Ended, Option<Duration>), RunError> {
    let what = |what: &str| format!("the {what} of entrypoint {:?}", D::SPEC.name);
    let codec = D::codec();
    let recorded = (codec.encode)(&returned.output);
    match recorded.map_err(|source| RunError::Value { what: what("output"), source })? {
        Recorded::Value(output) => {
            // What the caller gets is read from the record, now as later.
            let read = output.decode::<D::Value>();
            read.map_err(|source| RunError::Value { what: what("output"), source })?;
            let save = returned.save.transpose();
            let save = save.map_err(|source| RunError::Value { what: what("saved value"), source })?;
            Ok((Ended::Completed { output, save }, None))
        }
        failure @ Recorded::Failure(_) => {
            let pause = D::retries().next_pause(&returned.output, attempt);
            Ok((Ended::Failed { failure, open: Vec::new() }, pause))
        }
    }
}
