//! What a run tells its readers: each record once it is durable, what is not recorded as it happens, all in one order.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    task::Waker,
};

use tokio::sync::watch;

use super::run::{Mode, Run, State};
use crate::{
    ThreadId,
    checkpoint::{Change, Key, rows},
    id::{RunNo, Seq},
    journal::{Names, Order, Record, Scope, Slot},
    stream::{
        EventNo, EventValue, Line, StreamEvent, StreamMode, StreamModes, Streamed, enclosing, events_of, is_task, task,
    },
    value::Payload,
};

/// The most live events that wait for records before them. More are lost to the readers, and told as that.
const HELD: usize = 4096;

/// Who reads a run, and what they are told next. There is none until somebody reads the run.
#[derive(Debug)]
pub(super) struct Feed {
    run: RunNo,
    lines: Vec<Weak<Line>>,
    /// How many records are durable; and those who wait for that.
    durable: u32,
    waiting: Arc<watch::Sender<u32>>,
    /// How many records the readers were told of.
    told: u32,
    /// What happened after so many records, which the readers are to be told of first.
    held: VecDeque<(u32, Streamed)>,
}

impl Feed {
    fn new(run: RunNo, durable: u32, told: u32) -> Self {
        let waiting = Arc::new(watch::Sender::new(durable));
        Self { run, lines: Vec::new(), durable, waiting, told, held: VecDeque::new() }
    }

    fn lines(&self) -> impl Iterator<Item = Arc<Line>> {
        self.lines.iter().filter_map(Weak::upgrade)
    }

    /// All that anybody wants to be told of.
    fn modes(&self) -> StreamModes {
        self.lines().fold(StreamModes::default(), |modes, line| modes.and(line.modes))
    }

    fn tell(&self, event: &StreamEvent, wake: &mut Vec<Waker>) {
        wake.extend(self.lines().filter_map(|line| line.tell(event)));
    }

    /// Tells of what is in no record, `after` so many.
    fn tell_live(&self, after: u32, what: Streamed, wake: &mut Vec<Waker>) {
        let number = EventNo::after(self.run, after.min(self.durable));
        self.tell(&StreamEvent { number, recorded: false, what }, wake);
    }

    /// Tells of what was held back until this many records were told.
    fn tell_held(&mut self, told: u32, wake: &mut Vec<Waker>) {
        while self.held.front().is_some_and(|(after, _)| *after <= told) {
            if let Some((after, what)) = self.held.pop_front() {
                self.tell_live(after, what, wake);
            }
        }
    }

    /// Something happened after so many records.
    fn happened(&mut self, after: u32, what: Streamed, wake: &mut Vec<Waker>) {
        if after <= self.told {
            self.tell_live(after, what, wake);
        } else if self.held.len() < HELD {
            self.held.push_back((after, what));
        } else {
            let (of, number) = (what.modes(), EventNo::after(self.run, self.durable));
            let lines = self.lines().filter(|line| line.modes.has_any(of));
            wake.extend(lines.filter_map(|line| line.lose(1, number)));
        }
    }

    /// So many records are on their way to the readers, with these events. `durable`: they are on disk.
    fn records(&mut self, events: Vec<StreamEvent>, records: u32, durable: bool, wake: &mut Vec<Waker>) {
        if durable {
            self.durable = records;
        }
        for event in events {
            self.tell_held(event.number.seq().get(), wake);
            if durable {
                self.tell(&event, wake);
            } else {
                self.tell_live(records, event.what, wake);
            }
        }
        self.told = self.told.max(records);
        self.tell_held(records, wake);
        if durable {
            self.lines().for_each(|line| line.told(EventNo::after(self.run, records)));
        }
        self.lines.retain(|line| line.strong_count() > 0);
    }
}

