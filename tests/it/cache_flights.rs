//! Equal calls that run at the same time: one makes the value, the others wait for it, and nobody waits for good.
//!
//! The clock of these tests is stopped: a pause of it is over when nothing else can go on, so that it stands for "when
//! all is at rest".

use std::{
    future::{Future, IntoFuture},
    sync::{Arc, Mutex},
    time::Duration,
};

use durably::{Outcome, RunError, Runtime, RuntimeBuilder, entrypoint, interrupt, resource, task};
use futures::{
    StreamExt,
    future::{join_all, select},
    stream::FuturesUnordered,
};
use tests::{Chance, Ledger, pends, size};
use tokio::sync::Semaphore;

/// Opens for one body at a time; counts who began.
#[derive(Clone)]
struct Gate(Arc<Semaphore>, Ledger);

impl Gate {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)), Ledger::default())
    }

    /// A body begins, and waits until it is let through.
    async fn pass(&self, name: &str) {
        self.1.note(name);
        self.0.acquire().await.unwrap().forget();
    }

    fn open(&self, bodies: usize) {
        self.0.add_permits(bodies);
    }

    fn began(&self) -> u32 {
        self.1.total()
    }
}

fn gate() -> Arc<Gate> {
    resource::<Gate>()
}

fn runtime(gate: &Gate) -> Runtime {
    build(gate).memory()
}

fn build(gate: &Gate) -> RuntimeBuilder {
    Runtime::builder().resource(gate.clone())
}

/// When nothing can go on by itself.
async fn rest() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), future).await.expect("it ends")
}

#[task(cache)]
async fn slow(n: u32) -> anyhow::Result<u32> {
    gate().pass("slow").await;
    anyhow::ensure!(gate().began() > 1 || n < 100, "the first one fails");
    Ok(n)
}

#[entrypoint]
async fn one_slow(n: u32) -> anyhow::Result<u32> {
    slow(n).await
}

#[entrypoint]
async fn many_slow(n: u32, calls: u32) -> Vec<u32> {
    join_all((0..calls).map(|_| slow(n))).await.into_iter().flatten().collect()
}

#[entrypoint]
async fn many_spawned(n: u32, calls: u32) -> Vec<u32> {
    join_all((0..calls).map(|_| slow(n).spawn())).await.into_iter().flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn equal_calls_of_one_run_and_of_others_wait_for_the_first() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let runs = [
        runtime.thread("a").unwrap().invoke(many_slow(1, 5)).start(),
        runtime.thread("b").unwrap().invoke(many_slow(1, 3)).start(),
        runtime.thread("c").unwrap().invoke(many_spawned(1, 3)).start(),
    ];
    rest().await;
    assert_eq!(gate.began(), 1);
    gate.open(1);
    let ended = in_time(join_all(runs)).await;
    let lengths = ended.into_iter().map(|outcome| outcome.unwrap().completed().unwrap().len());
    assert_eq!((lengths.collect::<Vec<_>>(), gate.began()), (vec![5, 3, 3], 1));
}

