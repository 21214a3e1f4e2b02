//! A checkpointer in memory: for tests, and for flows that need not outlive their process.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    fmt,
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    BoxFuture, Change, CheckpointError, Checkpointer, Commit, Expect, Key, Lease, ListedThread, Listing, MAX_ROW, Rows,
    ThreadPage, ThreadQuery, Ticket,
    leases::{Leases, lock},
    listing::{Place, Step, Walk},
};
use crate::ThreadId;

/// Keeps journals in memory; clones share them.
///
/// A commit is as durable as the process. [`reopen`](Self::reopen) shows what a restarted process would find.
///
/// ```
/// use durably::{
///     ThreadId,
///     checkpoint::{Change, Checkpointer, Commit, Key, MemoryCheckpointer},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryCheckpointer::new();
/// let thread = ThreadId::new("orders/42")?;
/// let changes = vec![Change::Put(Key::Head, b"hello".to_vec())];
/// store.commit(Commit { thread: thread.clone(), expect: vec![], changes }).await?;
/// assert_eq!(store.get(&thread, Key::Head).await?.as_deref(), Some(&b"hello"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryCheckpointer {
    shared: Arc<Shared>,
    /// Shared by the clones of one opening.
    closed: Arc<AtomicBool>,
}

struct Shared {
    /// Guards all rows. Locked before the leases, so that a lease holds until the commit that it allows is applied.
    data: Mutex<Data>,
    leases: Leases,
}

#[derive(Default)]
struct Data {
    threads: HashMap<ThreadId, Thread>,
    listed: BTreeMap<Place, ThreadId>,
    /// The number of the last thread that came into being.
    last: u64,
}

struct Thread {
    number: u64,
    rows: BTreeMap<Key, Vec<u8>>,
    listing: Option<Listing>,
}

impl MemoryCheckpointer {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared { data: Mutex::default(), leases: Leases::new(1) };
        Self { shared: Arc::new(shared), closed: Arc::default() }
    }

    /// The same rows as a restarted process would find them: open, and with all leases void.
    ///
    /// What still holds a handle from before can commit under none of its leases.
    #[must_use]
    pub fn reopen(&self) -> Self {
        self.shared.leases.void();
        Self { shared: Arc::clone(&self.shared), closed: Arc::default() }
    }

    /// A store as these commits leave it: with the first n of a recorded list, what a crash after the n-th leaves.
    ///
    /// Leases are not asked for, since none is held; a commit whose rows are not as it expects changes nothing.
    #[must_use]
    pub fn replay<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        let store = Self::new();
        {
            let mut data = lock(&store.shared.data);
            for commit in commits {
                let mut commit = commit.clone();
                commit.expect.retain(|expect| !matches!(expect, Expect::Lease(_)));
                // A refusal was one when the list was recorded.
                let _ = data.commit(&store.shared.leases, commit);
            }
        }
        store
    }

    /// Works on the rows, unless this opening is closed.
    fn with<T>(&self, work: impl FnOnce(&mut Data) -> Result<T, CheckpointError>) -> Result<T, CheckpointError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(CheckpointError::Closed);
        }
        work(&mut lock(&self.shared.data))
    }
}

