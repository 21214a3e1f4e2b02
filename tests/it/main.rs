//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod watch;

mod basics;
mod combinators;
mod replay;
mod tidy;
