//! Chance that can be repeated: seeded numbers, orders and pauses, and how many of them a test tries.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Seeded numbers (splitmix64): the same seed gives the same ones on every machine.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// The next number, below a limit; 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.number() % limit).unwrap_or_default()
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// How many cases a test tries: as many as a normal run takes, times `DURABLY_SIZE`.
#[must_use]
pub fn size(normal: usize) -> usize {
    let times = std::env::var("DURABLY_SIZE").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    normal.saturating_mul(times)
}

/// Pends so many times, waking itself each time: a body that takes a while and needs no clock.
pub fn pends(times: usize) -> impl Future<Output = ()> + Send {
    Pends(times)
}

struct Pends(usize);

impl Future for Pends {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
