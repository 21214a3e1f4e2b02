//! The events of one drive of a run, and what it came to.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;

use super::Started;
use crate::{
    Outcome, RunError,
    stream::{EventNo, Item, Line, Position, StreamEvent},
};

/// A run that is driven on the pool, and what happens in it: from [`Invoke::stream`](crate::Invoke::stream) and
/// [`Resume::stream`](crate::Resume::stream). A [`Stream`] of events, which ends when the drive does; then
/// [`outcome`](Self::outcome) has what it came to.
///
/// Dropping it only detaches: the run goes on, and its state is saved.
#[must_use = "the events and the outcome come from this; dropping it only detaches"]
pub struct RunStream<T> {
    line: Arc<Line>,
    position: Position,
    started: Started<T>,
}

impl<T> RunStream<T> {
    pub(super) fn new(line: Arc<Line>, started: Started<T>) -> Self {
        Self { line, position: Position(EventNo::BEGINNING), started }
    }

    /// The next event; `None` when the drive is over.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        poll_fn(|cx| self.poll_line(cx)).await
    }

    /// Waits for what the run comes to. Events that were not read are dropped.
    ///
    /// # Errors
    ///
    /// As awaiting the [`Invoke`](crate::Invoke) or [`Resume`](crate::Resume) itself; and [`RunError::Aborted`] if the
    /// drive was ended from outside.
    pub async fn outcome(self) -> Result<Outcome<T>, RunError> {
        let Self { line, started, .. } = self;
        drop(line);
        started.await
    }

    /// Ends the drive as a crash would; the run can be resumed.
    pub fn abort(&self) {
        self.started.abort();
    }

    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        loop {
            match self.line.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Item::Begin(_))) => {}
                Poll::Ready(Some(Item::Event(event))) => {
                    if let Some(event) = self.position.take(event) {
                        return Poll::Ready(Some(event));
                    }
                }
            }
        }
    }
}

impl<T> Stream for RunStream<T> {
    type Item = StreamEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        self.get_mut().poll_line(cx)
    }
}

impl<T> fmt::Debug for RunStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("position", &self.position.0).finish_non_exhaustive()
    }
}
