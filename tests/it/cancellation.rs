//! A run whose future is dropped stops as a crash would: at most the attempts in flight are lost, nothing of them lands
//! later, and a resume in the same process or the next one goes on.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, IntoFuture, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use durably::{
    CallKind, Event, Observer, Outcome, RunError, Runtime,
    checkpoint::{Acknowledge, CheckpointError, Checkpointer, Commit, MemoryCheckpointer, Ticket},
    entrypoint, task,
    testing::{Delegate, Fault, FaultyCheckpointer},
};
use futures::{future::join_all, join};
use tests::{Ledger, World, block_on, pends, size};
use tokio::sync::Notify;

/// Counts its wakes, and passes them on.
struct CountingWaker(AtomicUsize, Waker);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.wake_by_ref();
    }
}

/// Polls a future at most so many times, then drops it; what it gave, if it did, and how often it was polled and woken.
async fn polled<F: Future>(future: F, times: usize) -> (Option<F::Output>, usize, usize) {
    let mut future = Box::pin(future);
    let mut polls = 0;
    let mut counting: Option<Arc<CountingWaker>> = None;
    let output = poll_fn(|cx| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        let waker =
            counting.get_or_insert_with(|| Arc::new(CountingWaker(AtomicUsize::new(0), cx.waker().clone()))).clone();
        future.as_mut().poll(&mut Context::from_waker(&Waker::from(waker))).map(Some)
    })
    .await;
    drop(future);
    (output, polls, counting.map_or(0, |waker| waker.0.load(Ordering::Relaxed)))
}

/// What was handed on, by call, over all drives.
#[derive(Clone, Default)]
struct HandedOn(Arc<Mutex<BTreeMap<String, u32>>>);

impl Observer for HandedOn {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Released { call, replayed: false, .. } = event
            && call.kind == CallKind::Task
            && let Some(n) = call.argument::<u32>("n")
        {
            *self.0.lock().unwrap().entry(format!("{} {n}", call.name)).or_default() += 1;
        }
    }
}

#[task]
async fn step(n: u32) -> u32 {
    let ledger = durably::resource::<Ledger>();
    ledger.note(format!("step {n}"));
    pends(1).await;
    // The driver's poll ends here, so that the run can be dropped here.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    ledger.note(format!("step {n} ends"));
    n
}

#[task]
async fn outer(n: u32) -> u32 {
    let ledger = durably::resource::<Ledger>();
    ledger.note(format!("outer {n}"));
    step(n * 10).await + step(n * 10 + 1).await
}

#[task(blocking)]
fn crunch(n: u32) -> u32 {
    let ledger = durably::resource::<Ledger>();
    ledger.note(format!("crunch {n}"));
    ledger.note(format!("crunch {n} ends"));
    n
}

#[entrypoint]
async fn nested(n: u32) -> u32 {
    step(n).await + step(n + 1).await
}

#[entrypoint]
async fn flow() -> u32 {
    let mut sum = step(1).await;
    let (one, two) = join!(step(2), step(3).spawn());
    sum += one + two;
    sum += join_all((4..7).map(step)).await.iter().sum::<u32>();
    sum += outer(7).await + nested(8).await + crunch(10).await;
    sum + step(11).detached().await
}

const SUM: u32 = 1 + 2 + 3 + 4 + 5 + 6 + 70 + 71 + 8 + 9 + 10 + 11;

