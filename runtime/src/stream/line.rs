//! A reader's line: what it was told and has not read yet. Bounded, and never waited for by whoever tells.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::sync::watch;

use super::{EventNo, StreamEvent, StreamModes, Streamed, events_of};
use crate::{
    id::{RunNo, Seq},
    journal::Record,
};

/// How many drives a line takes note of one after another while its reader reads nothing.
const DRIVES: usize = 16;

/// What one reader was told and has not read yet.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) modes: StreamModes,
    /// Whether it watches a thread, over all its drives; else it is one drive's own.
    pub(crate) watches: bool,
    /// The most events that wait in it.
    room: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    items: VecDeque<Item>,
    begins: usize,
    /// Events that there was no room for since the newest item, and the number of the last of them.
    missed: u64,
    lost: EventNo,
    /// What the reader has been told of, up to here, once it has read the line: no need to look in the journal.
    told: EventNo,
    closed: bool,
    reader: Option<Waker>,
}

/// What stands in a line.
#[derive(Debug)]
pub(crate) enum Item {
    /// A drive of a run begins to be told of.
    Begin(Begin),
    /// Something happened.
    Event(StreamEvent),
}

/// Where the telling of a drive begins: what was recorded before is to be read from the journal.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) run: RunNo,
    /// How many records of the run are to be read from the journal.
    pub(crate) records: u32,
    /// How many are durable. Closed when the drive is over.
    pub(crate) durable: watch::Receiver<u32>,
    /// What the line's reader has been told of before.
    pub(crate) told: EventNo,
}

impl Line {
    pub(crate) fn new(modes: StreamModes, room: usize, watches: bool) -> Self {
        let state = State {
            items: VecDeque::new(),
            begins: 0,
            missed: 0,
            lost: EventNo::BEGINNING,
            told: EventNo::BEGINNING,
            closed: false,
            reader: None,
        };
        Self { modes, watches, room: room.max(1), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of an event, if the reader wants it; whom to wake for it.
    pub(crate) fn tell(&self, event: &StreamEvent) -> Option<Waker> {
        let of = event.what.modes();
        if !(of.is_none() || self.modes.has_any(of)) {
            return None;
        }
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        if state.items.len() - state.begins >= self.room {
            state.missed += 1;
            state.lost = state.lost.max(event.number);
            return None;
        }
        state.note_missed();
        state.items.push_back(Item::Event(event.clone()));
        state.reader.take()
    }

    /// Tells of the start of a run that was written with the end of the one before.
    pub(crate) fn tell_start(&self, (run, entrypoint): (RunNo, &str), start: &Record) {
        let mut wake = Vec::new();
        events_of(self.modes, (run, Seq(0), entrypoint), start, |event| wake.extend(self.tell(&event)));
        wake.into_iter().for_each(Waker::wake);
    }

    /// So many events are lost to the reader, whatever they were.
    pub(crate) fn lose(&self, events: u64, last: EventNo) -> Option<Waker> {
        let mut state = self.lock();
        state.missed += events;
        state.lost = state.lost.max(last);
        state.reader.take()
    }

    /// All that is recorded up to here was told.
    pub(crate) fn told(&self, number: EventNo) {
        let mut state = self.lock();
        state.told = state.told.max(number);
    }

    /// A drive begins to be told of; whom to wake for it.
    pub(crate) fn begin(&self, run: RunNo, records: u32, durable: watch::Receiver<u32>) -> Option<Waker> {
        let mut state = self.lock();
        if state.begins >= DRIVES {
            // A reader that reads nothing: what is recorded it will read from the journal, the rest is lost to it.
            let lost = std::mem::take(&mut state.items).into_iter().map(|item| match item {
                Item::Event(StreamEvent { what: Streamed::Missed { events }, .. }) => events,
                Item::Event(StreamEvent { recorded: false, .. }) => 1,
                Item::Event(_) | Item::Begin(_) => 0,
            });
            state.missed += lost.sum::<u64>();
            (state.begins, state.lost, state.told) = (0, EventNo::BEGINNING, EventNo::BEGINNING);
        }
        state.note_missed();
        let told = state.told;
        state.items.push_back(Item::Begin(Begin { run, records, durable, told }));
        state.begins += 1;
        state.reader.take()
    }

    /// The drive whose beginning stands first in the line: its run, and how many of its records are to be read from the
    /// journal.
    pub(crate) fn first_begin(&self) -> Option<(RunNo, u32)> {
        let state = self.lock();
        state.items.iter().find_map(|item| match item {
            Item::Begin(begin) => Some((begin.run, begin.records)),
            Item::Event(_) => None,
        })
    }

    /// Nothing more will be told.
    pub(crate) fn close(&self) {
        let waker = {
            let mut state = self.lock();
            state.closed = true;
            state.reader.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next item; `None` if nothing more will come.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut state = self.lock();
        if state.items.is_empty() {
            state.note_missed();
        }
        match state.items.pop_front() {
            Some(item) => {
                if let Item::Begin(_) = item {
                    state.begins -= 1;
                }
                Poll::Ready(Some(item))
            }
            None if state.closed => Poll::Ready(None),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl State {
    /// Puts what was missed where it would have stood.
    fn note_missed(&mut self) {
        if self.missed > 0 {
            let what = Streamed::Missed { events: std::mem::take(&mut self.missed) };
            self.items.push_back(Item::Event(StreamEvent { number: self.lost, recorded: false, what }));
        }
    }
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position(pub(crate) EventNo);

impl Position {
    /// Takes an event; `None` if the reader has it already.
    pub(crate) fn take(&mut self, mut event: StreamEvent) -> Option<StreamEvent> {
        event.number = match (event.recorded, &event.what) {
            (true, _) if event.number <= self.0 => return None,
            (true, _) => event.number,
            // Up to the last one that was lost; more of the same record may follow.
            (false, Streamed::Missed { .. }) => self.0.max(event.number),
            // What is live stands where this reader is.
            (false, _) => self.0.live(event.number),
        };
        self.0 = event.number;
        Some(event)
    }

    /// All that is recorded up to here need not be told any more.
    pub(crate) fn skip_to(&mut self, number: EventNo) {
        self.0 = self.0.max(number);
    }
}
