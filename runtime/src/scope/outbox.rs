//! How a run's records reach the store, and what becomes of them when they are there.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    feed::Readers,
    run::{Mode, Run, State, Stop},
    wake_for_release,
};
use crate::{
    RunError,
    checkpoint::{Change, Commit, Expect, Ticket},
    environment::Event,
    journal::{Frame, Record, Slot, Then},
    storage,
    stream::StreamEvent,
};

/// The most commits of one run that may be on their way; above it, outcomes wait for the store in every mode.
const IN_FLIGHT: usize = 1024;

/// What is to be written, and what is on its way.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Changes that wait for the run's end.
    overlay: Vec<Change>,
    /// What is on its way to the store, in order.
    in_flight: VecDeque<Flight>,
    /// Why the store did not take a commit; nothing more is sent to it then.
    failed: Option<RunError>,
    /// Whether a record was too large for any store: none after it is sent then, so that there is no gap.
    cut: bool,
    /// How many records of the run were taken from the journal, how many of them were sent to the store, and how many
    /// are durable.
    pub(super) flushed: u32,
    pub(super) committed: u32,
    pub(super) durable: u32,
}

/// A commit on its way to the store.
#[derive(Debug)]
struct Flight {
    ticket: Ticket,
    /// What becomes of its records once it is durable.
    thens: Vec<Then>,
    /// What readers are told of them then, and how many records the store has by then.
    events: Vec<StreamEvent>,
    records: u32,
    /// Whether its records wait to be durable; those after them wait with them.
    waits: bool,
}

impl Outbox {
    /// Of a run with so many records.
    pub(super) fn after(records: u32) -> Self {
        Self { flushed: records, committed: records, durable: records, ..Self::default() }
    }

    /// The changes that wait for the run's end.
    pub(super) fn overlay(&self) -> &[Change] {
        &self.overlay
    }

    /// Whether something on its way to the store is still to be handed on.
    pub(super) fn holds_back(&self, mode: Mode) -> bool {
        match mode {
            Mode::Sync => !self.in_flight.is_empty(),
            Mode::Async | Mode::Exit => self.in_flight.iter().any(|flight| !flight.thens.is_empty()),
        }
    }
}

impl State {
    /// The store did not take a commit: nothing more is sent to it, so that no record has a gap before it. Only
    /// whoever drives the run sends, so that nobody is to be woken.
    fn store_failed(&mut self, error: RunError) {
        if !matches!(self.stop, Some(Stop::Error(_))) {
            self.stop = Some(Stop::Error(error.clone()));
        }
        self.outbox.failed.get_or_insert(error);
    }
}

impl Run {
    /// Sends what was appended on its way, and takes in what became durable; whether anything changed.
    pub(crate) fn pump(self: &Arc<Self>, cx: &mut Context<'_>) -> bool {
        let mut changed = self.flush(false, Vec::new());
        loop {
            let done = {
                let mut state = self.lock();
                let Some(flight) = state.outbox.in_flight.front_mut() else { break };
                match Pin::new(&mut flight.ticket).poll(cx) {
                    Poll::Pending => break,
                    Poll::Ready(answer) => {
                        let Flight { thens, events, records, .. } =
                            state.outbox.in_flight.pop_front().expect("it is the front");
                        answer.map(|()| (thens, state.tell_records(events, records, true)))
                    }
                }
            };
            changed = true;
            match done {
                Ok((thens, readers)) => {
                    readers.wake();
                    self.take_in(thens);
                }
                Err(error) => {
                    self.lock().store_failed(error.into());
                    break;
                }
            }
        }
        changed
    }

