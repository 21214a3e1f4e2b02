//! A store whose answers may come from elsewhere, on a paused clock: while one is on its way, nothing is idle.
//!
//! The explorer takes "nothing goes on any more" from tokio's paused clock, which moves only then. What a store's own
//! threads are at is not seen by it; a job on the blocking pool is.

use std::{
    future::poll_fn,
    sync::{Arc, mpsc},
    task::Poll,
    time::Duration,
};

use crate::{
    ThreadId,
    checkpoint::{BoxFuture, CheckpointError, Checkpointer, Commit, Key, Lease, Rows, ThreadPage, ThreadQuery, Ticket},
    testing::Delegate,
};

/// How long an answer is waited for in real time, until the process counts as one that hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps the clock from moving while an answer is on its way.
#[derive(Debug)]
pub(super) struct Unhurried(pub(super) Arc<dyn Checkpointer>);

/// A job on the blocking pool that lasts as long as this.
struct Busy(#[expect(dead_code, reason = "its end is what counts")] mpsc::Sender<()>);

impl Busy {
    fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        drop(tokio::task::spawn_blocking(move || {
            let _: Result<(), _> = receiver.recv_timeout(PATIENCE);
        }));
        Self(sender)
    }
}

fn unhurried<'a, T: Send + 'a>(mut answer: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    let mut busy = None;
    Box::pin(poll_fn(move |cx| match answer.as_mut().poll(cx) {
        Poll::Ready(answer) => {
            busy = None;
            Poll::Ready(answer)
        }
        Poll::Pending => {
            busy.get_or_insert_with(Busy::new);
            Poll::Pending
        }
    }))
}

impl Delegate for Unhurried {
    fn inner(&self) -> &dyn Checkpointer {
        &*self.0
    }

    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        unhurried(self.0.acquire(thread))
    }

    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        unhurried(self.0.released(thread))
    }

    fn commit(&self, commit: Commit) -> Ticket {
        let mut ticket = self.0.commit(commit);
        if let Some(answer) = ticket.at_once() {
            return Ticket::ready(answer);
        }
        let (acknowledge, later) = Ticket::pending();
        let busy = Busy::new();
        tokio::spawn(async move {
            acknowledge.answer(ticket.await);
            drop(busy);
        });
        later
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        unhurried(self.0.get(thread, key))
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        unhurried(self.0.scan(thread, first, last))
    }

    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        unhurried(self.0.threads(query))
    }
}
