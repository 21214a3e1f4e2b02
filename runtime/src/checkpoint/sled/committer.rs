//! The one thread that writes: it takes what is waiting, checks it, writes one batch, does one barrier, answers all.
//!
//! sled deadlocks under seven concurrent flushes, and when batches are applied without a flush after each; with one writer
//! that flushes each batch it never did. It is also five to thirty-six times as fast, since the sync of one batch is the
//! time in which the next one collects: nothing waits in order to collect more.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, RwLockWriteGuard},
};

use super::{
    Shared,
    desk::Request,
    engine::{Engine, Writes},
    keys::{self, Meta, Named},
    large,
};
use crate::{
    ThreadId,
    checkpoint::{Change, CheckpointError, Commit, Expect, Lease, Listing, leases::lock, listing::Place},
};

pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) engine: Engine,
    /// The number of the last thread that came into being.
    pub(super) last_thread: u64,
    /// Released last.
    pub(super) lock: File,
}

/// The batch that is being put together. Commits are checked against the store as it will be with this batch.
#[derive(Default)]
struct Batch {
    writes: Writes,
    commits: u64,
    threads: HashSet<ThreadId>,
    /// Threads that come (their number) or go (`None`) with this batch.
    names: HashMap<ThreadId, Option<u64>>,
    /// Leases that are given back behind it.
    leaving: Vec<Lease>,
}

/// While it is held nobody reads: from the check of a commit to its being applied, so that a lease that was taken over
/// in between is either seen by the check, or its new holder reads what the old one wrote.
type Gate<'a> = RwLockWriteGuard<'a, Option<::sled::Db>>;

/// A checked commit.
enum Checked {
    Refused(CheckpointError),
    /// What to write, and the number of the thread if it comes into being.
    Accepted(Writes, Option<u64>),
}

