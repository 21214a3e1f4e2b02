//! What a checkpointer can answer instead of doing what it was asked.

use std::{fmt, path::PathBuf, sync::Arc};

use super::Key;
use crate::ThreadId;

/// Why a checkpointer did not do what it was asked. Cheap to clone: one failure answers many waiters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Somebody else holds the thread's lease.
    Busy {
        /// The thread.
        thread: ThreadId,
    },
    /// The lease under which a commit was made is no longer valid; nothing was written.
    Fenced {
        /// The thread.
        thread: ThreadId,
        /// The epoch of the commit.
        epoch: u64,
        /// The epoch that is valid now, if the thread is leased.
        current: Option<u64>,
    },
    /// A row was not as the commit expected; nothing was written.
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// The row.
        key: Key,
        /// What stands there.
        found: Option<Vec<u8>>,
    },
    /// The folder is open in this or another process.
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// The disk is full. Nothing acknowledged is lost; make room and open the store again.
    Full {
        /// The folder.
        path: PathBuf,
    },
    /// A stored row is damaged.
    Corrupt {
        /// The thread, if it is known.
        thread: Option<ThreadId>,
        /// The row, if it is known.
        key: Option<Key>,
        /// What is wrong with it.
        detail: String,
    },
    /// The store as a whole cannot be opened: its files are damaged.
    CorruptStore {
        /// The folder.
        path: PathBuf,
        /// What the engine says.
        detail: String,
    },
    /// The store has fewer commits than were acknowledged: its tail was lost, or an older copy was put in its place.
    RolledBack {
        /// The folder.
        path: PathBuf,
        /// The last commit that is there.
        have: u64,
        /// The last commit that was acknowledged.
        need: u64,
    },
    /// The store was written by a newer version of this crate.
    NewerFormat {
        /// The folder.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that this version reads.
        supported: u32,
    },
    /// A row is larger than a backend takes.
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The most it may have.
        limit: usize,
    },
    /// A cursor is none that this backend gave out.
    BadCursor,
    /// An earlier write or sync failed, so that nothing more is written until the store is opened anew.
    Poisoned {
        /// The failure.
        cause: Arc<CheckpointError>,
    },
    /// The disk failed.
    Io {
        /// What was being done.
        doing: String,
        /// What the system says.
        source: Arc<std::io::Error>,
    },
    /// A failure that a backend of another crate reports.
    Other {
        /// What was being done.
        doing: String,
        /// What went wrong.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store is closed.
    Closed,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { thread } => write!(f, "thread {thread} is running elsewhere; wait for it, or try again later"),
            Self::Fenced { thread, epoch, current: Some(current) } => {
                write!(
                    f,
                    "thread {thread} was taken over (epoch {epoch} is now {current}); this runner's write was refused"
                )
            }
            Self::Fenced { thread, epoch, current: None } => {
                write!(
                    f,
                    "the lease of thread {thread} (epoch {epoch}) is no longer valid; this runner's write was refused"
                )
            }
            Self::Conflict { thread, key, .. } => {
                write!(f, "row {key:?} of thread {thread} is not as expected; nothing was written")
            }
            Self::Locked { path } => {
                write!(f, "{} is open in this or another process; a store has one process at a time", path.display())
            }
            Self::Full { path } => {
                write!(f, "the disk of {} is full; make room, then open the store again", path.display())
            }
            Self::Corrupt { thread, key, detail } => {
                f.write_str("a stored row is damaged")?;
                if let Some(thread) = thread {
                    write!(f, " (thread {thread}")?;
                    if let Some(key) = key {
                        write!(f, ", {key:?}")?;
                    }
                    f.write_str(")")?;
                }
                write!(f, ": {detail}; restore the thread or the store from a backup")
            }
            Self::CorruptStore { path, detail } => {
                write!(
                    f,
                    "the store in {} is damaged ({detail}); nothing was changed: restore a backup, or set it aside and begin anew",
                    path.display()
                )
            }
            Self::RolledBack { path, have, need } => write!(
                f,
                "the store in {} ends at commit {have}, but commit {need} was acknowledged; its tail was lost or an older copy restored: restore the newest copy, or accept the loss when opening",
                path.display()
            ),
            Self::NewerFormat { path, found, supported } => write!(
                f,
                "the store in {} has format {found}, this version reads up to {supported}; use a newer version of durably",
                path.display()
            ),
            Self::TooLarge { bytes, limit } => {
                write!(f, "a row of {bytes} bytes is more than the {limit} that a backend takes")
            }
            Self::BadCursor => f.write_str("the cursor is none of this checkpointer's; begin the listing anew"),
            Self::Poisoned { cause } => write!(f, "an earlier failure stopped the store, open it anew: {cause}"),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Other { doing, source } => write!(f, "{doing}: {source}"),
            Self::Closed => f.write_str("the store is closed"),
        }
    }
}

impl std::error::Error for CheckpointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Other { source, .. } => Some(source),
            Self::Poisoned { cause } => Some(cause),
            _ => None,
        }
    }
}
