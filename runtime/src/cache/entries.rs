//! Shared values in the store: each is kept like a thread of its own, listed by when it expires.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CLASS, CacheKey};
use crate::{
    CheckpointError, ThreadId,
    checkpoint::{Change, Checkpointer, Commit, Key, Listing, rows},
    value::Payload,
};

/// The rows of values.
const SPACE: u8 = 3;

/// What is known of an entry beside its value.
#[derive(Serialize, Deserialize)]
struct Head {
    task: String,
    /// From when on it counts no more, in milliseconds since 1970.
    expires_ms: Option<u64>,
}

/// A value to be kept.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) task: &'a str,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) value: &'a Payload,
}

/// Why an entry gives no value.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// It is damaged; as good as none.
    Damaged(String),
    /// The store does not work.
    Store(CheckpointError),
}

/// Reads a value that has not expired by now.
pub(crate) async fn read(
    checkpointer: &Arc<dyn Checkpointer>,
    key: CacheKey,
    now_ms: u64,
) -> Result<Option<Payload>, Unusable> {
    let thread = key.thread();
    let stored = checkpointer.scan(&thread, Key::FIRST, Key::LAST).await.map_err(unusable)?;
    let (mut head, mut value) = (None, None);
    for (key, bytes) in rows::unseal(&thread, stored).map_err(unusable)? {
        match key {
            Key::Head => head = Some(parse::<Head>(&bytes)?),
            Key::Aside { space: SPACE, .. } => value = Some(parse::<Payload>(&bytes)?),
            Key::Record { .. } | Key::Answer { .. } | Key::Aside { .. } => {}
        }
    }
    match (head, value) {
        (Some(head), Some(_)) if head.expires_ms.is_some_and(|until| until <= now_ms) => Ok(None),
        (Some(_), Some(value)) => Ok(Some(value)),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(Unusable::Damaged("a part of the entry is not there".to_owned())),
    }
}

fn unusable(error: CheckpointError) -> Unusable {
    match error {
        CheckpointError::Corrupt { detail, .. } => Unusable::Damaged(detail),
        error => Unusable::Store(error),
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unusable> {
    rmp_serde::from_slice(bytes).map_err(|error| Unusable::Damaged(error.to_string()))
}

/// The commit that keeps a value, in the place of what was there.
pub(crate) fn write(key: CacheKey, entry: &Entry<'_>) -> Result<Commit, CheckpointError> {
    let thread = key.thread();
    let head = Head { task: entry.task.to_owned(), expires_ms: entry.expires_ms };
    let value = Key::Aside { space: SPACE, id: 0, chunk: 0 };
    let mut changes = vec![rows::remove(value)];
    rows::seal(&thread, Key::Head, &bytes(&head), rows::PAYLOAD_LIMIT, &mut changes)?;
    rows::seal(&thread, value, &bytes(entry.value), rows::PAYLOAD_LIMIT, &mut changes)?;
    changes.push(Change::List(Listing { class: CLASS, at_ms: entry.expires_ms.unwrap_or(u64::MAX) }));
    Ok(Commit { thread, expect: Vec::new(), changes })
}

/// A commit that is answered when all before it are applied; what it leaves is an entry that expired long ago.
pub(crate) fn barrier() -> Commit {
    let thread = ThreadId::reserved("cache", b"barrier");
    Commit { thread, expect: Vec::new(), changes: vec![Change::List(Listing { class: CLASS, at_ms: 0 })] }
}

fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec(value).expect("an entry has nothing that cannot be written")
}

/// The task whose value an entry is, by its head row; `None` if that cannot be read.
pub(crate) fn task_of(thread: &ThreadId, row: &[u8]) -> Option<String> {
    let bytes = rows::unseal_one(thread, Key::Head, row.to_vec()).ok()?;
    Some(parse::<Head>(&bytes).ok()?.task)
}
