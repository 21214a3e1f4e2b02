//! The crash explorer: runs a flow once without faults, then with a crash at every place where one can happen, and looks
//! whether anybody could tell the difference.

mod case;
mod finding;
mod idle;
mod orders;
mod process;
mod search;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use case::Case;
pub use finding::{ExploreError, Explored, Finding};
use process::{Came, End, Life, Told, live};
use serde::Serialize;

use super::{Ledger, TestClock, conformance::Backend};
use crate::{
    AnswerError, Definition, Doubt, EntrypointCall, Question, RuntimeBuilder, Settlement, Thread, ThreadId,
    checkpoint::{BoxFuture, Checkpointer, MemoryCheckpointer},
    panics::panic_message,
    storage,
};

type Build<'a> = Box<dyn Fn(RuntimeBuilder, &Ledger) -> RuntimeBuilder + Send + Sync + 'a>;
type Answering<'a> =
    Box<dyn Fn(&Thread, &Question) -> Option<BoxFuture<'static, Result<(), AnswerError>>> + Send + Sync + 'a>;
type Settles<'a> = Box<dyn Fn(&Doubt, &Ledger) -> Option<Settlement> + Send + Sync + 'a>;
type Check<'a, D> = Box<dyn Fn(&Result<<D as Definition>::Value, String>, &Ledger) + Send + Sync + 'a>;

/// Explores a flow: runs it without faults, then with a crash at every place where one can happen.
///
/// The flow is run once as it is; that is the *oracle*. Then it is run again and again, each time with something going
/// wrong: the process dies before or after a commit, its last commits do not reach the store, its lease is lost, its future
/// is dropped after so many polls; in every durability; while bodies end in this order or that; and once more while it
/// recovers. Each time it is let go on to its end by a resume or a recover, and then its outcome must be the oracle's, and
/// each effect must have happened as often as its kind in the [`Ledger`] allows. What you want to hold beside that you say
/// in a [`check`](Explore::check).
///
/// Everything happens on this thread, on a clock that waits for nothing, in memory unless you say otherwise, and in the
/// same way each time. So tasks must not wait for the real world: give the flow fakes, by
/// [`runtime`](Explore::runtime) and [`RuntimeBuilder::replace`].
///
/// ```
/// use durably::{entrypoint, interrupt, resource, task, testing::{Ledger, explore}};
///
/// #[task]
/// async fn reserve(article: &str) -> String {
///     resource::<Ledger>().at_least_once("reserve"); // the same again is no harm
///     format!("one {article}")
/// }
///
/// #[task]
/// async fn charge(cents: u64) -> u64 {
///     // The bank does a request once if it comes with the same key again.
///     resource::<Ledger>().received("charge", durably::idempotency_key().as_deref());
///     cents
/// }
///
/// #[entrypoint]
/// async fn order(article: String) -> u64 {
///     let reserved = reserve(&article).await;
///     let yes: bool = interrupt("buy?", &reserved).await;
///     if yes { charge(350).await } else { 0 }
/// }
///
/// let explored = explore(|| order("tea".to_owned()))
///     .answer("buy?", true)
///     .check(|outcome, ledger| {
///         assert_eq!(*outcome, Ok(350));
///         assert_eq!(ledger.count("charge"), 1);
///     })
///     .run()?;
/// assert!(explored.crashes > 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Without the key the explorer finds the crash that charges twice, and how to see it again:
///
/// ```
/// # use durably::{entrypoint, resource, task, testing::{Ledger, explore}};
/// #[task]
/// async fn charge(cents: u64) -> u64 {
///     resource::<Ledger>().exactly_once("charge");
///     cents
/// }
///
/// #[entrypoint]
/// async fn order() -> u64 {
///     charge(350).await
/// }
///
/// let found = explore(order).run().unwrap_err();
/// assert_eq!(found.case, "sync before:2");
/// assert!(found.to_string().contains(r#"effect "charge" (exactly once) happened twice, and without crashes once"#));
/// let again = explore(order).case("sync before:2").run().unwrap_err();
/// # assert_eq!(again.to_string().lines().next(), found.to_string().lines().next());
/// ```
pub fn explore<'a, D: Definition>(call: impl Fn() -> EntrypointCall<D> + Send + Sync + 'a) -> Explore<'a, D> {
    Explore {
        flow: Flow {
            call: Box::new(call),
            build: Box::new(|builder, _| builder),
            answers: Vec::new(),
            settles: None,
            check: None,
            backend: Box::new(Memory::default()),
            compares_outcomes: true,
        },
        only: None,
        orders: 24,
        pairs: 400,
        cases: usize::MAX,
        seed: 1,
    }
}

