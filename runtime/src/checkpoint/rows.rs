//! Payloads of any size as rows: chunks, a format, a checksum. The same above every backend, so that a backend may lose
//! or swap bytes and is still found out.
//!
//! ```text
//! row = format u8 | flags u8 | crc32 u32 LE | at most 4 KiB of payload
//! ```
//!
//! The checksum covers thread and key too, so that a row that shows up in another's place is damage.

use crc32fast::Hasher;

use super::{Change, CheckpointError, Key, Rows};
use crate::ThreadId;

/// The form that is written. A reader refuses what it does not know.
const FORMAT: u8 = 1;
/// More chunks of the item follow.
const MORE: u8 = 1;
/// Format, flags, checksum.
const HEADER: usize = 6;
/// sled moves a leaf above 128 KiB to a file that it never syncs; sixteen of these and their keys stay below it.
pub(crate) const CHUNK: usize = 4096;
/// The largest payload, unless a caller sets another limit.
pub(crate) const PAYLOAD_LIMIT: usize = 64 << 20;
/// What the chunk's number can count.
const MAX_CHUNKS: usize = 1 << 16;

/// The checksum of what all rows of a thread have in common.
fn checksum_of(thread: &ThreadId) -> Hasher {
    let name = thread.as_str().as_bytes();
    let mut crc = Hasher::new();
    // The length keeps a name's end from being taken for a key's beginning.
    crc.update(&name.len().to_le_bytes()[..2]);
    crc.update(name);
    crc
}

fn checksum(common: &Hasher, key: Key, flags: u8, payload: &[u8]) -> [u8; 4] {
    let mut crc = common.clone();
    crc.update(&key.to_bytes());
    crc.update(&[FORMAT, flags]);
    crc.update(payload);
    crc.finalize().to_le_bytes()
}

fn row(common: &Hasher, key: Key, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(HEADER + payload.len());
    row.extend([FORMAT, flags]);
    row.extend(checksum(common, key, flags, payload));
    row.extend_from_slice(payload);
    row
}

/// Writes an item where none stands; the key's chunk is ignored.
///
/// # Errors
///
/// [`CheckpointError::TooLarge`] above `limit`, and for a [`Key::Head`] (it has no chunks) above [`CHUNK`].
pub(crate) fn seal(
    thread: &ThreadId,
    key: Key,
    payload: &[u8],
    limit: usize,
    changes: &mut Vec<Change>,
) -> Result<(), CheckpointError> {
    let limit = match key {
        Key::Head => limit.min(CHUNK),
        Key::Record { .. } | Key::Answer { .. } | Key::Aside { .. } => limit.min(MAX_CHUNKS * CHUNK),
    };
    if payload.len() > limit {
        return Err(CheckpointError::TooLarge { bytes: payload.len(), limit });
    }
    let common = checksum_of(thread);
    if payload.len() <= CHUNK {
        let key = key.with_chunk(0);
        changes.push(Change::Put(key, row(&common, key, 0, payload)));
        return Ok(());
    }
    let chunks = payload.chunks(CHUNK);
    let last = chunks.len() - 1;
    changes.reserve(chunks.len());
    for (place, (number, chunk)) in chunks.zip(0..=u16::MAX).map(|(chunk, number)| (number, chunk)).enumerate() {
        let key = key.with_chunk(number);
        let flags = if place < last { MORE } else { 0 };
        changes.push(Change::Put(key, row(&common, key, flags, chunk)));
    }
    Ok(())
}

/// Removes an item, however many chunks it has.
pub(crate) fn remove(key: Key) -> Change {
    Change::RemoveRange(key.with_chunk(0), key.with_chunk(u16::MAX))
}

/// Reads a row that is an item of its own, such as [`Key::Head`].
///
/// # Errors
///
/// [`CheckpointError::Corrupt`] for anything that [`seal`] did not write.
pub(crate) fn unseal_one(thread: &ThreadId, key: Key, row: Vec<u8>) -> Result<Vec<u8>, CheckpointError> {
    match open(&checksum_of(thread), key, &row) {
        Ok(false) => Ok(payload_of(row)),
        Ok(true) => Err(corrupt(thread, key, "more chunks are announced than there are")),
        Err(detail) => Err(corrupt(thread, key, &detail)),
    }
}

