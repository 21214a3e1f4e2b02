//! What an entrypoint leaves to be done at its end: when it is done, in which order, how often, and when not.

use std::{collections::BTreeMap, sync::Mutex};

use durably::{CallStatus, Outcome, RunError, Runtime, Status, Thread, entrypoint, interrupt, task};
use tests::{Ledger, block_on, cut_after_every_record, in_every_mode, on_every_checkpointer};

#[task]
async fn work(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("work {n}"));
    n
}

#[task]
async fn undo(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("undo {n}"));
    durably::resource::<Order>().0.lock().unwrap().push(n);
    n
}

/// In which order things were undone.
#[derive(Debug, Default)]
struct Order(Mutex<Vec<u32>>);

/// Whether something fails, for as long as it is set.
#[derive(Clone, Debug, Default)]
struct Broken(std::sync::Arc<Mutex<Option<&'static str>>>);

impl Broken {
    fn set(&self, what: Option<&'static str>) {
        *self.0.lock().unwrap() = what;
    }

    fn check(&self, what: &str) -> anyhow::Result<()> {
        anyhow::ensure!(*self.0.lock().unwrap() != Some(what), "{what} is broken");
        Ok(())
    }
}

#[task]
async fn may_fail(what: &str) -> anyhow::Result<u32> {
    durably::resource::<Ledger>().note(what);
    durably::resource::<Broken>().check(what)?;
    Ok(1)
}

fn open(world: &tests::World, ledger: &Ledger, broken: &Broken) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).resource(broken.clone()).resource(Order::default()))
}

#[entrypoint]
async fn nested(n: u32) -> anyhow::Result<u32> {
    durably::defer(async move || {
        undo(n).await;
    });
    work(n).await;
    may_fail("nested").await
}

#[entrypoint]
async fn flow() -> anyhow::Result<u32> {
    durably::defer(async || {
        undo(1).await;
        undo(2).await;
    });
    let sum = work(1).await;
    durably::defer(async || {
        undo(3).await;
    });
    let taken_back = durably::defer(async || {
        undo(4).await;
    });
    taken_back.disarm();
    let of_nested = nested(10).await.unwrap_or(0);
    Ok(sum + of_nested + may_fail("last").await?)
}

#[test]
fn a_completed_run_does_what_was_left_the_newest_first_and_a_nested_one_at_its_own_end() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger, &Broken::default());
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(flow()).await.unwrap(), Outcome::Completed(3));
        assert_eq!(ledger.count("undo 4"), 0);
        for n in [1, 2, 3, 10] {
            assert_eq!(ledger.count(&format!("undo {n}")), 1);
        }
        let order = thread.state().await.unwrap().unwrap().calls;
        let order: Vec<&str> =
            order.iter().filter(|call| call.name == "undo").map(|call| call.arguments.as_str()).collect();
        assert_eq!(order, ["n=10", "n=3", "n=1", "n=2"]);
        // The end is written down once, and gives the same again.
        assert_eq!(thread.resume(flow).await.unwrap(), Outcome::Completed(3));
        assert_eq!(ledger.count("undo 1"), 1);
    });
}

#[test]
fn a_failed_run_cleans_up_and_cleans_up_anew_at_the_end_that_it_is_resumed_to() {
    in_every_mode(async |world| {
        let (ledger, broken) = (Ledger::default(), Broken::default());
        broken.set(Some("last"));
        let runtime = open(&world, &ledger, &broken);
        let thread = runtime.thread("t").unwrap();
        for times in 1..=2 {
            let failed = if times == 1 { thread.invoke(flow()).await } else { thread.resume(flow).await };
            assert!(matches!(failed, Err(RunError::Failed(_))), "{failed:?}");
            assert_eq!((ledger.count("undo 1"), ledger.count("undo 3"), ledger.count("last")), (times, times, times));
        }
        broken.set(None);
        assert_eq!(thread.resume(flow).await.unwrap(), Outcome::Completed(3));
        assert_eq!((ledger.count("undo 1"), ledger.count("work 1")), (3, 1));
        // The nested one had come to its end at the first try.
        assert_eq!((ledger.count("undo 10"), ledger.count("nested")), (1, 1));
    });
}

#[entrypoint]
async fn fails_within() -> anyhow::Result<u32> {
    durably::defer(async || {
        undo(1).await;
    });
    nested(10).await
}

#[test]
fn a_nested_entrypoint_that_is_opened_again_cleans_up_anew() {
    in_every_mode(async |world| {
        let (ledger, broken) = (Ledger::default(), Broken::default());
        broken.set(Some("nested"));
        let runtime = open(&world, &ledger, &broken);
        let thread = runtime.thread("t").unwrap();
        assert!(thread.invoke(fails_within()).await.is_err());
        assert_eq!((ledger.count("undo 10"), ledger.count("undo 1")), (1, 1));
        broken.set(None);
        assert_eq!(thread.resume(fails_within).await.unwrap(), Outcome::Completed(1));
        assert_eq!((ledger.count("undo 10"), ledger.count("undo 1"), ledger.count("work 10")), (2, 2, 1));
    });
}

