//! How a drive ends: what is written down when a run returned, pauses, cannot go on, or goes on as a new one.

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use super::{
    Doubt, Outcome, Question,
    alarm::Alarm,
    clean_up,
    drive::{Came, step},
};
use crate::{
    RunError, Status,
    environment::moment,
    id::{RunNo, Seq},
    journal::{End, Ended, Frame, Record, Start, Why},
    output::Recorded,
    scope::{Quiet, Run, Stop},
    storage::{self, Entry, EntryState, Head},
    value::Payload,
};

/// A pause, and when the run goes on by itself, in milliseconds since 1970.
pub(super) struct Rest {
    pub(super) outcome: Outcome<Payload>,
    pub(super) due_ms: Option<u64>,
    /// Whether the code was not entered in this drive, so that nobody knows what it has left to be done at its end.
    pub(super) before_the_code: bool,
}

/// What is written down at the end of a drive.
pub(super) enum Conclusion {
    Completed(Payload),
    Cancelled,
    Paused(Outcome<Payload>),
    /// As a new run, or as the same one from its records.
    Continue,
    /// As the same one, from the start of its code: an attempt failed and another one follows.
    Again,
}

/// What a run pauses as in which nothing is alive; from here on calls are dropped by the pause. `None`: it waits for
/// nothing that could come.
pub(super) fn rest(run: &Run, quiet: &Quiet) -> Option<Rest> {
    let (outcome, due_ms) = match quiet {
        Quiet::Questions(due) => {
            // Their list is read while the calls are there.
            (Outcome::Interrupted(run.questions().into_iter().map(Question::from).collect()), *due)
        }
        Quiet::Doubts(due) => (Outcome::InDoubt(run.doubts().into_iter().map(Doubt::from).collect()), *due),
        Quiet::Until(due) => (Outcome::Sleeping { until: moment(*due) }, Some(*due)),
        Quiet::Drained => (Outcome::Drained, None),
        Quiet::Not | Quiet::Stalled => return None,
    };
    run.halt();
    Some(Rest { outcome, due_ms, before_the_code: false })
}

/// How the bodies ended that were left when the code was over.
pub(super) enum Last {
    /// By themselves.
    Done,
    /// They wait for the outside, or are held back.
    Rests(Rest),
    /// By a cancellation, or the deadline.
    Cut,
}

/// Waits for the bodies of detached calls; those of calls that were dropped have been ended. A detached body may wait for
/// the outside: then the run pauses, and comes to its end again when it is resumed.
pub(super) async fn last_bodies(run: &Arc<Run>) -> Last {
    let mut bodies = Vec::new();
    let mut alarm = Alarm::default();
    let mut was_cut = false;
    let came = poll_fn(|cx| {
        run.driver.register(cx.waker());
        alarm.poll(run, cx);
        run.take_up_cancel();
        while run.pump(cx) {}
        // Detached bodies take their turns too.
        run.grant();
        bodies.extend(run.take_spawned(false));
        was_cut |= !bodies.is_empty() && run.is_cut();
        bodies.retain_mut(|body| {
            if run.is_stopped() || run.is_cut() {
                // What it waits for does not come any more.
                body.abort();
            }
            Pin::new(body).poll(cx).is_pending()
        });
        if bodies.is_empty() {
            let is_held_back = !run.is_stopped() && run.start_held_back();
            bodies.extend(run.take_spawned(false));
            return match (bodies.is_empty(), is_held_back) {
                (true, true) if run.is_cut() => Poll::Ready(Last::Cut),
                (true, true) => Poll::Ready(rest(run, &Quiet::Drained).map_or(Last::Done, Last::Rests)),
                (true, false) if was_cut => Poll::Ready(Last::Cut),
                (true, false) => Poll::Ready(Last::Done),
                (false, _) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            };
        }
        if run.is_cut() {
            return Poll::Pending;
        }
        match run.quiet() {
            Quiet::Not | Quiet::Stalled => Poll::Pending,
            quiet => Poll::Ready(rest(run, &quiet).map_or(Last::Done, Last::Rests)),
        }
    })
    .await;
    for body in bodies {
        body.abort();
        // A panic of a body is reported by the body itself; being ended is no error.
        let _ = body.await;
    }
    came
}

