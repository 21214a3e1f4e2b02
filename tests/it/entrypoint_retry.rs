//! An entrypoint that is run again when it fails. Each test names its line in the list of behaviours.

use std::time::Duration;

use durably::{Outcome, RunError, Runtime, RuntimeBuilder, Status, entrypoint, interrupt, resource, task};
use serde::{Deserialize, Serialize};
use tests::{HandClock, Ledger, World, cut_after_every_record, in_every_mode, on_every_checkpointer};

use crate::watch::{Watch, cut};

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

fn count(effect: &str) -> u32 {
    resource::<Ledger>().count(effect)
}

fn open(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()))
}

#[task]
async fn solid(name: &str) -> String {
    note(name);
    name.to_owned()
}

/// Works from its so-manieth body on.
#[task]
async fn works_at(name: &str, at: u32) -> anyhow::Result<String> {
    note(name);
    anyhow::ensure!(count(name) >= at, "{name} at {}", count(name));
    Ok(name.to_owned())
}

#[entrypoint(retry(max_attempts = 3, initial_interval = "1ms", jitter = false))]
async fn three_attempts(at: u32) -> anyhow::Result<String> {
    let first = solid("first").await;
    let other = match works_at("handled", 9).await {
        Ok(_) => anyhow::bail!("a handled failure was opened again"),
        Err(_) => solid("other way").await,
    };
    Ok(format!("{first}, {other}, {}", works_at("fragile", at).await?))
}

/// Lines 30 and 31, for entrypoints: what has ended stays, what was not got past is made again.
#[test]
fn a_failed_entrypoint_is_run_again_and_only_what_it_did_not_get_past_is_made_again() {
    in_every_mode(async |world| {
        for (at, works) in [(1, true), (3, true), (4, false)] {
            let (ledger, watch) = (Ledger::default(), Watch::default());
            let runtime = world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()));
            let thread = runtime.thread(at.to_string()).unwrap();
            let outcome = thread.invoke(three_attempts(at)).await;
            if works {
                assert_eq!(outcome.unwrap().completed().unwrap(), "first, other way, fragile");
            } else {
                let error = outcome.unwrap_err();
                assert!(
                    matches!(&error, RunError::Failed(failure) if failure.to_string() == "fragile at 3"),
                    "{error}"
                );
            }
            let counts = ["first", "handled", "other way", "fragile"].map(|name| ledger.count(name));
            assert_eq!(counts, [1, 1, 1, at.min(3)]);
            let events = watch.take();
            let again: Vec<_> = events.iter().filter(|line| line.starts_with("again")).collect();
            let expected = ["again three_attempts 1 fragile at 1", "again three_attempts 2 fragile at 2"];
            assert_eq!(again, expected[..again.len()], "{events:?}");
            assert_eq!(again.len() + 1, at.min(3) as usize);
            let state = thread.state().await.unwrap().unwrap();
            let status = if works { Status::Completed } else { Status::Failed };
            assert_eq!((state.status, state.attempt), (status, at.min(3)));
        }
    });
}

/// A resume of a run that has used its attempts up is an operator's: it has all of them again.
#[test]
fn a_resume_after_the_last_attempt_has_all_attempts_again() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let thread = open(&world, &ledger).thread("t").unwrap();
        thread.invoke(three_attempts(6)).await.unwrap_err();
        assert_eq!(ledger.count("fragile"), 3);
        let outcome = thread.resume(three_attempts).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "first, other way, fragile");
        assert_eq!((ledger.count("fragile"), ledger.count("first")), (6, 1));
    });
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Trouble {
    Passing,
    Lasting,
}

fn passes(trouble: &Trouble) -> bool {
    *trouble == Trouble::Passing
}

#[entrypoint(
    retry(max_attempts = 4, initial_interval = "1ms", jitter = false, retry_on = passes),
    retry(max_attempts = 2, initial_interval = "1ms", jitter = false)
)]
async fn troubled(lasting: bool) -> Result<(), Trouble> {
    let n = count("attempts");
    note("attempts");
    solid(&format!("{n}")).await;
    if lasting { Err(Trouble::Lasting) } else { Err(Trouble::Passing) }
}

/// Line 32, for entrypoints.
#[test]
fn the_first_policy_that_is_for_the_error_counts() {
    on_every_checkpointer(async |world| {
        for (lasting, attempts) in [(false, 4), (true, 2)] {
            let ledger = Ledger::default();
            let thread = open(&world, &ledger).thread(lasting.to_string()).unwrap();
            // Each attempt makes another call beside the recorded ones, which no deterministic code does: it is told.
            let error = thread.invoke(plainly_troubled(lasting)).await.unwrap_err();
            let RunError::Failed(failure) = &error else { panic!("{error}") };
            assert_eq!(failure.decode::<Trouble>().unwrap().unwrap() == Trouble::Lasting, lasting);
            assert_eq!(thread.state().await.unwrap().unwrap().attempt, attempts);
        }
        let thread = open(&world, &Ledger::default()).thread("u").unwrap();
        let error = thread.invoke(troubled(false)).await.unwrap_err();
        assert!(matches!(error, RunError::Nondeterminism(_)), "{error}");
    });
}

