//! What an entrypoint gets from outside, the same on replay: time, chance, pauses, resources; and drains and new runs.

use std::{
    future::IntoFuture,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use durably::{
    CallStatus, Outcome, RunError, Runtime, Status, Thread, continue_as_new, entrypoint, interrupt, resource, task,
};
use tests::{HandClock, Ledger, World, block_on, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

use crate::watch::{Watch, cut};

/// A clock that stands at 1,000,000,000 seconds after 1970.
fn clock_of_2001() -> HandClock {
    HandClock::at(Duration::from_secs(1_000_000_000))
}

fn open(world: &World, ledger: &Ledger, clock: &HandClock) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).clock(clock.clone()))
}

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

#[task]
async fn step(name: &str) -> String {
    note(name);
    name.to_owned()
}

#[entrypoint]
async fn draws() -> (SystemTime, u64, u64, String, String) {
    let now = durably::now().await;
    let (one, two) = (durably::random().await, durably::random().await);
    let (id, other) = tokio::join!(durably::uuid(), durably::uuid());
    note(&format!("{now:?} {one} {two} {id} {other}"));
    let _: bool = interrupt("go?", &()).await;
    (now, one, two, id, other)
}

#[test]
fn time_and_chance_are_the_same_on_replay() {
    in_every_mode(async |world| {
        let (ledger, clock) = (Ledger::default(), clock_of_2001());
        {
            let thread = open(&world, &ledger, &clock).thread("t").unwrap();
            let _ = thread.invoke(draws()).await.unwrap();
            thread.answer("go?", true).await.unwrap();
        }
        clock.forward(Duration::from_secs(5));
        let outcome = open(&world, &ledger, &clock).thread("t").unwrap().resume(draws).await.unwrap();
        let (now, one, two, id, other) = outcome.completed().unwrap();
        assert_eq!(now, UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        assert_ne!(one, two);
        assert_ne!(id, other);
        assert!(id.len() == 36 && id.as_bytes()[14] == b'4', "{id}");
        let seen: Vec<u32> = ledger.all().into_values().collect();
        assert_eq!(seen, [2], "both drives saw the same: {:?}", ledger.all());
    });
}

#[entrypoint]
async fn naps() -> String {
    step("before").await;
    durably::sleep(Duration::from_secs(30)).await;
    step("after").await
}

/// A sleep that is shorter than `park_after` holds the run in memory; over a crash it ends at the same moment.
#[test]
fn a_short_sleep_is_held_and_goes_on_over_a_crash() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), clock_of_2001());
        let thread = || open(&world, &ledger, &clock).thread("t").unwrap();
        cut(thread().invoke(naps()), clock.waited_for()).await;
        clock.forward(Duration::from_secs(20));
        cut(thread().resume(naps), clock.waited_for()).await;
        assert_eq!((ledger.count("before"), ledger.count("after")), (1, 0));
        // Counted from the first time: not 30 seconds more.
        clock.forward(Duration::from_secs(11));
        assert_eq!(thread().resume(naps).await.unwrap().completed().unwrap(), "after");
        assert_eq!((ledger.count("before"), ledger.count("after")), (1, 1));
    });
}

#[task]
async fn sleeps_in_a_task(name: &str) -> String {
    note("began");
    durably::sleep(Duration::from_secs(7200)).await;
    name.to_owned()
}

#[entrypoint]
async fn sleeps_long() -> String {
    step("before").await;
    let ((), slept) = tokio::join!(durably::sleep(Duration::from_secs(3600)), sleeps_in_a_task("slept"));
    step("after").await;
    slept
}

#[test]
fn a_long_sleep_parks_the_run_until_it_is_due() {
    in_every_mode(async |world| {
        let (ledger, clock) = (Ledger::default(), clock_of_2001());
        let begun = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let thread = || open(&world, &ledger, &clock).thread("t").unwrap();
        let until = |outcome| match outcome {
            Outcome::Sleeping { until } => until.duration_since(begun).unwrap().as_secs(),
            other => panic!("{other:?}"),
        };
        assert_eq!(until(thread().invoke(sleeps_long()).await.unwrap()), 3600, "the nearest one");
        let state = thread().state().await.unwrap().unwrap();
        assert_eq!(state.status, Status::Sleeping);
        assert_eq!(state.due.unwrap().duration_since(begun).unwrap().as_secs(), 3600);
        assert!(matches!(state.calls[1].status, CallStatus::Waiting { .. }), "{:?}", state.calls);
        clock.forward(Duration::from_secs(10));
        assert_eq!(until(thread().resume(sleeps_long).await.unwrap()), 3600, "too early");
        clock.forward(Duration::from_secs(3600));
        assert_eq!(until(thread().resume(sleeps_long).await.unwrap()), 7200);
        clock.forward(Duration::from_secs(3600));
        assert_eq!(thread().resume(sleeps_long).await.unwrap().completed().unwrap(), "slept");
        assert_eq!((ledger.count("before"), ledger.count("after")), (1, 1));
    });
}

