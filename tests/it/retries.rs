//! Attempts, and which failures a resume opens again. Each test names its line in the list of behaviours.

use std::time::Duration;

use durably::{CallStatus, RunError, Runtime, Status, attempt, entrypoint, idempotency_key, interrupt, resource, task};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tests::{HandClock, Ledger, World, in_every_mode, on_every_checkpointer};

use crate::watch::{Watch, cut};

fn open(world: &World, ledger: &Ledger, watch: &Watch) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()))
}

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

fn mended() -> bool {
    resource::<Ledger>().count("mended") > 0
}

#[task(retry(max_attempts = 3, initial_interval = "1ms", jitter = false))]
async fn third_time(n: u32) -> anyhow::Result<u32> {
    note(&format!("attempt {}", attempt()));
    anyhow::ensure!(attempt() == 3, "not at attempt {}", attempt());
    Ok(n)
}

#[entrypoint]
async fn tries(n: u32) -> anyhow::Result<u32> {
    third_time(n).await
}

/// Line 30.
#[test]
fn a_task_that_succeeds_at_its_third_attempt_has_one_outcome() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let thread = open(&world, &ledger, &watch).thread("t").unwrap();
            assert_eq!(thread.invoke(tries(7)).await.unwrap().completed(), Some(7));
        }
        assert_eq!(["attempt 1", "attempt 2", "attempt 3"].map(|one| ledger.count(one)), [1, 1, 1]);
        let expected = [
            "began tries 1",
            "started third_time 1",
            "retried third_time 1 not at attempt 1",
            "started third_time 2",
            "retried third_time 2 not at attempt 2",
            "started third_time 3",
            "recorded third_time",
            "released third_time 7",
            "stopped tries completed",
        ];
        assert_eq!(watch.take(), expected);
        let state = open(&world, &ledger, &watch).thread("t").unwrap().state().await.unwrap().unwrap();
        let [call] = state.calls.as_slice() else { panic!("{:?}", state.calls) };
        assert_eq!((call.attempts, &call.status), (3, &CallStatus::Value("7".to_owned())));
    });
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Trouble {
    Network { attempt: u32 },
    Declined { code: u16 },
}

fn is_network(error: &Trouble) -> bool {
    matches!(error, Trouble::Network { .. })
}

#[task(
    retry(max_attempts = 4, initial_interval = "1ms", jitter = false, retry_on = is_network),
    retry(max_attempts = 2, initial_interval = "1ms", jitter = false)
)]
async fn charge(declined: bool) -> Result<(), Trouble> {
    note(if declined { "declined" } else { "network" });
    if declined { Err(Trouble::Declined { code: 51 }) } else { Err(Trouble::Network { attempt: attempt() }) }
}

#[entrypoint]
async fn charges(declined: bool) -> Result<(), Trouble> {
    charge(declined).await
}

/// Lines 31 and 32: the first policy that is for the error counts, and at its end the error itself comes out.
#[test]
fn the_first_policy_that_matches_counts_and_the_last_error_comes_out_typed() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger, &Watch::default());
        for (declined, last) in [(false, Trouble::Network { attempt: 4 }), (true, Trouble::Declined { code: 51 })] {
            let thread = runtime.thread(format!("declined: {declined}")).unwrap();
            let error = thread.invoke(charges(declined)).await.unwrap_err();
            let RunError::Failed(failure) = &error else { panic!("{error}") };
            assert_eq!(failure.decode::<Trouble>().unwrap().unwrap(), last);
        }
        assert_eq!((ledger.count("network"), ledger.count("declined")), (4, 2));
    });
}

#[task(retry(max_attempts = 3, initial_interval = "10s", backoff_factor = 3, jitter = false))]
async fn patient() -> anyhow::Result<u32> {
    note(&format!("attempt {}", attempt()));
    note(&idempotency_key().unwrap());
    anyhow::bail!("no luck at attempt {}", attempt())
}

#[entrypoint]
async fn waits_between() -> anyhow::Result<u32> {
    patient().await
}

