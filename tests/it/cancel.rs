//! Cancelling a run: durable at once, carried out in its place of the order, the same after a crash anywhere in it.

use durably::{
    AnswerError, CancelError, Cancellation, CheckpointKind, CheckpointWhat, Outcome, RunError, Status, entrypoint,
    interrupt, task,
};
use tests::{Chance, Ledger, World, cut_after_every_record, in_every_mode, on_every_checkpointer, pends, size};
use tokio::sync::Notify;

use std::sync::Arc;

/// Says when a body has begun, and lets none end.
#[derive(Clone, Default)]
struct Stuck(Arc<Notify>);

#[task]
async fn step(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("step {n}"));
    n
}

#[task]
async fn never() -> u32 {
    durably::resource::<Ledger>().note("never");
    durably::resource::<Stuck>().0.notify_one();
    std::future::pending().await
}

#[task]
async fn undo(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("undo {n}"));
    n
}

#[entrypoint]
async fn hangs() -> u32 {
    let _undo = durably::defer(async || {
        undo(1).await;
        undo(2).await;
    });
    let one = step(1).await;
    one + never().await
}

#[entrypoint]
async fn asks() -> bool {
    step(1).await;
    interrupt("go on?", &()).await
}

#[entrypoint]
async fn asks_and_cleans_up() -> bool {
    durably::defer(async || {
        undo(1).await;
    });
    interrupt("go on?", &()).await
}

#[test]
fn a_run_that_is_driven_here_is_cancelled_where_it_awaits_and_cleans_up() {
    in_every_mode(async |world| {
        let (ledger, stuck) = (Ledger::default(), Stuck::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(stuck.clone()));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(hangs()).start();
        stuck.0.notified().await;
        assert_eq!(thread.cancel().because("enough").await.unwrap(), Cancellation::Requested);
        assert_eq!(run.await.unwrap(), Outcome::Cancelled);
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.reason.as_deref()), (Status::Cancelled, Some("enough")));
        assert!(matches!(thread.resume(hangs).await, Err(RunError::Cancelled { .. })));
        let expected = ["never", "step 1", "undo 1", "undo 2"].map(|effect| (effect.to_owned(), 1));
        assert_eq!(ledger.all(), expected.into());
    });
}

#[test]
fn a_paused_run_that_has_nothing_left_to_be_done_is_cancelled_at_once() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(asks()).await.unwrap().questions().len(), 1);
        assert_eq!(thread.cancel().await.unwrap(), Cancellation::Cancelled);
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len()), (Status::Cancelled, 0));
        let refused = thread.answer("go on?", true).await.unwrap_err();
        assert!(matches!(refused, AnswerError::NoPendingInterrupt { .. }), "{refused}");
        // And the next run is not.
        assert_eq!(thread.invoke(asks()).await.unwrap().questions().len(), 1);
    });
}

#[test]
fn a_paused_run_that_cleans_up_is_driven_to_its_end_by_the_request_or_by_the_next_drive() {
    on_every_checkpointer(async |world| {
        for registered in [true, false] {
            let ledger = Ledger::default();
            let runtime = world.open(|builder| {
                let builder = builder.resource(ledger.clone());
                if registered { builder.entrypoint(asks_and_cleans_up) } else { builder }
            });
            let thread = runtime.thread(format!("{registered}")).unwrap();
            assert_eq!(thread.invoke(asks_and_cleans_up()).await.unwrap().questions().len(), 1);
            let cancelled = thread.cancel().await.unwrap();
            if registered {
                assert_eq!(cancelled, Cancellation::Cancelled);
            } else {
                assert_eq!(cancelled, Cancellation::Requested);
                let refused = thread.answer("go on?", true).await.unwrap_err();
                assert!(matches!(refused, AnswerError::NoPendingInterrupt { .. }), "{refused}");
                assert_eq!(thread.cancel().await.unwrap(), Cancellation::Requested);
                assert_eq!(thread.resume(asks_and_cleans_up).await.unwrap(), Outcome::Cancelled);
            }
            assert_eq!(ledger.count("undo 1"), 1);
            assert!(matches!(thread.resume(asks_and_cleans_up).await, Err(RunError::Cancelled { .. })));
        }
    });
}

