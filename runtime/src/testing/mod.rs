//! Tools for tests of backends and of flows: the crash explorer, a suite for checkpointers, one that fails on demand, a
//! clock that waits for nothing.

mod clock;
pub mod conformance;
mod delegate;
mod explore;
mod faulty;
mod ledger;

pub use clock::TestClock;
pub use delegate::Delegate;
pub use explore::{Explore, ExploreError, Explored, Finding, explore};
pub use faulty::{Fault, FaultyCheckpointer, Operation};
pub use ledger::{EffectKind, Ledger};
