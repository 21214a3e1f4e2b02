//! One run: load it, drive its entrypoint to its end or to quiet, commit what it came to.

mod again;
mod drive;
mod ends;
mod frame;
mod outcome;

pub(crate) use drive::{Begin, Plan, drive};
pub(crate) use frame::Entered;
pub use outcome::{Outcome, Question};
