//! The contract of a checkpointer: the backend that keeps journals. It stores small rows of bytes and knows nothing of
//! runs; checksums, chunks and codecs live above it, so that they are the same for every backend.

use std::{fmt, future::Future, pin::Pin};

use crate::ThreadId;

mod error;
mod key;
mod leases;
mod listing;
mod memory;
pub(crate) mod rows;
#[cfg(feature = "sled")]
mod sled;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod ticket;

pub use error::CheckpointError;
pub use key::KeyBytes;
pub use memory::MemoryCheckpointer;
#[cfg(feature = "sled")]
pub use sled::{SledCheckpointer, SledOptions, SledStats};
pub use ticket::{Acknowledge, Ticket};

/// A boxed future, as an object-safe async trait needs it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Rows of a thread, in order.
pub type Rows = Vec<(Key, Vec<u8>)>;

/// The place of a row in its thread. Rows of a thread are ordered as these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What is known of the thread as a whole: status, current run, saved value.
    Head,
    /// One chunk of one record of one run.
    Record {
        /// The number of the run.
        run: u32,
        /// The place of the record in its run.
        seq: u32,
        /// The place of this chunk in its record.
        chunk: u16,
    },
    /// One chunk of an answer that has arrived and is not yet a record.
    Answer {
        /// The question's identity.
        question: (u128, u32),
        /// The place of this chunk.
        chunk: u16,
    },
    /// One chunk of something that is kept beside a thread's journal.
    Aside {
        /// Which kind of thing.
        space: u8,
        /// Its identity.
        id: u128,
        /// The place of this chunk.
        chunk: u16,
    },
}

/// Where a thread stands in the list of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listing {
    /// The class that threads are listed by: one a status. From 128 on they are of what is kept like a thread and is
    /// none.
    pub class: u8,
    /// The order within the class, in milliseconds since 1970: when a timer is due, or when the status was reached.
    pub at_ms: u64,
}

/// One change of a thread's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes a row, replacing what stood there. A row has at most [`MAX_ROW`] bytes.
    Put(Key, Vec<u8>),
    /// Removes a row; none there is no error.
    Remove(Key),
    /// Removes all rows from the first key to the second, both included.
    RemoveRange(Key, Key),
    /// Lists the thread here from now on, and nowhere else.
    List(Listing),
}

/// What must hold for a commit to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The thread is leased under this epoch. Else: [`CheckpointError::Fenced`].
    Lease(u64),
    /// There is no such row. Else: [`CheckpointError::Conflict`].
    Absent(Key),
    /// The row is there and has exactly these bytes. Else: [`CheckpointError::Conflict`].
    Equals(Key, Vec<u8>),
}

/// Changes of one thread that are applied together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The thread; it comes into being with its first commit.
    pub thread: ThreadId,
    /// What must hold; checked in order, in one atomic step with the changes.
    pub expect: Vec<Expect>,
    /// The changes, applied in order.
    pub changes: Vec<Change>,
}

/// The most bytes a backend must take in one row; larger payloads are split into rows above the backend.
pub const MAX_ROW: usize = 4096 + 64;

/// The right to append to a thread, until it is released or voided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The thread.
    pub thread: ThreadId,
    /// Grows with each lease of the thread, and with each opening of the store.
    pub epoch: u64,
}

/// Which threads to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadQuery {
    /// Only this class; `None`: all, in order of class.
    pub class: Option<u8>,
    /// Only threads whose [`Listing::at_ms`] is at most this.
    pub until_ms: Option<u64>,
    /// Go on after this cursor, from an earlier [`ThreadPage`].
    pub after: Option<Cursor>,
    /// At most this many (0 counts as 1).
    pub limit: usize,
}

/// A place in a list of threads; opaque. It stays valid while threads come, go and move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub Vec<u8>);

/// One thread in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedThread {
    /// The thread.
    pub thread: ThreadId,
    /// Where it stands.
    pub listing: Listing,
    /// Its [`Key::Head`] row, as stored.
    pub head: Vec<u8>,
}

/// A page of threads, in the order of their [`Listing`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadPage {
    /// The threads.
    pub threads: Vec<ListedThread>,
    /// Where the next page goes on; `None` at the end.
    pub next: Option<Cursor>,
}

/// Keeps the journals of many threads.
///
/// A backend is a set of threads; a thread is an ordered map from [`Key`] to a few bytes. That is all it knows. Whatever
/// is built on it (records, checksums, chunks, answers) is the same for every backend. The conformance suite
/// [`conformance`](crate::testing::conformance) states this contract as tests that any backend can run.
pub trait Checkpointer: Send + Sync + fmt::Debug + 'static {
    /// A short name for messages: `"memory"`, `"sled"`.
    fn name(&self) -> &'static str;

    /// Takes the lease of a thread, with an epoch greater than any it ever had; the thread need not exist.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Busy`] while somebody else holds it. An exclusive store voids all leases when it is opened, so
    /// that a dead process never makes a thread busy.
    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>>;

    /// Gives a lease back, at once. A lease that is no longer valid is ignored.
    fn release(&self, lease: &Lease);

    /// Waits until nobody holds the thread's lease. A hint: by the time it returns, somebody may have taken it.
    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()>;

    /// Whether somebody holds the thread's lease now.
    fn is_leased(&self, thread: &ThreadId) -> bool;

    /// Queues a commit. Commits are applied in the order in which this is called, each whole or not at all, and the
    /// ticket is answered when the commit is durable (or refused). Dropping the ticket changes nothing.
    /// Reads that start after the answer see the commit.
    ///
    /// # Errors
    ///
    /// In the ticket: [`CheckpointError::Fenced`] and [`CheckpointError::Conflict`] leave everything as it was.
    /// After an error of the disk the store refuses every further commit until it is opened anew.
    fn commit(&self, commit: Commit) -> Ticket;

    /// Reads one row.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if the store cannot be read.
    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>>;

    /// Reads the rows from `first` to `last`, both included, in order, as of one moment.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if the store cannot be read.
    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>>;

    /// Lists threads.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if the store cannot be read, or the cursor is none of its own.
    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>>;

    /// Removes everything of a thread, and nothing else; tells whether there was anything. Durable when it returns.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Busy`] while the thread is leased.
    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>>;

    /// Waits for all queued commits, then closes: every later verb answers [`CheckpointError::Closed`]. Closing again
    /// is no error.
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if what was queued could not be made durable.
    fn close(&self) -> BoxFuture<'_, Result<(), CheckpointError>>;
}
