//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod again;
mod basics;
mod cancellation;
mod combinators;
mod crowds;
mod detached;
mod failure;
mod faults;
mod foreign_wakes;
mod fork;
mod history;
mod identity;
mod interrupts;
mod memory;
mod mend;
mod names;
mod nested;
mod nondeterminism;
mod panics;
mod prune;
mod random_flows;
mod recorded;
mod replay;
mod rests;
mod retries;
mod review;
mod streams;
mod thread_ids;
mod tidy;
mod unread;
mod update;
mod verbs;
mod wakes;
mod watch;
mod watching;
