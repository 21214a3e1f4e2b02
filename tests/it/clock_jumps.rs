//! Clocks that jump: a second, an hour, ten years, back and forth, or that stand still, at every timed transition.
//! Nothing is early by more than the jump, nothing is lost, nothing runs twice, and no lease moves.

use std::{sync::Arc, time::Duration};

use durably::{Clock, Outcome, RunError, Runtime, RuntimeBuilder, Status, entrypoint, task};
use tests::{HandClock, Ledger, World, block_on, on_every_checkpointer};
use tokio::sync::Notify;

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What happens to the clock; `None` is a clock that stands still.
const JUMPS: [Option<(bool, Duration)>; 7] = [
    None,
    Some((true, Duration::from_secs(1))),
    Some((false, Duration::from_secs(1))),
    Some((true, HOUR)),
    Some((false, HOUR)),
    Some((true, Duration::from_secs(10 * 365 * 24 * 3600))),
    Some((false, Duration::from_secs(10 * 365 * 24 * 3600))),
];

fn jump(clock: &HandClock, jump: Option<(bool, Duration)>) {
    match jump {
        None => {}
        Some((true, by)) => clock.forward(by),
        Some((false, by)) => clock.back(by),
    }
}

/// Sets the clock to so long after a moment.
fn set(clock: &HandClock, start: std::time::SystemTime, after: Duration) {
    let now = clock.now();
    let wanted = start + after;
    match wanted.duration_since(now) {
        Ok(by) => clock.forward(by),
        Err(by) => clock.back(by.duration()),
    }
}

#[task]
async fn done() -> u32 {
    durably::resource::<Ledger>().note("done");
    1
}

#[entrypoint]
async fn sleeps() -> u32 {
    durably::sleep(HOUR * 2).await;
    done().await
}

#[task]
async fn sleeps_within() -> u32 {
    durably::sleep(HOUR * 2).await;
    durably::resource::<Ledger>().note("done");
    1
}

#[entrypoint]
async fn sleeps_in_a_task() -> u32 {
    sleeps_within().await
}

#[entrypoint]
async fn sleeps_on_the_pool() -> u32 {
    sleeps_within().spawn().await
}

#[entrypoint]
async fn sleeps_nested() -> u32 {
    sleeps().await
}

#[entrypoint]
async fn sleeps_in_a_branch() -> u32 {
    durably::branch("night", async || sleeps().await).await
}

#[entrypoint(timeout = "2h")]
async fn has_two_hours() -> u32 {
    durably::sleep(YEAR).await;
    1
}

fn build(ledger: &Ledger, clock: &HandClock) -> impl Fn(RuntimeBuilder) -> RuntimeBuilder {
    let (ledger, clock) = (ledger.clone(), clock.clone());
    move |builder| {
        let builder = builder.entrypoint(sleeps).entrypoint(sleeps_in_a_task).entrypoint(sleeps_on_the_pool);
        let builder = builder.entrypoint(sleeps_nested).entrypoint(sleeps_in_a_branch).entrypoint(has_two_hours);
        builder.resource(ledger.clone()).clock(clock.clone())
    }
}

/// Drives what is due; how many that were.
async fn drive_due(runtime: &Runtime) -> usize {
    let due = runtime.run_due().await.unwrap();
    let count = due.len();
    for due in due {
        let _ = due.outcome().await;
    }
    count
}

#[test]
fn a_parked_sleep_ends_when_the_clock_says_so_and_once_wherever_it_stands() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &clock));
        for (n, by) in JUMPS.into_iter().enumerate() {
            for flow in 0..5 {
                ledger.clear();
                let start = clock.now();
                let thread = runtime.thread(format!("{flow} {n}")).unwrap();
                let parked = match flow {
                    0 => thread.invoke(sleeps()).await,
                    1 => thread.invoke(sleeps_in_a_task()).await,
                    2 => thread.invoke(sleeps_on_the_pool()).await,
                    3 => thread.invoke(sleeps_nested()).await,
                    _ => thread.invoke(sleeps_in_a_branch()).await,
                };
                assert!(matches!(parked, Ok(Outcome::Sleeping { .. })), "{flow}: {parked:?}");
                jump(&clock, by);
                let is_past = clock.now() >= start + HOUR * 2;
                // Never before the clock says so, and once it does, it is not lost.
                assert_eq!(drive_due(&runtime).await, usize::from(is_past), "{flow}, {by:?}");
                assert_eq!(ledger.count("done"), u32::from(is_past), "{flow}, {by:?}");
                // A resume before that only looks.
                if !is_past {
                    let again = match flow {
                        0 => thread.resume(sleeps).await,
                        1 => thread.resume(sleeps_in_a_task).await,
                        2 => thread.resume(sleeps_on_the_pool).await,
                        3 => thread.resume(sleeps_nested).await,
                        _ => thread.resume(sleeps_in_a_branch).await,
                    };
                    assert!(matches!(again, Ok(Outcome::Sleeping { .. })), "{flow}: {again:?}");
                }
                // The clock is right again, and goes on.
                set(&clock, start, HOUR);
                assert_eq!(drive_due(&runtime).await, 0, "{flow}, {by:?}");
                set(&clock, start, HOUR * 2 + Duration::from_millis(2));
                assert_eq!(drive_due(&runtime).await, usize::from(!is_past), "{flow}, {by:?}");
                assert_eq!(drive_due(&runtime).await, 0);
                assert_eq!(ledger.count("done"), 1, "{flow}, {by:?}");
                assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Completed);
            }
        }
    });
}

