//! A checkpointer in memory that counts what is read from it and written to it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use durably::{
    CheckpointError, ThreadId,
    checkpoint::{BoxFuture, Checkpointer, Commit, Key, MemoryCheckpointer, Rows, ThreadPage, ThreadQuery, Ticket},
    testing::Delegate,
};

/// A store in memory that counts the rows that are read, written and listed.
#[derive(Debug, Default)]
pub struct Counting {
    inner: MemoryCheckpointer,
    read: AtomicUsize,
    written: AtomicUsize,
    listed: AtomicUsize,
}

impl Counting {
    /// An empty store.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// How many rows of threads were read since it was asked last.
    pub fn read(&self) -> usize {
        self.read.swap(0, Ordering::SeqCst)
    }

    /// How many changes were written since it was asked last.
    pub fn written(&self) -> usize {
        self.written.swap(0, Ordering::SeqCst)
    }

    /// How many threads its lists gave since it was asked last.
    pub fn listed(&self) -> usize {
        self.listed.swap(0, Ordering::SeqCst)
    }
}

impl Delegate for Counting {
    fn inner(&self) -> &dyn Checkpointer {
        &self.inner
    }

    fn commit(&self, commit: Commit) -> Ticket {
        self.written.fetch_add(commit.changes.len(), Ordering::SeqCst);
        self.inner.commit(commit)
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.inner.get(thread, key)
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        let rows = self.inner.scan(thread, first, last);
        Box::pin(async {
            let rows = rows.await?;
            self.read.fetch_add(rows.len(), Ordering::SeqCst);
            Ok(rows)
        })
    }

    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        let page = self.inner.threads(query);
        Box::pin(async {
            let page = page.await?;
            self.listed.fetch_add(page.threads.len(), Ordering::SeqCst);
            Ok(page)
        })
    }
}
