//! The answer to a commit, now or later.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use super::CheckpointError;

/// The answer to a commit: ready when it is durable, or refused. Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "a commit is durable only once its ticket says so"]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Ready(Option<Result<(), CheckpointError>>),
    Waiting(oneshot::Receiver<Result<(), CheckpointError>>),
}

/// The backend's end of a [`Ticket`]. Dropped unanswered, the ticket says [`CheckpointError::Closed`].
#[derive(Debug)]
pub struct Acknowledge(oneshot::Sender<Result<(), CheckpointError>>);

impl Ticket {
    /// A ticket that is answered already.
    pub fn ready(answer: Result<(), CheckpointError>) -> Self {
        Self(State::Ready(Some(answer)))
    }

    /// A ticket to be answered later, from any thread.
    pub fn pending() -> (Acknowledge, Self) {
        let (sender, receiver) = oneshot::channel();
        (Acknowledge(sender), Self(State::Waiting(receiver)))
    }

    /// Whether it is known by now that the commit was refused.
    #[cfg(feature = "testing")]
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.0, State::Ready(Some(Err(_))))
    }
}

impl Ticket {
    /// The answer, if there was one from the beginning.
    pub(crate) fn at_once(&mut self) -> Option<Result<(), CheckpointError>> {
        match &mut self.0 {
            State::Ready(answer) => answer.take(),
            State::Waiting(_) => None,
        }
    }
}

impl Acknowledge {
    /// Answers the ticket.
    pub fn answer(self, answer: Result<(), CheckpointError>) {
        // The caller may have gone; the commit stands all the same.
        let _ = self.0.send(answer);
    }
}

impl Future for Ticket {
    type Output = Result<(), CheckpointError>;

    /// # Panics
    ///
    /// When polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Ready(answer) => Poll::Ready(answer.take().expect("a ticket is not polled after it was ready")),
            State::Waiting(receiver) => {
                Pin::new(receiver).poll(cx).map(|answer| answer.unwrap_or(Err(CheckpointError::Closed)))
            }
        }
    }
}
