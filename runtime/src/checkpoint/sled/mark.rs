//! The high-water mark: the last acknowledged commit, kept beside the engine. It is how a lost tail is found, which sled
//! cuts off without a word.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use super::files::sync_folder;

/// Sequence, generation, checksum.
const BYTES: usize = 8 + 4 + 4;

/// What the file `HWM` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    /// The last commit that was acknowledged.
    pub(super) sequence: u64,
    /// The generation of the last opening. Kept here as well, so that epochs grow even when an older copy of the engine
    /// is put in place.
    pub(super) generation: u32,
}

/// What there is of a mark.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Level(Level),
    Missing,
    Damaged,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
}

impl Level {
    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..12]).to_le_bytes();
        bytes[12..].copy_from_slice(&crc);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (sequence, rest) = bytes.split_first_chunk::<8>()?;
        let (generation, _) = rest.split_first_chunk::<4>()?;
        let level = Self { sequence: u64::from_le_bytes(*sequence), generation: u32::from_le_bytes(*generation) };
        (level.encode() == bytes).then_some(level)
    }
}

impl Mark {
    pub(super) fn read(path: &Path) -> io::Result<Found> {
        match fs::read(path) {
            Ok(bytes) => Ok(Level::decode(&bytes).map_or(Found::Damaged, Found::Level)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Missing),
            Err(error) => Err(error),
        }
    }

    /// Puts a mark in place, durably; writes to it later never change its length.
    pub(super) fn create(path: &Path, level: Level) -> io::Result<Self> {
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(&level.encode())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        sync_folder(path.parent().unwrap_or(Path::new(".")))?;
        Ok(Self { file: OpenOptions::new().write(true).open(path)? })
    }

    /// Raises the mark. Not synced: it is written after the data is durable, so that after a power cut it can only be
    /// older than the data, never newer. Its bytes stay within one sector, so that it is not torn.
    pub(super) fn raise(&mut self, level: Level) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&level.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_any_flipped_bit_is_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("HWM");
        assert_eq!(Mark::read(&path).expect("readable"), Found::Missing);
        let mut mark = Mark::create(&path, Level::default()).expect("created");
        let level = Level { sequence: 7, generation: 3 };
        mark.raise(level).expect("raised");
        assert_eq!(Mark::read(&path).expect("readable"), Found::Level(level));
        let bytes = fs::read(&path).expect("readable");
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bytes).expect("written");
            assert_eq!(Mark::read(&path).expect("readable"), Found::Damaged, "bit {bit}");
        }
        fs::write(&path, &bytes[..9]).expect("written");
        assert_eq!(Mark::read(&path).expect("readable"), Found::Damaged);
    }
}
