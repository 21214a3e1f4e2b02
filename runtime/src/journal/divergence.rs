//! What is said when the code no longer makes the calls that its journal has.

use std::fmt;

use super::record::{CallInfo, CallKind};
use crate::id::Seq;

/// The code and the journal do not agree. Shows both sides, and where.
///
/// Nothing was run after the disagreement was found, and nothing was changed: the thread is stuck until the code makes
/// the recorded calls again, says with [`patched`](crate::patched) where it changed, or the run is discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nondeterminism {
    /// The place of the record that the code did not ask for.
    pub seq: Seq,
    /// The call that the journal has.
    pub expected: CallSketch,
    /// What of that call the journal has.
    pub step: RecordedStep,
    /// The calls that the code made instead, the first few: the journal does not have them, or only further on.
    pub found: Vec<CallSketch>,
    /// Whether the entrypoint ended instead.
    pub ended: bool,
}

/// A call in a message: enough to find it in the source and to compare it with another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSketch {
    /// What sort of call it is.
    pub kind: CallKind,
    /// The name of what is called.
    pub name: String,
    /// Its arguments for people, cut short.
    pub arguments: String,
    /// How many equal calls were made in the same scope before it.
    pub ordinal: u32,
    /// The source file of the call.
    pub file: String,
    /// The line of the call.
    pub line: u32,
}

/// What the journal has of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordedStep {
    /// Its outcome.
    Outcome,
    /// A failed attempt.
    Attempt,
    /// The beginning of a body that may run at most once.
    Begin,
    /// A question or a timer.
    Wait,
}

impl From<&CallInfo> for CallSketch {
    fn from(call: &CallInfo) -> Self {
        Self {
            kind: call.kind,
            name: call.name.clone().into_owned(),
            arguments: call.preview.clone(),
            ordinal: call.id.ordinal,
            file: call.file.clone().into_owned(),
            line: call.line,
        }
    }
}

impl fmt::Display for CallSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ({})", self.kind.word(), self.name, self.arguments)?;
        if self.ordinal > 0 {
            write!(f, ", equal call number {}", u64::from(self.ordinal) + 1)?;
        }
        write!(f, ", at {}:{}", self.file, self.line)
    }
}

impl fmt::Display for Nondeterminism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            RecordedStep::Outcome => "the outcome",
            RecordedStep::Attempt => "a failed attempt",
            RecordedStep::Begin => "the beginning",
            RecordedStep::Wait => "the wait",
        };
        write!(
            f,
            "the code no longer matches the journal: record {} is {step} of {}, but the code ",
            self.seq, self.expected
        )?;
        match (self.ended, self.found.as_slice()) {
            (true, []) => f.write_str("ended without making that call")?,
            (false, []) => f.write_str("waits without having made that call")?,
            (ended, found) => {
                f.write_str(if ended { "ended after calling instead: " } else { "called instead: " })?;
                for (place, call) in found.iter().enumerate() {
                    write!(f, "{}{call}", if place == 0 { "" } else { "; " })?;
                }
            }
        }
        f.write_str("; nothing was run: bring the call back, put the new code behind `durably::patched(\"..\")`, or discard the run")
    }
}

impl std::error::Error for Nondeterminism {}
