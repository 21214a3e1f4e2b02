//! What waits for the committer, and who waits for its answers: everything that must be answered whatever happens.
//!
//! The queue takes whatever comes, since [`commit`](crate::checkpoint::Checkpointer::commit) may not block an async
//! worker; a caller that has much to write waits for room first. Each run has a bounded number of commits under way.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, oneshot};

use crate::{
    ThreadId,
    checkpoint::{Acknowledge, CheckpointError, Commit, Lease, Ticket, leases::lock},
};

/// Above so many waiting messages there is no room.
pub(super) const QUEUE: usize = 4096;

type Deleted = Result<bool, CheckpointError>;

/// What the committer is asked to do.
#[derive(Debug)]
pub(super) enum Request {
    Commit(Commit),
    Delete(ThreadId),
    /// Gives the lease back once all before this is durable.
    Release(Lease),
}

/// Who is told.
#[derive(Debug)]
enum Asker {
    Commit(Acknowledge),
    Delete(oneshot::Sender<Deleted>),
    /// Nobody.
    Release,
}

/// An asker and what it will be told when the batch is durable.
#[derive(Debug)]
struct Waiting {
    asker: Asker,
    answer: Deleted,
}

/// A removed thread whose rows are still there.
#[derive(Debug)]
struct Sweep {
    thread: u64,
    asker: Asker,
}

#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    /// The committer waits here for work.
    work: Condvar,
    /// The watchdog and a closing handle wait here for the end.
    ended: Condvar,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(Request, Asker)>,
    /// In the batch under way.
    waiting: Vec<Waiting>,
    /// The large commit under way.
    large: Option<Waiting>,
    sweeps: VecDeque<Sweep>,
    /// Why nothing more is written.
    failed: Option<CheckpointError>,
    closing: bool,
    ended: bool,
    /// When the batch under way was begun.
    since: Option<Instant>,
}

impl Waiting {
    fn tell(self) {
        self.asker.tell(self.answer);
    }
}

