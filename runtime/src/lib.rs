//! Durable execution for async Rust.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod entrypoint;
mod id;
mod output;
mod policy;
mod task;
mod value;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use durably_macros::{entrypoint, task};
pub use entrypoint::{Definition, EntrypointCall, Final};
pub use id::{CallId, CallIdError, RunNo, Seq, ThreadId, ThreadIdError};
pub use output::{Failure, TaskError, TaskErrorKind};
pub use policy::RetryPolicy;
pub use task::TaskCall;
pub use value::ValueError;
