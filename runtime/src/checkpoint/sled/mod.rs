//! The embedded default: journals in a folder, in sled 0.34.7, used only in the ways in which it was seen to lose nothing.
//!
//! What sled does not give is made here: the sync that its `flush` leaves out ([`engine`]), one writer ([`committer`]),
//! detection of a lost tail ([`mark`]), recovery at opening ([`open`]), commits of any size in one step ([`large`]),
//! reads that see only what is durable ([`flight`]). Its types never leave this folder.

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::watch;

use super::{
    BoxFuture, Change, CheckpointError, Checkpointer, Commit, Expect, Key, Lease, MAX_ROW, Rows, ThreadPage,
    ThreadQuery, Ticket,
    leases::{Leases, lock},
};
use crate::ThreadId;

mod committer;
mod desk;
mod engine;
mod faults;
mod files;
mod flight;
mod keys;
mod large;
mod mark;
mod open;
mod read;
mod tally;
#[cfg(test)]
mod tests;

use committer::Committer;
use desk::Desk;
use faults::Faults;
use files::Folder;
use flight::Flight;

/// How a sled store is opened.
///
/// ```no_run
/// use durably::checkpoint::SledOptions;
///
/// let store = SledOptions::new().cache_capacity(256 << 20).open("./state")?;
/// # Ok::<(), durably::checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct SledOptions {
    cache_capacity: u64,
    patience: Duration,
    verify_up_to: u64,
    accept_rollback: bool,
    quarantine: bool,
}

/// Keeps journals in a folder on this machine's disk; clones share the store.
///
/// One process at a time has a folder open. What a ticket acknowledges survives a kill and, as far as the disk keeps what
/// it says is synced, a power cut. Memory: about twice the cache, and 36 bytes for each row; opening takes about 0.6
/// seconds for each GB written since it was last opened. The store closes when its last handle is gone, after everything
/// that was queued; dropping that handle waits for it.
///
/// With `panic = "abort"` damage in the middle of the log ends the process when the store is opened, instead of giving a
/// [`CheckpointError::CorruptStore`]: sled panics on it.
///
/// ```
/// use durably::{
///     ThreadId,
///     checkpoint::{Change, Checkpointer, Commit, Key, SledCheckpointer},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("state");
/// let thread = ThreadId::new("orders/42")?;
/// let store = SledCheckpointer::open(&path)?;
/// let changes = vec![Change::Put(Key::Head, b"hello".to_vec())];
/// store.commit(Commit { thread: thread.clone(), expect: vec![], changes }).await?;
/// drop(store);
///
/// let store = SledCheckpointer::open(&path)?;
/// assert_eq!(store.get(&thread, Key::Head).await?.as_deref(), Some(&b"hello"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SledCheckpointer(Arc<Handle>);

/// What a sled store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SledStats {
    /// Commits that were applied.
    pub commits: u64,
    /// Commits that were refused: fenced, or rows not as expected.
    pub refused: u64,
    /// Batches that were made durable, each with one sync of the disk.
    pub barriers: u64,
    /// Messages that wait for the committer now.
    pub queued: u64,
}

/// What the clones of a checkpointer share; the store closes with it.
struct Handle {
    shared: Arc<Shared>,
    patience: Duration,
    #[cfg(test)]
    faults: Arc<Faults>,
}

/// What handles, committer, watchdog and reads on the way share.
struct Shared {
    /// Read-locked by reads; write-locked from the check of a batch to its being applied. Empty once closed.
    store: RwLock<Option<::sled::Db>>,
    desk: Desk,
    flight: Flight,
    leases: Leases,
    /// Numbers of threads that were used lately.
    names: Mutex<HashMap<ThreadId, u64>>,
    stats: Counters,
    folder: Folder,
    /// Whether the engine hangs, so that nothing may wait for it.
    hangs: watch::Sender<bool>,
    /// Whether the engine is closed and the lock given back.
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    refused: AtomicU64,
    barriers: AtomicU64,
}

