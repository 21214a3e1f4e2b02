//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod basics;
mod cancellation;
mod combinators;
mod failure;
mod faults;
mod interrupts;
mod names;
mod nested;
mod nondeterminism;
mod panics;
mod replay;
mod retries;
mod tidy;
mod watch;
