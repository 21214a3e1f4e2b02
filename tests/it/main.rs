//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod detached;
mod random_flows;
mod replay;
mod unread;