/// Writes down the run's end, once all its bodies have ended and it has cleaned up.
pub(super) async fn end(run: &Arc<Run>, head: &mut Head, how: Ended) -> Result<Conclusion, RunError> {
    let cut = match last_bodies(run).await {
        Last::Rests(rest) => return pause(run, head, rest).await,
        Last::Done => None,
        Last::Cut => cut(run),
    };
    conclude(run, head, cut.unwrap_or(how)).await
}

/// Writes down the end of a run that was stopped from outside. Its code is gone.
pub(super) async fn end_cut(run: &Arc<Run>, head: &mut Head) -> Result<Conclusion, RunError> {
    end_bodies(run).await;
    match cut(run) {
        Some(how) => conclude(run, head, how).await,
        None => unreachable!("the stop is on record"),
    }
}

/// The end of a run that was stopped from outside, if it was.
pub(super) fn cut(run: &Run) -> Option<Ended> {
    run.with_journal(|journal| {
        Some(match journal.cancelled()? {
            Why::Asked { reason } => Ended::Cancelled { reason: reason.clone() },
            Why::TimedOut { limit_ms } => Ended::TimedOut { limit_ms: *limit_ms, open: Vec::new() },
        })
    })
}

/// Cleans up after the run's code, and writes down its end.
pub(super) async fn conclude(run: &Arc<Run>, head: &mut Head, how: Ended) -> Result<Conclusion, RunError> {
    if let Some(Stop::Error(error)) = run.stopped() {
        return Box::pin(give_up(run, head, error)).await;
    }
    let open = run.begin_ending();
    if let Some(rest) = clean_up(run).await {
        return pause(run, head, rest).await;
    }
    if let Some(Stop::Error(error)) = run.stopped() {
        return Box::pin(give_up(run, head, error)).await;
    }
    // A failure that was cancelled at the same moment is given up.
    let how = match (how, cut(run)) {
        (Ended::Failed { .. }, Some(cancelled @ Ended::Cancelled { .. })) => cancelled,
        (Ended::Failed { failure, .. }, _) => Ended::Failed { failure, open },
        (Ended::TimedOut { limit_ms, .. }, _) => Ended::TimedOut { limit_ms, open },
        (other, _) => other,
    };
    write_end(run, head, how).await
}

/// Runs what was left to be done at the end. It may wait for the outside: then the run pauses, and comes to its end again.
async fn clean_up(run: &Arc<Run>) -> Option<Rest> {
    let clean_ups = run.clean_ups();
    if clean_ups.is_empty() {
        return None;
    }
    // What is undone is not to be done at the same time.
    run.bodies_ended().await;
    let mut error = None;
    for cleaning in clean_ups {
        let name = run.name_of(&cleaning.scope);
        let mut failed = Vec::new();
        while let Some((mut entered, scope)) = clean_up::next(run, &cleaning) {
            let came = step(run, &mut entered).await;
            drop(entered);
            match came {
                Came::Returned(returned) => match returned.output {
                    None => run.cleaned_up(&scope),
                    Some(message) => failed.push(message),
                },
                Came::Rests(Some(rest)) => return Some(rest),
                Came::Rests(None) => {
                    run.fail(RunError::Stalled { entrypoint: name });
                    return None;
                }
                Came::Stopped(_) => return None,
                Came::Cut | Came::Continues(..) => unreachable!("the run's code is over"),
            }
        }
        if !failed.is_empty() {
            error.get_or_insert(clean_up::unclean(name, &failed));
        }
    }
    if let Some(error) = error {
        run.fail(error);
    }
    None
}