impl SledOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            cache_capacity: 64 << 20,
            patience: Duration::from_secs(30),
            verify_up_to: 1_000_000,
            accept_rollback: false,
            quarantine: false,
        }
    }

    /// How many bytes of pages are kept in memory; 64 MiB unless set. A hint: twice as much was seen.
    pub fn cache_capacity(mut self, bytes: u64) -> Self {
        self.cache_capacity = bytes;
        self
    }

    /// How long one batch may take before the store is given up as hanging; 30 seconds unless set. Everybody who waits is
    /// then told so, and nothing more is written until the store is opened anew, which takes another process.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Up to how many rows a store is read through when it is opened, to find rows that damage took from its middle (sled
    /// passes over them in silence); a million unless set. A larger store is opened unread; call
    /// [`SledCheckpointer::verify`] when there is time.
    pub fn verify_up_to(mut self, rows: u64) -> Self {
        self.verify_up_to = rows;
        self
    }

    /// Opens a store even if commits that were acknowledged are missing from it: after
    /// [`CheckpointError::RolledBack`], when there is no newer copy. Effects of the lost steps may then happen again.
    pub fn accept_rollback(mut self) -> Self {
        self.accept_rollback = true;
        self
    }

    /// Sets a store that cannot be opened aside (`sled.corrupt-…` in its folder) and begins an empty one: after
    /// [`CheckpointError::CorruptStore`], when there is no backup. A store that can be opened is left as it is.
    pub fn quarantine(mut self) -> Self {
        self.quarantine = true;
        self
    }

    /// Opens the store in this folder, and makes it if there is none. Blocks while the log is read; in async code use
    /// `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Locked`] at once if it is open elsewhere, [`CheckpointError::NewerFormat`],
    /// [`CheckpointError::RolledBack`], [`CheckpointError::CorruptStore`], [`CheckpointError::Full`],
    /// [`CheckpointError::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<SledCheckpointer, CheckpointError> {
        let faults = Arc::new(Faults::new());
        let opened = open::open(self, path.as_ref(), &faults)?;
        let open::Opened { engine, last_thread, lock } = opened;
        let folder = engine.folder.clone();
        let shared = Arc::new(Shared {
            store: RwLock::new(Some(engine.db.clone())),
            desk: Desk::new(),
            flight: Flight::default(),
            leases: Leases::new(engine.level.generation),
            names: Mutex::default(),
            stats: Counters::default(),
            folder: folder.clone(),
            hangs: watch::Sender::new(false),
            ended: watch::Sender::new(false),
        });
        let committer = Committer { shared: Arc::clone(&shared), engine, last_thread, lock };
        let spawned = thread::Builder::new().name("durably-committer".to_owned()).spawn(move || committer.run());
        spawned.map_err(|error| folder.io("starting the committer", error))?;
        let patience = self.patience;
        let handle = Handle {
            shared: Arc::clone(&shared),
            patience,
            #[cfg(test)]
            faults,
        };
        let watchdog = thread::Builder::new().name("durably-watchdog".to_owned());
        let spawned = watchdog.spawn(move || shared.watch(patience));
        spawned.map_err(|error| folder.io("starting the watchdog", error))?;
        Ok(SledCheckpointer(Arc::new(handle)))
    }
}

impl Default for SledOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SledCheckpointer {
    /// Opens the store in this folder with the defaults of [`SledOptions`], and makes it if there is none.
    ///
    /// # Errors
    ///
    /// As [`SledOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        SledOptions::new().open(path)
    }

    /// What was done since the store was opened.
    #[must_use]
    pub fn stats(&self) -> SledStats {
        let Counters { commits, refused, barriers } = &self.0.shared.stats;
        SledStats {
            commits: commits.load(Ordering::Relaxed),
            refused: refused.load(Ordering::Relaxed),
            barriers: barriers.load(Ordering::Relaxed),
            queued: u64::try_from(self.0.shared.desk.queued()).unwrap_or(u64::MAX),
        }
    }

    /// Reads all rows and compares them with what was written. Writes wait meanwhile: about a second for each million rows.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::CorruptStore`] if rows are missing, old or changed.
    pub async fn verify(&self) -> Result<(), CheckpointError> {
        self.read(Shared::verify).await
    }

    /// Waits until fewer than 4,096 messages are queued. [`commit`](Checkpointer::commit) takes any number, so a caller
    /// that writes much without awaiting its tickets waits here first.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Closed`], [`CheckpointError::Poisoned`].
    pub async fn room(&self) -> Result<(), CheckpointError> {
        self.0.shared.desk.room().await
    }

    /// Runs a read off the async workers: sled on them delayed timers by 19 ms.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, CheckpointError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, CheckpointError>> {
        let shared = Arc::clone(&self.0.shared);
        Box::pin(async move {
            let guarded = move |shared: &Shared| {
                catch_unwind(AssertUnwindSafe(|| work(shared)))
                    .unwrap_or_else(|panic| Err(shared.folder.engine_panicked("reading the store", &*panic)))
            };
            let Ok(runtime) = tokio::runtime::Handle::try_current() else { return guarded(&shared) };
            let mut hangs = shared.hangs.subscribe();
            let reader = Arc::clone(&shared);
            tokio::select! {
                biased;
                // An error here: the runtime is shutting down.
                read = runtime.spawn_blocking(move || guarded(&reader)) => read.unwrap_or(Err(CheckpointError::Closed)),
                _ = hangs.wait_for(|hangs| *hangs) => Err(shared.desk.failed().unwrap_or(CheckpointError::Closed)),
            }
        })
    }
}

