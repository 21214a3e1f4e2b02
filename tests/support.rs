//! What the integration tests share: a store that outlives its process, a ledger of effects, every cut of a journal.

mod built;
mod chance;
mod counting;
mod hand_clock;

pub use chance::{Chance, pends, size};
pub use counting::Counting;
pub use hand_clock::HandClock;

use std::{
    collections::BTreeMap,
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

pub use built::example;
use durably::{
    Durability, Runtime, RuntimeBuilder,
    checkpoint::{Checkpointer, Commit, MemoryCheckpointer, SledCheckpointer},
    testing::FaultyCheckpointer,
};

/// A store, and the processes that open it one after another.
#[derive(Debug)]
pub struct World {
    store: Store,
    /// The mode in which runs of this world are driven.
    pub durability: Durability,
}

#[derive(Debug)]
enum Store {
    Memory(MemoryCheckpointer),
    Sled(tempfile::TempDir),
}

impl World {
    /// An empty store in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self { store: Store::Memory(MemoryCheckpointer::new()), durability: Durability::Sync }
    }

    /// An empty store on disk.
    ///
    /// # Panics
    ///
    /// If there is no temporary folder to be had.
    #[must_use]
    pub fn sled() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { store: Store::Sled(folder), durability: Durability::Sync }
    }

    /// The same, with runs driven in this mode.
    #[must_use]
    pub fn with(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Which store it is, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        let store = match &self.store {
            Store::Memory(_) => "memory",
            Store::Sled(_) => "sled",
        };
        format!("{store}, {:?}", self.durability)
    }

    /// The folder of a store on disk.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        match &self.store {
            Store::Memory(_) => None,
            Store::Sled(folder) => Some(folder.path().to_owned()),
        }
    }

    /// What a new process finds. The one before must be gone: its runtime and all its threads dropped.
    ///
    /// # Panics
    ///
    /// If the store cannot be opened.
    #[must_use]
    pub fn checkpointer(&self) -> Arc<dyn Checkpointer> {
        match &self.store {
            Store::Memory(memory) => Arc::new(memory.reopen()),
            Store::Sled(folder) => Arc::new(SledCheckpointer::open(folder.path()).expect("the store opens")),
        }
    }

    /// A new process: a runtime on what is in the store.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        self.open(|builder| builder)
    }

    /// A new process whose runtime is built with more.
    pub fn open(&self, build: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Runtime {
        build(Runtime::builder().durability(self.durability)).shared_checkpointer(self.checkpointer())
    }
}

/// Runs a test on every checkpointer, in sync mode.
///
/// # Panics
///
/// As the test does.
#[track_caller]
pub fn on_every_checkpointer<F: AsyncFn(World)>(test: F) {
    for world in [World::memory(), World::sled()] {
        run(&test, world);
    }
}

/// Runs a test on every checkpointer in every durability mode.
///
/// # Panics
///
/// As the test does.
#[track_caller]
pub fn in_every_mode<F: AsyncFn(World)>(test: F) {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for world in [World::memory(), World::sled()] {
            run(&test, world.with(durability));
        }
    }
}

#[track_caller]
fn run<F: AsyncFn(World)>(test: &F, world: World) {
    // Shown only if the test fails.
    println!("on {}", world.name());
    block_on(test(world));
}

/// Runs a future to its end on a runtime of its own, with a worker beside it for spawned bodies.
///
/// # Panics
///
/// If there is no tokio runtime to be had.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a tokio runtime").block_on(future)
}

/// Counts effects, by name, over all processes of a test.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<String, u32>>>);

impl Ledger {
    /// An effect happens.
    pub fn note(&self, effect: impl Into<String>) {
        *self.lock().entry(effect.into()).or_default() += 1;
    }

    /// How often an effect happened.
    #[must_use]
    pub fn count(&self, effect: &str) -> u32 {
        self.lock().get(effect).copied().unwrap_or_default()
    }

    /// How many effects happened in all.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.lock().values().sum()
    }

    /// All effects, in order of their names.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, u32> {
        self.lock().clone()
    }

    /// Forgets all effects.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives a flow to its end on a store in memory, and gives the commits that it made.
///
/// # Panics
///
/// As the flow does.
pub fn commits_of<F: AsyncFn(Runtime)>(build: impl Fn(RuntimeBuilder) -> RuntimeBuilder, flow: F) -> Vec<Commit> {
    let recorder = Arc::new(FaultyCheckpointer::new(Arc::new(MemoryCheckpointer::new())));
    let runtime = build(Runtime::builder()).shared_checkpointer(recorder.clone());
    block_on(flow(runtime));
    recorder.recorded()
}

/// Drives a flow once, then again from what every prefix of its commits leaves: a crash after each record. `again` gets
/// a runtime on the cut store and how many commits there are in it.
///
/// # Panics
///
/// As the flow does; the place of the cut is printed.
pub fn cut_after_every_record<F: AsyncFn(Runtime), G: AsyncFn(Runtime, usize)>(
    build: impl Fn(RuntimeBuilder) -> RuntimeBuilder,
    flow: F,
    again: G,
) {
    let commits = commits_of(&build, flow);
    for cut in 0..=commits.len() {
        println!("cut after {cut} of {} commits", commits.len());
        let store = MemoryCheckpointer::replay(&commits[..cut]).reopen();
        let runtime = build(Runtime::builder()).checkpointer(store);
        block_on(again(runtime, cut));
    }
}