#[tokio::test(start_paused = true)]
async fn if_the_first_fails_one_of_those_that_wait_makes_the_value() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let runs = ["a", "b", "c"].map(|thread| runtime.thread(thread).unwrap().invoke(one_slow(100)).start());
    rest().await;
    assert_eq!(gate.began(), 1);
    gate.open(1);
    rest().await;
    assert_eq!(gate.began(), 2, "one of the two");
    gate.open(1);
    let ended = in_time(join_all(runs)).await;
    assert_eq!((ended.iter().filter(|run| run.is_ok()).count(), gate.began()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn if_the_first_is_dropped_one_of_those_that_wait_makes_the_value() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let first = runtime.thread("a").unwrap().invoke(one_slow(1)).start();
    rest().await;
    let second = runtime.thread("b").unwrap().invoke(one_slow(1)).start();
    rest().await;
    assert_eq!(gate.began(), 1);
    first.abort();
    rest().await;
    assert_eq!(gate.began(), 2);
    gate.open(1);
    assert_eq!(in_time(second).await.unwrap(), Outcome::Completed(1));
}

#[task(cache)]
async fn panics_first() -> u32 {
    gate().pass("panics first").await;
    assert!(gate().began() > 1, "the first one panics");
    1
}

#[entrypoint]
async fn one_that_panics() -> u32 {
    panics_first().await
}

#[tokio::test(start_paused = true)]
async fn if_the_first_panics_one_of_those_that_wait_makes_the_value() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let first = runtime.thread("a").unwrap().invoke(one_that_panics()).start();
    rest().await;
    let second = runtime.thread("b").unwrap().invoke(one_that_panics()).start();
    rest().await;
    gate.open(2);
    assert!(matches!(in_time(first).await, Err(RunError::Panicked { .. })));
    assert_eq!((in_time(second).await.unwrap(), gate.began()), (Outcome::Completed(1), 2));
}

#[task(cache)]
async fn asks_if_first() -> bool {
    gate().1.note("asks");
    gate().began() > 1 || interrupt("q", &()).await
}

#[entrypoint]
async fn one_that_asks() -> bool {
    asks_if_first().await
}

#[entrypoint]
async fn asks_beside_work() -> bool {
    let (answer, _) = futures::join!(asks_if_first(), slow(1));
    answer
}

/// The first one pauses, or waits for an answer beside other work: nobody waits for a person through it.
#[tokio::test(start_paused = true)]
async fn if_the_first_asks_one_of_those_that_wait_makes_the_value() {
    for beside_work in [false, true] {
        let gate = Gate::new();
        let runtime = runtime(&gate);
        let first = if beside_work {
            runtime.thread("a").unwrap().invoke(asks_beside_work()).start()
        } else {
            runtime.thread("a").unwrap().invoke(one_that_asks()).start()
        };
        rest().await;
        let second = runtime.thread("b").unwrap().invoke(one_that_asks());
        assert_eq!(in_time(second.into_future()).await.unwrap(), Outcome::Completed(true));
        gate.open(10);
        assert_eq!(in_time(first).await.unwrap().questions().len(), 1);
    }
}

#[entrypoint]
async fn leads_where_nobody_reads(n: u32) -> (u32, u32) {
    let mut unread: FuturesUnordered<_> = [slow(n)].into_iter().collect();
    // Polled once, so that its body begins; not read while the equal call is awaited.
    let _ = select(unread.next(), std::future::ready(())).await;
    let second = slow(n).await.unwrap_or(0);
    (unread.next().await.and_then(Result::ok).unwrap_or(0), second)
}

/// One that leads, and that nobody reads, is passed by the equal call in its own run.
#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_an_equal_one_that_nobody_reads() {
    let gate = Gate::new();
    let thread = runtime(&gate).thread("a").unwrap();
    let run = thread.invoke(leads_where_nobody_reads(1)).start();
    rest().await;
    assert_eq!(gate.began(), 1);
    gate.open(1);
    rest().await;
    gate.open(1);
    assert_eq!(in_time(run).await.unwrap(), Outcome::Completed((1, 1)));
}

#[entrypoint]
async fn leads_in_an_entrypoint_that_nobody_reads(n: u32) -> (u32, u32) {
    let mut unread: FuturesUnordered<_> = [one_slow(n)].into_iter().collect();
    let _ = select(unread.next(), std::future::ready(())).await;
    let second = slow(n).await.unwrap_or(0);
    (unread.next().await.and_then(Result::ok).unwrap_or(0), second)
}