impl Checkpointer for SledCheckpointer {
    fn name(&self) -> &'static str {
        "sled"
    }

    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        let Shared { desk, leases, .. } = &*self.0.shared;
        let thread = thread.clone();
        Box::pin(async move {
            loop {
                desk.open()?;
                match leases.acquire(&thread)? {
                    Some(lease) => return Ok(lease),
                    // What the last holder had queued is done first: it is there for the next one to read.
                    None => leases.released(thread.clone()).await,
                }
            }
        })
    }

    fn release(&self, lease: &Lease) {
        let Shared { desk, leases, .. } = &*self.0.shared;
        // Behind what was queued under it. A store that takes no more has nothing queued that could still be written.
        if leases.leave(lease) && desk.release(lease).is_err() {
            leases.release(lease);
        }
    }

    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        Box::pin(self.0.shared.leases.released(thread.clone()))
    }

    fn is_leased(&self, thread: &ThreadId) -> bool {
        self.0.shared.leases.is_leased(thread)
    }

    fn commit(&self, commit: Commit) -> Ticket {
        for expect in &commit.expect {
            if let Expect::Lease(epoch) = expect
                && self.0.shared.leases.has_left(&commit.thread, *epoch)
            {
                self.0.shared.stats.refused();
                let Commit { thread, .. } = commit;
                return Ticket::ready(Err(CheckpointError::Fenced { thread, epoch: *epoch, current: None }));
            }
        }
        for change in &commit.changes {
            if let Change::Put(_, row) = change
                && row.len() > MAX_ROW
            {
                return Ticket::ready(Err(CheckpointError::TooLarge { bytes: row.len(), limit: MAX_ROW }));
            }
        }
        self.0.shared.desk.commit(commit)
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        let thread = thread.clone();
        self.read(move |shared| shared.get(&thread, key))
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        let thread = thread.clone();
        self.read(move |shared| shared.scan(&thread, first, last))
    }

    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        self.read(move |shared| shared.page(&query))
    }

    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>> {
        // Asked for now, as a commit is, so that the order is that of the calls.
        let answer = self.0.shared.desk.delete(thread.clone());
        Box::pin(async move { answer?.await.unwrap_or(Err(CheckpointError::Closed)) })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CheckpointError>> {
        Box::pin(async move {
            let Shared { desk, hangs, ended, .. } = &*self.0.shared;
            desk.close();
            let (mut hangs, mut ended) = (hangs.subscribe(), ended.subscribe());
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => {}
                _ = hangs.wait_for(|hangs| *hangs) => {}
            }
            desk.failed().map_or(Ok(()), Err)
        })
    }
}

impl Drop for Handle {
    /// Waits for the end, so that the folder can be opened again right away.
    fn drop(&mut self) {
        self.shared.desk.close();
        self.shared.desk.wait_for_end(self.patience / 4, || *self.shared.hangs.borrow());
    }
}

impl Shared {
    /// The watchdog: sled has hung before, on a full disk and in deadlocks that are not all explained.
    fn watch(&self, patience: Duration) {
        while self.desk.watch(patience) {
            let doing = format!("writing a batch ({})", self.folder.path.display());
            let source = format!("it took longer than {patience:?}; the engine or the disk hangs");
            let source = std::io::Error::new(std::io::ErrorKind::TimedOut, source);
            self.fail(&CheckpointError::Io { doing, source: Arc::new(source) });
            // Not `send`: it does nothing while nobody waits.
            self.hangs.send_replace(true);
        }
    }
}

impl Counters {
    fn batch(&self, commits: u64) {
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.barriers.fetch_add(1, Ordering::Relaxed);
    }

    fn commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for SledCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledCheckpointer")
            .field("path", &self.0.shared.folder.path)
            .field("stats", &self.stats())
            .field("failed", &self.0.shared.desk.failed())
            .finish_non_exhaustive()
    }
}

/// Numbers of threads that are kept in memory.
const NAMES: usize = 1 << 16;

impl Shared {
    /// The number of a thread, if it exists.
    fn number(&self, db: &::sled::Db, thread: &ThreadId) -> Result<Option<u64>, CheckpointError> {
        if let Some(number) = lock(&self.names).get(thread) {
            return Ok(Some(*number));
        }
        let key = keys::name(thread);
        let value = db.get(key).map_err(|error| large::reading(&self.folder, error))?;
        let Some(value) = value else { return Ok(None) };
        let named = keys::Named::decode(&key, &value)?;
        if named.name != thread.as_str() {
            let detail = format!("its name has the same digest as {:?}; rename one of the two", named.name);
            return Err(CheckpointError::Corrupt { thread: Some(thread.clone()), key: None, detail });
        }
        Self::know(&mut lock(&self.names), thread.clone(), named.number);
        Ok(Some(named.number))
    }

    fn know(names: &mut HashMap<ThreadId, u64>, thread: ThreadId, number: u64) {
        if names.len() >= NAMES {
            // Once in 65,536 lookups: dearer to track what is used than to look up again.
            names.clear();
        }
        names.insert(thread, number);
    }

    /// The store, or `None` once it is closed.
    fn db(&self) -> std::sync::RwLockReadGuard<'_, Option<::sled::Db>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }
}
