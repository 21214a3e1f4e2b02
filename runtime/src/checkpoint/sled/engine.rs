//! The one way in which bytes reach the disk: a batch, then the barrier.
//!
//! sled's `flush` writes but does not sync on Linux: in 29 of 32 simulated power cuts acknowledged data was lost. With
//! `fdatasync` of its log after *every* flush none was in 144; with one every 200 to 500 ms, data that had been durable
//! was lost again, since sled reuses segments. So every batch has its barrier, whoever waits for it.

use std::{collections::BTreeMap, fs::File, sync::Arc};

use super::{
    faults::{Faults, Point},
    files::Folder,
    keys, large,
    mark::{Level, Mark},
    tally::{Status, Tally},
};
use crate::checkpoint::CheckpointError;

/// The most changes in one batch.
pub(super) const BATCH_OPS: usize = 1024;
/// The most bytes in one batch.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// Changes by key: the last one of a key counts.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Writes {
    pub(super) fn put(&mut self, key: impl Into<Vec<u8>>, value: Vec<u8>) {
        self.set(key.into(), Some(value));
    }

    pub(super) fn remove(&mut self, key: impl Into<Vec<u8>>) {
        self.set(key.into(), None);
    }

    pub(super) fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        // What a replaced change took is still counted: the bound is for memory and log, and need not be exact.
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.rows.insert(key, value);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.rows.extend(other.rows);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a batch should hold no more.
    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_OPS || self.bytes >= BATCH_BYTES
    }
}

/// The engine's only writer.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) db: ::sled::Db,
    /// Our own handle of `sled/db`, to sync it with.
    pub(super) log: File,
    pub(super) mark: Mark,
    pub(super) level: Level,
    /// Of all rows, with what is applied.
    pub(super) tally: Tally,
    pub(super) folder: Folder,
    pub(super) faults: Arc<Faults>,
}

impl Engine {
    /// Applies a batch, in one atomic step for readers and for crashes. Not durable before [`Self::barrier`].
    pub(super) fn apply(&mut self, writes: Writes, commits: u64) -> Result<(), CheckpointError> {
        self.level.sequence += commits.max(1);
        let mut batch = ::sled::Batch::default();
        for (key, value) in writes.rows {
            self.count(&key, value.as_deref())?;
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        let status = Status { sequence: self.level.sequence, tally: self.tally };
        batch.insert(&keys::SEQUENCE, status.encode());
        self.faults.at(Point::Apply).map_err(|error| self.folder.io("writing a batch", error))?;
        self.db.apply_batch(batch).map_err(|error| self.folder.engine_failed("writing a batch", error))
    }

    fn count(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), CheckpointError> {
        if Tally::counts(key) {
            if let Some(old) = self.db.get(key).map_err(|error| large::reading(&self.folder, error))? {
                self.tally.take(key, &old);
            }
            if let Some(value) = value {
                self.tally.add(key, value);
            }
        }
        Ok(())
    }

    /// Makes what was applied durable: written, synced, marked; in this order. A sync that failed is never tried again:
    /// the kernel may have dropped the pages, and a second try would claim what did not happen.
    pub(super) fn barrier(&mut self) -> Result<(), CheckpointError> {
        self.db.flush().map_err(|error| self.folder.engine_failed("writing the log", error))?;
        let synced = self.faults.at(Point::Sync).and_then(|()| self.log.sync_data());
        synced.map_err(|error| self.folder.io("syncing the log", error))?;
        let marked = self.faults.at(Point::Mark).and_then(|()| self.mark.raise(self.level));
        marked.map_err(|error| self.folder.io("writing the high-water mark", error))
    }

    pub(super) fn write(&mut self, writes: Writes) -> Result<(), CheckpointError> {
        self.apply(writes, 1)?;
        self.barrier()
    }
}