/// As above, where the one that leads stands in a nested entrypoint.
#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_an_equal_one_in_an_entrypoint_that_nobody_reads() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let run = runtime.thread("a").unwrap().invoke(leads_in_an_entrypoint_that_nobody_reads(1)).start();
    rest().await;
    let other = runtime.thread("b").unwrap().invoke(one_slow(1)).start();
    rest().await;
    assert_eq!(gate.began(), 1);
    for _ in 0..2 {
        gate.open(1);
        rest().await;
    }
    assert_eq!(in_time(run).await.unwrap(), Outcome::Completed((1, 1)));
    assert_eq!(in_time(other).await.unwrap(), Outcome::Completed(1));
}

#[task(cache)]
async fn left(n: u32) -> u32 {
    gate().1.note("left");
    pends(3).await;
    if n == 0 { 0 } else { right(n - 1).await + 1 }
}

#[task(cache)]
async fn right(n: u32) -> u32 {
    gate().1.note("right");
    pends(3).await;
    if n == 0 { 0 } else { left(n - 1).await + 1 }
}

#[entrypoint]
async fn begins(with_left: bool) -> u32 {
    if with_left { left(4).await } else { right(4).await }
}

#[entrypoint]
async fn begins_lower(with_left: bool) -> u32 {
    if with_left { left(3).await } else { right(3).await }
}

/// Each makes what the other one calls for in its body.
#[tokio::test(start_paused = true)]
async fn runs_that_call_for_each_others_values_do_not_wait_for_each_other() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let thread = |n: u32| runtime.thread(n.to_string()).unwrap();
    let runs = [thread(0).invoke(begins(true)).start(), thread(1).invoke(begins(false)).start()];
    let lower = [thread(2).invoke(begins_lower(true)).start(), thread(3).invoke(begins_lower(false)).start()];
    for run in in_time(join_all(runs)).await {
        assert_eq!(run.unwrap(), Outcome::Completed(4));
    }
    for run in in_time(join_all(lower)).await {
        assert_eq!(run.unwrap(), Outcome::Completed(3));
    }
}

/// Those that wait stop with a drain; the one that makes the value is let to end.
#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_those_that_wait() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let first = runtime.thread("a").unwrap().invoke(one_slow(1)).start();
    rest().await;
    let second = runtime.thread("b").unwrap().invoke(one_slow(1)).start();
    let third = runtime.thread("c").unwrap().invoke(many_spawned(1, 2)).start();
    rest().await;
    runtime.drain();
    assert_eq!(in_time(second).await.unwrap(), Outcome::Drained);
    assert_eq!(in_time(third).await.unwrap(), Outcome::Drained);
    gate.open(1);
    assert_eq!((in_time(first).await.unwrap(), gate.began()), (Outcome::Completed(1), 1));
    runtime.undrain();
    let outcome = in_time(runtime.thread("b").unwrap().resume(one_slow).into_future()).await;
    assert_eq!((outcome.unwrap(), gate.began()), (Outcome::Completed(1), 1));
}

/// If the one that makes the value fails while all drains, none of those that wait begins.
#[tokio::test(start_paused = true)]
async fn none_of_those_that_wait_begins_in_a_runtime_that_drains() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let first = runtime.thread("a").unwrap().invoke(one_slow(100)).start();
    rest().await;
    let second = runtime.thread("b").unwrap().invoke(one_slow(100)).start();
    rest().await;
    gate.open(10);
    runtime.drain();
    assert!(in_time(first).await.is_err());
    assert_eq!((in_time(second).await.unwrap(), gate.began()), (Outcome::Drained, 1));
}

/// With one permit, whoever waits for a value holds up nobody who makes it.
#[tokio::test(start_paused = true)]
async fn a_limit_of_one_body_and_shared_values_go_together() {
    let gate = Gate::new();
    gate.open(100);
    let runtime = runtime(&gate);
    let runs: Vec<_> = (0..6)
        .map(|n| {
            let invoke = runtime.thread(format!("{n}")).unwrap().invoke(many_slow(n % 2, 4));
            invoke.max_concurrency(1).start()
        })
        .collect();
    for run in in_time(join_all(runs)).await {
        assert_eq!(run.unwrap().completed().unwrap().len(), 4);
    }
    assert_eq!(gate.began(), 2);
}

