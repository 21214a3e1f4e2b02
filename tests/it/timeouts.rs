//! How long attempts may take and be silent. Each test names its line in the lists of behaviours and of faults.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use durably::{
    Outcome, RunError, Runtime, RuntimeBuilder, TaskError, TaskErrorKind, attempt, entrypoint, heartbeat, resource,
    task,
};
use futures::future::join_all;
use tests::{Chance, Ledger, World, block_on, cut_after_every_record, on_every_checkpointer, size};
use tokio::sync::{Barrier, Notify};

use crate::watch::Watch;

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

fn build(ledger: &Ledger, watch: &Watch) -> RuntimeBuilder {
    Runtime::builder().resource(ledger.clone()).observer(watch.clone())
}

fn count(lines: &[String], line: &str) -> usize {
    lines.iter().filter(|seen| *seen == line).count()
}

/// Runs a test on every checkpointer, with a clock that is stopped: it moves only when nothing can go on without it.
fn stopped<F: AsyncFn(World)>(test: F) {
    for world in [World::memory(), World::sled()] {
        println!("on {}", world.name());
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        tokio.block_on(test(world));
    }
}

/// Notes that it was dropped: what a body holds is cleaned up when the body is ended.
struct Cleanup(Arc<Ledger>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.0.note("cleaned up");
    }
}

#[task(timeout = "1s", retry(max_attempts = 3, initial_interval = "10ms", jitter = false))]
async fn never_ends() -> Result<u32, TaskError> {
    let _cleanup = Cleanup(resource::<Ledger>());
    note(&format!("attempt {}", attempt()));
    std::future::pending().await
}

#[entrypoint]
async fn catches_a_timeout() -> (TaskErrorKind, Option<Duration>) {
    let error = never_ends().await.unwrap_err();
    (error.kind().clone(), error.elapsed())
}

/// Line 80.
#[test]
fn an_attempt_that_takes_too_long_is_ended_told_apart_and_tried_again() {
    stopped(async |world| {
        let ledger = Ledger::default();
        let open = || world.open(|builder| builder.resource(ledger.clone())).thread("t").unwrap();
        let (kind, elapsed) = open().invoke(catches_a_timeout()).await.unwrap().completed().unwrap();
        assert!(matches!(kind, TaskErrorKind::TimedOut { limit_ms: 1000, elapsed_ms: 1000..1010 }), "{kind:?}");
        assert!(elapsed.unwrap() >= Duration::from_secs(1), "{elapsed:?}");
        assert_eq!(["attempt 1", "attempt 2", "attempt 3", "cleaned up"].map(|one| ledger.count(one)), [1, 1, 1, 3]);
        // The same on replay, and nothing is run.
        assert_eq!(open().resume(catches_a_timeout).await.unwrap().completed().unwrap(), (kind, elapsed));
        assert_eq!(ledger.count("cleaned up"), 3);
    });
}

/// Line 80, with a crash after every record: no attempt is made twice that is on record, and the error is the same.
#[test]
fn attempts_that_timed_out_are_counted_on_after_a_crash_at_any_record() {
    let ledger = Ledger::default();
    let kind_of = async |outcome: Result<Outcome<(TaskErrorKind, Option<Duration>)>, RunError>| {
        let (kind, _) = outcome.unwrap().completed().unwrap();
        assert!(matches!(kind, TaskErrorKind::TimedOut { limit_ms: 5, .. }), "{kind:?}");
    };
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()),
        async |runtime| kind_of(runtime.thread("t").unwrap().invoke(catches_a_short_timeout()).await).await,
        async |runtime, cut| {
            ledger.clear();
            let thread = runtime.thread("t").unwrap();
            let recorded = match thread.state().await.unwrap() {
                Some(state) => state.calls.first().map_or(0, |call| call.attempts),
                None => 0,
            };
            let outcome = match cut {
                0 => thread.invoke(catches_a_short_timeout()).await,
                _ => thread.resume(catches_a_short_timeout).await,
            };
            kind_of(outcome).await;
            assert_eq!(ledger.total(), 2 - recorded);
        },
    );
}

#[task(timeout = "5ms", retry(max_attempts = 2, initial_interval = "1ms"))]
async fn ends_never() -> Result<u32, TaskError> {
    note("began");
    std::future::pending().await
}