#[test]
fn a_thread_without_a_run_that_has_not_ended_has_nothing_to_cancel() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Ledger::default()));
        let thread = runtime.thread("t").unwrap();
        let check = async |expected: Option<Status>| match thread.cancel().await.unwrap_err() {
            CancelError::NothingToCancel { status, .. } => assert_eq!(status, expected),
            error => panic!("{error}"),
        };
        check(None).await;
        let paused = thread.invoke(asks()).await.unwrap();
        thread.answer(paused.questions()[0].id(), true).await.unwrap();
        assert_eq!(thread.resume(asks).await.unwrap(), Outcome::Completed(true));
        check(Some(Status::Completed)).await;
        assert_eq!(thread.invoke(asks()).await.unwrap().questions().len(), 1);
        assert_eq!(thread.cancel().await.unwrap(), Cancellation::Cancelled);
        check(Some(Status::Cancelled)).await;
    });
}

#[entrypoint]
async fn inner(n: u32) -> u32 {
    durably::defer(async move || {
        undo(n).await;
    });
    let gone = durably::defer(async || {
        undo(99).await;
    });
    gone.disarm();
    step(n).await + never().await
}

#[entrypoint]
async fn outer() -> u32 {
    durably::defer(async || {
        undo(1).await;
        undo_fails_once().await.unwrap();
    });
    step(1).await;
    let (two, three) = futures::join!(inner(2), inner(3));
    two + three
}

#[task(retry(max_attempts = 2, initial_interval = "1ms"))]
async fn undo_fails_once() -> anyhow::Result<u32> {
    anyhow::ensure!(durably::attempt() > 1, "not yet");
    durably::resource::<Ledger>().note("undone again");
    Ok(0)
}

/// How often each clean-up's outcome is on record.
async fn on_record(thread: &durably::Thread) -> std::collections::BTreeMap<String, u32> {
    let mut found = std::collections::BTreeMap::new();
    let Some(state) = thread.state().await.unwrap() else { return found };
    for call in state.calls {
        if matches!(call.status, durably::CallStatus::Value(_)) {
            let arguments = call.arguments.trim_start_matches("n=").to_owned();
            let name = match call.name.as_str() {
                "undo" => format!("undo {arguments}"),
                "undo_fails_once" => "undone again".to_owned(),
                _ => continue,
            };
            *found.entry(name).or_default() += 1;
        }
    }
    found
}

#[test]
fn a_cancellation_that_is_cut_off_at_any_record_ends_the_same_and_undoes_each_thing_once() {
    let (ledger, stuck) = (Ledger::default(), Stuck::default());
    let ends = std::cell::Cell::new(0);
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()).resource(stuck.clone()).entrypoint(outer),
        async |runtime| {
            let thread = runtime.thread("t").unwrap();
            let run = thread.invoke(outer()).start();
            while ledger.count("never") < 2 {
                stuck.0.notified().await;
            }
            thread.cancel().because("enough").await.unwrap();
            assert_eq!(run.await.unwrap(), Outcome::Cancelled);
            for effect in ["undo 1", "undo 2", "undo 3", "undone again"] {
                assert_eq!(ledger.count(effect), 1, "{effect}");
            }
            assert_eq!(ledger.count("undo 99"), 0);
            ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let before = on_record(&thread).await;
            let status = thread.state().await.unwrap().map(|state| state.status);
            let cancelled = thread.cancel().because("enough").await;
            match status {
                None => assert!(matches!(cancelled, Err(CancelError::NothingToCancel { status: None, .. }))),
                Some(Status::Cancelled) => assert!(matches!(cancelled, Err(CancelError::NothingToCancel { .. }))),
                Some(_) => assert_eq!(cancelled.unwrap(), Cancellation::Cancelled),
            }
            if cut > 0 {
                let state = thread.state().await.unwrap().unwrap();
                assert_eq!((state.status, state.reason.as_deref()), (Status::Cancelled, Some("enough")));
                // What the run's code had not got to is not to be undone.
                let all = on_record(&thread).await;
                for (effect, times) in &all {
                    assert_eq!(before.get(effect).unwrap_or(&0) + ledger.count(effect), *times, "{effect}, {all:?}");
                    assert_eq!(*times, 1, "{effect}");
                }
                assert_eq!(all.get("undo 1"), Some(&1));
                // The nested ones were entered once the first step was on record, and are entered again.
                let nested = thread.state().await.unwrap().unwrap().calls.iter().any(|call| call.name == "step");
                assert_eq!(all.contains_key("undo 2"), nested, "{all:?}");
                ends.set(ends.get() + 1);
            }
            ledger.clear();
        },
    );
    assert!(ends.get() > 10, "the run has many records");
}

