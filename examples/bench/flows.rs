//! The flows that are measured.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use durably::{bounded, entrypoint, task};
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};

/// What a step gives: 100 bytes.
const TEXT: &str =
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

#[task]
pub(crate) async fn step(n: u32) -> String {
    let _ = n;
    TEXT.to_owned()
}

/// The moments at which steps ended, as the code between them saw it.
#[derive(Clone, Default)]
pub(crate) struct Moments(Arc<Mutex<Vec<Instant>>>);

impl Moments {
    fn note(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }

    pub(crate) fn take(&self) -> Vec<Instant> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Steps one after another.
#[entrypoint]
pub(crate) async fn chain(n: u32) -> usize {
    let mut bytes = 0;
    for number in 0..n {
        bytes += step(number).await.len();
    }
    bytes
}

/// As [`chain`], with the moment of each step.
#[entrypoint]
pub(crate) async fn timed_chain(n: u32) -> usize {
    let moments = durably::resource::<Moments>();
    moments.note();
    let mut bytes = 0;
    for number in 0..n {
        bytes += step(number).await.len();
        moments.note();
    }
    bytes
}

/// How steps are awaited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Together {
    /// With `join_all`.
    JoinAll,
    /// As a `FuturesUnordered`.
    Unordered,
    /// With `bounded`, this many at a time.
    Bounded(usize),
}

async fn fan(n: u32, how: Together) -> usize {
    match how {
        Together::JoinAll => join_all((0..n).map(step)).await.iter().map(String::len).sum(),
        Together::Unordered => {
            let mut steps: FuturesUnordered<_> = (0..n).map(step).collect();
            let mut bytes = 0;
            while let Some(text) = steps.next().await {
                bytes += text.len();
            }
            bytes
        }
        Together::Bounded(limit) => bounded(limit, (0..n).map(step)).await.iter().map(String::len).sum(),
    }
}

/// Steps in parallel.
#[entrypoint]
pub(crate) async fn fan_out(n: u32, how: Together) -> usize {
    fan(n, how).await
}

/// Steps that are done, the moment at which the code is past them, and a question: the run pauses there.
#[entrypoint]
pub(crate) async fn pauses(n: u32, together: bool) -> usize {
    let mut bytes = 0;
    if together {
        bytes += fan(n, Together::JoinAll).await;
    } else {
        for number in 0..n {
            bytes += step(number).await.len();
        }
    }
    durably::resource::<Moments>().note();
    durably::interrupt::<()>("go on?", &()).await;
    bytes
}
