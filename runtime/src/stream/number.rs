//! The numbers of events: places in a thread's journals, so that they mean the same in every process.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::id::{CheckpointId, RunNo, Seq};

/// The number of an event on its thread: the run, the place of the record that it is read off, and its place among the
/// events of that record. In the order in which they are told, the numbers of a reader's events grow.
///
/// What is recorded has the same number in every process, for every reader. What is told live only stands behind the
/// newest record that the reader was told of, and has a number for this reader alone: it says where it stands, so that
/// one can come back after it.
///
/// Shown as three numbers, `2.17.1`, and read from that: a fit `Last-Event-ID`.
///
/// ```
/// use durably::EventNo;
///
/// let number: EventNo = "2.17.1".parse()?;
/// assert_eq!((number.run().get(), number.seq().get()), (2, 17));
/// assert_eq!(number.to_string(), "2.17.1");
/// assert!(number > EventNo::BEGINNING);
/// assert!("2.17".parse::<EventNo>().is_err());
/// # Ok::<(), durably::EventNoError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventNo {
    run: u32,
    seq: u32,
    part: u32,
}

/// The first part of what is told live only; those of a record are fewer.
const LIVE: u32 = 16;

impl EventNo {
    /// Before everything of a thread: to read it from its first run on.
    pub const BEGINNING: Self = Self { run: 0, seq: u32::MAX, part: LIVE - 1 };

    /// Which run it is of.
    #[must_use]
    pub fn run(self) -> RunNo {
        RunNo(self.run)
    }

    /// The record that it is read off; for what is told live only, the newest one before it.
    #[must_use]
    pub fn seq(self) -> Seq {
        Seq(self.seq)
    }

    /// The checkpoint after that record: what [`Thread::state_at`](crate::Thread::state_at) takes.
    #[must_use]
    pub fn checkpoint(self) -> CheckpointId {
        CheckpointId { run: self.run(), seq: self.seq() }
    }

    /// An event of a record.
    pub(super) fn of(run: RunNo, seq: Seq, part: u32) -> Self {
        Self { run: run.0, seq: seq.0, part }
    }

    /// After all recorded events of the first `records` records of a run.
    pub(crate) fn after(run: RunNo, records: u32) -> Self {
        match records.checked_sub(1) {
            Some(seq) => Self { run: run.0, seq, part: LIVE - 1 },
            None => Self { run: run.0.saturating_sub(1), seq: u32::MAX, part: LIVE - 1 },
        }
    }

    /// The number of something live that is told after this, where the newest record is that of `newest`.
    pub(super) fn live(self, newest: Self) -> Self {
        let Self { run, seq, part } = self.max(newest);
        Self { run, seq, part: part.max(LIVE - 1).saturating_add(1) }
    }
}

impl fmt::Display for EventNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.run, self.seq, self.part)
    }
}

/// Why a text is no [`EventNo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventNoError(());

impl FromStr for EventNo {
    type Err = EventNoError;

    fn from_str(text: &str) -> Result<Self, EventNoError> {
        // Only what `Display` writes, so that an event has one name.
        let (checkpoint, part) = text.rsplit_once('.').ok_or(EventNoError(()))?;
        let CheckpointId { run, seq } = checkpoint.parse().map_err(|_| EventNoError(()))?;
        let read = Self { run: run.0, seq: seq.0, part: part.parse().map_err(|_| EventNoError(()))? };
        if read.to_string() == text { Ok(read) } else { Err(EventNoError(())) }
    }
}

impl fmt::Display for EventNoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event's number is three numbers, run.record.part, as in 2.17.1")
    }
}

impl std::error::Error for EventNoError {}
