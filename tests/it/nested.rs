//! Entrypoints in entrypoints and in tasks, tasks in tasks: what is inside keeps its results over crashes, pauses and
//! attempts of what is outside.

use std::{sync::Arc, time::Duration};

use durably::{Outcome, Runtime, checkpoint::MemoryCheckpointer, entrypoint, interrupt, task};
use futures::join;
use tests::{Ledger, block_on, commits_of, on_every_checkpointer};
use tokio::sync::Notify;

use crate::combinators::{Lab, Same, check};

#[task]
async fn leaf(n: u32) -> String {
    durably::resource::<Lab>().body("leaf", n).await
}

#[entrypoint]
async fn pair(n: u32) -> Vec<String> {
    let (one, two) = join!(leaf(n), leaf(n));
    vec![one, two, leaf(n).await]
}

#[task]
async fn outer(n: u32) -> Vec<String> {
    let (one, two) = join!(leaf(n), leaf(n));
    vec![one, two, leaf(n).await, durably::resource::<Lab>().body("outer", n).await]
}

#[task]
async fn outer_of_pair(n: u32) -> Vec<String> {
    let mut log = pair(n).await;
    log.push(leaf(n).await);
    log.push(durably::resource::<Lab>().body("outer_of_pair", n).await);
    log
}

#[entrypoint]
async fn entrypoints_in_it() -> Vec<String> {
    let (one, two) = join!(pair(1), pair(1));
    [one, two, pair(1).await, vec![leaf(1).await]].concat()
}

#[test]
fn equal_entrypoints_within_one_keep_their_values() {
    assert!(check(entrypoints_in_it, entrypoints_in_it, Same::Exactly) > 1, "the seeds give only one order");
}

#[entrypoint]
async fn tasks_in_tasks() -> Vec<String> {
    let (one, two) = join!(outer(1), outer(1));
    [one, two, outer(2).await, vec![leaf(1).await]].concat()
}

#[test]
fn equal_tasks_within_tasks_keep_their_values() {
    check(tasks_in_tasks, tasks_in_tasks, Same::Exactly);
}

#[entrypoint]
async fn entrypoints_in_tasks() -> Vec<String> {
    let (one, two) = join!(outer_of_pair(1), outer_of_pair(1));
    [one, two, vec![leaf(1).await]].concat()
}

#[test]
fn equal_entrypoints_within_tasks_keep_their_values() {
    check(entrypoints_in_tasks, entrypoints_in_tasks, Same::Exactly);
}

#[task(skip(ledger))]
async fn note(ledger: &Ledger, what: &str) -> String {
    ledger.note(what);
    what.to_owned()
}

#[entrypoint]
async fn asks_after_a_task(name: String) -> String {
    let ledger = durably::resource::<Ledger>();
    let before = note(&ledger, &format!("{name} before")).await;
    let answer: String = interrupt(name, "?").await;
    format!("{before} {answer}")
}

#[entrypoint]
async fn parent() -> Vec<String> {
    let ledger = durably::resource::<Ledger>();
    let first = note(&ledger, "parent before").await;
    let inner = asks_after_a_task("child".to_owned()).await;
    vec![first, inner, note(&ledger, "parent after").await]
}

#[test]
fn a_nested_entrypoint_keeps_its_results_over_its_question() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()));
            let outcome = runtime.thread("t").unwrap().invoke(parent()).await.unwrap();
            assert_eq!(outcome.questions().len(), 1);
            assert_eq!(outcome.questions()[0].key(), "child");
        }
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        thread.answer("child", "yes").await.unwrap();
        let outcome = thread.resume(parent).await.unwrap();
        let expected = ["parent before", "child before yes", "parent after"].map(str::to_owned);
        assert_eq!(outcome, Outcome::Completed(expected.to_vec()));
        assert!(ledger.all().values().all(|times| *times == 1), "{:?}", ledger.all());
    });
}

#[entrypoint]
async fn two_children() -> Vec<String> {
    let (one, two) = join!(asks_after_a_task("one".to_owned()), asks_after_a_task("two".to_owned()));
    vec![one, two]
}

#[test]
fn the_questions_of_two_nested_entrypoints_are_shown_at_once_and_answered_one_by_one() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let open = || world.open(|builder| builder.resource(ledger.clone()));
        {
            let outcome = open().thread("t").unwrap().invoke(two_children()).await.unwrap();
            assert_eq!(outcome.questions().len(), 2);
        }
        {
            let thread = open().thread("t").unwrap();
            thread.answer("two", "2").await.unwrap();
            let outcome = thread.resume(two_children).await.unwrap();
            assert_eq!(outcome.questions().len(), 1);
            assert_eq!(outcome.questions()[0].key(), "one");
        }
        let thread = open().thread("t").unwrap();
        thread.answer("one", "1").await.unwrap();
        let outcome = thread.resume(two_children).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["one before 1", "two before 2"]);
        assert_eq!(ledger.total(), 2);
    });
}