#[entrypoint]
async fn catches_a_short_timeout() -> (TaskErrorKind, Option<Duration>) {
    let error = ends_never().await.unwrap_err();
    (error.kind().clone(), error.elapsed())
}

#[task(idle_timeout = "150ms")]
async fn beats(times: u32, every: Duration) -> Result<u32, TaskError> {
    for _ in 0..times {
        tokio::time::sleep(every).await;
        heartbeat();
    }
    Ok(times)
}

#[task(idle_timeout = "150ms", timeout = "1s")]
async fn beats_for_long() -> Result<(), TaskError> {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        heartbeat();
    }
}

#[entrypoint]
async fn beats_often() -> Result<u32, TaskError> {
    let here = beats(20, Duration::from_millis(100));
    let there = beats(21, Duration::from_millis(100)).spawn();
    let (here, there) = futures::join!(here, there);
    Ok(here? + there?)
}

#[entrypoint]
async fn beats_rarely(spawned: bool) -> (TaskErrorKind, bool) {
    let call = beats(20, Duration::from_millis(151));
    let error = if spawned { call.spawn().await } else { call.await }.unwrap_err();
    (error.kind().clone(), error.is_timeout())
}

#[entrypoint]
async fn beats_beyond_the_timeout() -> TaskErrorKind {
    beats_for_long().await.unwrap_err().kind().clone()
}

/// Line 81.
#[test]
fn heartbeats_keep_an_attempt_and_silence_ends_it_and_the_timeout_knows_no_heartbeat() {
    stopped(heartbeats);
}

async fn heartbeats(world: World) {
    let runtime = world.runtime();
    let thread = |name: &str| runtime.thread(name).unwrap();
    assert_eq!(thread("often").invoke(beats_often()).await.unwrap(), Outcome::Completed(41));
    for spawned in [false, true] {
        let outcome = thread(&format!("rarely {spawned}")).invoke(beats_rarely(spawned)).await.unwrap();
        let (kind, is_timeout) = outcome.completed().unwrap();
        assert!(matches!(kind, TaskErrorKind::Silent { limit_ms: 150, elapsed_ms: 150..155 }), "{kind:?}");
        assert!(is_timeout);
    }
    let kind = thread("beyond").invoke(beats_beyond_the_timeout()).await.unwrap().completed().unwrap();
    assert!(matches!(kind, TaskErrorKind::TimedOut { limit_ms: 1000, elapsed_ms: 1000..1005 }), "{kind:?}");
}

#[task]
async fn takes(ms: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    ms
}

#[entrypoint]
async fn takes_nested(ms: u64) -> u64 {
    for _ in 0..3 {
        takes(ms).await;
    }
    ms
}

#[task(idle_timeout = "150ms")]
async fn calls_others() -> Result<u64, TaskError> {
    let first = takes(100).await + takes(101).await + takes(102).await;
    Ok(first + takes_nested(90).await)
}

#[task(idle_timeout = "150ms")]
async fn calls_a_slow_one() -> Result<u64, TaskError> {
    Ok(takes(100).await + takes(200).await)
}

#[entrypoint]
async fn lives_by_its_calls() -> (u64, bool) {
    (calls_others().await.unwrap(), calls_a_slow_one().await.is_err())
}

/// What a body calls is a sign of its life, when it begins and when it ends.
#[tokio::test(start_paused = true)]
async fn a_body_that_makes_calls_is_not_silent() {
    // In memory: a stopped clock runs ahead while a disk is waited for.
    let thread = Runtime::builder().memory().thread("t").unwrap();
    assert_eq!(thread.invoke(lives_by_its_calls()).await.unwrap(), Outcome::Completed((393, true)));
}

/// Hands a blocking body its steps, and tells when each is done.
struct Steps(Mutex<mpsc::Receiver<()>>, tokio::sync::mpsc::UnboundedSender<()>);

#[task(blocking, idle_timeout = "150ms")]
fn beats_while_blocking(beats: bool) -> Result<u32, TaskError> {
    let steps = resource::<Steps>();
    let mut done = 0;
    while steps.0.lock().unwrap().recv().is_ok() {
        if beats {
            heartbeat();
        }
        done += 1;
        let _ = steps.1.send(());
    }
    Ok(done)
}