    /// Waits until everything on its way is durable.
    pub(crate) async fn drained(self: &Arc<Self>) -> Result<(), RunError> {
        std::future::poll_fn(|cx| {
            self.pump(cx);
            let state = self.lock();
            match &state.outbox.failed {
                Some(error) => Poll::Ready(Err(error.clone())),
                None if state.outbox.in_flight.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Sends what was appended as one commit; `with` goes with it. `all`: also what waits for the run's end.
    pub(crate) fn flush(self: &Arc<Self>, all: bool, with: Vec<Change>) -> bool {
        let (now, readers) = {
            let mut state = self.lock();
            let state = &mut *state;
            if state.outbox.failed.is_some() {
                return false;
            }
            let nothing_waits = !all || state.outbox.overlay.is_empty();
            if !state.journal.has_appended() && with.is_empty() && nothing_waits {
                return false;
            }
            let appended = state.journal.take_appended();
            let mut at_once = all || self.mode != Mode::Exit;
            let mut is_awaited = self.mode == Mode::Sync;
            let mut thens = Vec::with_capacity(appended.len());
            let mut cut_now = false;
            let mut events = Vec::new();
            for entry in appended {
                if state.outbox.cut {
                    break;
                }
                let before = state.outbox.overlay.len();
                at_once |= entry.at_once;
                is_awaited |= entry.durable;
                let changes = &mut state.outbox.overlay;
                if let Record::Cancel(_) = &entry.record {
                    changes.push(storage::remove_cancel());
                }
                let sealed = storage::record_changes(&self.thread, self.no, entry.seq, &entry.record, changes)
                    .and_then(|()| state.questions.follow(&self.thread, entry.seq, &entry.record, changes));
                if let Err(error) = sealed {
                    state.outbox.overlay.truncate(before);
                    (state.outbox.cut, cut_now) = (true, true);
                    state.stop = Some(Stop::Error(error.into()));
                    break;
                }
                state.add_events(&mut events, (self.no, entry.seq, &self.entrypoint), &entry.record, self.mode);
                state.outbox.flushed = entry.seq.get().saturating_add(1);
                thens.push(entry.then);
            }
            let records = state.outbox.flushed;
            // What goes with a record that is too large does not go without it.
            if !cut_now {
                state.outbox.overlay.extend(with);
            }
            if at_once {
                // Before they leave for the store.
                if self.mode == Mode::Exit {
                    state.add_checkpoints(&mut events, &self.thread, (self.no, &self.entrypoint));
                }
                let commit = Commit {
                    thread: self.thread.clone(),
                    expect: vec![Expect::Lease(self.epoch)],
                    changes: std::mem::take(&mut state.outbox.overlay),
                };
                state.outbox.committed = records;
                let mut ticket = self.environment.checkpointer.commit(commit);
                match ticket.at_once() {
                    Some(Err(error)) => {
                        state.store_failed(error.into());
                        return true;
                    }
                    Some(Ok(())) if state.outbox.in_flight.is_empty() => {
                        (thens, state.tell_records(events, records, true))
                    }
                    answered => {
                        let ticket = answered.map_or(ticket, Ticket::ready);
                        // Outcomes are handed on in order: after one that waits, all do.
                        let follows = state.outbox.in_flight.back().is_some_and(|flight| flight.waits);
                        let waits = is_awaited || follows || state.outbox.in_flight.len() >= IN_FLIGHT;
                        let later = if waits { std::mem::take(&mut thens) } else { Vec::new() };
                        state.outbox.in_flight.push_back(Flight { ticket, thens: later, events, records, waits });
                        (thens, Readers::default())
                    }
                }
            } else {
                (thens, state.tell_records(events, records, false))
            }
        };
        readers.wake();
        self.take_in(now);
        true
    }

    /// Recorded outcomes take their turn.
    fn take_in(self: &Arc<Self>, thens: Vec<Then>) {
        let mut wake = Vec::new();
        // What observers are told of then, if there are any.
        let observed = !self.environment.observers.is_empty();
        let mut seen = Vec::new();
        let mut see = |slot: Slot, handed_on: bool| {
            if observed {
                seen.push((slot, handed_on));
            }
        };
        {
            let mut state = self.lock();
            let state = &mut *state;
            for then in thens {
                match &then {
                    Then::Queue(frame, slot, _) => {
                        see(*slot, false);
                        // The run's own entrypoint is looked at by whoever called this.
                        if *frame != Frame::ROOT {
                            state.signals[frame.index()].driver.wake();
                        }
                    }
                    Then::HandOn(slot, _) => see(*slot, true),
                    Then::Opened(slot) if state.journal.call(*slot).is_some() => {
                        let activity = state.liveness.of(*slot);
                        if std::mem::take(&mut activity.waits_to_open) {
                            wake.extend(activity.body.take());
                        }
                    }
                    Then::Nothing | Then::Opened(_) | Then::Cancel | Then::TryAgain(_) => {}
                }
                let tries_again = matches!(then, Then::TryAgain(_));
                if let Some(slot) = state.journal.recorded(then) {
                    let activity = state.liveness.of(slot);
                    wake.extend(if tries_again { activity.body.take() } else { activity.waker.clone() });
                }
            }
        }
        for (slot, handed_on) in seen {
            self.observe(slot, |call, _| Event::Recorded { call }, "");
            if handed_on {
                self.observe_release(slot, false);
            }
        }
        for waker in &wake {
            wake_for_release(waker);
        }
    }
}
