//! Commits that are too large for one batch, and removals of whole threads: in bounded batches, and still one step.
//!
//! A large commit is written down first, under keys that nobody reads; a last small row publishes it. From then on it
//! counts. Then its changes are applied batch by batch, each together with the removal of its note, and a crash in between is
//! made good at the next opening: published notes are applied, unpublished ones are thrown away. Every byte is
//! written twice; in return no old values are kept for an undo, and applying twice does no harm. While it lasts, readers
//! of that thread wait.
//!
//! A thread is removed by first taking away its name and its place in the list, together with a row that says so; its
//! rows, which nobody can reach any more, follow in batches, and after a crash at the next opening.

use super::{
    engine::{BATCH_OPS, Engine, Writes},
    files::Folder,
    keys,
};
use crate::checkpoint::CheckpointError;

/// How many rows of a removed thread go with one batch: half a batch, so that the commits of others go on beside it.
pub(super) const SWEEP: usize = BATCH_OPS / 2;

impl Engine {
    /// Writes a commit of any size; `beat` is called after each batch.
    pub(super) fn write_large(&mut self, writes: Writes, mut beat: impl FnMut()) -> Result<(), CheckpointError> {
        // Used by nobody else: the sequence only grows.
        let stage = self.level.sequence + 1;
        let mut batch = Writes::default();
        for ((key, value), place) in writes.rows.iter().zip(0_u32..) {
            let staged = keys::staged(stage, place);
            let note = keys::guarded(&staged, &keys::staged_body(key, value.as_deref()));
            batch.put(staged, note);
            self.write_if_full(&mut batch, &mut beat)?;
        }
        let published = keys::published(stage);
        batch.put(published, keys::guarded(&published, &[]));
        self.write(std::mem::take(&mut batch))?;
        beat();
        for ((key, value), place) in writes.rows.into_iter().zip(0_u32..) {
            batch.set(key, value);
            batch.remove(keys::staged(stage, place));
            self.write_if_full(&mut batch, &mut beat)?;
        }
        batch.remove(published);
        self.write(batch)?;
        beat();
        Ok(())
    }

    fn write_if_full(&mut self, batch: &mut Writes, beat: &mut impl FnMut()) -> Result<(), CheckpointError> {
        if batch.is_full() {
            self.write(std::mem::take(batch))?;
            beat();
        }
        Ok(())
    }

    /// Finishes what a crash has left half done.
    pub(super) fn finish_leftovers(&mut self) -> Result<(), CheckpointError> {
        for key in self.keys_with(&keys::ALL_PUBLISHED)? {
            let stage = keys::number_in(&key).ok_or_else(|| keys::damaged(&key, "it has no number"))?;
            self.apply_published(stage)?;
        }
        // What is left was never published.
        self.remove_all(&keys::ALL_STAGED)?;
        for key in self.keys_with(&keys::ALL_DELETING)? {
            let thread = keys::number_in(&key).ok_or_else(|| keys::damaged(&key, "it has no number"))?;
            self.remove_all(&keys::rows_of(thread))?;
            let mut batch = Writes::default();
            batch.remove(key);
            self.write(batch)?;
        }
        Ok(())
    }

    fn apply_published(&mut self, stage: u64) -> Result<(), CheckpointError> {
        loop {
            let mut batch = Writes::default();
            for note in self.db.scan_prefix(keys::staged_of(stage)) {
                let (key, value) = note.map_err(|error| reading(&self.folder, error))?;
                let body = keys::unguarded(&key, &value)?;
                let change = keys::staged_change(body).ok_or_else(|| keys::damaged(&key, "it is no change"))?;
                batch.set(change.0.to_vec(), change.1.map(<[u8]>::to_vec));
                batch.remove(&key[..]);
                if batch.is_full() {
                    break;
                }
            }
            if batch.is_empty() {
                batch.remove(keys::published(stage));
                return self.write(batch);
            }
            self.write(batch)?;
        }
    }

    fn remove_all(&mut self, prefix: &[u8]) -> Result<(), CheckpointError> {
        loop {
            let batch = some_removed(&self.db, &self.folder, prefix, BATCH_OPS)?;
            if batch.is_empty() {
                return Ok(());
            }
            self.write(batch)?;
        }
    }

    fn keys_with(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, CheckpointError> {
        let keys = self.db.scan_prefix(prefix).keys();
        keys.map(|key| key.map(|key| key.to_vec()).map_err(|error| reading(&self.folder, error))).collect()
    }
}

/// The removal of the first `limit` keys with this prefix.
pub(super) fn some_removed(
    db: &::sled::Db,
    folder: &Folder,
    prefix: &[u8],
    limit: usize,
) -> Result<Writes, CheckpointError> {
    let mut batch = Writes::default();
    for key in db.scan_prefix(prefix).keys().take(limit) {
        batch.remove(&key.map_err(|error| reading(folder, error))?[..]);
    }
    Ok(batch)
}

pub(super) fn reading(folder: &Folder, error: ::sled::Error) -> CheckpointError {
    folder.engine_failed("reading the store", error)
}
