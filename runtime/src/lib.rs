//! Durable execution for async Rust.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod id;
#[cfg(feature = "testing")]
pub mod testing;
mod value;

pub use id::{CallId, CallIdError, RunNo, Seq, ThreadId, ThreadIdError};