impl State {
    /// Adds what readers are to be told of a record, if there are any.
    pub(super) fn add_events(
        &self,
        events: &mut Vec<StreamEvent>,
        (run, seq, entrypoint): (RunNo, Seq, &str),
        record: &Record,
        mode: Mode,
    ) {
        if let Some(feed) = &self.feed {
            events_of(told_at_once(feed.modes(), mode), (run, seq, entrypoint), record, |event| events.push(event));
        }
    }

    /// Adds to what readers are told of a commit the checkpoints that are written with it.
    pub(super) fn add_checkpoints(
        &self,
        events: &mut Vec<StreamEvent>,
        thread: &ThreadId,
        (run, entrypoint): (RunNo, &str),
    ) {
        let checkpoints = StreamModes::from(StreamMode::Checkpoints);
        if self.feed.as_ref().is_some_and(|feed| feed.modes().has_any(checkpoints)) {
            for (seq, record) in unwritten(thread, run, self.outbox.overlay()) {
                events_of(checkpoints, (run, seq, entrypoint), &record, |event| events.push(event));
            }
            events.sort_by_key(|event| event.number);
        }
    }

    /// Tells the readers of records; whom to wake then, without the lock.
    pub(super) fn tell_records(&mut self, events: Vec<StreamEvent>, records: u32, durable: bool) -> Readers {
        let mut readers = Readers::default();
        if durable {
            self.outbox.durable = records;
        }
        if let Some(feed) = &mut self.feed {
            feed.records(events, records, durable, &mut readers.wake);
            readers.durable = durable.then(|| (feed.waiting.clone(), records));
        }
        readers
    }
}

/// The modes whose events are told before their record is written, where it is written only when the run ends: all but
/// the one that tells of that.
fn told_at_once(modes: StreamModes, mode: Mode) -> StreamModes {
    match mode {
        Mode::Sync | Mode::Async => modes,
        Mode::Exit => modes.without(StreamMode::Checkpoints),
    }
}

/// Readers to be woken. Not with a lock held: they may read at once.
#[derive(Default)]
#[must_use = "they were told, and are to be woken"]
pub(super) struct Readers {
    wake: Vec<Waker>,
    /// Those who wait for so many records to be durable.
    durable: Option<(Arc<watch::Sender<u32>>, u32)>,
}

impl Readers {
    pub(super) fn wake(self) {
        if let Some((waiting, records)) = self.durable {
            waiting.send_replace(records);
        }
        wake_readers(self.wake);
    }
}

fn wake_readers(wake: Vec<Waker>) {
    wake.into_iter().for_each(Waker::wake);
}

