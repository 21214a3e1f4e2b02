//! Tools for tests of backends and of flows.

pub mod conformance;
pub mod faulty;

pub use faulty::{Fault, FaultyCheckpointer};
