//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod cancellation;
mod combinators;
mod foreign_wakes;
mod names;
mod nested;
mod nondeterminism;
mod panics;
mod replay;
mod thread_ids;