impl Asker {
    fn tell(self, answer: Deleted) {
        match self {
            Self::Commit(acknowledge) => acknowledge.answer(answer.map(|_| ())),
            // Whoever asked may have gone; the thread is removed all the same.
            Self::Delete(sender) => drop(sender.send(answer)),
            Self::Release => {}
        }
    }
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), ended: Condvar::new(), room: Notify::new() }
    }

    // What callers do.

    pub(super) fn commit(&self, commit: Commit) -> Ticket {
        let (acknowledge, ticket) = Ticket::pending();
        match self.push(Request::Commit(commit), Asker::Commit(acknowledge)) {
            Ok(()) => ticket,
            Err(error) => Ticket::ready(Err(error)),
        }
    }

    pub(super) fn delete(&self, thread: ThreadId) -> Result<oneshot::Receiver<Deleted>, CheckpointError> {
        let (sender, receiver) = oneshot::channel();
        self.push(Request::Delete(thread), Asker::Delete(sender))?;
        Ok(receiver)
    }

    pub(super) fn release(&self, lease: &Lease) -> Result<(), CheckpointError> {
        self.push(Request::Release(lease.clone()), Asker::Release)
    }

    fn push(&self, request: Request, asker: Asker) -> Result<(), CheckpointError> {
        let mut state = lock(&self.state);
        state.open()?;
        state.queue.push_back((request, asker));
        // A committer at work looks for more by itself.
        if state.since.is_none() {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Whether the store takes writes.
    pub(super) fn open(&self) -> Result<(), CheckpointError> {
        lock(&self.state).open()
    }

    pub(super) fn failed(&self) -> Option<CheckpointError> {
        lock(&self.state).failed.clone()
    }

    pub(super) fn queued(&self) -> usize {
        lock(&self.state).queue.len()
    }

    /// Returns once fewer than [`QUEUE`] messages wait.
    pub(super) async fn room(&self) -> Result<(), CheckpointError> {
        loop {
            let room = self.room.notified();
            {
                let state = lock(&self.state);
                state.open()?;
                if state.queue.len() < QUEUE {
                    return Ok(());
                }
            }
            room.await;
        }
    }

    pub(super) fn close(&self) {
        lock(&self.state).closing = true;
        self.work.notify_one();
        self.room.notify_waiters();
    }

    /// Waits until the committer has ended, or is known to hang.
    pub(super) fn wait_for_end(&self, look: Duration, hangs: impl Fn() -> bool) {
        let mut state = lock(&self.state);
        while !state.ended && !hangs() {
            state = timed(&self.ended, state, look);
        }
    }

    // What the committer does.

    /// Waits for work; `false`: there is none and none will come.
    pub(super) fn next(&self) -> bool {
        let mut state = lock(&self.state);
        state.since = None;
        loop {
            if state.failed.is_none() && !(state.queue.is_empty() && state.sweeps.is_empty()) {
                state.since = Some(Instant::now());
                return true;
            }
            if state.closing {
                return false;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the next message; it will be told `Ok` unless something else is said.
    pub(super) fn pop(&self) -> Option<Request> {
        let mut state = lock(&self.state);
        let (request, asker) = state.queue.pop_front()?;
        state.waiting.push(Waiting { asker, answer: Ok(false) });
        if state.queue.len() == QUEUE - 1 {
            self.room.notify_waiters();
        }
        Some(request)
    }

    /// What the message that was taken last will be told instead.
    pub(super) fn refuse(&self, error: CheckpointError) {
        if let Some(last) = lock(&self.state).waiting.last_mut() {
            last.answer = Err(error);
        }
    }

    /// The message that was taken last is a large commit: it is told by itself.
    pub(super) fn hold_large(&self) {
        let mut state = lock(&self.state);
        state.large = state.waiting.pop();
    }

    pub(super) fn tell_large(&self) {
        let large = lock(&self.state).large.take();
        if let Some(large) = large {
            large.tell();
        }
    }

    /// The message that was taken last removes this thread: it is told when the rows are gone.
    pub(super) fn hold_sweep(&self, thread: u64) {
        let mut state = lock(&self.state);
        if let Some(Waiting { asker, .. }) = state.waiting.pop() {
            state.sweeps.push_back(Sweep { thread, asker });
        }
    }

    /// The thread whose rows are to be removed next.
    pub(super) fn sweep(&self) -> Option<u64> {
        lock(&self.state).sweeps.front().map(|sweep| sweep.thread)
    }

    /// Its rows are gone with the batch under way.
    pub(super) fn swept(&self) {
        let mut state = lock(&self.state);
        if let Some(Sweep { asker, .. }) = state.sweeps.pop_front() {
            state.waiting.push(Waiting { asker, answer: Ok(true) });
        }
    }

    /// The batch is durable.
    pub(super) fn tell(&self) {
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        waiting.into_iter().for_each(Waiting::tell);
    }

    /// A part of a large commit is durable: the committer does not hang.
    pub(super) fn beat(&self) {
        lock(&self.state).since = Some(Instant::now());
    }

    /// Nothing more is written; tells everybody. The first failure stays.
    pub(super) fn fail(&self, error: &CheckpointError) {
        let poisoned = CheckpointError::Poisoned { cause: std::sync::Arc::new(error.clone()) };
        let (under_way, queue) = {
            let mut state = lock(&self.state);
            if state.failed.is_some() {
                return;
            }
            state.failed = Some(poisoned.clone());
            let mut under_way: Vec<Asker> = state.waiting.drain(..).map(|waiting| waiting.asker).collect();
            under_way.extend(state.large.take().map(|waiting| waiting.asker));
            under_way.extend(state.sweeps.drain(..).map(|sweep| sweep.asker));
            (under_way, std::mem::take(&mut state.queue))
        };
        self.room.notify_waiters();
        for asker in under_way {
            asker.tell(Err(error.clone()));
        }
        for (_, asker) in queue {
            asker.tell(Err(poisoned.clone()));
        }
    }

    pub(super) fn end(&self) {
        lock(&self.state).ended = true;
        self.ended.notify_all();
    }

    // What the watchdog does.

    /// Waits until the batch under way takes longer than `patience`, or until the end (`false`).
    pub(super) fn watch(&self, patience: Duration) -> bool {
        let mut state = lock(&self.state);
        while !state.ended {
            if state.failed.is_none() && state.since.is_some_and(|since| since.elapsed() > patience) {
                return true;
            }
            state = timed(&self.ended, state, patience / 4);
        }
        false
    }
}

impl State {
    fn open(&self) -> Result<(), CheckpointError> {
        match &self.failed {
            _ if self.closing => Err(CheckpointError::Closed),
            Some(poisoned) => Err(poisoned.clone()),
            None => Ok(()),
        }
    }
}

fn timed<'a>(condvar: &Condvar, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
    let time = time.max(Duration::from_millis(1));
    condvar.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
}
