//! The names of things: threads, runs, calls, scopes. Ids are types, so that none can stand for another.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// The name of a thread: one conversation or job, named by the caller.
///
/// A thread id is data: any UTF-8 of 1 to 512 bytes, with anything in it (slashes, colons, NUL, right-to-left marks).
/// Two ids are the same thread only if they are the same bytes; nothing is normalised.
///
/// ```
/// use durably::ThreadId;
///
/// let id = ThreadId::new("orders/2026:0042")?;
/// assert_eq!(id.as_str(), "orders/2026:0042");
/// assert!(ThreadId::new("").is_err());
/// assert_eq!("orders/2026:0042".parse::<ThreadId>()?, id);
///
/// let runtime = durably::Runtime::builder().memory();
/// assert_eq!(runtime.thread(&id)?.id(), &id);
/// # Ok::<(), durably::ThreadIdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(std::sync::Arc<str>);

/// Why a string is not a [`ThreadId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadIdError {
    /// The string is empty.
    Empty,
    /// The string is longer than [`ThreadId::MAX_BYTES`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
}

impl ThreadId {
    /// The longest id, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// The length of every id of ours; a backend takes it like any other.
    pub(crate) const RESERVED_BYTES: usize = 520;

    /// Takes a string as a thread's name.
    ///
    /// # Errors
    ///
    /// [`ThreadIdError`] if it is empty or longer than [`Self::MAX_BYTES`].
    pub fn new(id: impl AsRef<str>) -> Result<Self, ThreadIdError> {
        let id = id.as_ref();
        match id.len() {
            0 => Err(ThreadIdError::Empty),
            1..=Self::MAX_BYTES => Ok(Self(id.into())),
            bytes => Err(ThreadIdError::TooLong { bytes }),
        }
    }

    /// The id of something of ours that is kept like a thread and is none: longer than any user's can be, so that no
    /// user's id is the same or reaches it. `space`: what sort of thing, a short word; `name`: which one, any bytes.
    pub(crate) fn reserved(space: &'static str, name: &[u8]) -> Self {
        let mut id = format!("{space}/{}", hex(&Sha256::digest(name)));
        id.push_str(&".".repeat(Self::RESERVED_BYTES.saturating_sub(id.len())));
        Self(id.into())
    }

    /// An id as a backend has it: a user's or one of ours.
    #[cfg(feature = "sled")]
    pub(crate) fn stored(id: &str) -> Option<Self> {
        let is_id = matches!(id.len(), 1..=Self::MAX_BYTES | Self::RESERVED_BYTES);
        is_id.then(|| Self(id.into()))
    }

    /// The id as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ThreadId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ThreadId {
    type Err = ThreadIdError;

    fn from_str(id: &str) -> Result<Self, ThreadIdError> {
        Self::new(id)
    }
}

impl TryFrom<&str> for ThreadId {
    type Error = ThreadIdError;

    fn try_from(id: &str) -> Result<Self, ThreadIdError> {
        Self::new(id)
    }
}

impl TryFrom<String> for ThreadId {
    type Error = ThreadIdError;

    fn try_from(id: String) -> Result<Self, ThreadIdError> {
        Self::new(id)
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.0.len() > Self::MAX_BYTES { self.0.trim_end_matches('.') } else { &*self.0 };
        fmt::Debug::fmt(shown, f)
    }
}

/// Shown escaped, so that no id can disguise the text around it.
impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for ThreadIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a thread id is empty; give it 1 to {} bytes of UTF-8", ThreadId::MAX_BYTES),
            Self::TooLong { bytes } => {
                write!(
                    f,
                    "a thread id has {bytes} bytes; give it at most {}, such as a digest of the long name",
                    ThreadId::MAX_BYTES
                )
            }
        }
    }
}

impl std::error::Error for ThreadIdError {}

/// The number of a run on its thread: the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunNo(pub(crate) u32);

impl RunNo {
    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for RunNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The place of a record in its run's journal: the run's start is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub(crate) u32);

impl Seq {
    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An addressable point of a thread: the state after one record of one run.
///
/// Shown as `run.seq`, which is fit for a URL, and read back from that.
///
/// ```
/// use durably::CheckpointId;
///
/// let checkpoint: CheckpointId = "3.17".parse()?;
/// assert_eq!((checkpoint.run().get(), checkpoint.seq().get()), (3, 17));
/// assert_eq!(checkpoint.to_string(), "3.17");
/// assert!("3".parse::<CheckpointId>().is_err());
/// # Ok::<(), durably::CheckpointIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId {
    pub(crate) run: RunNo,
    pub(crate) seq: Seq,
}

impl CheckpointId {
    /// The run.
    #[must_use]
    pub fn run(self) -> RunNo {
        self.run
    }

    /// The record in the run.
    #[must_use]
    pub fn seq(self) -> Seq {
        self.seq
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.run, self.seq)
    }
}

impl std::str::FromStr for CheckpointId {
    type Err = CheckpointIdError;

    fn from_str(text: &str) -> Result<Self, CheckpointIdError> {
        // Only what `Display` writes: a plus sign or a leading zero would be a second name for one checkpoint.
        let number = |digits: &str| match digits.as_bytes() {
            [b'0'] => Ok(0),
            [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {
                digits.parse().map_err(|_| CheckpointIdError)
            }
            _ => Err(CheckpointIdError),
        };
        let (run, seq) = text.split_once('.').ok_or(CheckpointIdError)?;
        Ok(Self { run: RunNo(number(run)?), seq: Seq(number(seq)?) })
    }
}

/// A text is not a [`CheckpointId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointIdError;

impl fmt::Display for CheckpointIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a checkpoint: it is the number of a run, a dot and the number of a record, such as 3.17")
    }
}

impl std::error::Error for CheckpointIdError {}

/// Where calls stand: an entrypoint, a task's body, or a branch. 128 bits, derived from the path that leads there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ScopeId(pub(crate) u128);

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The identity of one call in a run: what is called, where, with which arguments, and the how-manieth of equal ones.
///
/// Stable over replays, restarts and machines. Shown as 32 hex digits, a dot and the ordinal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId {
    /// A digest of scope, kind, name and arguments.
    pub(crate) base: u128,
    /// How many equal calls were made in the scope before this one.
    pub(crate) ordinal: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}.{}", self.base, self.ordinal)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for CallId {
    type Err = CallIdError;

    fn from_str(text: &str) -> Result<Self, CallIdError> {
        let (base, ordinal) = text.split_once('.').ok_or(CallIdError)?;
        if base.len() != 32 || !base.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(CallIdError);
        }
        Ok(Self {
            base: u128::from_str_radix(base, 16).map_err(|_| CallIdError)?,
            ordinal: ordinal.parse().map_err(|_| CallIdError)?,
        })
    }
}

/// A text is not a [`CallId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallIdError;

impl fmt::Display for CallIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a call id: it has 32 hex digits, a dot and a number")
    }
}

impl std::error::Error for CallIdError {}
