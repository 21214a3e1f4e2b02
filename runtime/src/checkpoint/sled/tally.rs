//! How many rows there are, and a sum over them: how rows that vanished from the middle are found.
//!
//! When sled reads its log again and meets a damaged message, it takes the rest of that segment (8 MiB) for empty and goes
//! on with the next: rows are gone or old again, and the high-water mark, which came later, is right. So each batch
//! carries the tally of all rows with it, and opening compares.

use super::{
    files::Folder,
    keys::{self, damaged, guarded, unguarded},
    large,
};
use crate::checkpoint::CheckpointError;

/// The tally of a set of rows; the same in whatever order they came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) rows: u64,
    sum: u64,
}

/// What each batch writes at [`keys::SEQUENCE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) sequence: u64,
    pub(super) tally: Tally,
}

impl Tally {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(mix(key, value));
    }

    pub(super) fn take(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(mix(key, value));
    }

    /// Whether the tally counts a row: all but those of the store itself.
    pub(super) fn counts(key: &[u8]) -> bool {
        key.first().is_some_and(|tag| *tag != keys::SEQUENCE[0])
    }

    /// Counts what is there.
    pub(super) fn of(db: &::sled::Db, folder: &Folder) -> Result<Self, CheckpointError> {
        let mut tally = Self::default();
        for row in db.range([keys::SEQUENCE[0] + 1]..) {
            let (key, value) = row.map_err(|error| large::reading(folder, error))?;
            tally.add(&key, &value);
        }
        Ok(tally)
    }
}

impl Status {
    pub(super) fn encode(self) -> Vec<u8> {
        let numbers = [self.sequence, self.tally.rows, self.tally.sum].map(u64::to_le_bytes);
        guarded(&keys::SEQUENCE, numbers.as_flattened())
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, CheckpointError> {
        let body = unguarded(&keys::SEQUENCE, value)?;
        let (numbers, rest) = body.as_chunks::<8>();
        match (numbers, rest) {
            (&[sequence, rows, sum], []) => {
                let [sequence, rows, sum] = [sequence, rows, sum].map(u64::from_le_bytes);
                Ok(Self { sequence, tally: Tally { rows, sum } })
            }
            _ => Err(damaged(&keys::SEQUENCE, "it is no status")),
        }
    }

    /// Compares with what is there.
    pub(super) fn check(self, db: &::sled::Db, folder: &Folder) -> Result<(), CheckpointError> {
        let found = Tally::of(db, folder)?;
        if found == self.tally {
            return Ok(());
        }
        let (there, wanted) = (found.rows, self.tally.rows);
        Err(folder.damaged(format!("{there} rows are there where {wanted} were written, or some are old or changed")))
    }
}

/// Two rows that take each other's checksum would go unseen, so key and checksum are multiplied up.
fn mix(key: &[u8], value: &[u8]) -> u64 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    let of_key = crc.clone().finalize();
    crc.update(value);
    let both = (u64::from(of_key) << 32) | u64::from(crc.finalize());
    both.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
