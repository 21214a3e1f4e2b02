//! The base of a checkpointer that wraps another one: every verb goes on to it, unless it is written anew.

use std::fmt;

use crate::{
    ThreadId,
    checkpoint::{BoxFuture, CheckpointError, Checkpointer, Commit, Key, Lease, Rows, ThreadPage, ThreadQuery, Ticket},
};

/// A checkpointer that wraps another one: say which, and write only those verbs that differ. Whatever implements this is a
/// [`Checkpointer`].
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use durably::{
///     Runtime,
///     checkpoint::{Checkpointer, Commit, MemoryCheckpointer, Ticket},
///     testing::Delegate,
/// };
///
/// /// Counts the bytes of nothing, but the commits of everything.
/// #[derive(Debug, Default)]
/// struct Counting {
///     inner: MemoryCheckpointer,
///     commits: AtomicUsize,
/// }
///
/// impl Delegate for Counting {
///     fn inner(&self) -> &dyn Checkpointer {
///         &self.inner
///     }
///
///     fn commit(&self, commit: Commit) -> Ticket {
///         self.commits.fetch_add(1, Ordering::Relaxed);
///         self.inner.commit(commit)
///     }
/// }
///
/// let runtime = Runtime::builder().checkpointer(Counting::default());
/// # drop(runtime);
/// ```
pub trait Delegate: Send + Sync + fmt::Debug + 'static {
    /// The checkpointer that is wrapped.
    fn inner(&self) -> &dyn Checkpointer;

    /// As [`Checkpointer::name`].
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    /// As [`Checkpointer::acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        self.inner().acquire(thread)
    }

    /// As [`Checkpointer::release`].
    fn release(&self, lease: &Lease) {
        self.inner().release(lease);
    }

    /// As [`Checkpointer::released`].
    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        self.inner().released(thread)
    }

    /// As [`Checkpointer::is_leased`].
    fn is_leased(&self, thread: &ThreadId) -> bool {
        self.inner().is_leased(thread)
    }

    /// As [`Checkpointer::commit`].
    ///
    /// # Errors
    ///
    /// As there.
    fn commit(&self, commit: Commit) -> Ticket {
        self.inner().commit(commit)
    }

    /// As [`Checkpointer::get`].
    ///
    /// # Errors
    ///
    /// As there.
    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        self.inner().get(thread, key)
    }

    /// As [`Checkpointer::scan`].
    ///
    /// # Errors
    ///
    /// As there.
    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        self.inner().scan(thread, first, last)
    }

    /// As [`Checkpointer::threads`].
    ///
    /// # Errors
    ///
    /// As there.
    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        self.inner().threads(query)
    }

    /// As [`Checkpointer::delete_thread`].
    ///
    /// # Errors
    ///
    /// As there.
    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>> {
        self.inner().delete_thread(thread)
    }

    /// As [`Checkpointer::close`].
    ///
    /// # Errors
    ///
    /// As there.
    fn close(&self) -> BoxFuture<'_, Result<(), CheckpointError>> {
        self.inner().close()
    }
}

impl<D: Delegate> Checkpointer for D {
    fn name(&self) -> &'static str {
        Delegate::name(self)
    }

    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        Delegate::acquire(self, thread)
    }

    fn release(&self, lease: &Lease) {
        Delegate::release(self, lease);
    }

    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        Delegate::released(self, thread)
    }

    fn is_leased(&self, thread: &ThreadId) -> bool {
        Delegate::is_leased(self, thread)
    }

    fn commit(&self, commit: Commit) -> Ticket {
        Delegate::commit(self, commit)
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        Delegate::get(self, thread, key)
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        Delegate::scan(self, thread, first, last)
    }

    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        Delegate::threads(self, query)
    }

    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>> {
        Delegate::delete_thread(self, thread)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CheckpointError>> {
        Delegate::close(self)
    }
}
