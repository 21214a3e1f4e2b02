//! What a runtime is built from.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{Inner, Registered, Runtime, recover::Registration, retention::Prunes};
#[cfg(feature = "sled")]
use crate::checkpoint::{CheckpointError, SledCheckpointer};
use crate::{
    Clock, Definition, Durability, EntrypointFn, Keep, Observer, ReplacedCall,
    checkpoint::{Checkpointer, MemoryCheckpointer},
    environment::{AnswerTypes, Environment, Gate, Replacement, SystemClock, replacement},
    stream::Watchers,
    watchdog::Watchdog,
};

/// Builds a [`Runtime`]: `Runtime::builder()`, then what it needs, then one of [`open`](Self::open),
/// [`memory`](Self::memory) and [`checkpointer`](Self::checkpointer).
#[must_use = "a builder does nothing until it is opened"]
pub struct RuntimeBuilder {
    resources: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
    entrypoints: HashMap<&'static str, Arc<dyn Registered>>,
    observers: Vec<Arc<dyn Observer>>,
    replacements: HashMap<String, Replacement>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    park_after: Duration,
    stream_buffer: usize,
    gate: Option<Gate>,
    replays_only: bool,
    retention: Option<Keep>,
}

impl RuntimeBuilder {
    pub(super) fn new() -> Self {
        Self {
            resources: HashMap::new(),
            entrypoints: HashMap::new(),
            observers: Vec::new(),
            replacements: HashMap::new(),
            clock: Arc::new(SystemClock),
            durability: Durability::Sync,
            park_after: Duration::from_secs(60),
            stream_buffer: 1024,
            gate: None,
            replays_only: false,
            retention: None,
        }
    }

