//! The order in which bodies end: each is held at its end until everything has come to rest, then one is chosen.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::checkpoint::BoxFuture;

/// Holds bodies at their ends. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Orders(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    choices: Vec<usize>,
    /// How many there were to choose from, where there were several; and which was chosen.
    made: Vec<(usize, usize)>,
    next: u64,
    /// Those that are held, in order of their coming.
    held: Vec<(u64, Waker)>,
    watcher: Option<Waker>,
}

impl Orders {
    pub(super) fn new(choices: &[usize]) -> Self {
        Self(Arc::new(Mutex::new(State { choices: choices.to_vec(), ..State::default() })))
    }

    /// A body is about to end; ready when its turn has come.
    pub(super) fn hold(&self) -> BoxFuture<'static, ()> {
        let mut held = Held { orders: self.clone(), number: None };
        Box::pin(poll_fn(move |cx| held.poll(cx)))
    }

    /// Whether one can be let go now; else, the waker is told when one comes.
    pub(super) fn poll_any(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.state();
        if state.held.is_empty() {
            state.watcher = Some(cx.waker().clone());
        }
        !state.held.is_empty()
    }

    /// Lets the next one go.
    pub(super) fn choose(&self) {
        let waker = {
            let mut state = self.state();
            let of = state.held.len();
            let chosen = if of > 1 {
                let choice = state.choices.get(state.made.len()).copied().unwrap_or(0) % of;
                state.made.push((choice, of));
                choice
            } else {
                0
            };
            (of > 0).then(|| state.held.remove(chosen).1)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What was chosen, of how many.
    pub(super) fn made(&self) -> Vec<(usize, usize)> {
        self.state().made.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Held {
    orders: Orders,
    number: Option<u64>,
}

impl Held {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let watcher = {
            let mut state = self.orders.state();
            match self.number {
                Some(number) => match state.held.iter_mut().find(|(other, _)| *other == number) {
                    Some((_, waker)) => {
                        waker.clone_from(cx.waker());
                        None
                    }
                    None => return Poll::Ready(()),
                },
                None => {
                    let number = state.next;
                    state.next += 1;
                    self.number = Some(number);
                    state.held.push((number, cx.waker().clone()));
                    state.watcher.take()
                }
            }
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        Poll::Pending
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.orders.state().held.retain(|(other, _)| *other != number);
        }
    }
}

/// The next order to try after one that chose so, going through all of them; `None` after the last.
pub(super) fn following(made: &[(usize, usize)]) -> Option<Vec<usize>> {
    let last = made.iter().rposition(|(choice, of)| choice + 1 < *of)?;
    let mut order: Vec<usize> = made[..=last].iter().map(|(choice, _)| *choice).collect();
    order[last] += 1;
    Some(order)
}