impl Data {
    fn commit(&mut self, leases: &Leases, commit: Commit) -> Result<(), CheckpointError> {
        let Commit { thread, expect, changes } = commit;
        for change in &changes {
            if let Change::Put(_, row) = change
                && row.len() > MAX_ROW
            {
                return Err(CheckpointError::TooLarge { bytes: row.len(), limit: MAX_ROW });
            }
        }
        let rows = self.threads.get(&thread).map(|thread| &thread.rows);
        for expect in expect {
            let (key, wanted) = match expect {
                Expect::Lease(epoch) => {
                    leases.check(&thread, epoch)?;
                    continue;
                }
                Expect::Absent(key) => (key, None),
                Expect::Equals(key, row) => (key, Some(row)),
            };
            let found = rows.and_then(|rows| rows.get(&key));
            if found != wanted.as_ref() {
                let found = found.cloned();
                return Err(CheckpointError::Conflict { thread, key, found });
            }
        }
        let name = thread.clone();
        let state = match self.threads.entry(thread) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.last += 1;
                entry.insert(Thread { number: self.last, rows: BTreeMap::new(), listing: None })
            }
        };
        let mut listing = None;
        for change in changes {
            match change {
                Change::Put(key, row) => {
                    state.rows.insert(key, row);
                }
                Change::Remove(key) => {
                    state.rows.remove(&key);
                }
                Change::RemoveRange(first, last) => remove_range(&mut state.rows, first, last),
                Change::List(place) => listing = Some(place),
            }
        }
        if let Some(listing) = listing {
            let thread = state.number;
            if let Some(before) = state.listing.replace(listing) {
                self.listed.remove(&Place { listing: before, thread });
            }
            self.listed.insert(Place { listing, thread }, name);
        }
        Ok(())
    }

    fn page(&self, query: &ThreadQuery) -> Result<ThreadPage, CheckpointError> {
        let (walk, begin) = Walk::new(query)?;
        let mut page = ThreadPage::default();
        let Some(mut begin) = begin else { return Ok(page) };
        let mut last = None;
        'walk: loop {
            for (place, thread) in self.listed.range(begin..) {
                match walk.step(*place) {
                    Step::End => break 'walk,
                    Step::Skip(place) => {
                        begin = place;
                        continue 'walk;
                    }
                    Step::Take if page.threads.len() == walk.limit() => {
                        page.next = last.map(Place::cursor);
                        break 'walk;
                    }
                    Step::Take => {}
                }
                let head = self.threads.get(thread).and_then(|state| state.rows.get(&Key::Head));
                page.threads.push(ListedThread {
                    thread: thread.clone(),
                    listing: place.listing,
                    head: head.cloned().unwrap_or_default(),
                });
                last = Some(*place);
            }
            break;
        }
        Ok(page)
    }
}

fn remove_range(rows: &mut BTreeMap<Key, Vec<u8>>, first: Key, last: Key) {
    if first > last {
        return;
    }
    let keys: Vec<Key> = rows.range(first..=last).map(|(key, _)| *key).collect();
    for key in keys {
        rows.remove(&key);
    }
}

impl Checkpointer for MemoryCheckpointer {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        let leased = self.with(|_| self.shared.leases.acquire(thread));
        // Nothing is ever queued here, so that no lease waits to be free.
        Box::pin(ready(leased.and_then(|lease| lease.ok_or(CheckpointError::Busy { thread: thread.clone() }))))
    }

    fn release(&self, lease: &Lease) {
        self.shared.leases.release(lease);
    }

    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.leases.released(thread.clone()))
    }

    fn is_leased(&self, thread: &ThreadId) -> bool {
        self.shared.leases.is_leased(thread)
    }

    fn commit(&self, commit: Commit) -> Ticket {
        Ticket::ready(self.with(|data| data.commit(&self.shared.leases, commit)))
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        let row = self.with(|data| Ok(data.threads.get(thread).and_then(|state| state.rows.get(&key)).cloned()));
        Box::pin(ready(row))
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        let rows = self.with(|data| match data.threads.get(thread) {
            Some(state) if first <= last => {
                Ok(state.rows.range(first..=last).map(|(key, row)| (*key, row.clone())).collect())
            }
            _ => Ok(Vec::new()),
        });
        Box::pin(ready(rows))
    }

    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        Box::pin(ready(self.with(|data| data.page(&query))))
    }

    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>> {
        let deleted = self.with(|data| {
            if self.shared.leases.is_leased(thread) {
                return Err(CheckpointError::Busy { thread: thread.clone() });
            }
            let Some(state) = data.threads.remove(thread) else { return Ok(false) };
            if let Some(listing) = state.listing {
                data.listed.remove(&Place { listing, thread: state.number });
            }
            Ok(true)
        });
        Box::pin(ready(deleted))
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CheckpointError>> {
        self.closed.store(true, Ordering::Release);
        Box::pin(ready(Ok(())))
    }
}

impl Default for MemoryCheckpointer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = lock(&self.shared.data).threads.len();
        f.debug_struct("MemoryCheckpointer")
            .field("threads", &threads)
            .field("leases", &self.shared.leases)
            .field("closed", &self.closed.load(Ordering::Relaxed))
            .finish()
    }
}
