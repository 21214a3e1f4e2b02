//! Durable execution for async Rust: annotate functions, journal each task, go on after a crash where it was.
//!
//! A function with `#[entrypoint]` is a *run*'s code; a function with `#[task]` has effects, and its result is recorded
//! once. After a crash, a deploy or a week of waiting for a person, the entrypoint runs again from its first line, and
//! every finished task answers from the journal instead of running again.
//!
//! ```no_run
//! use durably::{Outcome, Runtime, entrypoint, interrupt, task};
//!
//! #[task(retry(max_attempts = 4, initial_interval = "200ms"), timeout = "30s")]
//! async fn fetch(url: &str) -> anyhow::Result<String> {
//!     // any async code
//!     Ok(format!("the text of {url}"))
//! }
//!
//! #[entrypoint]
//! async fn digest(urls: Vec<String>) -> anyhow::Result<Option<String>> {
//!     let pages = futures::future::try_join_all(urls.iter().map(|url| fetch(url))).await?;
//!     let draft = pages.join("\n");
//!     let publish: bool = interrupt("publish?", &draft).await; // a minute or a month
//!     Ok(publish.then_some(draft))
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> anyhow::Result<()> {
//!     let runtime = Runtime::builder().entrypoint(digest).open("./state")?;
//!     let thread = runtime.thread("digest-42")?;
//!     match thread.invoke(digest(vec!["https://example.com".to_owned()])).await? {
//!         Outcome::Completed(draft) => println!("{draft:?}"),
//!         Outcome::Interrupted(open) => println!("waiting for: {}", open[0].payload()),
//!         _ => {}
//!     }
//!     // Hours later, in another process:
//!     thread.answer("publish?", true).await?;
//!     thread.resume(digest).await?;
//!     Ok(())
//! }
//! ```
//!
//! # What an entrypoint may do
//!
//! Between its tasks an entrypoint must be deterministic, since it is run again: same input and same outcomes, same
//! calls. Time, randomness and waiting are recorded calls: [`now`], [`random`], [`uuid`], [`sleep`], [`interrupt`].
//! Everything else that reaches outside belongs into a task, whose body is free. Three nets catch what slips through: a
//! lint of the entrypoint's tokens, an error when something that is not recorded wakes it or is all it waits for
//! ([`RunError::ForeignWake`], [`RunError::Stalled`]), and the check of every record against the calls that the code makes
//! ([`Nondeterminism`]), before any new effect.
//!
//! Any concurrency within is fine, and replays exactly: `join!`, `try_join_all`, `FuturesUnordered`, biased `select!`
//! ([`select!`] here), [`bounded`], channels between branches. An outcome is handed on only when the code has come to
//! rest, one at a time, in the order of the journal.
//!
//! # What is promised
//!
//! * In [`Durability::Sync`], the default, a record is on disk before its value is visible to anyone.
//! * A finished task's body does not run again; one that was cut off does (use [`idempotency_key`] for what receives it),
//!   unless it is `at_most_once`: then it is found out, or somebody says, what became of it.
//! * A task's failure is an outcome like a value. Resuming a failed run opens again what it did not get past.
//! * What somebody has to approve is executed exactly as it was seen, at most once: see [`approval`].
//! * A wrong replay is worse than an error: damage, lost tails, changed code and changed types are typed errors.
//!
//! # Watching a run
//!
//! [`stream`](Invoke::stream) drives a run on the pool and gives what happens in it as it happens; [`Thread::watch`] reads
//! a thread from a number on, first from its journals, then live, so that a reader can break off and come back in any
//! process. Code tells readers more with [`emit`]. Readers are bounded and never waited for: one that is too slow is told
//! how much it missed. What is recorded is told once it is durable, and has the same number for every reader; the
//! beginning of tasks and what their bodies emit is told live only. An [`Observer`] is told of all runs of a runtime, from
//! within them.
//!
//! # Memory and time travel
//!
//! A thread remembers: `#[previous]` gives a run what the last one saved. [`Thread::history`] lists each record of each
//! run as a checkpoint, [`Thread::state_at`] gives the thread as it was there, [`Thread::fork`] goes on from there as a
//! new run (with another outcome of a call, if wanted), and the old one stays. [`Thread::update`] sets what is saved,
//! [`Thread::stage`] stores an input to be run later. Old runs go by [`Thread::prune`] or a
//! [retention](RuntimeBuilder::retention).
//!
//! # What it runs on
//!
//! Any tokio runtime with its timers on (`#[tokio::main]`, or a builder's `enable_time` or `enable_all`); one thread is
//! enough. Nothing runs by itself in the background: [`Runtime::background`] goes on with what was cut off and with runs
//! whose moment has come, and so do [`Runtime::recover`], when a process begins, and [`Runtime::run_due`], now and then.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `sled` | yes | the embedded store on disk: [`RuntimeBuilder::open`] |
//! | `testing` | no | the crash explorer for flows, journals against code, fault injection, the checkpointer conformance suite |
//!
//! # Reading the source
//!
//! The modules below stand in layers: each uses only its own and those above it in this file.
#![forbid(unsafe_code)]

// What everything else is made of.
mod hex;
mod id;
mod panics;
mod value;

// The pure core: no I/O, no clock.
mod journal;
mod output;
mod policy;

// Where journals are kept.
pub mod checkpoint;

// What a run is given, what it is told, how its rows are read.
mod cache;
mod environment;
mod error;
mod storage;
mod stream;
mod watchdog;

// The ambient run.
mod scope;

// What a user awaits.
mod branch;
mod call;
mod defer;
mod emit;
mod interrupt;
mod recorded;
mod resource;
mod select;
mod task;

// One run, driven.
mod entrypoint;
mod run;

// A process's runtime, and its threads.
mod runtime;
mod thread;

// Actions that somebody has to approve.
pub mod approval;

// Built on the above, for tests.
#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use branch::{Bounded, bounded, branch};
pub use checkpoint::CheckpointError;
pub use defer::{CleanedUp, Deferred, defer};
#[doc = include_str!("entrypoint/attribute.md")]
pub use durably_macros::entrypoint;
#[doc = include_str!("task/attribute.md")]
pub use durably_macros::task;
pub use emit::emit;
pub use entrypoint::{Definition, EntrypointCall, EntrypointFn, Final, continue_as_new};
pub use environment::{CallView, Clock, Event, Observer, Recall, ReplacedCall, RunView, SystemClock};
pub use error::{AnswerError, RunError};
pub use id::{CallId, CallIdError, CheckpointId, CheckpointIdError, RunNo, Seq, ThreadId, ThreadIdError};
pub use interrupt::{Cancellable, Interrupt, interrupt};
pub use journal::{AnswerKind, CallKind, CallSketch, Nondeterminism, RecordedStep};
pub use output::{Failure, TaskError, TaskErrorKind};
pub use policy::{CachePolicy, RetryPolicy};
pub use recorded::{now, patched, random, sleep, uuid};
pub use resource::resource;
pub use run::{Doubt, Outcome, Question};
pub use runtime::{
    Background, DrainReport, Recovered, Runtime, RuntimeBuilder, RuntimeStats, ThreadList, ThreadSummary, Threads,
};
pub use storage::Status;
pub use stream::{
    Enclosing, EventNo, EventNoError, EventValue, StreamEvent, StreamMode, StreamModes, Streamed, StreamedTask,
};
pub use task::{Reconciled, Reconciles, TaskCall, attempt, heartbeat, idempotency_key};
pub use thread::{
    AnswerState, Answering, CallState, CallStatus, Cancel, CancelError, Cancellation, Checkpoint, CheckpointKind,
    CheckpointWhat, Command, Durability, Fork, ForkedFrom, History, IfUnfinished, ImportError, Invoke, Keep, Pruned,
    RecordedValue, Resume, RunSize, RunStream, RunSummary, Runs, SettleError, Settlement, Settling, Stage, Started,
    Thread, ThreadFile, ThreadSize, ThreadState, Update, Watch, Which,
};
pub use value::ValueError;

/// The README's code, compiled. Only for that: the file is outside of the package, and not there when it is published.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