/// Drops the run after each number of polls, goes on in the same process or in the next one, and looks at what ran.
fn drops_at_every_poll(world: &World, workers: usize, in_this_process: bool) -> usize {
    let tokio = if workers == 0 {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    } else {
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
    };
    let mut drops = 0;
    for limit in 0.. {
        let (ledger, handed_on) = (Ledger::default(), HandedOn::default());
        let open = || world.open(|builder| builder.resource(ledger.clone()).observer(handed_on.clone()));
        let name = format!("{workers} {in_this_process} {limit}");
        let whole = tokio.block_on(async {
            let mut runtime = open();
            let mut thread = runtime.thread(&name).unwrap();
            let (output, _, wakes) = polled(thread.invoke(flow()).into_future(), limit).await;
            if let Some(outcome) = output {
                assert_eq!(outcome.unwrap(), Outcome::Completed(SUM));
                assert!(wakes > 0, "the run is woken");
                return true;
            }
            let kept = handed_on.0.lock().unwrap().clone();
            let before = ledger.all();
            if !in_this_process {
                drop((thread, runtime));
                runtime = reopened(&open).await;
                thread = runtime.thread(&name).unwrap();
            }
            let outcome = match thread.resume(flow).wait().await {
                Err(RunError::NothingToResume { .. }) => thread.invoke(flow()).wait().await,
                outcome => outcome,
            };
            assert_eq!(outcome.unwrap(), Outcome::Completed(SUM), "after {limit} polls");
            let after = ledger.all();
            for call in kept.keys() {
                assert_eq!(after[call], before[call], "{call} ran again, dropped after {limit} polls");
            }
            for (effect, times) in &after {
                // Once; twice if it was in flight at the drop.
                assert!(*times <= 2, "{effect} ran {times} times, dropped after {limit} polls");
            }
            // A late record would make two outcomes of one call, which does not load.
            assert_eq!(thread.resume(flow).await.unwrap(), Outcome::Completed(SUM));
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!(state.calls.len(), 14, "{:?}", state.calls);
            false
        });
        if whole {
            break;
        }
        drops += 1;
        assert!(limit < 10_000, "the run does not end");
    }
    drops
}

/// A body on the pool may hold the store for a moment longer.
async fn reopened(open: &impl Fn() -> Runtime) -> Runtime {
    tokio::task::yield_now().await;
    open()
}

#[test]
fn a_run_dropped_after_any_number_of_polls_loses_only_what_was_in_flight() {
    let mut drops = 0;
    for _ in 0..size(3) {
        for workers in [0, 2] {
            for in_this_process in [true, false] {
                drops += drops_at_every_poll(&World::memory(), workers, in_this_process);
            }
        }
    }
    println!("{drops} drops in memory");
    assert!(drops >= 100);
}

#[test]
fn a_run_on_disk_dropped_after_any_number_of_polls_loses_only_what_was_in_flight() {
    let mut drops = 0;
    for workers in [0, 2] {
        // One process at a time can have the folder: it stays open.
        drops += drops_at_every_poll(&World::sled(), workers, true);
    }
    println!("{drops} drops on disk");
    assert!(drops >= 20);
}

#[task(blocking)]
fn slow(n: u32) -> u32 {
    let gate = durably::resource::<Gate>();
    gate.ledger.note(format!("slow {n}"));
    if gate.ledger.count(&format!("slow {n}")) == 1 {
        gate.started.notify_one();
        gate.go_on.lock().unwrap().recv().unwrap();
    }
    gate.ledger.count(&format!("slow {n}"))
}

struct Gate {
    ledger: Ledger,
    started: Arc<Notify>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

#[entrypoint]
async fn slowly() -> u32 {
    slow(1).await
}

#[test]
fn a_blocking_body_that_outlives_its_run_holds_the_thread_and_leaves_nothing() {
    block_on(async {
        let (sender, receiver) = mpsc::channel();
        let (ledger, started) = (Ledger::default(), Arc::new(Notify::new()));
        let gate = Gate { ledger: ledger.clone(), started: started.clone(), go_on: Mutex::new(receiver) };
        let runtime = Runtime::builder().resource(gate).memory();
        let thread = runtime.thread("t").unwrap();
        let mut run = Box::pin(thread.invoke(slowly()).into_future());
        tokio::select! {
            biased;
            _ = &mut run => unreachable!("its body waits"),
            () = started.notified() => {}
        }
        drop(run);
        let busy = thread.resume(slowly).await.unwrap_err();
        assert!(matches!(busy, RunError::Busy { .. }), "{busy}");
        let mut resumed = Box::pin(thread.resume(slowly).wait().into_future());
        assert!(futures::poll!(&mut resumed).is_pending());
        sender.send(()).unwrap();
        assert_eq!(resumed.await.unwrap(), Outcome::Completed(2));
        assert_eq!(ledger.count("slow 1"), 2);
        assert_eq!(thread.resume(slowly).await.unwrap(), Outcome::Completed(2));
    });
}

/// Keeps one commit back, and writes it when it is told to: an orphan that lands after everything else.
struct Laggard {
    inner: MemoryCheckpointer,
    nth: usize,
    commits: AtomicUsize,
    late: Mutex<Option<(Commit, Acknowledge)>>,
}

impl Laggard {
    async fn land(&self) -> Result<(), CheckpointError> {
        let (commit, acknowledge) = self.late.lock().unwrap().take().expect("the commit was made");
        let answer = self.inner.commit(commit).await;
        acknowledge.answer(answer.clone());
        answer
    }
}

impl fmt::Debug for Laggard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Laggard").finish_non_exhaustive()
    }
}