#[test]
fn a_request_that_a_crash_leaves_behind_is_carried_out_by_whoever_goes_on() {
    in_every_mode(async |world| {
        let (ledger, stuck) = (Ledger::default(), Stuck::default());
        let build = |builder: durably::RuntimeBuilder| builder.resource(ledger.clone()).resource(stuck.clone());
        {
            let runtime = world.open(build);
            let thread = runtime.thread("t").unwrap();
            let run = thread.invoke(hangs()).start();
            stuck.0.notified().await;
            run.abort();
            assert!(run.await.is_err());
            // Nobody drives it, and its code is not known here.
            assert_eq!(thread.cancel().await.unwrap(), Cancellation::Requested);
        }
        let runtime = world.open(|builder| build(builder).entrypoint(hangs));
        for recovered in runtime.recover().await.unwrap() {
            assert_eq!(recovered.outcome().await.unwrap(), Outcome::Cancelled);
        }
        assert_eq!(runtime.thread("t").unwrap().state().await.unwrap().unwrap().status, Status::Cancelled);
        assert_eq!((ledger.count("undo 1"), ledger.count("undo 2")), (1, 1));
        // In the two modes that keep it, what had finished did not run again.
        if world.durability != durably::Durability::Exit {
            assert_eq!(ledger.count("step 1"), 1);
        }
    });
}

#[task]
async fn fails() -> anyhow::Result<u32> {
    durably::resource::<Ledger>().note("fails");
    anyhow::bail!("as always")
}

#[entrypoint]
async fn fails_and_cleans_up() -> anyhow::Result<u32> {
    durably::defer(async || {
        undo(1).await;
    });
    fails().await
}

#[test]
fn a_failed_run_has_cleaned_up_and_is_cancelled_without_its_code() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        assert!(matches!(thread.invoke(fails_and_cleans_up()).await, Err(RunError::Failed(_))));
        assert_eq!(ledger.count("undo 1"), 1);
        assert_eq!(thread.cancel().await.unwrap(), Cancellation::Cancelled);
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Cancelled);
        assert_eq!((ledger.count("undo 1"), ledger.count("fails")), (1, 1));
    });
}

#[test]
fn a_stuck_run_is_cancelled_once_code_that_fits_drives_it() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(versions::first::flow()).await.unwrap().questions().len(), 1);
        assert!(matches!(thread.resume(versions::second::flow).await, Err(RunError::Nondeterminism(_))));
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Stuck);
        assert_eq!(thread.cancel().await.unwrap(), Cancellation::Requested);
        assert!(matches!(thread.resume(versions::second::flow).await, Err(RunError::Nondeterminism(_))));
        assert_eq!(thread.resume(versions::first::flow).await.unwrap(), Outcome::Cancelled);
        assert_eq!(ledger.count("step 2"), 0);
        assert_eq!(thread.invoke(versions::second::flow()).await.unwrap(), Outcome::Completed(2));
    });
}

/// One entrypoint, before and after a change.
mod versions {
    pub(super) mod first {
        use super::super::*;

        #[entrypoint]
        pub(in super::super) async fn flow() -> u32 {
            let one = step(1).await;
            let go_on: bool = interrupt("go on?", &()).await;
            one + u32::from(go_on)
        }
    }

