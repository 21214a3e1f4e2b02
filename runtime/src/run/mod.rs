//! One run: load it, drive its entrypoint to its end or to quiet, commit what it came to.

mod again;
mod alarm;
mod clean_up;
mod drive;
mod ends;
mod frame;
mod outcome;

pub(crate) use clean_up::{CleansUp, clean_up_nested};
pub(crate) use drive::{Begin, Plan, drive};
pub(crate) use frame::Entered;
pub use outcome::{Doubt, Outcome, Question};