#[entrypoint(
    retry(max_attempts = 4, initial_interval = "1ms", jitter = false, retry_on = passes),
    retry(max_attempts = 2, initial_interval = "1ms", jitter = false)
)]
async fn plainly_troubled(lasting: bool) -> Result<(), Trouble> {
    if lasting { Err(Trouble::Lasting) } else { Err(Trouble::Passing) }
}

#[entrypoint(retry(max_attempts = 3, initial_interval = "10s", backoff_factor = 3, jitter = false))]
async fn patient() -> anyhow::Result<String> {
    works_at("fragile", 3).await
}

/// The count and the back-off go on after a crash between attempts.
#[test]
fn a_crash_between_attempts_keeps_their_count_and_their_pause() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let open = || {
            let runtime =
                world.open(|builder| builder.resource(ledger.clone()).clock(clock.clone()).entrypoint(patient));
            (runtime.thread("t").unwrap(), runtime)
        };
        cut(open().0.invoke(patient()), clock.waited_for()).await;
        assert_eq!(ledger.count("fragile"), 1);
        clock.forward(Duration::from_millis(9_999));
        {
            let (thread, _) = open();
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!((state.status, state.attempt), (Status::Running, 2), "it was cut off, and can be recovered");
            cut(thread.resume(patient), clock.waited_for()).await;
        }
        assert_eq!(ledger.count("fragile"), 1, "the pause is not over");
        clock.forward(Duration::from_millis(1));
        cut(open().0.resume(patient), clock.waited_for()).await;
        assert_eq!(ledger.count("fragile"), 2);
        clock.forward(Duration::from_secs(30));
        let (_, runtime) = open();
        let [recovered] = <[_; 1]>::try_from(runtime.recover().await.unwrap()).unwrap();
        assert_eq!(recovered.outcome_as::<String>().await.unwrap().completed().unwrap(), "fragile");
        assert_eq!(ledger.count("fragile"), 3);
    });
}

/// A long pause leaves memory, as a sleep does, and survives a restart.
#[test]
fn a_long_pause_between_attempts_is_a_sleep_that_is_woken_when_it_is_due() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let open = || {
            let build = |builder: RuntimeBuilder| {
                let builder = builder.resource(ledger.clone()).clock(clock.clone()).entrypoint(patient);
                builder.park_after(Duration::from_secs(5))
            };
            world.open(build)
        };
        let outcome = open().thread("t").unwrap().invoke(patient()).await.unwrap();
        assert!(matches!(outcome, Outcome::Sleeping { .. }), "{outcome:?}");
        clock.forward(Duration::from_secs(4));
        let outcome = open().thread("t").unwrap().resume(patient).await.unwrap();
        assert!(matches!(outcome, Outcome::Sleeping { .. }), "{outcome:?}");
        assert!(open().run_due().await.unwrap().is_empty());
        clock.forward(Duration::from_secs(6));
        for expected in ["sleeping", "completed"] {
            let runtime = open();
            let [due] = <[_; 1]>::try_from(runtime.run_due().await.unwrap()).unwrap();
            assert_eq!(due.outcome().await.unwrap().word(), expected);
            clock.forward(Duration::from_secs(30));
        }
        assert_eq!(ledger.count("fragile"), 3);
    });
}

/// A drain ends a pause between attempts, and so does dropping the run.
#[test]
fn a_drain_does_not_wait_for_the_next_attempt() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).clock(clock.clone()));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(patient()).start();
        clock.waited_for().await;
        runtime.drain();
        assert_eq!(run.await.unwrap(), Outcome::Drained);
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Drained);
        runtime.undrain();
        clock.forward(Duration::from_secs(10));
        cut(thread.resume(patient), clock.waited_for()).await;
        clock.forward(Duration::from_secs(30));
        assert_eq!(thread.resume(patient).wait().await.unwrap().completed().unwrap(), "fragile");
        assert_eq!(ledger.count("fragile"), 3);
    });
}

#[task]
async fn undo() {
    note("undone");
}

#[entrypoint(retry(max_attempts = 3, initial_interval = "10s", jitter = false))]
async fn cleans_up() -> anyhow::Result<String> {
    durably::defer(async || undo().await);
    works_at("fragile", 9).await
}

/// What it left to be done is done once: not between attempts, and also if no attempt follows the pause.
#[test]
fn a_cancellation_ends_a_pause_between_attempts_and_the_run_cleans_up_once() {
    on_every_checkpointer(async |world| {
        for parked in [false, true] {
            let (ledger, clock) = (Ledger::default(), HandClock::default());
            let runtime = world.open(|builder| {
                let builder = builder.resource(ledger.clone()).clock(clock.clone()).entrypoint(cleans_up);
                builder.park_after(Duration::from_secs(if parked { 5 } else { 60 }))
            });
            let thread = runtime.thread(format!("parked: {parked}")).unwrap();
            let run = thread.invoke(cleans_up()).start();
            if parked {
                assert!(matches!(run.await.unwrap(), Outcome::Sleeping { .. }));
                assert_eq!(ledger.count("undone"), 0);
                thread.cancel().await.unwrap();
            } else {
                clock.waited_for().await;
                assert_eq!(ledger.count("undone"), 0);
                thread.cancel().await.unwrap();
                assert_eq!(run.await.unwrap(), Outcome::Cancelled);
            }
            assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Cancelled);
            assert_eq!((ledger.count("fragile"), ledger.count("undone")), (1, 1), "parked: {parked}");
        }
    });
}