/// An exploration to be run; made by [`explore`].
#[must_use = "an exploration begins with `run`"]
pub struct Explore<'a, D: Definition> {
    flow: Flow<'a, D>,
    only: Option<String>,
    orders: usize,
    pairs: usize,
    cases: usize,
    seed: u64,
}

/// What is explored.
struct Flow<'a, D: Definition> {
    call: Box<dyn Fn() -> EntrypointCall<D> + Send + Sync + 'a>,
    build: Build<'a>,
    answers: Vec<Answering<'a>>,
    /// What became of a call in doubt, as the user knows it.
    settles: Option<Settles<'a>>,
    check: Option<Check<'a, D>>,
    backend: Box<dyn Backend + 'a>,
    compares_outcomes: bool,
}

/// What outlives the processes of one case.
struct World {
    ledger: Ledger,
    clock: TestClock,
    store: Option<Arc<dyn Checkpointer>>,
    keeps_journal: bool,
    journal: Vec<String>,
}

impl<'a, D: Definition> Explore<'a, D> {
    /// How a process makes its runtime: resources, replaced tasks, observers, the entrypoints of nested runs. Called once
    /// for each process. The [`Ledger`] is a resource already; what must outlive a process (a fake bank) is kept in it, see
    /// [`Ledger::own`]. Clock, durability and checkpointer are the explorer's. Default: nothing more.
    pub fn runtime(mut self, build: impl Fn(RuntimeBuilder, &Ledger) -> RuntimeBuilder + Send + Sync + 'a) -> Self {
        self.flow.build = Box::new(build);
        self
    }

    /// Answers each question of this key with this value. Default: a question ends the exploration with
    /// [`Finding::Unanswered`].
    pub fn answer(self, key: impl Into<String>, value: impl Serialize + Clone + Send + Sync + 'static) -> Self {
        let key = key.into();
        self.answer_with(move |question| (question.key() == key).then(|| value.clone()))
    }

