//! Randomness that comes again from the same seed, and how much of it a test is to use.

use std::time::{SystemTime, UNIX_EPOCH};

/// A seeded generator (xorshift64*).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        // Mixed, so that neighbouring seeds have nothing in common; never zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from((self.next() >> 11) % bound as u64).unwrap()
    }

    pub(super) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// The first seed: `DURABLY_SEED`, else the time. With a given seed exactly that case is run.
pub(super) fn first_seed() -> (u64, bool) {
    if let Ok(seed) = std::env::var("DURABLY_SEED") {
        return (seed.parse().expect("DURABLY_SEED is a number"), true);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (u64::from(now.subsec_nanos()) << 20 | now.as_secs() & 0xf_ffff, false)
}

/// By how much a test is to be larger than by default.
pub(super) fn size() -> usize {
    std::env::var("DURABLY_SIZE").map_or(1, |size| size.parse().expect("DURABLY_SIZE is a number"))
}