#[task(skip(ledger))]
async fn fails_at_first(ledger: &Ledger, what: &str) -> anyhow::Result<u32> {
    ledger.note(what);
    anyhow::ensure!(ledger.count(what) > 1, "{what} fails at first");
    Ok(ledger.count(what))
}

#[task(skip(ledger), retry(max_attempts = 4, initial_interval = "1ms", jitter = false))]
async fn retried(ledger: &Ledger) -> anyhow::Result<Vec<u32>> {
    ledger.note("retried");
    note(ledger, "inner").await;
    // Handled: it stays a failure in every attempt.
    let handled = fails_at_first(ledger, "handled").await.is_err();
    note(ledger, "past handled").await;
    let first = fails_at_first(ledger, "first").await?;
    let second = fails_at_first(ledger, "second").await?;
    Ok(vec![u32::from(handled), first, second])
}

#[entrypoint]
async fn retries() -> anyhow::Result<Vec<u32>> {
    retried(&durably::resource::<Ledger>()).await
}

#[test]
fn a_new_attempt_keeps_inner_successes_and_handled_failures_and_opens_the_others_again() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let outcome = runtime.thread("t").unwrap().invoke(retries()).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), [1, 2, 2]);
        let counts = [("retried", 3), ("inner", 1), ("handled", 1), ("past handled", 1), ("first", 2), ("second", 2)];
        for (effect, times) in counts {
            assert_eq!(ledger.count(effect), times, "{effect}");
        }
    });
}

#[test]
fn a_retried_task_cut_off_at_any_record_goes_on_with_what_its_inner_calls_left() {
    let ledger = Ledger::default();
    let build = |builder: durably::RuntimeBuilder| builder.resource(ledger.clone());
    let commits = commits_of(build, async |runtime| {
        let _ = runtime.thread("t").unwrap().invoke(retries()).await.unwrap();
    });
    for cut in 1..=commits.len() {
        println!("cut after {cut} of {} commits", commits.len());
        let store = MemoryCheckpointer::replay(&commits[..cut]).reopen();
        let runtime = build(Runtime::builder()).checkpointer(store);
        let (inner, handled) = block_on(async {
            let state = runtime.thread("t").unwrap().state().await.unwrap().unwrap();
            let has = |what: &str| state.calls.iter().any(|call| call.arguments.contains(what));
            (has("\"inner\""), has("\"handled\""))
        });
        ledger.clear();
        let outcome = block_on(async { runtime.thread("t").unwrap().resume(retries).await });
        let output = outcome.unwrap().completed().unwrap();
        assert_eq!(output[0], 1, "the handled failure stays");
        assert_eq!(ledger.count("inner"), u32::from(!inner));
        assert_eq!(ledger.count("handled"), u32::from(!handled));
    }
}

#[task(skip(stale_may_go_on))]
async fn late(stale_may_go_on: Arc<Notify>) -> u32 {
    let ledger = durably::resource::<Ledger>();
    ledger.note("late began");
    if ledger.count("attempt") == 1 {
        stale_may_go_on.notified().await;
        ledger.note("stale went on");
        note(&ledger, "stale leaf").await;
    }
    note(&ledger, "leaf").await;
    1
}

#[task(retry(max_attempts = 2, initial_interval = "1ms", jitter = false))]
async fn leaves_a_call_behind() -> anyhow::Result<u32> {
    let ledger = durably::resource::<Ledger>();
    let stale_may_go_on = durably::resource::<Arc<Notify>>();
    ledger.note("attempt");
    let mut call = late((*stale_may_go_on).clone()).detached();
    if durably::attempt() == 1 {
        assert!(futures::poll!(&mut call).is_pending());
        // Its body goes on, on the pool; it has begun before the next attempt does.
        while ledger.count("late began") == 0 {
            tokio::task::yield_now().await;
        }
        anyhow::bail!("gone on without it");
    }
    stale_may_go_on.notify_one();
    // One thread: what was spawned runs while this yields.
    while ledger.count("stale went on") == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    Ok(call.await)
}

#[entrypoint]
async fn late_claims() -> anyhow::Result<u32> {
    leaves_a_call_behind().await
}

/// Found with this: the claim was taken, since the call around it was looked at and not the task around that.
#[test]
fn calls_made_by_a_body_that_outlived_its_attempt_are_refused_and_do_not_hold_the_run() {
    let ledger = Ledger::default();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let runtime = Runtime::builder().resource(ledger.clone()).resource(Arc::new(Notify::new())).memory();
        let thread = runtime.thread("t").unwrap();
        let run = tokio::time::timeout(Duration::from_secs(20), thread.invoke(late_claims()));
        let outcome = run.await.expect("the run ends").unwrap();
        assert_eq!(outcome, Outcome::Completed(1));
        assert_eq!((ledger.count("stale leaf"), ledger.count("leaf")), (0, 1));
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.calls.iter().filter(|call| call.name == "note").count(), 1);
    });
}