#[entrypoint]
async fn pauses() -> bool {
    durably::defer(async || {
        undo(1).await;
    });
    interrupt("go on?", &()).await
}

#[test]
fn a_pause_a_drain_and_a_crash_are_no_end() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let runtime = open(&world, &ledger, &Broken::default());
            let thread = runtime.thread("t").unwrap();
            assert_eq!(thread.invoke(pauses()).await.unwrap().questions().len(), 1);
            assert_eq!(thread.resume(pauses).await.unwrap().questions().len(), 1);
            runtime.drain();
            let other = runtime.thread("drained").unwrap();
            assert_eq!(other.invoke(flow()).await.unwrap(), Outcome::Drained);
        }
        let runtime = open(&world, &ledger, &Broken::default());
        let thread = runtime.thread("t").unwrap();
        assert_eq!(ledger.total(), 0);
        thread.answer("go on?", true).await.unwrap();
        assert_eq!(thread.resume(pauses).await.unwrap(), Outcome::Completed(true));
        assert_eq!(ledger.count("undo 1"), 1);
    });
}

#[entrypoint]
async fn clean_up_asks() -> u32 {
    durably::defer(async || {
        undo(1).await;
        let sure: bool = interrupt("undo?", &()).await;
        if sure {
            undo(2).await;
        }
    });
    durably::defer(async || {
        undo(3).await;
    });
    work(1).await
}

#[test]
fn a_clean_up_may_ask_and_the_run_waits_for_the_answer_in_the_middle_of_its_end() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let runtime = open(&world, &ledger, &Broken::default());
            let thread = runtime.thread("t").unwrap();
            assert_eq!(thread.invoke(clean_up_asks()).await.unwrap().questions()[0].key(), "undo?");
        }
        let runtime = open(&world, &ledger, &Broken::default());
        let thread = runtime.thread("t").unwrap();
        // Its end stands: it is not cancelled any more.
        assert_eq!(thread.cancel().await.unwrap(), durably::Cancellation::Requested);
        assert_eq!(thread.resume(clean_up_asks).await.unwrap().questions().len(), 1);
        assert_eq!(ledger.all(), BTreeMap::from(["undo 1", "undo 3", "work 1"].map(|effect| (effect.to_owned(), 1))));
    });
}

#[test]
fn an_answer_to_a_clean_up_is_taken() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger, &Broken::default());
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(clean_up_asks()).await.unwrap().questions().len(), 1);
        thread.answer("undo?", true).await.unwrap();
        assert_eq!(thread.resume(clean_up_asks).await.unwrap(), Outcome::Completed(1));
        assert_eq!((ledger.count("undo 1"), ledger.count("undo 2"), ledger.count("undo 3")), (1, 1, 1));
    });
}

#[entrypoint]
async fn clean_up_fails() -> anyhow::Result<u32> {
    durably::defer(async || {
        undo(1).await;
    });
    durably::defer(async || {
        undo(2).await;
        may_fail("clean-up").await.map(drop)
    });
    work(1).await;
    may_fail("body").await
}

#[test]
fn a_clean_up_that_fails_keeps_no_other_and_a_resume_tries_again_only_what_failed() {
    in_every_mode(async |world| {
        for body in [None, Some("body")] {
            let (ledger, broken) = (Ledger::default(), Broken::default());
            let store = tests::World::memory().with(world.durability);
            let runtime = open(&store, &ledger, &broken);
            let thread = runtime.thread("t").unwrap();
            broken.set(Some("clean-up"));
            if body.is_some() {
                // Both fail: the body's failure is on record before it is mended.
                broken.set(Some("body"));
            }
            if body.is_none() {
                for _ in 0..2 {
                    let failed = match thread.state().await.unwrap() {
                        None => thread.invoke(clean_up_fails()).await.unwrap_err(),
                        Some(_) => thread.resume(clean_up_fails).await.unwrap_err(),
                    };
                    assert!(matches!(failed, RunError::CleanUpFailed { .. }), "{failed}");
                    assert!(failed.to_string().contains("clean-up is broken"), "{failed}");
                    assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Failed);
                }
                assert_eq!(ledger.count("clean-up"), 2);
                broken.set(None);
                assert_eq!(thread.resume(clean_up_fails).await.unwrap(), Outcome::Completed(1));
                assert_eq!((ledger.count("undo 1"), ledger.count("undo 2"), ledger.count("clean-up")), (1, 1, 3));
            } else {
                assert!(matches!(thread.invoke(clean_up_fails()).await, Err(RunError::Failed(_))));
            }
            assert_eq!((ledger.count("work 1"), ledger.count("body")), (1, 1));
        }
    });
}

#[entrypoint]
async fn everything_fails() -> anyhow::Result<u32> {
    durably::defer(async || {
        undo(1).await;
        may_fail("clean-up").await.map(drop)
    });
    may_always_fail().await
}

#[task]
async fn may_always_fail() -> anyhow::Result<u32> {
    durably::resource::<Ledger>().note("body");
    anyhow::bail!("as always")
}