#[entrypoint]
async fn park_of(seconds: u64) {
    durably::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn the_builder_says_from_which_length_on_a_sleep_parks() {
    block_on(async {
        let clock = clock_of_2001();
        let builder = Runtime::builder().clock(clock.clone()).park_after(Duration::from_secs(5));
        let runtime = builder.memory();
        let outcome = runtime.thread("long").unwrap().invoke(park_of(5)).await.unwrap();
        assert!(matches!(outcome, Outcome::Sleeping { .. }), "{outcome:?}");
        cut(runtime.thread("short").unwrap().invoke(park_of(4)), clock.waited_for()).await;
    });
}

/// A body that waits until it is let go.
#[derive(Clone, Debug, Default)]
struct Gate {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[task]
async fn gated(name: &str) -> String {
    note(name);
    let gate = resource::<Gate>();
    gate.begun.notify_one();
    gate.go_on.notified().await;
    step("within").await
}

#[entrypoint]
async fn drained_between() -> String {
    gated("running").await + &step("next").await
}

#[entrypoint]
async fn inner() -> String {
    drained_between().await + &step("last of inner").await
}

#[entrypoint]
async fn drained_in_nested() -> String {
    inner().await + &step("outer").await
}

/// Drains while the gated body runs.
async fn drain_at_gate(runtime: &Runtime, gate: &Gate) {
    gate.begun.notified().await;
    runtime.drain();
    gate.go_on.notify_one();
}

/// Line 83 of the list of behaviours: the body that runs is let to end, with the tasks that it calls.
#[test]
fn a_drain_stops_a_run_before_its_next_body_and_a_resume_goes_on() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        let open = || world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
        {
            let runtime = open();
            let thread = runtime.thread("t").unwrap();
            let invoke = thread.invoke(drained_between()).into_future();
            let (outcome, ()) = tokio::join!(invoke, drain_at_gate(&runtime, &gate));
            assert_eq!(outcome.unwrap(), Outcome::Drained);
            assert_eq!(["running", "within", "next"].map(|name| ledger.count(name)), [1, 1, 0]);
            // Lines 84: what comes during the drain is kept, and not run.
            let other = runtime.thread("u").unwrap();
            assert_eq!(other.invoke(drained_between()).await.unwrap(), Outcome::Drained);
            assert_eq!(thread.resume(drained_between).await.unwrap(), Outcome::Drained);
            assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Drained);
            assert_eq!(ledger.count("running"), 1);
            runtime.undrain();
            gate.go_on.notify_one();
            assert_eq!(other.resume(drained_between).await.unwrap().completed().unwrap(), "withinnext");
        }
        let outcome = open().thread("t").unwrap().resume(drained_between).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "withinnext");
        assert_eq!(["running", "within", "next"].map(|name| ledger.count(name)), [2, 2, 2]);
    });
}

/// Line 85: the same in a nested entrypoint, and the resume is at the outer one.
#[test]
fn a_drain_stops_within_a_nested_entrypoint_too() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        let open = || world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
        {
            let runtime = open();
            let thread = runtime.thread("t").unwrap();
            let invoke = thread.invoke(drained_in_nested()).into_future();
            let (outcome, ()) = tokio::join!(invoke, drain_at_gate(&runtime, &gate));
            assert_eq!(outcome.unwrap(), Outcome::Drained);
            assert_eq!(["running", "within", "next"].map(|name| ledger.count(name)), [1, 1, 0]);
        }
        let outcome = open().thread("t").unwrap().resume(drained_in_nested).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "withinnextlast of innerouter");
        let each = ["running", "within", "next", "last of inner", "outer"];
        assert_eq!(each.map(|name| ledger.count(name)), [1; 5]);
    });
}

#[task]
async fn runs_an_entrypoint() -> String {
    drained_between().await
}

#[entrypoint]
async fn entrypoint_in_a_task() -> String {
    runs_an_entrypoint().await + &step("outer").await
}

/// What a body that runs has begun is let to end, an entrypoint within it too.
#[test]
fn a_drain_lets_an_entrypoint_within_a_running_task_end() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let invoke = thread.invoke(entrypoint_in_a_task()).into_future();
        let (outcome, ()) = tokio::join!(invoke, drain_at_gate(&runtime, &gate));
        assert_eq!(outcome.unwrap(), Outcome::Drained);
        assert_eq!(["running", "within", "next", "outer"].map(|name| ledger.count(name)), [1, 1, 1, 0]);
        runtime.undrain();
        let outcome = thread.resume(entrypoint_in_a_task).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "withinnextouter");
        assert_eq!(ledger.count("next"), 1);
    });
}

#[entrypoint]
async fn last_is_gated() -> String {
    gated("running").await
}

