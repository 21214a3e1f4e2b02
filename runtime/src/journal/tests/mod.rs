//! The state machine on its own: against a simple model, its records as bytes, and entrypoints within bodies.
#![allow(clippy::unwrap_used)] // tests

use super::*;
use crate::{
    output::{Failure, TaskErrorKind},
    value::{Arguments, Payload},
};

mod bench;
mod cut;
mod model;
mod nested;
mod records;

/// How many cases each test runs by default.
const CASES: usize = 10_000;

/// Enough randomness for tests, and the same again from the same seed (xorshift64*).
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from((self.next() >> 11) % bound as u64).unwrap()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())].clone()) }
    }
}

/// Prints which case it was if it panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("DURABLY_SEED={}", self.0);
        }
    }
}

/// Runs cases from `DURABLY_SEED`, which is then the only one, else from the time; `DURABLY_SIZE` times as many.
fn cases(case: impl Fn(&mut Dice)) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("it is a number"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let first = number("DURABLY_SEED").unwrap_or(u64::from(now.subsec_nanos()) << 20);
    let count = match number("DURABLY_SEED") {
        Some(_) => 1,
        None => CASES as u64 * number("DURABLY_SIZE").unwrap_or(1),
    };
    for seed in first..first + count {
        let _named = Named(seed);
        case(&mut Dice::new(seed));
    }
}

fn task(name: &'static str, argument: u8) -> NewCall {
    let mut arguments = Arguments::new();
    arguments.push("argument", &argument).unwrap();
    NewCall {
        kind: CallKind::Task,
        name: name.into(),
        definition: None,
        arguments,
        location: std::panic::Location::caller(),
    }
}

fn value(value: u64) -> Recorded {
    Recorded::Value(Payload::encode(&value).unwrap())
}

fn failure(message: u64) -> Recorded {
    Recorded::Failure(Failure { typed: None, kind: TaskErrorKind::Failed, chain: vec![message.to_string()] })
}