#[entrypoint]
async fn blocks(beats: bool) -> Result<u32, TaskError> {
    beats_while_blocking(beats).await
}

/// Line 81, where the body has a thread of its own.
#[tokio::test(start_paused = true)]
async fn a_blocking_body_beats_too_and_its_late_result_is_refused() {
    for beats in [true, false] {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        let (step, steps) = mpsc::channel();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let runtime = build(&ledger, &watch).resource(Steps(Mutex::new(steps), tell)).memory();
        let run = runtime.thread("t").unwrap().invoke(blocks(beats)).start();
        // The clock stands still while a blocking body runs, but for this.
        for _ in 0..5 {
            let _ = step.send(());
            told.recv().await.unwrap();
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        drop(step);
        let outcome = run.await;
        if beats {
            assert_eq!(outcome.unwrap(), Outcome::Completed(5));
        } else {
            let error = outcome.unwrap_err();
            let RunError::Failed(failure) = &error else { panic!("{error}") };
            assert!(failure.to_string().contains("no sign of life"), "{failure}");
        }
        // Nothing of the run is left when its last handle is gone: the job too has come to its end.
        drop(runtime);
        while told.recv().await.is_some() {}
        assert_eq!(count(&watch.take(), "refused beats_while_blocking 1"), usize::from(!beats));
    }
}

/// A body that blocks its thread until it is let go.
struct Block(Mutex<mpsc::Receiver<()>>);

#[task(timeout = "50ms")]
async fn blocks_its_thread() -> Result<u32, TaskError> {
    note("began");
    let _ = resource::<Block>().0.lock().unwrap().recv();
    Ok(7)
}

#[task(timeout = "50ms")]
async fn sleeps_on_its_thread() -> Result<u32, TaskError> {
    note("began");
    std::thread::sleep(Duration::from_millis(400));
    Ok(7)
}

#[task(timeout = "50ms")]
async fn loops_on_its_thread() -> Result<u32, TaskError> {
    note("began");
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(400) {
        std::hint::spin_loop();
    }
    Ok(7)
}

#[entrypoint]
async fn runs_late(which: u32) -> Result<u32, TaskError> {
    match which {
        0 => sleeps_on_its_thread().await,
        1 => loops_on_its_thread().await,
        2 => sleeps_on_its_thread().spawn().await,
        3 => loops_on_its_thread().spawn().await,
        _ => blocks_its_thread().spawn().await,
    }
}

/// F11: nobody can end it, but it is told while it runs, marked once, and its result does not count.
#[test]
fn a_body_that_blocks_its_thread_beyond_its_limit_is_marked_once_and_its_result_is_refused() {
    for which in 0..4 {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        block_on(async {
            let thread = build(&ledger, &watch).memory().thread("t").unwrap();
            let error = thread.invoke(runs_late(which)).await.unwrap_err();
            let RunError::Failed(failure) = &error else { panic!("{error}") };
            assert!(failure.to_string().contains("longer than its timeout"), "{failure}");
            let calls = thread.state().await.unwrap().unwrap().calls;
            assert_eq!((calls.len(), calls[0].attempts, ledger.count("began")), (1, 1, 1));
        });
        let events = watch.take();
        let seen = |word: &str| events.iter().filter(|line| line.starts_with(word)).count();
        assert_eq!((seen("overdue"), seen("refused"), seen("recorded")), (1, 1, 1), "{which}: {events:?}");
    }
}

#[task]
async fn takes_note() {
    note("went on");
    resource::<Notify>().notify_one();
}

#[entrypoint]
async fn goes_on_without_it() -> bool {
    let timed_out = runs_nested_late().await;
    takes_note().await;
    timed_out
}

#[entrypoint]
async fn runs_nested_late() -> bool {
    blocks_its_thread().spawn().await.is_err()
}

/// F11: on the pool the timeout takes effect while the body still blocks its thread.
#[test]
fn a_run_goes_on_while_a_body_on_the_pool_blocks_its_thread_beyond_its_limit() {
    let (ledger, watch) = (Ledger::default(), Watch::default());
    let (release, blocked) = mpsc::channel();
    block_on(async {
        let runtime = build(&ledger, &watch).resource(Block(Mutex::new(blocked))).resource(Notify::new()).memory();
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(goes_on_without_it()).start();
        while ledger.count("went on") == 0 {
            tokio::task::yield_now().await;
        }
        assert!(!run.is_finished(), "the thread is kept until the body has ended");
        release.send(()).unwrap();
        assert_eq!(run.await.unwrap(), Outcome::Completed(true));
    });
    let events = watch.take();
    let overdue = count(&events, "overdue blocks_its_thread 1");
    assert_eq!((overdue, count(&events, "recorded blocks_its_thread")), (1, 1), "{events:?}");
}

#[task(timeout = "100ms")]
async fn ends_after(n: u32, ms: u64) -> Result<u32, TaskError> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(n)
}