/// The count and the back-off go on after a crash between attempts.
#[test]
fn a_crash_between_attempts_keeps_their_count_and_their_pause() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let open = || {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).clock(clock.clone()));
            runtime.thread("t").unwrap()
        };
        let counts = || [1, 2, 3].map(|nth| ledger.count(&format!("attempt {nth}")));
        cut(open().invoke(waits_between()), clock.waited_for()).await;
        assert_eq!(counts(), [1, 0, 0]);
        clock.forward(Duration::from_millis(9_999));
        cut(open().resume(waits_between), clock.waited_for()).await;
        assert_eq!(counts(), [1, 0, 0], "the pause is not over");
        clock.forward(Duration::from_millis(1));
        cut(open().resume(waits_between), clock.waited_for()).await;
        assert_eq!(counts(), [1, 1, 0]);
        clock.forward(Duration::from_secs(30));
        let error = open().resume(waits_between).await.unwrap_err();
        assert_eq!(counts(), [1, 1, 1]);
        assert!(
            matches!(&error, RunError::Failed(failure) if failure.to_string() == "no luck at attempt 3"),
            "{error}"
        );
        // Three attempts, two crashes, one key.
        assert_eq!(ledger.all().values().filter(|count| **count == 3).count(), 1, "{:?}", ledger.all());
    });
}

#[task]
async fn fragile(name: &str) -> anyhow::Result<String> {
    note(name);
    anyhow::ensure!(mended(), "{name} is broken");
    Ok(name.to_owned())
}

#[task]
async fn solid(name: &str) -> String {
    note(name);
    name.to_owned()
}

#[entrypoint]
async fn takes_the_other_way() -> String {
    let way = match fragile("first way").await {
        Ok(way) => way,
        Err(_) => solid("other way").await,
    };
    let go: bool = interrupt("go?", &way).await;
    format!("{way}: {go}")
}

/// Line 34.
#[test]
fn a_caught_failure_leads_the_same_way_after_a_question() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let thread = open(&world, &ledger, &watch).thread("t").unwrap();
            let paused = thread.invoke(takes_the_other_way()).await.unwrap();
            assert_eq!(paused.questions()[0].payload(), "\"other way\"");
            thread.answer("go?", true).await.unwrap();
        }
        ledger.note("mended");
        let outcome = open(&world, &ledger, &watch).thread("t").unwrap().resume(takes_the_other_way).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "other way: true");
        assert_eq!((ledger.count("first way"), ledger.count("other way")), (1, 1));
    });
}

#[entrypoint]
async fn handles_one_of_two() -> anyhow::Result<String> {
    let way = match fragile("handled").await {
        Ok(_) => anyhow::bail!("a handled failure was opened again"),
        Err(_) => solid("other way").await,
    };
    Ok(way + &fragile("not handled").await?)
}

#[entrypoint]
async fn fails_twice_at_once() -> anyhow::Result<Vec<String>> {
    let all = join_all(
        ["a", "b", "c"]
            .map(|name| async move { if name == "b" { Ok(solid(name).await) } else { fragile(name).await } }),
    );
    all.await.into_iter().collect()
}

/// The rule for failed runs: what was not got past is opened again, what was handled stays as it was.
#[test]
fn a_resume_opens_the_failures_that_the_run_did_not_get_past() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let runtime = open(&world, &ledger, &watch);
            runtime.thread("t").unwrap().invoke(handles_one_of_two()).await.unwrap_err();
            runtime.thread("u").unwrap().invoke(fails_twice_at_once()).await.unwrap_err();
        }
        ledger.note("mended");
        let runtime = open(&world, &ledger, &watch);
        let outcome = runtime.thread("t").unwrap().resume(handles_one_of_two).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "other waynot handled");
        assert_eq!(["handled", "other way", "not handled"].map(|name| ledger.count(name)), [1, 1, 2]);
        let outcome = runtime.thread("u").unwrap().resume(fails_twice_at_once).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["a", "b", "c"]);
        assert_eq!(["a", "b", "c"].map(|name| ledger.count(name)), [2, 1, 2]);
    });
}

