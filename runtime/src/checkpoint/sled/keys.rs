//! Where things stand in the engine: one tree, short keys, numbers big-endian.
//!
//! sled writes a key whole into each of its log records: with keys of 100 bytes an entry took four times the disk. So a
//! thread's name is stored once and its rows are found by its number.
//!
//! ```text
//! 00 's'|'g'|'n'|'f'      commit sequence, generation, last thread number, format
//! 01 thread               the thread's name and where it is listed
//! 02 hash128(name)        the thread's number, and its name to compare with
//! 03 class at_ms thread   the list of threads
//! 10 thread key           a row
//! 30 stage place          a change of a large commit that is not yet applied
//! 31 stage                the large commit is whole: apply it
//! 32 thread               the rows of this thread are to be removed
//! ```

use sha2::{Digest, Sha256};

use crate::{
    ThreadId,
    checkpoint::{CheckpointError, Key, Listing, listing::Place},
};

pub(super) const SEQUENCE: [u8; 2] = [0x00, b's'];
pub(super) const GENERATION: [u8; 2] = [0x00, b'g'];
pub(super) const LAST_THREAD: [u8; 2] = [0x00, b'n'];
pub(super) const FORMAT: [u8; 2] = [0x00, b'f'];
const META: u8 = 0x01;
const NAME: u8 = 0x02;
const PLACE: u8 = 0x03;
const ROW: u8 = 0x10;
const STAGED: u8 = 0x30;
const PUBLISHED: u8 = 0x31;
const DELETING: u8 = 0x32;

fn numbered(tag: u8, number: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number behind the tag of a key.
pub(super) fn number_in(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.get(1..)?.first_chunk()?))
}

pub(super) fn meta(thread: u64) -> [u8; 9] {
    numbered(META, thread)
}

pub(super) fn rows_of(thread: u64) -> [u8; 9] {
    numbered(ROW, thread)
}

pub(super) fn row(thread: u64, key: Key) -> Vec<u8> {
    [&rows_of(thread)[..], &key.to_bytes()].concat()
}

/// The [`Key`] in a row's key.
pub(super) fn key_in(row: &[u8]) -> Option<Key> {
    Key::from_bytes(row.get(9..)?)
}

/// The first 128 bits of SHA-256: no two names are known to share them, and if two did, [`Named`] tells.
pub(super) fn name(thread: &ThreadId) -> [u8; 17] {
    let mut key = [NAME; 17];
    key[1..].copy_from_slice(&Sha256::digest(thread.as_str().as_bytes())[..16]);
    key
}

pub(super) fn place(place: Place) -> Vec<u8> {
    [&[PLACE][..], &place.to_bytes()].concat()
}

pub(super) fn place_in(key: &[u8]) -> Option<Place> {
    match key.split_first() {
        Some((&PLACE, place)) => Place::from_bytes(place),
        _ => None,
    }
}

/// The end of the list of threads.
pub(super) const PLACES_END: [u8; 1] = [PLACE + 1];

pub(super) const ALL_STAGED: [u8; 1] = [STAGED];
pub(super) const ALL_PUBLISHED: [u8; 1] = [PUBLISHED];
pub(super) const ALL_DELETING: [u8; 1] = [DELETING];

pub(super) fn staged_of(stage: u64) -> [u8; 9] {
    numbered(STAGED, stage)
}

pub(super) fn staged(stage: u64, place: u32) -> Vec<u8> {
    [&staged_of(stage)[..], &place.to_be_bytes()].concat()
}

pub(super) fn published(stage: u64) -> [u8; 9] {
    numbered(PUBLISHED, stage)
}

pub(super) fn deleting(thread: u64) -> [u8; 9] {
    numbered(DELETING, thread)
}

/// Our own rows, with a checksum over key and body: the engine has cut and swapped bytes unseen.
pub(super) fn guarded(key: &[u8], body: &[u8]) -> Vec<u8> {
    [&guard(key, body)[..], body].concat()
}

/// The body of a guarded row.
pub(super) fn unguarded<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], CheckpointError> {
    match value.split_first_chunk::<4>() {
        Some((crc, body)) if *crc == guard(key, body) => Ok(body),
        _ => Err(damaged(key, "its checksum is wrong")),
    }
}

fn guard(key: &[u8], body: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(body);
    crc.finalize().to_le_bytes()
}

/// A row of ours that is not as we write it.
pub(super) fn damaged(key: &[u8], detail: &str) -> CheckpointError {
    CheckpointError::Corrupt { thread: None, key: None, detail: format!("in the engine's row {key:02x?}: {detail}") }
}

/// A guarded number of 64 bits.
pub(super) fn number_of(key: &[u8], value: &[u8]) -> Result<u64, CheckpointError> {
    let body = unguarded(key, value)?;
    let number = body.try_into().map_err(|_| damaged(key, "it is no number"))?;
    Ok(u64::from_le_bytes(number))
}

/// What stands at [`name`].
#[derive(Debug)]
pub(super) struct Named {
    pub(super) number: u64,
    pub(super) name: String,
}

impl Named {
    pub(super) fn encode(key: &[u8], number: u64, thread: &ThreadId) -> Vec<u8> {
        guarded(key, &[&number.to_le_bytes()[..], thread.as_str().as_bytes()].concat())
    }

    pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Self, CheckpointError> {
        let named = unguarded(key, value)?.split_first_chunk::<8>().and_then(|(number, name)| {
            let name = std::str::from_utf8(name).ok()?.to_owned();
            Some(Self { number: u64::from_le_bytes(*number), name })
        });
        named.ok_or_else(|| damaged(key, "it is no thread's name"))
    }
}

/// What stands at [`meta`].
#[derive(Debug)]
pub(super) struct Meta {
    pub(super) listing: Option<Listing>,
    pub(super) thread: ThreadId,
}

impl Meta {
    pub(super) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let listing = self.listing.unwrap_or(Listing { class: 0, at_ms: 0 });
        let head = [u8::from(self.listing.is_some()), listing.class];
        guarded(key, &[&head[..], &listing.at_ms.to_le_bytes(), self.thread.as_str().as_bytes()].concat())
    }

    pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Self, CheckpointError> {
        let meta = unguarded(key, value)?.split_first_chunk::<10>().and_then(|(head, name)| {
            let [listed, class, at_ms @ ..] = *head;
            let listing = Listing { class, at_ms: u64::from_le_bytes(at_ms) };
            let thread = ThreadId::stored(std::str::from_utf8(name).ok()?)?;
            Some(Self { listing: (listed != 0).then_some(listing), thread })
        });
        meta.ok_or_else(|| damaged(key, "it describes no thread"))
    }
}

/// What is done at one place of the engine: the body of a staged row.
pub(super) fn staged_body(key: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    // Our keys are at most 32 bytes.
    let length = u8::try_from(key.len()).unwrap_or(u8::MAX);
    let mut body = vec![u8::from(value.is_some()), length];
    body.extend_from_slice(key);
    body.extend_from_slice(value.unwrap_or_default());
    body
}

/// Key and new value of a staged row's body.
pub(super) fn staged_change(body: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (&[put, length], rest) = body.split_first_chunk::<2>()?;
    let (key, value) = rest.split_at_checked(usize::from(length))?;
    Some((key, (put != 0).then_some(value)))
}