/// A value that is being made when all are cleared is its own run's alone.
#[tokio::test(start_paused = true)]
async fn a_value_that_was_begun_before_a_clearing_is_not_kept_after_it() {
    let gate = Gate::new();
    let runtime = runtime(&gate);
    let first = runtime.thread("a").unwrap().invoke(one_slow(1)).start();
    rest().await;
    assert_eq!(runtime.clear_cache(None).await.unwrap(), 0);
    let second = runtime.thread("b").unwrap().invoke(one_slow(1)).start();
    rest().await;
    assert_eq!(gate.began(), 2, "it does not wait for a value from before");
    gate.open(2);
    assert_eq!(in_time(first).await.unwrap(), Outcome::Completed(1));
    assert_eq!(in_time(second).await.unwrap(), Outcome::Completed(1));
    assert_eq!(runtime.clear_cache(None).await.unwrap(), 1, "only what was begun after it");
}

/// Which of these live bodies make one value.
#[derive(Clone, Default)]
struct Live(Arc<Mutex<Vec<u32>>>);

struct Lives(Live, u32);

impl Lives {
    fn new(live: &Live, key: u32) -> Self {
        let mut all = live.0.lock().unwrap();
        assert!(!all.contains(&key), "two bodies make the value of {key}");
        all.push(key);
        drop(all);
        Self(live.clone(), key)
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().retain(|key| *key != self.1);
    }
}

#[task(skip(pauses, fails), cache, retry(max_attempts = 2, initial_interval = "1ms"))]
async fn made(key: u32, pauses: u8, fails: bool) -> anyhow::Result<u32> {
    let _lives = Lives::new(&resource::<Live>(), key);
    pends(pauses.into()).await;
    if pauses.is_multiple_of(3) {
        tokio::time::sleep(Duration::from_millis(pauses.into())).await;
    }
    anyhow::ensure!(!fails, "made to fail");
    Ok(key * 10)
}

#[entrypoint]
async fn makes(calls: Vec<(u32, u8, bool)>) -> Vec<Option<u32>> {
    let calls = calls.into_iter().map(|(key, pauses, fails)| async move {
        let call = made(key, pauses, fails);
        let made = if pauses % 2 == 0 { call.spawn().await } else { call.await };
        made.ok()
    });
    join_all(calls).await
}

/// Random runs at once: each ends, each value is right, and no two bodies ever make the same one at the same time.
#[test]
fn in_any_crowd_every_run_ends_and_no_value_is_made_twice_at_once() {
    for seed in 0..size(100) as u64 {
        println!("seed {seed}");
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        tokio.block_on(async {
            let mut chance = Chance::new(seed);
            let runtime = Runtime::builder().resource(Live::default()).memory();
            let mut runs = Vec::new();
            for thread in 0..5 {
                let calls: Vec<_> = (0..=chance.below(6))
                    .map(|_| {
                        let pauses = u8::try_from(chance.below(8)).unwrap();
                        (u32::try_from(chance.below(3)).unwrap(), pauses, chance.below(4) == 0)
                    })
                    .collect();
                let limit = u32::try_from(1 + chance.below(4)).unwrap();
                let invoke = runtime.thread(thread.to_string()).unwrap().invoke(makes(calls.clone()));
                runs.push((calls, chance.below(8) == 0, invoke.max_concurrency(limit).start()));
            }
            pends(chance.below(20)).await;
            for (calls, dropped, run) in runs {
                if dropped {
                    run.abort();
                    let _ = in_time(run).await;
                    continue;
                }
                let all = in_time(run).await.unwrap().completed().unwrap();
                for ((key, ..), made) in calls.into_iter().zip(all) {
                    assert!(made.is_none_or(|made| made == key * 10));
                }
            }
        });
    }
}
