//! Who may append to which thread, for stores that only one process opens: a table in memory.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{CheckpointError, Lease};
use crate::ThreadId;

/// Locks; a panic elsewhere does not spread. What our locks guard is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The leases of one opening of a store.
pub(crate) struct Leases(Mutex<Table>);

struct Table {
    /// Of the store; the upper half of every epoch, so that epochs grow over restarts without a write for each lease.
    generation: u32,
    /// The lower half of the last epoch given.
    last: u32,
    held: HashMap<ThreadId, Held>,
}

struct Held {
    epoch: u64,
    /// Whether it was given back and waits for what was queued under it.
    leaving: bool,
    /// There once somebody waits.
    freed: Option<Arc<Notify>>,
}

impl Leases {
    pub(crate) fn new(generation: u32) -> Self {
        Self(Mutex::new(Table { generation, last: 0, held: HashMap::new() }))
    }

    /// As [`Checkpointer::acquire`](super::Checkpointer::acquire); `None`: the thread is free as soon as what was queued
    /// under a lease that was given back is done.
    pub(crate) fn acquire(&self, thread: &ThreadId) -> Result<Option<Lease>, CheckpointError> {
        let mut table = lock(&self.0);
        match table.held.get(thread) {
            Some(Held { leaving: true, .. }) => return Ok(None),
            Some(Held { leaving: false, .. }) => return Err(CheckpointError::Busy { thread: thread.clone() }),
            None => {}
        }
        let last = table.last.checked_add(1).ok_or_else(|| CheckpointError::Other {
            doing: format!("leasing thread {thread}"),
            source: Arc::from(Box::from("four billion leases were given since the store was opened; open it anew")),
        })?;
        table.last = last;
        let epoch = (u64::from(table.generation) << 32) | u64::from(last);
        table.held.insert(thread.clone(), Held { epoch, leaving: false, freed: None });
        Ok(Some(Lease { thread: thread.clone(), epoch }))
    }

    /// As [`Checkpointer::release`](super::Checkpointer::release).
    pub(crate) fn release(&self, lease: &Lease) {
        let mut table = lock(&self.0);
        if table.held.get(&lease.thread).is_some_and(|held| held.epoch == lease.epoch)
            && let Some(Held { freed: Some(freed), .. }) = table.held.remove(&lease.thread)
        {
            freed.notify_waiters();
        }
    }

    /// The lease is given back as soon as what was queued under it is done: nothing more may be queued. Whether it was
    /// held; then [`release`](Self::release) is to follow.
    #[cfg(feature = "sled")]
    pub(crate) fn leave(&self, lease: &Lease) -> bool {
        let mut table = lock(&self.0);
        let held = table.held.get_mut(&lease.thread).filter(|held| held.epoch == lease.epoch && !held.leaving);
        held.map(|held| held.leaving = true).is_some()
    }

    /// Whether this epoch's lease was given back, so that nothing more may be queued under it.
    #[cfg(feature = "sled")]
    pub(crate) fn has_left(&self, thread: &ThreadId, epoch: u64) -> bool {
        lock(&self.0).held.get(thread).is_some_and(|held| held.epoch == epoch && held.leaving)
    }

    /// Whether this epoch may write.
    pub(crate) fn check(&self, thread: &ThreadId, epoch: u64) -> Result<(), CheckpointError> {
        let current = lock(&self.0).held.get(thread).map(|held| held.epoch);
        match current {
            Some(current) if current == epoch => Ok(()),
            _ => Err(CheckpointError::Fenced { thread: thread.clone(), epoch, current }),
        }
    }

    pub(crate) fn is_leased(&self, thread: &ThreadId) -> bool {
        lock(&self.0).held.get(thread).is_some_and(|held| !held.leaving)
    }

    /// Returns once the thread is free.
    pub(crate) async fn released(&self, thread: ThreadId) {
        let freed;
        let notified = {
            let mut table = lock(&self.0);
            let Some(held) = table.held.get_mut(&thread) else { return };
            freed = Arc::clone(held.freed.get_or_insert_default());
            // Made under the lock, so that no release is missed.
            freed.notified()
        };
        notified.await;
    }

    /// Takes all leases away, as a restart does, and goes on in a new generation.
    pub(crate) fn void(&self) {
        let mut table = lock(&self.0);
        table.generation = table.generation.saturating_add(1);
        table.last = 0;
        for held in table.held.drain() {
            if let Some(freed) = held.1.freed {
                freed.notify_waiters();
            }
        }
    }

    /// Takes all leases away, since the store is closed.
    #[cfg(feature = "sled")]
    pub(crate) fn end(&self) {
        self.void();
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = lock(&self.0);
        f.debug_struct("Leases").field("generation", &table.generation).field("held", &table.held.len()).finish()
    }
}