async fn write_end(run: &Arc<Run>, head: &mut Head, how: Ended) -> Result<Conclusion, RunError> {
    let at_ms = run.environment.now_ms();
    let seq = run.with_journal(|journal| {
        let seq = Seq(journal.next_seq());
        journal.append_plain(Record::End(End { how: how.clone(), at_ms }));
        seq
    });
    let error = error_of(run, &how);
    let new = match &how {
        Ended::Completed { .. } => Head { saved: Some((run.no, seq)), ..head.with(Status::Completed, None, at_ms) },
        Ended::Cancelled { reason } => head.with(Status::Cancelled, reason.clone(), at_ms),
        _ => head.with(Status::Failed, error.as_ref().map(reason_of), at_ms),
    };
    let mut changes = storage::remove_answers().to_vec();
    if new.status != Status::Failed {
        changes.push(storage::remove_cancel());
    }
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    run.drained().await?;
    if let Some(Stop::Error(error)) = run.stopped() {
        // The end was too large to be written.
        return Box::pin(give_up(run, head, error)).await;
    }
    *head = new;
    if head.status == Status::Failed
        && let Some(request) = storage::cancel_request(&run.environment.checkpointer, &run.thread).await?
    {
        // It came too late for the run to look.
        return Box::pin(write_end(run, head, Ended::Cancelled { reason: request.reason })).await;
    }
    match (how, error) {
        (Ended::Completed { output, .. }, _) => Ok(Conclusion::Completed(output)),
        (Ended::Cancelled { .. }, _) => Ok(Conclusion::Cancelled),
        (_, Some(error)) => Err(error),
        (_, None) => unreachable!("a body ends with a value or a failure, or is cut off"),
    }
}

/// What the caller of a failed run is told.
fn error_of(run: &Run, how: &Ended) -> Option<RunError> {
    match how {
        Ended::Failed { failure: Recorded::Failure(failure), .. } => Some(RunError::Failed(failure.clone())),
        Ended::TimedOut { limit_ms, .. } => {
            let limit = std::time::Duration::from_millis(*limit_ms);
            Some(RunError::TimedOut { entrypoint: run.entrypoint.clone(), limit })
        }
        _ => None,
    }
}

/// Why a thread has failed, for its head.
fn reason_of(error: &RunError) -> String {
    match error {
        RunError::Failed(failure) => failure.to_string(),
        error => error.to_string(),
    }
}

/// Ends the bodies on the pool, and waits until they have ended.
async fn end_bodies(run: &Run) {
    for handle in run.take_spawned(true) {
        // A panic of a body is reported by the body itself; being ended is no error.
        let _ = handle.await;
    }
}

/// Writes down a pause; what was dropped runs again later.
pub(super) async fn pause(run: &Arc<Run>, head: &mut Head, rest: Rest) -> Result<Conclusion, RunError> {
    end_bodies(run).await;
    let Rest { outcome, due_ms, before_the_code } = rest;
    let status = match &outcome {
        Outcome::Interrupted(_) => Status::Interrupted,
        Outcome::InDoubt(_) => Status::InDoubt,
        Outcome::Sleeping { .. } => Status::Sleeping,
        Outcome::Drained => Status::Drained,
        Outcome::Completed(_) | Outcome::Cancelled => unreachable!("a run that has ended does not pause"),
    };
    let ending = run.with_journal(|journal| journal.is_ending());
    // The clean-ups have no deadline.
    let deadline = run.deadline.map(|(deadline, _)| deadline).filter(|_| !ending && !run.is_cleaning_within());
    let due_ms = due_ms.into_iter().chain(deadline).min();
    // A drain holds back nested entrypoints too: what they have left to be done is not known then.
    let cleans_up = run.has_clean_ups() || status == Status::Drained || before_the_code;
    let new = Head { due_ms, cleans_up, ..head.with(status, None, run.environment.now_ms()) };
    let mut changes = Vec::new();
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    run.drained().await?;
    *head = new;
    run.environment.told_of_due(head.due_ms);
    if !ending
        && !run.is_cleaning_within()
        && storage::cancel_request(&run.environment.checkpointer, &run.thread).await?.is_some()
    {
        return Ok(Conclusion::Continue);
    }
    // An answer that was stored before the pause was may have come too late for the run to look. Whoever gave it has seen
    // the run driven, and leaves it to go on by itself.
    if let Outcome::Interrupted(open) = &outcome {
        let open: HashSet<_> = open.iter().map(|question| question.id).collect();
        let inbox = storage::inbox(&run.environment.checkpointer, &run.thread).await?;
        let is_answered =
            |(question, entry): &(_, Entry)| matches!(entry.state, EntryState::Answered(_)) && open.contains(question);
        if inbox.iter().any(is_answered) {
            return Ok(Conclusion::Continue);
        }
    }
    Ok(Conclusion::Paused(outcome))
}