    pub(super) mod second {
        use super::super::*;

        #[entrypoint]
        pub(in super::super) async fn flow() -> u32 {
            step(2).await
        }
    }
}

#[task(blocking)]
fn blocks() -> u32 {
    let gate = durably::resource::<Blocks>();
    gate.begun.notify_one();
    gate.go_on.lock().unwrap().recv().unwrap();
    gate.ledger.note("the job has ended");
    1
}

#[derive(Debug)]
struct Blocks {
    ledger: Ledger,
    begun: Arc<Notify>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

#[task]
async fn looks() -> u32 {
    durably::resource::<Ledger>().count("the job has ended")
}

#[entrypoint]
async fn undoes_what_blocks() -> u32 {
    durably::defer(async || assert_eq!(looks().await, 1));
    blocks().await
}

#[test]
fn a_clean_up_begins_only_when_no_body_runs_any_more() {
    on_every_checkpointer(async |world| {
        let (ledger, begun) = (Ledger::default(), Arc::new(Notify::new()));
        let (sender, receiver) = std::sync::mpsc::channel();
        let gate = Blocks { ledger: ledger.clone(), begun: begun.clone(), go_on: std::sync::Mutex::new(receiver) };
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(undoes_what_blocks()).start();
        begun.notified().await;
        thread.cancel().await.unwrap();
        // Only now: a body that ends before the stop is on record may bring the run to its end.
        while thread.history().kind(CheckpointKind::Stopped).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        sender.send(()).unwrap();
        assert_eq!(run.await.unwrap(), Outcome::Cancelled);
    });
}

#[entrypoint]
async fn counts_for_ever(n: u32) -> u32 {
    if n == 3 {
        never().await;
    }
    step(n).await;
    durably::continue_as_new(counts_for_ever(n + 1)).await
}

#[test]
fn a_loop_that_goes_on_as_new_runs_is_cancelled_in_whichever_it_is() {
    in_every_mode(async |world| {
        let (ledger, stuck) = (Ledger::default(), Stuck::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(stuck.clone()));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(counts_for_ever(0)).start();
        stuck.0.notified().await;
        thread.cancel().await.unwrap();
        assert_eq!(run.await.unwrap(), Outcome::Cancelled);
        assert_eq!(thread.state().await.unwrap().unwrap().run.get(), 4);
    });
}

#[task]
async fn takes(polls: usize) -> usize {
    pends(polls).await;
    polls
}

#[entrypoint]
async fn races(polls: Vec<usize>) -> String {
    durably::defer(async || {
        undo(1).await;
    });
    let mut sum = 0;
    for polls in polls {
        sum += takes(polls).await;
    }
    let answer: String = interrupt("go on?", &()).await;
    format!("{sum} {answer}")
}

#[test]
fn a_cancellation_that_races_with_a_pause_an_answer_or_the_end_leaves_exactly_one_end() {
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..size(60) as u64 {
        for world in [World::memory(), World::memory().with(durably::Durability::Async)] {
            println!("seed {seed}, {}", world.name());
            let mut chance = Chance::new(seed);
            let [answers, cancels, goes_on] = [20, 60, 20].map(|most| chance.below(most));
            let polls: Vec<usize> = (0..3).map(|_| chance.below(6)).collect();
            let ledger = Ledger::default();
            let runtime = world.open(|builder| builder.resource(ledger.clone()).entrypoint(races));
            // On one thread, so that the same seed gives the same order.
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let end = tokio.block_on(async {
                let thread = runtime.thread("t").unwrap();
                let run = async {
                    match thread.invoke(races(polls)).await {
                        Ok(Outcome::Interrupted(_)) => {
                            yields(goes_on).await;
                            thread.resume(races).wait().await
                        }
                        outcome => outcome,
                    }
                };
                let cancel = async {
                    yields(cancels).await;
                    thread.cancel().await
                };
                let answer = async {
                    yields(answers).await;
                    thread.answer("go on?", "yes").await
                };
                let (mut outcome, cancelled, answered) = futures::join!(run, cancel, answer);
                if let Ok(Outcome::Interrupted(_)) = outcome {
                    outcome = thread.resume(races).wait().await;
                }
                if let Ok(Outcome::Interrupted(_)) = outcome {
                    // Neither came in time.
                    assert!(cancelled.is_err() && answered.is_err(), "{cancelled:?} {answered:?}");
                    return "paused".to_owned();
                }
                let state = thread.state().await.unwrap();
                let Some(state) = state else { return "never began".to_owned() };
                match outcome {
                    Ok(Outcome::Cancelled) | Err(RunError::Cancelled { .. }) => {
                        cancelled.unwrap();
                        assert_eq!(state.status, Status::Cancelled);
                    }
                    Ok(Outcome::Completed(_)) => {
                        answered.unwrap();
                        assert_eq!(state.status, Status::Completed);
                    }
                    outcome => panic!("{outcome:?}"),
                }
                assert_eq!(ledger.count("undo 1"), 1);
                // It stays so.
                assert!(matches!(thread.cancel().await, Err(CancelError::NothingToCancel { .. })));
                state.status.to_string()
            });
            *ends.entry(end).or_default() += 1;
        }
    }
    println!("{ends:?}");
    assert!(ends.contains_key("cancelled") && ends.contains_key("completed"), "{ends:?}");
}

/// Lets others run so many times.
async fn yields(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_fork_of_a_cancelled_run_goes_on_from_before_that_and_its_history_says_why_it_ended() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()).entrypoint(asks_and_cleans_up));
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(asks_and_cleans_up()).await.unwrap().questions().len(), 1);
        assert_eq!(thread.cancel().because("late").await.unwrap(), Cancellation::Cancelled);
        let history = thread.history().await.unwrap();
        let ends: Vec<&CheckpointWhat> = history.iter().map(|at| &at.what).collect();
        assert!(matches!(ends[0], CheckpointWhat::Cancelled { reason: Some(reason) } if reason == "late"));
        assert!(ends.iter().any(|what| matches!(what, CheckpointWhat::Stopped { limit: None, .. })));
        let fork = thread.fork(history[0].id).to("fork").await.unwrap();
        assert_eq!(fork.state().await.unwrap().unwrap().questions.len(), 1);
        fork.answer("go on?", true).await.unwrap();
        assert_eq!(fork.resume(asks_and_cleans_up).await.unwrap(), Outcome::Completed(true));
        assert_eq!(ledger.count("undo 1"), 2);
    });
}

