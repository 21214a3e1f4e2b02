//! Values that equal calls share, across threads and processes: how they are kept, and who makes one that is not there.

mod entries;
mod flights;

use sha2::{Digest as _, Sha256};

pub(crate) use entries::{Entry, Unusable, barrier, read, task_of, write};
pub(crate) use flights::{Flight, Flights, Landed, Lead, Turn};

use crate::ThreadId;

/// The class under which entries are listed, by when they expire.
pub(crate) const CLASS: u8 = 130;

/// What a shared value is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey([u8; 32]);

impl CacheKey {
    /// Of a task (its name, where it is defined, the version of its values) and of what it is called with.
    pub(crate) fn new(task: &str, module: &str, version: u32, digest: &[u8; 32]) -> Self {
        let length = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes();
        let key = Sha256::new_with_prefix(b"durably.cache.1\0")
            .chain_update(length(task))
            .chain_update(task)
            .chain_update(length(module))
            .chain_update(module)
            .chain_update(version.to_be_bytes())
            .chain_update(digest);
        Self(key.finalize().into())
    }

    fn thread(self) -> ThreadId {
        ThreadId::reserved("cache", &self.0)
    }
}
