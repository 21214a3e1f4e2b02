//! Tools for tests of backends and of flows: a suite for checkpointers, and one that fails on demand.

pub mod conformance;
mod faulty;

pub use faulty::{Fault, FaultyCheckpointer};