#[entrypoint]
async fn asks_twice() -> bool {
    durably::defer(async || {
        if interrupt("undo?", &()).await {
            undo(1).await;
        }
    });
    interrupt("go on?", &()).await
}

#[test]
fn a_question_of_a_stopped_run_takes_no_answer_while_it_cleans_up() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let build = |builder: durably::RuntimeBuilder| builder.resource(ledger.clone()).entrypoint(asks_twice);
        {
            let runtime = world.open(build);
            let thread = runtime.thread("t").unwrap();
            assert_eq!(thread.invoke(asks_twice()).await.unwrap().questions()[0].key(), "go on?");
            // Its clean-up waits for an answer.
            assert_eq!(thread.cancel().await.unwrap(), Cancellation::Requested);
            assert_eq!(thread.resume(asks_twice).await.unwrap().questions()[0].key(), "undo?");
        }
        let runtime = world.open(build);
        let thread = runtime.thread("t").unwrap();
        let open = thread.state().await.unwrap().unwrap().questions;
        assert_eq!(open.iter().map(durably::Question::key).collect::<Vec<_>>(), ["undo?"]);
        let refused = thread.answer("go on?", true).await.unwrap_err();
        assert!(matches!(refused, AnswerError::UnknownInterrupt { .. }), "{refused}");
        thread.answer("undo?", true).await.unwrap();
        assert_eq!(thread.resume(asks_twice).await.unwrap(), Outcome::Cancelled);
        assert_eq!(ledger.count("undo 1"), 1);
    });
}
