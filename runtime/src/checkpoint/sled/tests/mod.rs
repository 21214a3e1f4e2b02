//! What only the sled store does: its files, its recovery, its failures.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use super::{
    SledCheckpointer, SledOptions,
    faults::{Fault, Latch, Point},
};
use crate::{
    ThreadId,
    checkpoint::{Change, CheckpointError, Checkpointer, Commit, Expect, Key, Listing, Rows, ThreadQuery},
};

mod damage;
mod failures;
mod files;
mod work;

fn id(name: &str) -> ThreadId {
    ThreadId::new(name).expect("a legal name")
}

fn record(seq: u32) -> Key {
    Key::Record { run: 1, seq, chunk: 0 }
}

fn put(thread: &str, seq: u32, row: Vec<u8>) -> Commit {
    Commit { thread: id(thread), expect: vec![], changes: vec![Change::Put(record(seq), row)] }
}

/// A commit that takes several batches.
fn large(thread: &str, fill: u8) -> Commit {
    let rows = (0..3000).map(|seq| Change::Put(record(seq), vec![fill; 300]));
    let list = [Change::List(Listing { class: fill, at_ms: 1 })];
    Commit { thread: id(thread), expect: vec![], changes: rows.chain(list).collect() }
}

async fn rows(store: &SledCheckpointer, thread: &str) -> Result<Rows, CheckpointError> {
    store.scan(&id(thread), Key::FIRST, Key::LAST).await
}

/// A store with so many acknowledged commits, closed.
async fn filled(path: &Path, commits: u32) {
    let store = SledCheckpointer::open(path).expect("opened");
    for seq in 0..commits {
        store.commit(put("t", seq, vec![7; 200])).await.expect("committed");
    }
    store.close().await.expect("closed");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}