impl Run {
    /// Somebody reads the run from now on. Who watches the thread reads what was recorded before from the journal; a
    /// drive's own reader is told of this drive alone.
    pub(crate) fn join(&self, line: &Arc<Line>) {
        let mut wake = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            // It is over: all of it is in the journal.
            if state.hold.is_none() {
                return;
            }
            let (durable, flushed) = (state.outbox.durable, state.outbox.flushed);
            let feed = state.feed.get_or_insert_with(|| Feed::new(self.no, durable, flushed));
            if feed.lines.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(line))) {
                return;
            }
            feed.lines.push(Arc::downgrade(line));
            if line.watches {
                // A run that begins is in the journal once its start is, with what became of the run before.
                let records = state.outbox.committed.max(1);
                wake.extend(line.begin(self.no, records, feed.waiting.subscribe()));
                for (seq, record) in unwritten(&self.thread, self.no, state.outbox.overlay()) {
                    let at = (self.no, seq, self.entrypoint.as_str());
                    events_of(told_at_once(line.modes, self.mode), at, &record, |event| {
                        let number = EventNo::after(self.no, durable);
                        wake.extend(line.tell(&StreamEvent { number, recorded: false, what: event.what }));
                    });
                }
            }
        }
        wake_readers(wake);
    }

    /// The drive's own reader, if it has one, and all who watch the thread read the run from its first record of this
    /// drive on.
    pub(crate) fn join_readers(&self, line: Option<&Arc<Line>>) {
        if let Some(line) = line {
            self.join(line);
        }
        self.join_watchers();
    }

    /// All who watch the thread read the run from now on.
    pub(crate) fn join_watchers(&self) {
        for line in self.environment.watchers.of(&self.thread) {
            self.join(&line);
        }
    }

    /// The drive is over: its readers are told how, and nothing after that. `None`: it goes on from the journal, and
    /// they join anew.
    pub(crate) fn part(&self, how: Option<&str>) {
        let mut wake = Vec::new();
        let feed = {
            let mut state = self.lock();
            state.parted = how.map(str::to_owned);
            state.feed.take()
        };
        if let Some(feed) = feed {
            // What waits for records that will not come.
            let number = EventNo::after(self.no, feed.durable);
            for line in feed.lines() {
                let lost = feed.held.iter().filter(|(_, what)| line.modes.has_any(what.modes())).count() as u64;
                if lost > 0 {
                    wake.extend(line.lose(lost, number));
                }
                if let (true, Some(how)) = (line.watches, how) {
                    let what = Streamed::Stopped { how: how.to_owned() };
                    wake.extend(line.tell(&StreamEvent { number, recorded: false, what }));
                }
            }
        }
        wake_readers(wake);
    }

    /// An attempt of a call's body begins: told to readers if it is a task's.
    pub(super) fn tell_started(&self, slot: Slot, attempt: u32) {
        let mut wake = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            let (Some(feed), Some(call)) = (&mut state.feed, state.journal.call(slot)) else { return };
            let wanted = is_task(call.kind) && feed.modes().has_any(StreamMode::Tasks.into());
            if let Some(call) = wanted.then(|| state.journal.info(slot)) {
                let what = Streamed::TaskStarted { task: task(&call), attempt };
                feed.happened(state.journal.next_seq(), what, &mut wake);
            }
        }
        wake_readers(wake);
    }

    /// Code tells its readers something: an entrypoint's is recorded, a task's body's is told as it is.
    pub(crate) fn emit(self: &Arc<Self>, scope: &Scope, value: Payload, digest: &[u8; 32]) {
        let mut wake = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            let is_over = state.stop.is_some() || state.halted || (state.continues() && scope.owner.is_none());
            if is_over || !state.journal.is_current(scope) {
                return;
            }
            match scope.order {
                // Nothing of an entrypoint that is being stopped is recorded any more.
                Order::Released(_) => {
                    if state.journal.is_cut() {
                        return;
                    }
                    if !state.journal.emit(scope, digest, value, self.environment.now_ms()) {
                        return;
                    }
                }
                Order::AtOnce => {
                    let Some(feed) = &mut state.feed else { return };
                    let within = enclosing(&state.journal.within(*scope));
                    let what = Streamed::Custom { within, value: EventValue::alone(value) };
                    feed.happened(state.journal.next_seq(), what, &mut wake);
                }
            }
        }
        wake_readers(wake);
        self.nudge();
    }

    /// Whether anybody would be told what code in this scope emits.
    pub(crate) fn hears(&self, scope: &Scope) -> bool {
        scope.order != Order::AtOnce || self.lock().feed.is_some()
    }
}

/// The records that wait for the run's end, in [`Mode::Exit`].
fn unwritten(thread: &ThreadId, run: RunNo, overlay: &[Change]) -> Vec<(Seq, Record)> {
    let rows = overlay.iter().filter_map(|change| match change {
        Change::Put(key @ Key::Record { run: of, .. }, row) if *of == run.0 => Some((*key, row.clone())),
        _ => None,
    });
    let items = rows::unseal(thread, rows.collect()).unwrap_or_default();
    let mut names = Names::default();
    let records = items.into_iter().filter_map(|(key, bytes)| match key {
        Key::Record { seq, .. } => Some((Seq(seq), Record::from_bytes(&bytes, &mut names).ok()?)),
        _ => None,
    });
    records.collect()
}
