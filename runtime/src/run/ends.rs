//! How a drive ends: what is written down when a run returned, pauses, cannot go on, or goes on as a new one.

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use super::{Outcome, Question};
use crate::{
    RunError, Status,
    environment::moment,
    id::{RunNo, Seq},
    journal::{End, Ended, Frame, Record, Start},
    output::Recorded,
    scope::{Quiet, Run, Stop},
    storage::{self, Entry, EntryState, Head},
    value::Payload,
};

/// A pause, and when the run goes on by itself, in milliseconds since 1970.
pub(super) struct Rest {
    pub(super) outcome: Outcome<Payload>,
    pub(super) due_ms: Option<u64>,
}

/// What is written down at the end of a drive.
pub(super) enum Conclusion {
    Completed(Payload),
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
        Quiet::Until(due) => (Outcome::Sleeping { until: moment(*due) }, Some(*due)),
        Quiet::Drained => (Outcome::Drained, None),
        Quiet::Not | Quiet::Stalled => return None,
    };
    run.halt();
    Some(Rest { outcome, due_ms })
}

/// Waits for the bodies of detached calls; those of calls that were dropped have been ended. A detached body may wait for
/// the outside: then the run pauses, and comes to its end again when it is resumed.
pub(super) async fn last_bodies(run: &Arc<Run>) -> Option<Rest> {
    let mut bodies = Vec::new();
    let came = poll_fn(|cx| {
        run.driver.register(cx.waker());
        while run.pump(cx) {}
        // Detached bodies take their turns too.
        run.grant();
        bodies.extend(run.take_spawned(false));
        bodies.retain_mut(|body| {
            if run.is_stopped() {
                // What it waits for does not come any more.
                body.abort();
            }
            Pin::new(body).poll(cx).is_pending()
        });
        if bodies.is_empty() {
            let is_held_back = !run.is_stopped() && run.start_held_back();
            bodies.extend(run.take_spawned(false));
            return match (bodies.is_empty(), is_held_back) {
                (true, true) => Poll::Ready(rest(run, &Quiet::Drained)),
                (true, false) => Poll::Ready(None),
                (false, _) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            };
        }
        match run.quiet() {
            Quiet::Not | Quiet::Stalled => Poll::Pending,
            quiet => Poll::Ready(rest(run, &quiet)),
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

/// Writes down the run's end, once all its bodies have ended.
pub(super) async fn end(run: &Arc<Run>, head: &mut Head, how: Ended) -> Result<Conclusion, RunError> {
    if let Some(rest) = last_bodies(run).await {
        return pause(run, head, rest).await;
    }
    if let Some(Stop::Error(error)) = run.stopped() {
        return Box::pin(give_up(run, head, error)).await;
    }
    let at_ms = run.environment.now_ms();
    let open = run.with_journal(|journal| journal.unpassed());
    let how = match how {
        Ended::Failed { failure, .. } => Ended::Failed { failure, open },
        other => other,
    };
    let seq = run.with_journal(|journal| {
        let seq = Seq(journal.next_seq());
        journal.append_plain(Record::End(End { how: how.clone(), at_ms }));
        seq
    });
    let new = match &how {
        Ended::Completed { .. } => Head { saved: Some((run.no, seq)), ..head.with(Status::Completed, None, at_ms) },
        Ended::Failed { failure: Recorded::Failure(failure), .. } => {
            head.with(Status::Failed, Some(failure.to_string()), at_ms)
        }
        _ => head.with(Status::Failed, None, at_ms),
    };
    let mut changes = storage::remove_answers().to_vec();
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    run.drained().await?;
    if let Some(Stop::Error(error)) = run.stopped() {
        // The end was too large to be written.
        return Box::pin(give_up(run, head, error)).await;
    }
    *head = new;
    match how {
        Ended::Completed { output, .. } => Ok(Conclusion::Completed(output)),
        Ended::Failed { failure: Recorded::Failure(failure), .. } => Err(RunError::Failed(failure)),
        _ => unreachable!("a body ends with a value or a failure"),
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
    let Rest { outcome, due_ms } = rest;
    let status = match &outcome {
        Outcome::Interrupted(_) => Status::Interrupted,
        Outcome::Sleeping { .. } => Status::Sleeping,
        Outcome::Drained => Status::Drained,
        Outcome::Completed(_) => unreachable!("a completed run does not pause"),
    };
    let new = Head { due_ms, ..head.with(status, None, run.environment.now_ms()) };
    let mut changes = Vec::new();
    storage::head_changes(&run.thread, &new, &mut changes)?;
    run.flush(true, changes);
    run.drained().await?;
    *head = new;
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
    end_bodies(run).await;
    let Some(status) = error.leaves() else { return Err(error) };
    let at_ms = run.environment.now_ms();
    let new = head.with(status, Some(error.to_string()), at_ms);
    if let RunError::Panicked { what, message } = &error {
        let how = Ended::Panicked {
            message: format!("{what}: {message}"),
            open: run.with_journal(|journal| journal.unpassed()),
        };
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
    if let Some(outcome) = last_bodies(run).await {
        return pause(run, head, outcome).await;
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