/// A run that fails again is resumed again, and what ended meanwhile is kept.
#[test]
fn a_resume_that_fails_too_can_be_resumed() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        open(&world, &ledger, &watch).thread("t").unwrap().invoke(handles_one_of_two()).await.unwrap_err();
        for _ in 0..3 {
            open(&world, &ledger, &watch).thread("t").unwrap().resume(handles_one_of_two).await.unwrap_err();
        }
        assert_eq!(["handled", "other way", "not handled"].map(|name| ledger.count(name)), [1, 1, 4]);
        ledger.note("mended");
        let outcome = open(&world, &ledger, &watch).thread("t").unwrap().resume(handles_one_of_two).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "other waynot handled");
        assert_eq!(ledger.count("not handled"), 5);
    });
}

#[entrypoint]
async fn checks_by_itself() -> anyhow::Result<String> {
    let name = solid("task").await;
    anyhow::ensure!(mended(), "the entrypoint's own check");
    Ok(name + &solid("after").await)
}

/// With no failure of a task to open, the run goes on from the entrypoint's own code.
#[test]
fn a_resume_after_the_entrypoints_own_error_runs_its_code_again_and_no_task() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        for _ in 0..2 {
            let thread = open(&world, &ledger, &watch).thread("t").unwrap();
            let error = match thread.state().await.unwrap() {
                None => thread.invoke(checks_by_itself()).await.unwrap_err(),
                Some(_) => thread.resume(checks_by_itself).await.unwrap_err(),
            };
            assert!(
                matches!(&error, RunError::Failed(failure) if failure.to_string().contains("own check")),
                "{error}"
            );
        }
        ledger.note("mended");
        let outcome = open(&world, &ledger, &watch).thread("t").unwrap().resume(checks_by_itself).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "taskafter");
        assert_eq!((ledger.count("task"), ledger.count("after")), (1, 1));
    });
}

#[task]
async fn nested(name: &str) -> anyhow::Result<String> {
    note("nested");
    let good = solid("inner").await;
    Ok(format!("{name} {good} {}", fragile("fragile").await?))
}

#[entrypoint]
async fn nests() -> anyhow::Result<String> {
    nested("outer").await
}

/// What failed in a task's body is opened again with the task, and what succeeded there is kept.
#[test]
fn a_resume_opens_the_failure_within_a_failed_task_too() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        open(&world, &ledger, &watch).thread("t").unwrap().invoke(nests()).await.unwrap_err();
        ledger.note("mended");
        let outcome = open(&world, &ledger, &watch).thread("t").unwrap().resume(nests).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "outer inner fragile");
        assert_eq!(["nested", "inner", "fragile"].map(|name| ledger.count(name)), [2, 1, 2]);
    });
}

#[task]
async fn panics(name: &str) -> String {
    note(name);
    assert!(mended(), "{name} is broken beyond repair");
    name.to_owned()
}

#[entrypoint]
async fn survives_nothing() -> String {
    solid("before").await + &panics("panic").await
}

/// A panic fails its run once, and no other.
#[test]
fn a_panic_is_no_outcome_and_a_resume_runs_that_call_again() {
    on_every_checkpointer(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let runtime = open(&world, &ledger, &watch);
            let error = runtime.thread("t").unwrap().invoke(survives_nothing()).await.unwrap_err();
            let RunError::Panicked { what, message } = &error else { panic!("{error}") };
            assert!(what.contains("\"panics\"") && what.contains("retries.rs:"), "{what}");
            assert_eq!(message, "panic is broken beyond repair");
            let state = runtime.thread("t").unwrap().state().await.unwrap().unwrap();
            assert_eq!((state.status, state.calls.len()), (Status::Failed, 1));
            assert!(runtime.thread("u").unwrap().invoke(checks_by_itself()).await.is_err(), "others go on");
        }
        ledger.clear();
        ledger.note("mended");
        let outcome = open(&world, &ledger, &watch).thread("t").unwrap().resume(survives_nothing).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "beforepanic");
        assert_eq!((ledger.count("before"), ledger.count("panic")), (0, 1));
    });
}
