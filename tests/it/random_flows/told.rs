//! A reader of a random flow that comes back after each crash: it is told each update and each telling of the
//! entrypoint once, in the order of the journal.

use std::{
    collections::BTreeMap,
    future::{IntoFuture, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
};

use durably::{
    CallId, CallKind, CallStatus, EventNo, StreamEvent, StreamMode, Streamed, Thread, ThreadState, Watch,
    checkpoint::{Change, Commit, Key},
};
use futures::{FutureExt as _, Stream as _};

use super::lab::Lab;

/// Who reads a run, sometimes later and sometimes at once.
pub(super) struct Reader<'a> {
    watch: Watch,
    lab: &'a Lab,
    told: Vec<StreamEvent>,
    wrong: Option<String>,
}

/// How many records of the run these commits leave.
pub(super) fn records(commits: &[Commit]) -> u32 {
    let changes = commits.iter().flat_map(|commit| &commit.changes);
    let seqs = changes.filter_map(|change| match change {
        Change::Put(Key::Record { seq, .. }, _) => Some(seq + 1),
        _ => None,
    });
    seqs.max().unwrap_or_default()
}

impl<'a> Reader<'a> {
    /// Comes back with what it was told before a crash that left so many records: all, or what came up to some event.
    pub(super) fn back(thread: &Thread, lab: &'a Lab, seen: &[StreamEvent], records: u32) -> Self {
        let place = |event: &StreamEvent| (event.number.run(), event.number.seq());
        let mut told: Vec<StreamEvent> = seen.to_vec();
        told.retain(|event| event.number.seq().get() < records);
        if lab.below(2) == 0 {
            told.truncate(lab.below(told.len() + 1));
        }
        let after = told.last().map_or(EventNo::BEGINNING, |event| event.number);
        // What it was told since the last record, and was not recorded itself, may come again: it forgets that.
        while told.last().is_some_and(|last| !last.recorded && place(last) == (after.run(), after.seq())) {
            told.pop();
        }
        let watch = thread.watch([StreamMode::Updates, StreamMode::Custom], after);
        Self { watch, lab, told, wrong: None }
    }

    /// Reads a fork from its beginning: what it took over, too.
    pub(super) fn of_fork(thread: &Thread, lab: &'a Lab) -> Self {
        let watch = thread.watch([StreamMode::Updates, StreamMode::Custom], None);
        Self { watch, lab, told: Vec::new(), wrong: None }
    }

    /// Reads while the run is driven.
    pub(super) async fn while_it_runs<F: IntoFuture>(&mut self, drive: F) -> F::Output {
        let mut drive = pin!(drive.into_future());
        poll_fn(|cx| {
            if self.lab.below(3) == 0 {
                self.read(cx);
            }
            drive.as_mut().poll(cx)
        })
        .await
    }

    fn read(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(event) = Pin::new(&mut self.watch).poll_next(cx) {
            match event {
                Some(Ok(event)) => self.told.push(event),
                other => {
                    self.wrong = Some(format!("the reader was told {other:?}"));
                    return;
                }
            }
        }
    }

    /// All that it was told, to the end.
    pub(super) fn told(mut self) -> Result<Vec<StreamEvent>, String> {
        // Everything is in memory: what is not there at once does not come.
        let rest = poll_fn(|cx| {
            self.read(cx);
            Poll::Ready(())
        });
        let _ = tokio::task::unconstrained(rest).now_or_never();
        self.wrong.map_or(Ok(self.told), Err)
    }
}

/// Checks what a reader was told against the journal's end, and what the entrypoint told against what it noted of that.
pub(super) async fn check(
    thread: &Thread,
    told: &[StreamEvent],
    state: &ThreadState,
    trace: &[String],
) -> Result<(), String> {
    if let Some(pair) = told.windows(2).find(|pair| pair[0].number >= pair[1].number) {
        return Err(format!("told in a wrong order: {pair:?}"));
    }
    let updates: Vec<(CallId, String)> = told
        .iter()
        .filter_map(|event| match &event.what {
            Streamed::Update { id: Some(id), value, .. } => Some((*id, value.to_json())),
            _ => None,
        })
        .collect();
    let mut values: Vec<_> = state
        .calls
        .iter()
        .filter(|call| matches!(call.kind, CallKind::Task | CallKind::Entrypoint))
        .filter_map(|call| match &call.status {
            CallStatus::Value(json) => Some((call.seq, (call.id, json.clone()))),
            _ => None,
        })
        .collect();
    values.sort_by_key(|(seq, _)| *seq);
    let values: Vec<(CallId, String)> = values.into_iter().map(|(_, value)| value).collect();
    if updates != values {
        return Err(format!("the reader was told {updates:?}\n  the journal has {values:?}"));
    }
    let heard = count(told.iter().filter_map(|event| match &event.what {
        Streamed::Custom { within, value } if within.is_empty() => Some(format!("told {value}")),
        _ => None,
    }));
    let said = count(trace.iter().filter(|line| line.starts_with("told ")).cloned());
    // A failure that is opened again may lead elsewhere; what was said on the way that it led to before stays said.
    let as_before = !was_resumed(thread).await?;
    let is_heard = said.iter().all(|(what, times)| heard.get(what).copied().unwrap_or_default() >= *times);
    if !is_heard || (as_before && heard != said) {
        return Err(format!("the entrypoint told {said:?}, the reader heard {heard:?}"));
    }
    Ok(())
}

fn count(lines: impl Iterator<Item = String>) -> BTreeMap<String, u32> {
    lines.fold(BTreeMap::new(), |mut counts, line| {
        *counts.entry(line).or_default() += 1;
        counts
    })
}

/// Whether the run has failed on its way and was gone on with.
async fn was_resumed(thread: &Thread) -> Result<bool, String> {
    let mut watch = thread.watch(StreamMode::Checkpoints, None).until_rest();
    while let Some(event) = watch.next().await {
        let event = event.map_err(|error| error.to_string())?;
        if matches!(event.what, Streamed::Checkpoint { record: "resume", .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}
