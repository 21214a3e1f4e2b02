//! An entrypoint that failed and is run again from its start, after a pause.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use super::{
    Outcome,
    alarm::Alarm,
    ends::{Conclusion, Last, Rest, conclude, cut, give_up, last_bodies, pause},
};
use crate::{
    RunError,
    environment::{Event, moment},
    id::Seq,
    journal::{Again, Ended, Record},
    output::Recorded,
    scope::{Run, Stop},
    storage::Head,
};

/// The attempts of the run's own entrypoint that have failed since its start or its last resume.
#[derive(Default)]
pub(super) struct Failed {
    pub(super) attempts: u32,
    /// When the next one is due, in milliseconds since 1970.
    pub(super) due_ms: u64,
}

impl Failed {
    pub(super) fn of(records: &[(Seq, Record)]) -> Self {
        let mut failed = Self::default();
        for (_, record) in records {
            match record {
                Record::Resume(_) => failed = Self::default(),
                Record::Again(again) => failed = Self { attempts: again.number, due_ms: again.next_ms },
                _ => {}
            }
        }
        failed
    }
}

/// Writes down that an attempt of the entrypoint failed and another one follows.
pub(super) async fn again(
    run: &Arc<Run>,
    head: &mut Head,
    how: Ended,
    number: u32,
    after: Duration,
) -> Result<Conclusion, RunError> {
    match last_bodies(run).await {
        // It comes to its end, and to this, again when it is resumed.
        Last::Rests(rest) => return pause(run, head, rest).await,
        Last::Done | Last::Cut => {}
    }
    if let Some(Stop::Error(error)) = run.stopped() {
        return give_up(run, head, error).await;
    }
    // A run that was stopped at the same moment is not run again.
    if let Some(how) = cut(run) {
        return conclude(run, head, how).await;
    }
    let error = match &how {
        Ended::Failed { failure: Recorded::Failure(failure), .. } => failure.to_string(),
        _ => String::new(),
    };
    run.environment.observe(|| Event::RunRetried { run: run.view(), attempt: number, error: &error, pause: after });
    let at_ms = run.environment.now_ms();
    let next_ms = at_ms.saturating_add(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    run.with_journal(|journal| {
        let reopened = journal.unpassed();
        journal.append_plain(Record::Again(Again { number, error, reopened, at_ms, next_ms }));
    });
    run.flush(true, Vec::new());
    run.drained().await?;
    if let Some(Stop::Error(error)) = run.stopped() {
        return give_up(run, head, error).await;
    }
    Ok(Conclusion::Again)
}

/// Waits until the next attempt is due; what the run pauses as if that is not awaited in memory.
pub(super) async fn back_off(run: &Arc<Run>, head: &mut Head, due_ms: u64) -> Result<Option<Conclusion>, RunError> {
    let environment = &run.environment;
    let left = Duration::from_millis(due_ms.saturating_sub(environment.now_ms()));
    if left.is_zero() {
        return Ok(None);
    }
    let mut alarm = Alarm::default();
    let is_cut = poll_fn(|cx| {
        alarm.poll(run, cx);
        run.take_up_cancel();
        Poll::Ready(run.is_cut())
    });
    if is_cut.await {
        // There is nothing to wait for: the code comes to the place where it stops.
        return Ok(None);
    }
    if left >= environment.park_after {
        let outcome = Outcome::Sleeping { until: moment(due_ms) };
        return pause(run, head, Rest { outcome, due_ms: Some(due_ms), before_the_code: true }).await.map(Some);
    }
    let mut sleep = environment.clock.sleep_until(moment(due_ms));
    let drains = poll_fn(|cx| {
        // Woken by a drain and a cancellation too.
        run.driver.register(cx.waker());
        alarm.poll(run, cx);
        run.take_up_cancel();
        if run.is_cut() {
            return Poll::Ready(false);
        }
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending if environment.draining.load(Ordering::Acquire) => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    if drains {
        return pause(run, head, Rest { outcome: Outcome::Drained, due_ms: None, before_the_code: true })
            .await
            .map(Some);
    }
    Ok(None)
}
