//! Reads of rows.

use std::sync::Arc;

use super::{Backend, Failure, Outcome, all, changes, holds, id, put, record};
use crate::checkpoint::{Change, Key};

/// Keys of every kind, at the edges, in order.
fn keys() -> Vec<Key> {
    let mut keys = vec![Key::FIRST, Key::LAST];
    for n in [0, 1, 255, 256, 65_535, 65_536, u32::MAX] {
        for chunk in [0, 1, u16::MAX] {
            keys.push(Key::Record { run: 1, seq: n, chunk });
            keys.push(Key::Record { run: n, seq: 1, chunk });
            keys.push(Key::Answer { question: (u128::from(n) << 70, n), chunk });
            keys.push(Key::Aside { space: 1, id: u128::from(n) << 90, chunk });
            keys.push(Key::Aside { space: 0x10, id: u128::from(n), chunk });
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

pub(super) async fn what_is_not_there_reads_as_none(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    for made in [false, true] {
        if made {
            store.commit(put(&thread, record(1), b"x")).await?;
        }
        let row = store.get(&thread, record(2)).await?;
        holds!(row.is_none(), "a row that was never written reads as {row:?}");
        let rows = store.scan(&thread, record(2), Key::LAST).await?;
        holds!(rows.is_empty(), "rows that were never written are scanned: {rows:?}");
    }
    Ok(())
}

pub(super) async fn rows_are_scanned_in_the_order_of_their_keys(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let keys = keys();
    // Written in another order than they are read in.
    for (place, key) in keys.iter().enumerate().rev() {
        drop(store.commit(put(&thread, *key, &place.to_le_bytes())));
    }
    store.commit(changes(&thread, Vec::new())).await?;
    let rows = all(&*store, &thread).await?;
    holds!(rows.len() == keys.len(), "{} of {} rows are scanned", rows.len(), keys.len());
    for (place, (key, row)) in rows.iter().enumerate() {
        holds!(*key == keys[place], "{key:?} stands where {:?} belongs", keys[place]);
        holds!(row[..] == place.to_le_bytes(), "{key:?} has the row of another key");
        holds!(store.get(&thread, *key).await?.as_ref() == Some(row), "{key:?} is scanned but not got");
    }
    Ok(())
}

pub(super) async fn scans_include_both_ends(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let keys = keys();
    store.commit(changes(&thread, keys.iter().map(|key| Change::Put(*key, Vec::new())).collect())).await?;
    for (first, last) in [(0, keys.len() - 1), (3, 9), (5, 5), (0, 0), (20, 60), (9, 3)] {
        let scanned = store.scan(&thread, keys[first], keys[last]).await?;
        let scanned: Vec<_> = scanned.into_iter().map(|(key, _)| key).collect();
        let wanted = if first <= last { &keys[first..=last] } else { &[] };
        holds!(scanned == wanted, "from {:?} to {:?}: {scanned:?}", keys[first], keys[last]);
    }
    let between = store.scan(&thread, record(2), record(200)).await?;
    holds!(between.is_empty(), "keys between those that are there: {between:?}");
    Ok(())
}

pub(super) async fn scans_are_of_one_moment(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let rows = |n: u8| changes(&thread, (0..50).map(|seq| Change::Put(record(seq), vec![n])).collect());
    store.commit(rows(0)).await?;
    let (writing, thread_written) = (Arc::clone(&store), rows(0));
    let writer = tokio::spawn(async move {
        for n in 1..100 {
            let mut commit = thread_written.clone();
            for change in &mut commit.changes {
                if let Change::Put(_, row) = change {
                    *row = vec![n];
                }
            }
            writing.commit(commit).await?;
        }
        Outcome::Ok(())
    });
    while !writer.is_finished() {
        let rows = all(&*store, &thread).await?;
        holds!(rows.len() == 50, "{} of 50 rows are scanned", rows.len());
        holds!(rows.iter().all(|(_, row)| *row == rows[0].1), "a scan shows half of a commit");
        tokio::task::yield_now().await;
    }
    writer.await.map_err(|error| Failure(error.to_string()))?
}