    /// Adds a resource that code in a run gets by its type with [`resource`](crate::resource). One of a type: the last counts.
    pub fn resource<T: Send + Sync + 'static>(mut self, resource: T) -> Self {
        self.resources.insert(TypeId::of::<T>(), (std::any::type_name::<T>(), Arc::new(resource)));
        self
    }

    /// Registers an entrypoint, so that its runs can be driven by name, as [`Runtime::recover`] does.
    ///
    /// # Panics
    ///
    /// If another entrypoint of this name is registered: their runs could be taken for each other's.
    pub fn entrypoint<A, F>(mut self, _entrypoint: F) -> Self
    where
        F: EntrypointFn<A>,
    {
        let spec = F::Definition::SPEC;
        let registration: Arc<dyn Registered> = Arc::new(Registration::<F::Definition>::new());
        if let Some(other) = self.entrypoints.insert(spec.name, registration) {
            assert_eq!(
                other.definition(),
                spec.definition,
                "two entrypoints have the name {:?}: give one of them another with `#[entrypoint(name = \"..\")]`",
                spec.name
            );
        }
        self
    }

    /// Adds an observer of all runs. Default: none.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Puts another body in the place of a task's, by the task's name: for tests of a flow without its effects.
    ///
    /// The body must give the type that the task gives, its `Result` included; else the run fails with a panic that
    /// names both. Retries, recording and replay stay as they are.
    ///
    /// ```
    /// use durably::{Runtime, entrypoint, task};
    ///
    /// #[task]
    /// async fn price(article: &str) -> anyhow::Result<u32> {
    ///     anyhow::bail!("no network in tests, so no price for {article}")
    /// }
    ///
    /// #[entrypoint]
    /// async fn offer(article: String) -> anyhow::Result<u32> {
    ///     Ok(price(&article).await? * 2)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder()
    ///     .replace("price", async |call| {
    ///         assert_eq!(call.argument::<String>("article").as_deref(), Some("tea"));
    ///         anyhow::Ok(21_u32)
    ///     })
    ///     .memory();
    /// let outcome = runtime.thread("t")?.invoke(offer("tea".to_owned())).await?;
    /// assert_eq!(outcome.completed(), Some(42));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace<T, F, Fut>(mut self, task: impl Into<String>, body: F) -> Self
    where
        T: Send + 'static,
        F: Fn(ReplacedCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        self.replacements.insert(task.into(), replacement(body));
        self
    }

    /// Where time comes from. Default: the system's clock and tokio's timers.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// When a recorded outcome may be handed on, for runs that do not say it themselves. Default: [`Durability::Sync`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// From which length on a sleep parks its run instead of holding it in memory. Default: 60 s.
    pub fn park_after(mut self, pause: Duration) -> Self {
        self.park_after = pause;
        self
    }

    /// How many events a reader of a stream may be behind; what comes when it is further behind is lost to it, and it is
    /// told how much. No run waits for a reader. Default: 1024 (0 counts as 1).
    pub fn stream_buffer(mut self, events: usize) -> Self {
        self.stream_buffer = events;
        self
    }

    /// Has each body wait here before it ends.
    #[cfg(feature = "testing")]
    pub(crate) fn gate(mut self, gate: Gate) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Starts no body: a run goes as far as its journal goes.
    #[cfg(feature = "testing")]
    pub(crate) fn replays_only(mut self) -> Self {
        self.replays_only = true;
        self
    }

    /// As [`entrypoint`](Self::entrypoint), by its type.
    #[cfg(feature = "testing")]
    pub(crate) fn definition<D: Definition>(mut self) -> Self {
        self.entrypoints.entry(D::SPEC.name).or_insert_with(|| Arc::new(Registration::<D>::new()));
        self
    }

    /// Which runs of a thread are kept: when a run ends or pauses in this runtime, older ones of its thread are
    /// [pruned](crate::Thread::prune) in the background. Default: all are kept.
    ///
    /// A prune that fails is made up for by the next one; [`Runtime::close`] waits for those that are under way.
    pub fn retention(mut self, keep: Keep) -> Self {
        self.retention = Some(keep);
        self
    }

    /// Opens the embedded store in a folder, which is made if it is not there. One process at a time.
    ///
    /// Opening reads the log that was written since the store was last opened, about half a second for a gigabyte: in
    /// an async program, do it before anything else, or on [`tokio::task::spawn_blocking`].
    ///
    /// # Errors
    ///
    /// [`CheckpointError`] if the folder is open elsewhere, damaged, rolled back or of a newer format.
    #[cfg(feature = "sled")]
    pub fn open(self, folder: impl AsRef<std::path::Path>) -> Result<Runtime, CheckpointError> {
        Ok(self.checkpointer(SledCheckpointer::open(folder)?))
    }

    /// Keeps journals in memory: for tests, and for flows that need not outlive their process.
    #[must_use]
    pub fn memory(self) -> Runtime {
        self.checkpointer(MemoryCheckpointer::new())
    }

    /// Keeps journals in this checkpointer.
    #[must_use]
    pub fn checkpointer(self, checkpointer: impl Checkpointer) -> Runtime {
        self.shared_checkpointer(Arc::new(checkpointer))
    }

    /// Keeps journals in this checkpointer, which others may hold too.
    #[must_use]
    pub fn shared_checkpointer(self, checkpointer: Arc<dyn Checkpointer>) -> Runtime {
        let environment = Environment {
            checkpointer,
            clock: self.clock,
            observers: self.observers,
            resources: self.resources,
            replacements: self.replacements,
            park_after: self.park_after,
            flights: Arc::default(),
            watchdog: Watchdog::default(),
            gate: self.gate,
            replays_only: self.replays_only,
            draining: AtomicBool::new(false),
            watchers: Watchers::default(),
            stream_buffer: self.stream_buffer,
            answer_types: AnswerTypes::default(),
            due: tokio::sync::Notify::new(),
        };
        let inner = Inner {
            environment: Arc::new(environment),
            entrypoints: self.entrypoints,
            durability: self.durability,
            retention: self.retention,
            prunes: Prunes::default(),
            running: std::sync::Mutex::default(),
            drives: super::drain::Drives::default(),
        };
        Runtime { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("durability", &self.durability).finish_non_exhaustive()
    }
}