/// Puts scanned rows together to items, each under the key of its first chunk.
///
/// Only items whose first and last chunk are in `rows` are whole: scan from chunk 0 to chunk [`u16::MAX`].
///
/// # Errors
///
/// [`CheckpointError::Corrupt`] for anything that [`seal`] did not write; never a guess, never "absent".
pub(crate) fn unseal(thread: &ThreadId, rows: Rows) -> Result<Rows, CheckpointError> {
    let common = checksum_of(thread);
    let mut items: Rows = Vec::with_capacity(rows.len());
    // The chunk that must come next, if the last item is not whole.
    let mut wanted: Option<Key> = None;
    for (key, row) in rows {
        match wanted {
            Some(wanted) if wanted == key => {}
            Some(wanted) => {
                return Err(corrupt(thread, wanted, &format!("this chunk is missing, {key:?} comes in its place")));
            }
            None if key.chunk() == 0 => {}
            None => return Err(corrupt(thread, key, "the chunk belongs to no item: those before it are missing")),
        }
        let more = open(&common, key, &row).map_err(|detail| corrupt(thread, key, &detail))?;
        match items.last_mut() {
            Some((_, payload)) if wanted.is_some() => payload.extend_from_slice(&row[HEADER..]),
            _ => items.push((key, payload_of(row))),
        }
        wanted = match (more, key, key.chunk().checked_add(1)) {
            (false, _, _) => None,
            (true, Key::Head, _) | (true, _, None) => {
                return Err(corrupt(thread, key, "more chunks are announced than an item can have"));
            }
            (true, _, Some(next)) => Some(key.with_chunk(next)),
        };
    }
    match wanted {
        None => Ok(items),
        Some(wanted) => Err(corrupt(thread, wanted, "this chunk is missing, nothing comes in its place")),
    }
}

/// Checks a row; tells whether more chunks follow.
fn open(common: &Hasher, key: Key, row: &[u8]) -> Result<bool, String> {
    let Some((&[format, flags, ref crc @ ..], payload)) = row.split_first_chunk::<HEADER>() else {
        return Err(format!("it has {} bytes, fewer than a header", row.len()));
    };
    if format != FORMAT {
        return Err(format!("its format is {format}, known is {FORMAT}"));
    }
    if checksum(common, key, flags, payload) != *crc {
        return Err("its checksum is wrong".to_owned());
    }
    match flags {
        0 => Ok(false),
        MORE => Ok(true),
        _ => Err(format!("its flags are {flags:#04x}, which have no meaning")),
    }
}

/// The payload of an opened row, in the row's own memory.
fn payload_of(mut row: Vec<u8>) -> Vec<u8> {
    row.drain(..HEADER);
    row
}

