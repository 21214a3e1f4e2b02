//! x
#![allow(clippy::unwrap_used, dead_code)]
mod cache;
mod cache_flights;
mod entrypoint_retry;
mod limits;
mod timeouts;
mod watch;
