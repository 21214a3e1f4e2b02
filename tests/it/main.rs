//! The behaviours of durably, by topic, in one binary.
#![allow(clippy::unwrap_used)]

mod random_flows;
mod replay;
mod unread;