fn corrupt(thread: &ThreadId, key: Key, detail: &str) -> CheckpointError {
    CheckpointError::Corrupt { thread: Some(thread.clone()), key: Some(key), detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::MAX_ROW;

    const KEY: Key = Key::Record { run: 1, seq: 2, chunk: 0 };

    fn thread(name: &str) -> ThreadId {
        ThreadId::new(name).expect("a legal name")
    }

    fn payload(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| u8::try_from(at * 31 % 251).expect("below 251")).collect()
    }

    fn sealed(key: Key, payload: &[u8]) -> Vec<(Key, Vec<u8>)> {
        let mut changes = Vec::new();
        seal(&thread("t"), key, payload, PAYLOAD_LIMIT, &mut changes).expect("below the limit");
        changes
            .into_iter()
            .map(|change| match change {
                Change::Put(key, row) => (key, row),
                other => panic!("a seal only puts: {other:?}"),
            })
            .collect()
    }

    #[track_caller]
    fn check_corrupt(rows: Rows) {
        match unseal(&thread("t"), rows) {
            Err(CheckpointError::Corrupt { thread: Some(_), key: Some(_), .. }) => {}
            other => panic!("damage went unseen: {other:?}"),
        }
    }

    #[test]
    fn payloads_of_any_size_come_back() {
        for bytes in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 65_535, 65_537, 1 << 20] {
            let payload = payload(bytes);
            let rows = sealed(KEY, &payload);
            assert_eq!(rows.len(), bytes.div_ceil(CHUNK).max(1));
            assert!(rows.iter().all(|(_, row)| row.len() <= MAX_ROW));
            assert_eq!(unseal(&thread("t"), rows).expect("whole"), vec![(KEY, payload)], "{bytes} bytes");
        }
    }

    #[test]
    fn the_limit_is_exact_and_reaches_64_mib() {
        let payload = payload(PAYLOAD_LIMIT);
        let rows = sealed(KEY, &payload);
        assert!(unseal(&thread("t"), rows).expect("whole")[0].1 == payload);
        let mut changes = Vec::new();
        for (key, bytes) in [(KEY, 11), (Key::Head, CHUNK + 1)] {
            let limit = if key == Key::Head { PAYLOAD_LIMIT } else { 10 };
            let answer = seal(&thread("t"), key, &payload[..bytes], limit, &mut changes);
            assert!(matches!(answer, Err(CheckpointError::TooLarge { .. })), "{answer:?}");
            assert!(changes.is_empty());
        }
    }

    #[test]
    fn many_items_come_back_in_order() {
        let keys = [Key::Head, KEY, Key::Record { run: 1, seq: 3, chunk: 0 }, Key::Aside { space: 1, id: 9, chunk: 0 }];
        let rows: Vec<_> = keys.iter().zip([9, 9000, 3, 4097]).flat_map(|(key, n)| sealed(*key, &payload(n))).collect();
        let items = unseal(&thread("t"), rows).expect("whole");
        assert_eq!(items.iter().map(|(key, _)| *key).collect::<Vec<_>>(), keys);
        assert_eq!(items.iter().map(|(_, payload)| payload.len()).collect::<Vec<_>>(), [9, 9000, 3, 4097]);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for bytes in [0, 40, CHUNK + 20] {
            let rows = sealed(KEY, &payload(bytes));
            for (place, (_, row)) in rows.iter().enumerate() {
                for bit in 0..row.len() * 8 {
                    let mut rows = rows.clone();
                    rows[place].1[bit / 8] ^= 1 << (bit % 8);
                    check_corrupt(rows);
                }
            }
        }
    }

    #[test]
    fn every_cut_is_seen() {
        let rows = sealed(KEY, &payload(CHUNK + 20));
        for place in 0..rows.len() {
            for length in 0..rows[place].1.len() {
                let mut rows = rows.clone();
                rows[place].1.truncate(length);
                check_corrupt(rows);
            }
        }
    }

    #[test]
    fn chunks_that_are_missing_doubled_swapped_or_foreign_are_seen() {
        let rows = sealed(KEY, &payload(3 * CHUNK));
        for missing in 0..rows.len() {
            let mut rows = rows.clone();
            rows.remove(missing);
            check_corrupt(rows);
        }
        for pair in [(0, 1), (1, 2), (0, 2)] {
            let mut keys_and_rows = rows.clone();
            keys_and_rows.swap(pair.0, pair.1);
            check_corrupt(keys_and_rows.clone());
            // Right keys, the bytes of another chunk.
            for (place, (key, _)) in keys_and_rows.iter_mut().enumerate() {
                *key = rows[place].0;
            }
            check_corrupt(keys_and_rows);
        }
        let mut extra = rows.clone();
        extra.push((KEY.with_chunk(3), row(&checksum_of(&thread("t")), KEY.with_chunk(3), 0, b"late")));
        check_corrupt(extra);
        let mut doubled = rows.clone();
        doubled.insert(1, rows[0].clone());
        check_corrupt(doubled);
        assert!(unseal(&thread("u"), rows).is_err(), "another thread's rows were taken");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bytes: Vec<u8> = state.to_le_bytes().repeat(2)[..usize::try_from(state >> 60).expect("small")].to_vec();
            let key = if state & 1 == 0 { Key::Head } else { KEY.with_chunk(u16::MAX) };
            assert!(unseal(&thread("t"), vec![(key, bytes.clone())]).is_err());
            assert!(unseal_one(&thread("t"), key, bytes).is_err());
        }
        let common = checksum_of(&thread("t"));
        check_corrupt(vec![(Key::Head, row(&common, Key::Head, MORE, b""))]);
        assert!(unseal_one(&thread("t"), Key::Head, row(&common, Key::Head, MORE, b"")).is_err());
    }
}
