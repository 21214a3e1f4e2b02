//! Tools for tests of backends and of flows: the crash explorer, a suite for checkpointers, one that fails on demand, a
//! clock that waits for nothing.

use std::future::Future;

mod clock;
pub mod conformance;
mod delegate;
mod explore;
mod faulty;
mod ledger;
mod replay;

pub use clock::TestClock;
pub use delegate::Delegate;
pub use explore::{Explore, ExploreError, Explored, Finding, explore};
pub use faulty::{Fault, FaultyCheckpointer, Operation};
pub use ledger::{EffectKind, Ledger};
pub use replay::{Reach, ReplayCheck, ReplayReport, ReplayedRun, Unreadable, Verdict, replay_check};

/// Runs a future on a tokio runtime of its own, on one thread and a clock that moves only when nothing else does. Also within
/// a tokio runtime, which waits meanwhile.
fn on_a_paused_clock<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let run = || {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        tokio.expect("a tokio runtime can be had").block_on(future)
    };
    if tokio::runtime::Handle::try_current().is_err() {
        return run();
    }
    // A runtime cannot be run within another one.
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(output) => output,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
