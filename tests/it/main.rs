//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod basics;
mod combinators;
mod failure;
mod names;
mod nested;
mod nondeterminism;
mod panics;
mod replay;
mod tidy;
mod watch;