/// A deadline holds over the pauses between attempts, and what was left to be done is done at the end.
#[test]
fn a_deadline_ends_a_pause_between_attempts() {
    on_every_checkpointer(async |world| {
        for parked in [false, true] {
            let (ledger, clock) = (Ledger::default(), HandClock::default());
            let runtime = world.open(|builder| {
                let builder = builder.resource(ledger.clone()).clock(clock.clone()).entrypoint(cleans_up);
                builder.park_after(Duration::from_secs(if parked { 5 } else { 60 }))
            });
            let thread = runtime.thread(format!("parked: {parked}")).unwrap();
            let run = thread.invoke(cleans_up()).deadline(Duration::from_secs(3)).start();
            let ended = if parked {
                assert!(matches!(run.await.unwrap(), Outcome::Sleeping { .. }));
                clock.forward(Duration::from_secs(4));
                let [due] = <[_; 1]>::try_from(runtime.run_due().await.unwrap()).unwrap();
                due.outcome().await.map(|outcome| outcome.word())
            } else {
                while thread.state().await.unwrap().is_none_or(|state| state.attempt < 2) {
                    tokio::task::yield_now().await;
                }
                clock.forward(Duration::from_secs(4));
                run.await.map(|outcome| outcome.word())
            };
            assert!(matches!(ended, Err(RunError::TimedOut { .. })), "parked: {parked}: {ended:?}");
            assert_eq!((ledger.count("fragile"), ledger.count("undone")), (1, 1), "parked: {parked}");
        }
    });
}

#[entrypoint(retry(max_attempts = 3, initial_interval = "1ms", jitter = false))]
async fn asks_and_fails() -> anyhow::Result<String> {
    note("attempt");
    let answer: String = interrupt("q", &()).await;
    note("answered");
    Ok(format!("{answer} {}", works_at("after", 2).await?))
}

/// Line 65: a question is no failure, and an attempt after its answer uses the answer.
#[test]
fn a_question_is_not_tried_again_and_its_answer_is_used_by_the_next_attempt() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let thread = open(&world, &ledger).thread("t").unwrap();
        for _ in 0..5 {
            let paused = match thread.state().await.unwrap() {
                None => thread.invoke(asks_and_fails()).await.unwrap(),
                Some(_) => thread.resume(asks_and_fails).await.unwrap(),
            };
            assert_eq!(paused.questions().len(), 1);
            assert_eq!(thread.state().await.unwrap().unwrap().attempt, 1, "a pause is no attempt");
        }
        thread.answer("q", "yes").await.unwrap();
        let outcome = thread.resume(asks_and_fails).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "yes after");
        assert_eq!((ledger.count("answered"), ledger.count("after")), (2, 2));
    });
}

#[entrypoint]
async fn around() -> String {
    match three_attempts(3).await {
        Ok(value) => value,
        Err(error) => format!("failed: {error}"),
    }
}

/// Awaited in another entrypoint, its failure is the other's to handle: only a run is run again.
#[test]
fn a_nested_entrypoint_is_not_run_again_by_itself() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let thread = open(&world, &ledger).thread("t").unwrap();
        assert_eq!(thread.invoke(around()).await.unwrap().completed().unwrap(), "failed: fragile at 1");
        assert_eq!(ledger.count("fragile"), 1);
    });
}

/// A crash at any record: it comes to the same end, each finished task runs once, and there are no more attempts.
#[test]
fn a_retried_run_goes_on_after_a_crash_at_any_record() {
    let ledger = Ledger::default();
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()),
        async |runtime| {
            let outcome = runtime.thread("t").unwrap().invoke(three_attempts(2)).await.unwrap();
            assert_eq!(outcome.completed().unwrap(), "first, other way, fragile");
            ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let failed = match thread.state().await.unwrap() {
                Some(state) => state.attempt,
                None => 1,
            };
            // What the journal knows of the fragile task its effects know too; one body more may be lost by the cut.
            for _ in 1..failed {
                ledger.note("fragile");
            }
            let outcome =
                if cut == 0 { thread.invoke(three_attempts(2)).await } else { thread.resume(three_attempts).await };
            let state = thread.state().await.unwrap().unwrap();
            match outcome {
                Ok(outcome) => assert_eq!(outcome.completed().unwrap(), "first, other way, fragile"),
                Err(error) => panic!("{error} at attempt {}", state.attempt),
            }
            assert!(state.attempt <= 3);
            assert!(["first", "handled", "other way"].iter().all(|name| ledger.count(name) <= 1));
            ledger.clear();
        },
    );
}