impl Delegate for Laggard {
    fn inner(&self) -> &dyn Checkpointer {
        &self.inner
    }

    fn commit(&self, commit: Commit) -> Ticket {
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 == self.nth {
            let (acknowledge, ticket) = Ticket::pending();
            *self.late.lock().unwrap() = Some((commit, acknowledge));
            return ticket;
        }
        self.inner.commit(commit)
    }
}

#[task]
async fn attempt_number(n: u32) -> u32 {
    let ledger = durably::resource::<Ledger>();
    ledger.note(format!("attempt {n}"));
    ledger.count(&format!("attempt {n}"))
}

#[entrypoint]
async fn three_attempts() -> Vec<u32> {
    let mut log = Vec::new();
    for n in 0..3 {
        log.push(attempt_number(n).await);
    }
    log
}

#[test]
fn a_write_of_a_dropped_run_that_lands_late_is_refused_and_the_retry_stays() {
    // The run's start is commit 1; its outcomes are 2 to 4, its end is 5.
    for nth in 2..=5 {
        println!("commit {nth} is late");
        block_on(async {
            let store = Arc::new(Laggard {
                inner: MemoryCheckpointer::new(),
                nth,
                commits: AtomicUsize::new(0),
                late: Mutex::default(),
            });
            let ledger = Ledger::default();
            let runtime = Runtime::builder().resource(ledger.clone()).shared_checkpointer(store.clone());
            let thread = runtime.thread("t").unwrap();
            let mut run = Box::pin(thread.invoke(three_attempts()).into_future());
            while store.late.lock().unwrap().is_none() {
                assert!(futures::poll!(&mut run).is_pending());
                tokio::task::yield_now().await;
            }
            drop(run);
            let outcome = thread.resume(three_attempts).await.unwrap();
            let expected: Vec<u32> = (0..3).map(|n| if n + 2 == nth { 2 } else { 1 }).collect();
            assert_eq!(outcome, Outcome::Completed(expected.clone()));
            let refused = store.land().await.unwrap_err();
            assert!(matches!(refused, CheckpointError::Fenced { .. }), "{refused}");
            assert_eq!(thread.resume(three_attempts).await.unwrap(), Outcome::Completed(expected));
        });
    }
}

#[test]
fn a_write_that_was_on_its_way_when_the_run_was_dropped_counts_and_its_body_does_not_run_again() {
    for nth in 1..=5 {
        println!("commit {nth} is answered late");
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let memory = MemoryCheckpointer::new();
            let store = FaultyCheckpointer::new(Arc::new(memory)).at(nth, Fault::Delay(Duration::from_secs(60)));
            let store = Arc::new(store);
            let ledger = Ledger::default();
            let runtime = Runtime::builder().resource(ledger.clone()).shared_checkpointer(store.clone());
            let thread = runtime.thread("t").unwrap();
            let mut run = Box::pin(thread.invoke(three_attempts()).into_future());
            while store.commits() < nth {
                assert!(futures::poll!(&mut run).is_pending());
            }
            drop(run);
            let outcome = thread.resume(three_attempts).await.unwrap();
            assert_eq!(outcome, Outcome::Completed(vec![1, 1, 1]));
        });
    }
}

/// Shown in messages.
impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

/// A run that is dropped in the middle of the program's own select is dropped as any other.
#[test]
fn a_run_that_lost_the_callers_race_can_be_resumed() {
    block_on(async {
        let runtime = Runtime::builder().resource(Ledger::default()).memory();
        let thread = runtime.thread("t").unwrap();
        let run: Pin<Box<dyn Future<Output = _> + Send>> = thread.invoke(flow()).into_future();
        tokio::select! {
            biased;
            outcome = run => panic!("it takes more than one poll: {outcome:?}"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(thread.resume(flow).wait().await.unwrap(), Outcome::Completed(SUM));
    });
}