#[entrypoint]
async fn ends_in_some_order(calls: Vec<(u32, u64, bool)>) -> Vec<bool> {
    let calls = calls.into_iter().map(|(n, ms, spawned)| async move {
        let call = ends_after(n, ms);
        let ended = if spawned { call.spawn().await } else { call.await };
        // Something after it, before and after which the others end.
        takes(ms % 7).await;
        ended.is_ok()
    });
    join_all(calls).await
}

/// F11: in every schedule a result counts exactly if it came before the limit.
#[test]
fn no_late_result_ever_wins() {
    for seed in 0..size(150) as u64 {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        tokio.block_on(async {
            let mut chance = Chance::new(seed);
            let calls: Vec<_> = (0..u32::try_from(1 + chance.below(6)).unwrap())
                .map(|n| (n, 95 + chance.below(11) as u64, chance.below(2) == 0))
                .collect();
            let runtime = Runtime::builder().memory();
            let thread = runtime.thread("t").unwrap();
            let outcome = thread.invoke(ends_in_some_order(calls.clone())).await.unwrap().completed().unwrap();
            for ((_, ms, _), ended) in calls.iter().zip(&outcome) {
                // tokio's timers have a resolution of a millisecond, and round up.
                assert!(*ended == (*ms < 99) || *ms == 99, "seed {seed}: {ms} ms of 100, ended: {ended}");
            }
            assert_eq!(thread.resume(ends_in_some_order).await.unwrap().completed().unwrap(), outcome);
        });
    }
}

#[task]
async fn meets(n: u32) -> u32 {
    resource::<Barrier>().wait().await;
    n
}

#[entrypoint]
async fn rounds(rounds: u32) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(join_all((0..8).map(|n| meets(n).spawn())).await);
    }
    all
}

/// B7: eight tasks that end at one moment leave eight results, in each round.
#[test]
fn tasks_that_end_at_one_moment_lose_no_result() {
    on_every_checkpointer(async |world| {
        let expected = Outcome::Completed(vec![(0..8).collect::<Vec<_>>(); 30]);
        {
            let runtime = world.open(|builder| builder.resource(Barrier::new(8)));
            let thread = runtime.thread("t").unwrap();
            assert_eq!(thread.invoke(rounds(30)).await.unwrap(), expected);
            assert_eq!(thread.state().await.unwrap().unwrap().calls.len(), 240);
        }
        let runtime = world.open(|builder| builder.resource(Barrier::new(8)));
        assert_eq!(runtime.thread("t").unwrap().resume(rounds).await.unwrap(), expected);
    });
}

#[task]
async fn takes_days() -> u32 {
    note("began");
    tokio::time::sleep(Duration::from_secs(3 * 24 * 3600)).await;
    7
}

#[entrypoint]
async fn lasts() -> u32 {
    takes_days().await
}

/// B8: no lease runs out under a body, however long it takes, so that nobody takes the thread over.
#[tokio::test(start_paused = true)]
async fn a_task_longer_than_any_lease_runs_once_and_nobody_takes_its_thread_over() {
    let ledger = Ledger::default();
    let runtime = Runtime::builder().resource(ledger.clone()).entrypoint(lasts).memory();
    let thread = runtime.thread("t").unwrap();
    let run = thread.invoke(lasts()).start();
    for _ in 0..70 {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(matches!(thread.resume(lasts).await, Err(RunError::Busy { .. })));
        assert!(runtime.recover().await.unwrap().is_empty());
    }
    assert_eq!((run.await.unwrap(), ledger.count("began")), (Outcome::Completed(7), 1));
}