/// Writes down, as far as the store still takes it, why the run does not go on.
pub(super) async fn give_up(run: &Arc<Run>, head: &mut Head, error: RunError) -> Result<Conclusion, RunError> {
    if matches!(error, RunError::Aborted { .. }) {
        // In the mode that writes at the end, this is it; before the bodies, since they may not end.
        run.flush(true, Vec::new());
        // What stopped the run is told all the same.
        let _ = run.drained().await;
    }
    end_bodies(run).await;
    let Some(status) = error.leaves() else { return Err(error) };
    let at_ms = run.environment.now_ms();
    let new = head.with(status, Some(error.to_string()), at_ms);
    let how = match &error {
        RunError::Panicked { what, message } => Some(Ended::Panicked {
            message: format!("{what}: {message}"),
            open: run.with_journal(|journal| journal.unpassed()),
        }),
        RunError::CleanUpFailed { message, .. } => Some(Ended::Unclean {
            message: message.clone(),
            open: run.with_journal(|journal| journal.unpassed_in_clean_ups()),
        }),
        _ => None,
    };
    if let Some(how) = how {
        run.with_journal(|journal| journal.append_plain(Record::End(End { how, at_ms })));
    }
    let mut changes = Vec::new();
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    // What stopped the run is told also if the store does not take it any more.
    if run.drained().await.is_ok() {
        *head = new;
    }
    Err(error)
}

/// Ends the run and starts the next one, in one commit.
pub(super) async fn continue_as_new(run: &Arc<Run>, head: &mut Head, next: Start) -> Result<Conclusion, RunError> {
    // This ends the run as a return does: not past records of calls that it never made, nor before detached bodies.
    run.leave(Frame::ROOT);
    match last_bodies(run).await {
        Last::Rests(rest) => return pause(run, head, rest).await,
        // A run that was stopped at the same moment does not go on as a new one.
        Last::Done | Last::Cut => {
            if let Some(how) = cut(run) {
                return conclude(run, head, how).await;
            }
        }
    }
    run.begin_ending();
    if let Some(rest) = clean_up(run).await {
        return pause(run, head, rest).await;
    }
    if let Some(Stop::Error(error)) = run.stopped() {
        return Box::pin(give_up(run, head, error)).await;
    }
    let at_ms = run.environment.now_ms();
    run.with_journal(|journal| journal.append_plain(Record::End(End { how: Ended::Continued, at_ms })));
    let no = RunNo(run.no.0.saturating_add(1));
    let next = Start { at_ms, ..next };
    let new = Head { run: no, version: next.version, ..head.with(Status::Running, None, at_ms) };
    let mut changes = storage::remove_answers().to_vec();
    storage::record_changes(&run.thread, no, Seq(0), &Record::Start(next), &mut changes)?;
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    run.drained().await?;
    *head = new;
    Ok(Conclusion::Continue)
}