#[test]
fn a_clean_up_that_failed_is_mended_before_the_failure_of_the_run_counts() {
    in_every_mode(async |world| {
        let (ledger, broken) = (Ledger::default(), Broken::default());
        let runtime = open(&world, &ledger, &broken);
        let thread = runtime.thread("t").unwrap();
        broken.set(Some("clean-up"));
        assert!(matches!(thread.invoke(everything_fails()).await, Err(RunError::CleanUpFailed { .. })));
        broken.set(None);
        let failed = thread.resume(everything_fails).await.unwrap_err();
        assert!(matches!(failed, RunError::Failed(_)), "{failed}");
        // The code's own failure was kept so far; now it is opened again, and all is cleaned up anew.
        assert_eq!((ledger.count("body"), ledger.count("undo 1"), ledger.count("clean-up")), (1, 1, 2));
        assert!(matches!(thread.resume(everything_fails).await, Err(RunError::Failed(_))));
        assert_eq!((ledger.count("body"), ledger.count("undo 1"), ledger.count("clean-up")), (2, 2, 3));
    });
}

#[entrypoint]
async fn panics_once() -> u32 {
    durably::defer(async || {
        undo(1).await;
        assert!(durably::resource::<Broken>().check("code").is_ok(), "broken code");
        undo(2).await;
    });
    may_fail("task").await.unwrap_or(0)
}

#[test]
fn a_panic_in_a_clean_up_fails_the_run_and_a_resume_goes_on_there() {
    in_every_mode(async |world| {
        let (ledger, broken) = (Ledger::default(), Broken::default());
        let runtime = open(&world, &ledger, &broken);
        let thread = runtime.thread("t").unwrap();
        broken.set(Some("code"));
        let failed = thread.invoke(panics_once()).await.unwrap_err();
        assert!(matches!(failed, RunError::Panicked { .. }), "{failed}");
        broken.set(None);
        assert_eq!(thread.resume(panics_once).await.unwrap(), Outcome::Completed(1));
        assert_eq!(ledger.all(), BTreeMap::from(["task", "undo 1", "undo 2"].map(|effect| (effect.to_owned(), 1))));
    });
}

#[task]
async fn defers() -> u32 {
    durably::defer(async || {});
    1
}

#[entrypoint]
async fn calls_a_task_that_defers() -> u32 {
    defers().await
}

#[test]
fn a_tasks_body_has_nothing_to_defer() {
    block_on(async {
        let runtime = Runtime::builder().memory();
        let failed = runtime.thread("t").unwrap().invoke(calls_a_task_that_defers()).await.unwrap_err();
        assert!(failed.to_string().contains("call it in the #[entrypoint]"), "{failed}");
    });
}

#[entrypoint]
async fn defers_while_cleaning_up() -> u32 {
    durably::defer(async || {
        undo(1).await;
        durably::defer(async || {
            undo(2).await;
        });
        undo(3).await;
    });
    work(1).await
}

#[test]
fn what_a_clean_up_leaves_is_done_after_it() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger, &Broken::default());
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(defers_while_cleaning_up()).await.unwrap(), Outcome::Completed(1));
        let calls = thread.state().await.unwrap().unwrap().calls;
        let order: Vec<&str> = calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!(order, ["n=1", "n=1", "n=3", "n=2"]);
    });
}

/// Each effect's outcomes on record.
async fn on_record(thread: &Thread) -> u32 {
    let Some(state) = thread.state().await.unwrap() else { return 0 };
    let ended = |status: &CallStatus| matches!(status, CallStatus::Value(_) | CallStatus::Failed(_));
    u32::try_from(state.calls.iter().filter(|call| call.name != "nested" && ended(&call.status)).count()).unwrap()
}

#[test]
fn an_end_that_is_cut_off_at_any_record_is_come_to_again_and_repeats_nothing_that_is_on_record() {
    for fails in [None, Some("last"), Some("nested")] {
        let (ledger, broken) = (Ledger::default(), Broken::default());
        broken.set(fails);
        let mut effects = 0;
        let counted = Mutex::new(&mut effects);
        cut_after_every_record(
            |builder| builder.resource(ledger.clone()).resource(broken.clone()).resource(Order::default()),
            async |runtime| {
                let outcome = runtime.thread("t").unwrap().invoke(flow()).await;
                assert_eq!(outcome.is_err(), fails == Some("last"));
                **counted.lock().unwrap() = ledger.total();
                ledger.clear();
            },
            async |runtime, cut| {
                let thread = runtime.thread("t").unwrap();
                let before = on_record(&thread).await;
                let status = thread.state().await.unwrap().map(|state| state.status);
                let outcome = if cut == 0 { thread.invoke(flow()).await } else { thread.resume(flow).await };
                assert_eq!(outcome.is_err(), fails == Some("last"), "{outcome:?}");
                let expected = match status {
                    // Its end is on record: it goes on, with its last task and all that is to be cleaned up.
                    Some(Status::Failed) => 1 + 3,
                    _ => **counted.lock().unwrap() - before,
                };
                assert_eq!(ledger.total(), expected, "{:?}", ledger.all());
                ledger.clear();
            },
        );
    }
}
