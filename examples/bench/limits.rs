//! What cannot be beaten, measured with the same bytes in the same folder: a file that is appended to and synced, and sled
//! with one batch, one flush and one sync of its file at a time.

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use durably::checkpoint::{Checkpointer, Key};

/// The rows of one thread, as a backend is given them.
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The record rows that a run left.
pub(crate) async fn rows_of(checkpointer: &dyn Checkpointer, thread: &durably::ThreadId) -> anyhow::Result<Rows> {
    let first = Key::Record { run: 0, seq: 0, chunk: 0 };
    let last = Key::Record { run: u32::MAX, seq: u32::MAX, chunk: u16::MAX };
    let rows = checkpointer.scan(thread, first, last).await?;
    // A key of the engine has a tag, the number of the thread, and the place.
    Ok(rows.into_iter().map(|(key, row)| ([&[0x10; 9][..], &key.to_bytes()].concat(), row)).collect())
}

/// Appends each row to a file and syncs it; how long each took.
pub(crate) fn append_and_sync(folder: &Path, rows: &Rows) -> anyhow::Result<Vec<Duration>> {
    let path = folder.join("appended");
    let mut file = File::create(&path).with_context(|| format!("{} cannot be made", path.display()))?;
    let mut took = Vec::with_capacity(rows.len());
    for (key, row) in rows {
        let began = Instant::now();
        file.write_all(&[&key[..], row].concat())?;
        file.sync_data()?;
        took.push(began.elapsed());
    }
    Ok(took)
}

/// Writes the rows to sled, so many in a batch, each batch durable before the next; how long each batch took.
pub(crate) fn sled_barriers(folder: &Path, rows: &Rows, batch: usize) -> anyhow::Result<Vec<Duration>> {
    let path = folder.join("engine");
    let db = sled::Config::new().path(&path).flush_every_ms(None).cache_capacity(64 << 20).open()?;
    let file = File::open(path.join("db"))?;
    let mut took = Vec::with_capacity(rows.len() / batch.max(1) + 1);
    for (sequence, rows) in rows.chunks(batch.max(1)).enumerate() {
        let began = Instant::now();
        let mut changes = sled::Batch::default();
        for (key, row) in rows {
            changes.insert(&key[..], &row[..]);
        }
        // As a store needs it to know how far it is.
        changes.insert(&[0, b's'], &sequence.to_be_bytes()[..]);
        db.apply_batch(changes)?;
        db.flush()?;
        file.sync_data()?;
        took.push(began.elapsed());
    }
    Ok(took)
}