    /// Answers each question with what this gives for it; `None`: it is left to the next `answer`, or to nobody.
    ///
    /// A question that nobody answers stays open; that is no error if the flow sleeps beside it, as for a deadline.
    pub fn answer_with<T: Serialize + Send + Sync + 'static>(
        mut self,
        answer: impl Fn(&Question) -> Option<T> + Send + Sync + 'a,
    ) -> Self {
        self.flow.answers.push(Box::new(move |thread, question| {
            let (value, thread, id) = (answer(question)?, thread.clone(), question.id());
            Some(Box::pin(async move { thread.answer(id, &value).await }))
        }));
        self
    }

    /// What became of a call in doubt, of a task that is `at_most_once`: what the receiver of its effect would tell. Default, and
    /// on `None`: a call without an effect in the ledger did not happen; one with an effect ends the exploration with
    /// [`Finding::Unanswered`], since nobody knows what it gave.
    pub fn settle(mut self, settle: impl Fn(&Doubt, &Ledger) -> Option<Settlement> + Send + Sync + 'a) -> Self {
        self.flow.settles = Some(Box::new(settle));
        self
    }

    /// What must hold at the end of each case, beside the effects and the outcome: a closure that asserts it. It gets the
    /// value, or the failure's message, and the ledger. Default: nothing more.
    pub fn check(mut self, check: impl Fn(&Result<D::Value, String>, &Ledger) + Send + Sync + 'a) -> Self {
        self.flow.check = Some(Box::new(check));
        self
    }

    /// The outcome need not be the same in each case: it holds an id or a time, or is what a race came to. Say then in
    /// [`check`](Self::check) what must hold of it. Default: it is compared.
    pub fn outcome_may_differ(mut self) -> Self {
        self.flow.compares_outcomes = false;
        self
    }

    /// Where journals are kept: a backend whose stores can be reopened. Default: memory, which is by far the fastest.
    pub fn backend(mut self, backend: impl Backend + 'a) -> Self {
        self.flow.backend = Box::new(backend);
        self
    }

    /// In how many orders bodies end at most. All orders are tried if there are no more than this; else some, drawn by the
    /// [`seed`](Self::seed). Default: 24.
    pub fn orders(mut self, most: usize) -> Self {
        self.orders = most;
        self
    }

    /// How many pairs of crashes (one, then another in the recovery) are tried at most, evenly drawn from all there are.
    /// Default: 400.
    pub fn pairs(mut self, most: usize) -> Self {
        self.pairs = most;
        self
    }

    /// How many cases with one crash are tried at most, evenly drawn from all there are: for a slow backend. Default: all.
    pub fn at_most(mut self, cases: usize) -> Self {
        self.cases = cases;
        self
    }

    /// The seed by which orders are drawn. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs only this case, which a failed exploration named.
    pub fn case(mut self, case: impl Into<String>) -> Self {
        self.only = Some(case.into());
        self
    }

    /// Explores. Takes a while: as many runs of the flow as there are places for a crash, and more.
    ///
    /// It can be called anywhere, also within a tokio runtime, which waits meanwhile.
    ///
    /// # Errors
    ///
    /// [`ExploreError`] for the first case in which the flow does not keep its promise, made as simple as it goes; it is
    /// printed to standard error too.
    ///
    /// # Panics
    ///
    /// If there is no tokio runtime or thread to be had.
    pub fn run(self) -> Result<Explored, Box<ExploreError>> {
        let explored = if tokio::runtime::Handle::try_current().is_ok() {
            // A runtime cannot be run within another one.
            std::thread::scope(|scope| match scope.spawn(|| self.search()).join() {
                Ok(explored) => explored,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        } else {
            self.search()
        };
        explored.inspect_err(|error| eprintln!("{error}"))
    }
}

impl<D: Definition> Flow<'_, D> {
    /// Lives a case to its end; its processes, its ledger, and how it ended.
    fn case(&self, case: &Case, keeps_journal: bool) -> Lived {
        let ledger = Ledger::default();
        let clock = TestClock::new();
        let mut world = World { ledger, clock, store: None, keeps_journal, journal: Vec::new() };
        let mut lives = Vec::new();
        let mut crashes = case.crashes.iter().copied().peekable();
        loop {
            let crash = crashes.next();
            let told = Told {
                durability: case.durability,
                order: if lives.is_empty() { case.order.as_deref() } else { None },
                crash,
                // By turns, so that both are tried.
                recovers: lives.len() % 2 == 1,
            };
            let life = live(self, &mut world, &told);
            let came = match &life.came {
                Came::Died => None,
                Came::Ended(end) => Some(Ok(end.clone())),
                Came::Found(finding) => Some(Err(finding.clone())),
            };
            lives.push(life);
            let Some(came) = came else { continue };
            // A crash whose place was not come to is none.
            let unreached = crashes.count();
            return Lived { lives, ledger: world.ledger, journal: world.journal, came, unreached };
        }
    }
}

/// A case that was lived to its end.
struct Lived {
    lives: Vec<Life>,
    ledger: Ledger,
    journal: Vec<String>,
    came: Result<End, Finding>,
    unreached: usize,
}

/// A thread's journal, a line a record.
async fn journal_of(store: &Arc<dyn Checkpointer>) -> Vec<String> {
    let thread = ThreadId::new("explored").expect("a legal name");
    let Ok(Some((head, _))) = storage::head(store, &thread).await else { return Vec::new() };
    match storage::load_run(store, &thread, head.run).await {
        Ok(records) => records.iter().map(|(seq, record)| format!("{seq}: {}", record.told())).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// The user's check, as a finding.
fn checked<D: Definition>(check: &Check<'_, D>, end: &End, ledger: &Ledger) -> Result<(), Finding> {
    let outcome = match end {
        End::Completed(value) => {
            let value = value
                .decode()
                .map_err(|source| Finding::Run(crate::RunError::Value { what: "the output".to_owned(), source }))?;
            Ok(value)
        }
        other => Err(other.told()),
    };
    catch_unwind(AssertUnwindSafe(|| check(&outcome, ledger))).map_err(|panic| Finding::Check(panic_message(&*panic)))
}

/// Memory, whose stores are found again by their last handle.
#[derive(Default)]
struct Memory(Mutex<Option<MemoryCheckpointer>>);

impl Backend for Memory {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>> {
        let store = MemoryCheckpointer::new();
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(store.clone());
        Box::pin(std::future::ready(Arc::new(store) as _))
    }

    fn reopen(&self, _: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>> {
        let store = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let store = store.as_ref().map(|store| Arc::new(store.reopen()) as _);
        Box::pin(std::future::ready(store))
    }
}

impl<D: Definition> fmt::Debug for Explore<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explore").field("entrypoint", &D::SPEC.name).finish_non_exhaustive()
    }
}
