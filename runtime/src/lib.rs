//! Durable execution for async Rust.
#![forbid(unsafe_code)]

mod error;
mod id;
mod value;

mod journal;
mod output;
mod policy;

pub mod checkpoint;
mod environment;
mod storage;

mod scope;

mod branch;
mod call;
mod interrupt;
mod recorded;
mod resource;
mod select;
mod task;

mod entrypoint;
mod run;

mod runtime;
mod thread;

#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use branch::{Bounded, bounded, branch};
pub use checkpoint::CheckpointError;
pub use durably_macros::{entrypoint, task};
pub use entrypoint::{Definition, EntrypointCall, EntrypointFn, Final, continue_as_new};
pub use environment::{CallView, Clock, Event, Observer, Recall, ReplacedCall, RunView, SystemClock};
pub use error::RunError;
pub use id::{CallId, CallIdError, RunNo, Seq, ThreadId, ThreadIdError};
pub use interrupt::{Interrupt, interrupt};
pub use journal::{CallKind, CallSketch, Nondeterminism, RecordedStep};
pub use output::{Failure, TaskError, TaskErrorKind};
pub use policy::RetryPolicy;
pub use recorded::{now, patched, random, sleep, uuid};
pub use resource::resource;
pub use run::{Outcome, Question};
pub use runtime::{Recovered, Runtime, RuntimeBuilder, ThreadList, ThreadSummary};
pub use storage::Status;
pub use task::{TaskCall, attempt, idempotency_key};
pub use thread::{
    AnswerError, CallState, CallStatus, Durability, IfUnfinished, Invoke, Resume, Started, Thread, ThreadState, Which,
};
pub use value::ValueError;

/// The README's code, compiled. Only for that: the file is outside of the package, and not there when it is published.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
