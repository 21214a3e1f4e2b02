//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod again;
mod basics;
mod cancellation;
mod combinators;
mod crowds;
mod detached;
mod explorer;
mod failure;
mod faults;
mod faulty_reads;
mod foreign_wakes;
mod identity;
mod interrupts;
mod mend;
mod names;
mod nested;
mod nondeterminism;
mod panics;
mod random_flows;
mod recorded;
mod replay;
mod replay_check;
mod rests;
mod retries;
mod review;
mod thread_ids;
mod tidy;
mod travel;
mod unread;
mod verbs;
mod wakes;
mod watch;