impl Committer {
    /// Works until the store is closed, then closes the engine, and only then gives the lock back.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        while shared.desk.next() {
            let round = catch_unwind(AssertUnwindSafe(|| self.round(&shared)));
            let failed = match round {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(panic) => self.engine.folder.engine_panicked("writing a batch", &*panic),
            };
            shared.fail(&failed);
        }
        shared.leases.end();
        let Self { engine, lock, .. } = self;
        let shut = AssertUnwindSafe(|| {
            drop(shared.store.write().unwrap_or_else(PoisonError::into_inner).take());
            drop(engine);
        });
        // The engine flushes when it is dropped; what it says then concerns nothing that was acknowledged.
        let _ = catch_unwind(shut);
        drop(lock);
        shared.desk.end();
        // Not `send`: it does nothing while nobody waits.
        shared.ended.send_replace(true);
    }

    fn round(&mut self, shared: &Shared) -> Result<(), CheckpointError> {
        let gate = shared.store.write().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::default();
        self.sweep(shared, &mut batch)?;
        while !batch.writes.is_full() {
            match shared.desk.pop() {
                None => break,
                Some(Request::Delete(thread)) => self.delete(shared, &mut batch, &thread)?,
                Some(Request::Release(lease)) => batch.leaving.push(lease),
                Some(Request::Commit(commit)) => {
                    let thread = commit.thread.clone();
                    match self.check(shared, &batch, commit)? {
                        Checked::Refused(error) => {
                            shared.stats.refused();
                            shared.desk.refuse(error);
                        }
                        Checked::Accepted(writes, new) if writes.is_full() => {
                            shared.desk.hold_large();
                            // Before the gate opens: from here on nobody reads this thread.
                            shared.flight.begin_large(thread.clone());
                            self.write(shared, batch, gate)?;
                            return self.write_large(shared, thread, writes, new);
                        }
                        Checked::Accepted(writes, new) => {
                            self.last_thread = new.unwrap_or(self.last_thread);
                            batch.add(thread, writes, new);
                        }
                    }
                }
            }
        }
        self.write(shared, batch, gate)
    }

    fn write(&mut self, shared: &Shared, batch: Batch, gate: Gate<'_>) -> Result<(), CheckpointError> {
        if batch.writes.is_empty() {
            drop(gate);
            shared.release(&batch.leaving);
            shared.desk.tell();
            return Ok(());
        }
        let Batch { writes, commits, threads, names, leaving } = batch;
        shared.flight.begin(threads);
        shared.rename(names);
        self.engine.apply(writes, commits)?;
        drop(gate);
        self.engine.barrier()?;
        shared.stats.batch(commits);
        shared.flight.land();
        shared.release(&leaving);
        shared.desk.tell();
        Ok(())
    }

    fn write_large(
        &mut self,
        shared: &Shared,
        thread: ThreadId,
        writes: Writes,
        new: Option<u64>,
    ) -> Result<(), CheckpointError> {
        self.last_thread = new.unwrap_or(self.last_thread);
        shared.desk.beat();
        self.engine.write_large(writes, || {
            shared.stats.batch(0);
            shared.desk.beat();
        })?;
        if new.is_some() {
            shared.rename([(thread, new)]);
        }
        shared.stats.commit();
        shared.flight.land_large();
        shared.desk.tell_large();
        Ok(())
    }

    /// What the commit comes to, after the batch so far.
    fn check(&self, shared: &Shared, batch: &Batch, commit: Commit) -> Result<Checked, CheckpointError> {
        let Commit { thread, expect, changes } = commit;
        let known = self.number(shared, batch, &thread)?;
        for expect in expect {
            let (key, wanted) = match expect {
                Expect::Lease(epoch) => match shared.leases.check(&thread, epoch) {
                    Ok(()) => continue,
                    Err(fenced) => return Ok(Checked::Refused(fenced)),
                },
                Expect::Absent(key) => (key, None),
                Expect::Equals(key, row) => (key, Some(row)),
            };
            let found = match known {
                Some(number) => self.get(batch, &keys::row(number, key))?,
                None => None,
            };
            if found != wanted {
                return Ok(Checked::Refused(CheckpointError::Conflict { thread, key, found }));
            }
        }
        let mut writes = Writes::default();
        let new = if known.is_none() { Some(self.last_thread + 1) } else { None };
        let number = known.unwrap_or(self.last_thread + 1);
        let mut listing = None;
        for change in changes {
            match change {
                Change::Put(key, row) => writes.put(keys::row(number, key), row),
                Change::Remove(key) => writes.remove(keys::row(number, key)),
                Change::RemoveRange(first, last) => {
                    self.remove_range(batch, &mut writes, &keys::row(number, first), &keys::row(number, last))?;
                }
                Change::List(place) => listing = Some(place),
            }
        }
        if new.is_some() {
            let name = keys::name(&thread);
            writes.put(name, Named::encode(&name, number, &thread));
            writes.put(keys::LAST_THREAD, keys::guarded(&keys::LAST_THREAD, &number.to_le_bytes()));
        }
        if new.is_some() || listing.is_some() {
            self.list(batch, &mut writes, number, new.is_some(), thread, listing)?;
        }
        Ok(Checked::Accepted(writes, new))
    }

    fn list(
        &self,
        batch: &Batch,
        writes: &mut Writes,
        number: u64,
        is_new: bool,
        thread: ThreadId,
        listing: Option<Listing>,
    ) -> Result<(), CheckpointError> {
        if !is_new && let Some(before) = self.meta(batch, number)?.listing {
            writes.remove(keys::place(Place { listing: before, thread: number }));
        }
        if let Some(listing) = listing {
            writes.put(keys::place(Place { listing, thread: number }), Vec::new());
        }
        let key = keys::meta(number);
        writes.put(key, Meta { listing, thread }.encode(&key));
        Ok(())
    }

    /// Removes the rows that are stored, in the batch, or in the commit so far.
    fn remove_range(
        &self,
        batch: &Batch,
        writes: &mut Writes,
        first: &[u8],
        last: &[u8],
    ) -> Result<(), CheckpointError> {
        if first > last {
            return Ok(());
        }
        let mut there: Vec<Vec<u8>> = Vec::new();
        for key in self.engine.db.range(first..=last).keys() {
            there.push(key.map_err(|error| large::reading(&self.engine.folder, error))?.to_vec());
        }
        let put = |rows: &BTreeMap<Vec<u8>, Option<Vec<u8>>>| -> Vec<Vec<u8>> {
            let range = rows.range::<[u8], _>((Bound::Included(first), Bound::Included(last)));
            range.filter(|(_, value)| value.is_some()).map(|(key, _)| key.clone()).collect()
        };
        there.extend(put(&batch.writes.rows));
        there.extend(put(&writes.rows));
        for key in there {
            writes.remove(key);
        }
        Ok(())
    }

    fn delete(&mut self, shared: &Shared, batch: &mut Batch, thread: &ThreadId) -> Result<(), CheckpointError> {
        if shared.leases.is_leased(thread) {
            shared.desk.refuse(CheckpointError::Busy { thread: thread.clone() });
            return Ok(());
        }
        let Some(number) = self.number(shared, batch, thread)? else { return Ok(()) };
        if let Some(listing) = self.meta(batch, number)?.listing {
            batch.writes.remove(keys::place(Place { listing, thread: number }));
        }
        batch.writes.remove(keys::name(thread));
        batch.writes.remove(keys::meta(number));
        batch.writes.put(keys::deleting(number), Vec::new());
        batch.threads.insert(thread.clone());
        batch.names.insert(thread.clone(), None);
        shared.desk.hold_sweep(number);
        Ok(())
    }

    /// Removes some rows of a thread that was deleted in an earlier batch.
    fn sweep(&self, shared: &Shared, batch: &mut Batch) -> Result<(), CheckpointError> {
        let Some(thread) = shared.desk.sweep() else { return Ok(()) };
        let Engine { db, folder, .. } = &self.engine;
        batch.writes = large::some_removed(db, folder, &keys::rows_of(thread), large::SWEEP)?;
        if batch.writes.rows.len() < large::SWEEP {
            batch.writes.remove(keys::deleting(thread));
            shared.desk.swept();
        }
        Ok(())
    }

    fn number(&self, shared: &Shared, batch: &Batch, thread: &ThreadId) -> Result<Option<u64>, CheckpointError> {
        match batch.names.get(thread) {
            Some(number) => Ok(*number),
            None => shared.number(&self.engine.db, thread),
        }
    }

    fn meta(&self, batch: &Batch, number: u64) -> Result<Meta, CheckpointError> {
        let key = keys::meta(number);
        let value = self.get(batch, &key)?.ok_or_else(|| keys::damaged(&key, "it is missing"))?;
        Meta::decode(&key, &value)
    }

    fn get(&self, batch: &Batch, key: &[u8]) -> Result<Option<Vec<u8>>, CheckpointError> {
        if let Some(value) = batch.writes.rows.get(key) {
            return Ok(value.clone());
        }
        let value = self.engine.db.get(key).map_err(|error| large::reading(&self.engine.folder, error))?;
        Ok(value.map(|value| value.to_vec()))
    }
}

impl Batch {
    fn add(&mut self, thread: ThreadId, writes: Writes, new: Option<u64>) {
        self.commits += 1;
        self.writes.merge(writes);
        if new.is_some() {
            self.names.insert(thread.clone(), new);
        }
        self.threads.insert(thread);
    }
}

impl Shared {
    /// Gives leases back behind which nothing is queued any more.
    fn release(&self, leaving: &[Lease]) {
        for lease in leaving {
            self.leases.release(lease);
        }
    }

    /// Notes threads that come or go. Under the gate, so that no reader puts an old number back.
    fn rename(&self, names: impl IntoIterator<Item = (ThreadId, Option<u64>)>) {
        let mut known = lock(&self.names);
        for (thread, number) in names {
            match number {
                // A new thread is looked up soon; whether it stays known is up to the bound.
                Some(number) => Self::know(&mut known, thread, number),
                None => {
                    known.remove(&thread);
                }
            }
        }
    }

    /// Says that nothing more is written.
    pub(super) fn fail(&self, error: &CheckpointError) {
        self.desk.fail(error);
        if let Some(poisoned) = self.desk.failed() {
            self.flight.fail(poisoned);
        }
    }
}