#[test]
fn a_deadline_passes_when_the_clock_says_so_and_once() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &clock));
        for (n, by) in JUMPS.into_iter().enumerate() {
            let start = clock.now();
            let thread = runtime.thread(format!("{n}")).unwrap();
            assert!(matches!(thread.invoke(has_two_hours()).await, Ok(Outcome::Sleeping { .. })));
            jump(&clock, by);
            let is_past = clock.now() >= start + HOUR * 2;
            assert_eq!(drive_due(&runtime).await, usize::from(is_past), "{by:?}");
            set(&clock, start, HOUR);
            assert_eq!(drive_due(&runtime).await, 0);
            set(&clock, start, HOUR * 2 + Duration::from_millis(2));
            assert_eq!(drive_due(&runtime).await, usize::from(!is_past), "{by:?}");
            assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Failed);
        }
    });
}

#[task(retry(max_attempts = 2, initial_interval = "2h", max_interval = "2h", jitter = false))]
async fn fails_once() -> anyhow::Result<u32> {
    durably::resource::<Ledger>().note(format!("attempt {}", durably::attempt()));
    durably::resource::<Attempted>().0.notify_one();
    anyhow::ensure!(durably::attempt() > 1, "not yet");
    Ok(1)
}

#[derive(Clone, Default)]
struct Attempted(Arc<Notify>);

#[entrypoint]
async fn retries() -> anyhow::Result<u32> {
    fails_once().await
}

#[test]
fn a_back_off_ends_when_the_clock_says_so_also_after_a_restart() {
    for by in JUMPS {
        let (ledger, clock, attempted) = (Ledger::default(), HandClock::default(), Attempted::default());
        let world = World::memory();
        let open =
            || world.open(|builder| builder.resource(ledger.clone()).resource(attempted.clone()).clock(clock.clone()));
        block_on(async {
            let start = clock.now();
            {
                let runtime = open();
                let thread = runtime.thread("t").unwrap();
                let run = thread.invoke(retries()).start();
                attempted.0.notified().await;
                while thread.state().await.unwrap().unwrap().calls.is_empty() {
                    tokio::task::yield_now().await;
                }
                run.abort();
                assert!(run.await.is_err());
            }
            jump(&clock, by);
            let runtime = open();
            let thread = runtime.thread("t").unwrap();
            let run = thread.resume(retries).wait().start();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            if clock.now() < start + HOUR * 2 {
                assert_eq!(ledger.count("attempt 2"), 0, "{by:?}");
            }
            set(&clock, start, HOUR * 2 + Duration::from_millis(2));
            assert_eq!(run.await.unwrap(), Outcome::Completed(1));
            assert_eq!((ledger.count("attempt 1"), ledger.count("attempt 2")), (1, 1), "{by:?}");
        });
    }
}

#[task]
async fn holds() -> u32 {
    durably::resource::<Ledger>().note("holds");
    let gate = durably::resource::<Gate>();
    gate.begun.notify_one();
    gate.go_on.notified().await;
    1
}

#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[entrypoint]
async fn holds_its_thread() -> u32 {
    holds().await
}

#[test]
fn a_jump_of_the_clock_moves_no_lease() {
    on_every_checkpointer(async |world| {
        let (ledger, clock, gate) = (Ledger::default(), HandClock::default(), Gate::default());
        let runtime =
            world.open(|builder| build(&ledger, &clock)(builder).resource(gate.clone()).entrypoint(holds_its_thread));
        let _background = runtime.background();
        for (n, by) in JUMPS.into_iter().enumerate() {
            ledger.clear();
            let thread = runtime.thread(format!("{n}")).unwrap();
            let run = thread.invoke(holds_its_thread()).start();
            gate.begun.notified().await;
            jump(&clock, by);
            assert!(runtime.recover().await.unwrap().is_empty());
            assert!(runtime.run_due().await.unwrap().is_empty());
            assert!(matches!(thread.resume(holds_its_thread).await, Err(RunError::Busy { .. })));
            gate.go_on.notify_one();
            assert_eq!(run.await.unwrap(), Outcome::Completed(1));
            assert_eq!(ledger.count("holds"), 1, "{by:?}");
        }
    });
}

/// A clock whose timers are real and whose time jumps: as a machine's is that is set.
#[derive(Clone)]
struct Machine(HandClock);

impl Clock for Machine {
    fn now(&self) -> std::time::SystemTime {
        self.0.now()
    }

    fn sleep_until(&self, moment: std::time::SystemTime) -> durably::checkpoint::BoxFuture<'static, ()> {
        let pause = moment.duration_since(self.now()).unwrap_or(Duration::ZERO);
        Box::pin(tokio::time::sleep(pause))
    }
}

#[tokio::test(start_paused = true)]
async fn a_background_driver_notices_that_the_clock_was_set() {
    for by in [HOUR * 2, YEAR * 10] {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let runtime = build(&ledger, &clock)(Runtime::builder()).clock(Machine(clock.clone())).memory();
        let _background = runtime.background();
        let thread = runtime.thread("t").unwrap();
        assert!(matches!(thread.invoke(sleeps()).await, Ok(Outcome::Sleeping { .. })));
        // Set back: its moment is far away now, and comes when the clock is set right.
        clock.back(by);
        tokio::time::sleep(HOUR * 3).await;
        assert_eq!(ledger.count("done"), 0);
        clock.forward(by + HOUR * 2 + Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(ledger.count("done"), 1, "within a minute");
    }
}