/// Line 85: a drain at the last step changes nothing.
#[test]
fn a_drain_at_the_last_body_lets_the_run_end() {
    in_every_mode(async |world| {
        let gate = Gate::default();
        let runtime = world.open(|builder| builder.resource(Ledger::default()).resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let invoke = thread.invoke(last_is_gated()).into_future();
        let (outcome, ()) = tokio::join!(invoke, drain_at_gate(&runtime, &gate));
        assert_eq!(outcome.unwrap().completed().unwrap(), "within");
    });
}

#[entrypoint]
async fn counts_up(from: u32, #[previous] previous: Option<u32>) -> (u32, Option<u32>) {
    for n in from..from + 3 {
        step(&n.to_string()).await;
    }
    if from < 9 {
        return continue_as_new(counts_up(from + 3)).await;
    }
    (from + 3, previous)
}

async fn calls(thread: &Thread) -> (u32, usize, String) {
    let state = thread.state().await.unwrap().unwrap();
    (state.run.get(), state.calls.len(), state.input)
}

#[test]
fn a_run_that_continues_as_new_has_a_short_journal() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()));
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(counts_up(0)).await.unwrap(), Outcome::Completed((12, None)));
        assert_eq!((ledger.total(), ledger.all().len()), (12, 12));
        assert_eq!(calls(&thread).await, (4, 3, "[9]".to_owned()));
        let runs: Vec<String> = watch.take().into_iter().filter(|line| line.contains("counts_up")).collect();
        let expected = [
            "began counts_up 1",
            "stopped counts_up continued",
            "began counts_up 2",
            "stopped counts_up continued",
            "began counts_up 3",
            "stopped counts_up continued",
            "began counts_up 4",
            "stopped counts_up completed",
        ];
        assert_eq!(runs, expected);
    });
}

#[test]
fn a_crash_after_a_run_continued_goes_on_with_the_new_one() {
    let ledger = Ledger::default();
    tests::cut_after_every_record(
        |builder| builder.resource(ledger.clone()),
        async |runtime| {
            let _ = runtime.thread("t").unwrap().invoke(counts_up(0)).await.unwrap();
            ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let outcome =
                if cut == 0 { thread.invoke(counts_up(0)).await } else { thread.resume(counts_up).await }.unwrap();
            assert_eq!(outcome, Outcome::Completed((12, None)));
            assert_eq!(ledger.total() as usize, ledger.all().len(), "none twice");
            ledger.clear();
        },
    );
}

#[task(retry(max_attempts = 2, initial_interval = "0ms", jitter = false), skip(secret))]
async fn real(article: &str, secret: &str) -> anyhow::Result<u32> {
    anyhow::bail!("{article} needs a network, and {secret}")
}

#[entrypoint]
async fn offer(article: String) -> anyhow::Result<u32> {
    let price = real(&article, "a password").await?;
    let more: u32 = interrupt("more", &price).await;
    Ok(price + more)
}

#[test]
fn a_replaced_body_is_retried_and_recorded_as_the_tasks_own() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let seen = ledger.clone();
        {
            let runtime = world.open(|builder| {
                builder.replace("real", move |call| {
                    let seen = seen.clone();
                    async move {
                        assert_eq!(call.argument::<String>("article").as_deref(), Some("tea"));
                        assert!(call.argument::<String>("secret").is_none(), "it is skipped");
                        seen.note(format!("attempt {}", call.attempt()));
                        if call.attempt() == 1 { Err(anyhow::anyhow!("once more")) } else { Ok(21_u32) }
                    }
                })
            });
            let thread = runtime.thread("t").unwrap();
            assert_eq!(thread.invoke(offer("tea".to_owned())).await.unwrap().questions()[0].payload(), "21");
            thread.answer("more", 1).await.unwrap();
        }
        assert_eq!((ledger.count("attempt 1"), ledger.count("attempt 2")), (1, 1));
        // Its record answers where nothing is replaced.
        let outcome = world.runtime().thread("t").unwrap().resume(offer).await.unwrap();
        assert_eq!(outcome.completed(), Some(22));
    });
}

#[test]
fn a_replacement_of_another_type_is_told_with_both() {
    block_on(async {
        let runtime = Runtime::builder().replace("real", async |_| 21_u32).memory();
        let error = runtime.thread("t").unwrap().invoke(offer("tea".to_owned())).await.unwrap_err();
        let RunError::Panicked { message, .. } = &error else { panic!("{error}") };
        for part in ["`real`", "gives `u32`", "Result<u32"] {
            assert!(message.contains(part), "{message}");
        }
    });
}

#[test]
fn a_missing_resource_fails_the_run_and_tells_what_there_is() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Gate::default()));
        let error = runtime.thread("t").unwrap().invoke(naps()).await.unwrap_err();
        let RunError::Panicked { message, .. } = &error else { panic!("{error}") };
        for part in ["Ledger", "Gate", "Runtime::builder().resource"] {
            assert!(message.contains(part), "{message}");
        }
    });
}
