//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod again;
mod detached;
mod mend;
mod random_flows;
mod replay;
mod unread;
mod wakes;
