//! A thread changed without running anything: its saved value set, an input stored, a run given up.
//!
//! | line | test |
//! | --- | --- |
//! | 5, 7, 8 | `previous_is_what_the_last_success_saved` |
//! | 6, 95 | `an_update_of_a_fresh_thread_is_the_first_runs_previous` |
//! | 94 | `an_update_of_a_paused_thread_cancels_the_pause_and_is_output_and_previous` |
//! | 15 | `basics::empty_and_zero_and_unit_and_none_and_no_arguments_are_inputs` |
//! | 16 | `threads_of_one_store_know_nothing_of_each_other` |
//! | 20 | `after_a_failure_a_discarding_run_starts_from_nothing` |
//! | 21, 22, 52 | `verbs::` (resume of a completed and of a fresh thread, invoke of a paused one) |
//! | 70 | `nested::a_nested_entrypoint_keeps_its_results_over_its_question` |
//! | 68, 96 | `a_staged_input_runs_when_it_is_resumed` |
//! | 71, 72, 73 | `a_run_on_a_thread_of_its_own_leaves_the_callers_thread_alone`, `a_nested_entrypoint_has_no_previous` |
//! | B16 | `a_second_start_of_a_used_name_is_refused_and_the_first_is_recovered` |

use std::sync::Arc;

use durably::{
    AnswerError, CheckpointKind, CheckpointWhat, Final, IfUnfinished, Outcome, RunError, Runtime, Status, entrypoint,
    interrupt, task,
};
use serde::{Deserialize, Serialize};
use tests::{Ledger, World, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Seen {
    previous: Option<Box<Seen>>,
    current: String,
}

#[entrypoint]
async fn remember(current: String, #[previous] previous: Option<Seen>) -> Seen {
    Seen { previous: previous.map(Box::new), current }
}

#[entrypoint]
async fn chat(message: String, #[previous] before: Option<Vec<String>>) -> Final<usize, Vec<String>> {
    let mut all = before.unwrap_or_default();
    let seen = all.len();
    all.push(message);
    Final { value: seen, save: all }
}

#[entrypoint]
async fn add(n: i64, #[previous] sum: Option<i64>) -> i64 {
    if n < 0 {
        return interrupt("how much?", &n).await;
    }
    sum.unwrap_or(0) + n
}

#[task]
async fn step(name: &str) -> anyhow::Result<()> {
    durably::resource::<Ledger>().note(name);
    anyhow::ensure!(name != "bad", "it went wrong");
    Ok(())
}

#[entrypoint]
async fn steps(name: String, #[previous] before: Option<String>) -> anyhow::Result<String> {
    step("first").await?;
    step(&name).await?;
    Ok(format!("{}{name}", before.unwrap_or_default()))
}

#[entrypoint]
async fn outer(n: i64, #[previous] before: Option<i64>) -> i64 {
    add(n).await + add(n).await + before.unwrap_or(0)
}

#[test]
fn previous_is_what_the_last_success_saved() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let mut last = None;
        for current in ["1", "2", "3"] {
            let seen = thread.invoke(remember(current.to_owned())).await.unwrap().completed().unwrap();
            assert_eq!(seen, Seen { previous: last.map(Box::new), current: current.to_owned() });
            last = Some(seen);
        }
        let thread = runtime.thread("chat").unwrap();
        for (place, message) in ["hello", "goodbye", "definitely"].into_iter().enumerate() {
            assert_eq!(thread.invoke(chat(message.to_owned())).await.unwrap(), Outcome::Completed(place));
        }
        let saved = thread.state().await.unwrap().unwrap().saved().unwrap().unwrap();
        assert_eq!(saved.decode::<Vec<String>>().unwrap(), ["hello", "goodbye", "definitely"]);
    });
}

#[test]
fn an_update_of_a_fresh_thread_is_the_first_runs_previous() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let at = thread.update(add, -1).await.unwrap();
        assert_eq!(at.to_string(), "1.0");
        assert_eq!(thread.resume(add).await.unwrap(), Outcome::Completed(-1), "it is the output too");
        assert_eq!(thread.invoke(add(1)).await.unwrap(), Outcome::Completed(0));
        assert_eq!(thread.invoke(add(2)).await.unwrap(), Outcome::Completed(2));
        thread.update(add, 30).await.unwrap();
        assert_eq!(thread.invoke(add(2)).await.unwrap(), Outcome::Completed(32));
        let kinds: Vec<CheckpointKind> = thread.history().await.unwrap().iter().map(|at| at.what.kind()).collect();
        let run = [CheckpointKind::Ended, CheckpointKind::Started];
        let expected = [&run[..], &[CheckpointKind::Updated], &run, &run, &[CheckpointKind::Updated]].concat();
        assert_eq!(kinds, expected);
        // A value that was set before any run is no run of the input.
        let seeded = runtime.thread("seeded").unwrap();
        seeded.update(add, 5).await.unwrap();
        assert_eq!(seeded.invoke(add(2)).once().await.unwrap(), Outcome::Completed(7));
        assert_eq!(seeded.invoke(add(2)).once().await.unwrap(), Outcome::Completed(7));
    });
}

#[test]
fn an_update_of_a_paused_thread_cancels_the_pause_and_is_output_and_previous() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        let question = thread.invoke(add(-7)).await.unwrap().questions()[0].id();
        thread.update(add, 100).await.unwrap();
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len()), (Status::Completed, 0));
        assert_eq!(state.output().unwrap().json(), "100");
        match thread.answer(question, 3_i64).await {
            Err(AnswerError::NoPendingInterrupt { status, .. }) => assert_eq!(status, Some(Status::Completed)),
            other => panic!("{other:?}"),
        }
        assert_eq!(thread.resume(add).await.unwrap(), Outcome::Completed(100));
        // Who started it gets it too, however often the program begins; with another input it is a mistake.
        assert_eq!(thread.invoke(add(-7)).once().await.unwrap(), Outcome::Completed(100));
        assert!(matches!(thread.invoke(add(-8)).once().await, Err(RunError::InputMismatch { .. })));
        assert_eq!(thread.invoke(add(1)).await.unwrap(), Outcome::Completed(101));
        let ends = thread.history().kind(CheckpointKind::Ended).await.unwrap();
        assert!(matches!(ends.last().unwrap().what, CheckpointWhat::Discarded));
    });
}

#[test]
fn an_update_has_an_output_of_its_own_where_that_is_another_thing() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        thread.update(chat, vec!["hi".to_owned()]).output(17).await.unwrap();
        assert_eq!(thread.resume(chat).await.unwrap(), Outcome::Completed(17));
        assert_eq!(thread.invoke(chat("you".to_owned())).await.unwrap(), Outcome::Completed(1));
        // Without one, the saved value is no output of this type, and is told as that.
        thread.update(chat, vec!["hi".to_owned()]).await.unwrap();
        assert!(matches!(thread.resume(chat).await, Err(RunError::Value { .. })));
    });
}

#[test]
fn an_update_gives_up_a_run_that_does_not_pause_only_if_asked_to() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Ledger::default()));
        let thread = runtime.thread("t").unwrap();
        assert!(thread.invoke(steps("bad".to_owned())).await.is_err());
        let refused = thread.update(steps, "mended".to_owned()).await;
        assert!(matches!(refused, Err(RunError::Unfinished { status: Status::Failed, .. })), "{refused:?}");
        thread.update(steps, "mended ".to_owned()).discard_unfinished().await.unwrap();
        let next = thread.invoke(steps("good".to_owned())).await.unwrap();
        assert_eq!(next.completed().as_deref(), Some("mended good"));
        match runtime.thread("t").unwrap().update(add, 1).await {
            Err(RunError::WrongEntrypoint { recorded, given, .. }) => {
                assert_eq!((&*recorded, &*given), ("steps", "add"));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn threads_of_one_store_know_nothing_of_each_other() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let (one, two) = (runtime.thread("one").unwrap(), runtime.thread("two").unwrap());
        assert_eq!(one.invoke(add(1)).await.unwrap(), Outcome::Completed(1));
        assert_eq!(two.invoke(add(20)).await.unwrap(), Outcome::Completed(20));
        assert_eq!(two.invoke(add(-3)).await.unwrap().questions().len(), 1);
        assert!(matches!(one.answer("how much?", 1).await, Err(AnswerError::NoPendingInterrupt { .. })));
        assert_eq!(one.invoke(add(1)).await.unwrap(), Outcome::Completed(2));
        two.discard().await.unwrap();
        assert_eq!(two.invoke(add(1)).await.unwrap(), Outcome::Completed(21));
    });
}

#[test]
fn after_a_failure_a_discarding_run_starts_from_nothing() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        assert!(thread.invoke(steps("bad".to_owned())).await.is_err());
        let again = thread.invoke(steps("good".to_owned())).await;
        assert!(matches!(again, Err(RunError::Unfinished { .. })), "{again:?}");
        let call = thread.invoke(steps("good".to_owned())).if_unfinished(IfUnfinished::Discard);
        assert_eq!(call.await.unwrap().completed().as_deref(), Some("good"));
        assert_eq!(ledger.count("first"), 2, "nothing of the failed run is used");
    });
}

#[test]
fn a_staged_input_runs_when_it_is_resumed() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()));
            let thread = runtime.thread("t").unwrap();
            let at = thread.stage(steps("one".to_owned())).tag("by", "me").await.unwrap();
            assert_eq!((at.to_string(), ledger.total()), ("1.0".to_owned(), 0));
            assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Drained);
            let second = thread.stage(steps("two".to_owned())).await;
            assert!(matches!(second, Err(RunError::Unfinished { .. })), "{second:?}");
            thread.stage(steps("two".to_owned())).discard_unfinished().await.unwrap();
            let invoked = thread.invoke(steps("three".to_owned())).await;
            assert!(matches!(invoked, Err(RunError::Unfinished { .. })), "{invoked:?}");
        }
        // In another process; recovery leaves it to whoever resumes it.
        let runtime = world.open(|builder| builder.resource(ledger.clone()).entrypoint(steps));
        assert_eq!(runtime.recover().await.unwrap().len(), 0);
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.resume(steps).await.unwrap().completed().as_deref(), Some("two"));
        assert_eq!((ledger.count("one"), ledger.count("two")), (0, 1));
        assert_eq!(runtime.threads().tag("by", "me").count().await.unwrap(), 1);
        thread.stage(steps("three".to_owned())).await.unwrap();
        assert_eq!(thread.resume(steps).await.unwrap().completed().as_deref(), Some("twothree"));
    });
}

#[test]
fn a_run_that_is_given_up_is_cancelled_and_what_was_saved_stays() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        assert!(!thread.discard().await.unwrap(), "a fresh thread has none");
        thread.invoke(add(1)).await.unwrap().completed().unwrap();
        assert!(!thread.discard().await.unwrap(), "it has ended");
        assert_eq!(thread.invoke(add(-1)).await.unwrap().questions().len(), 1);
        thread.answer("how much?", 3_i64).await.unwrap();
        assert!(thread.discard().await.unwrap());
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len()), (Status::Cancelled, 0));
        assert!(matches!(thread.resume(add).await, Err(RunError::Cancelled { .. })));
        assert!(matches!(thread.answer("how much?", 3_i64).await, Err(AnswerError::NoPendingInterrupt { .. })));
        assert_eq!(thread.invoke(add(-1)).await.unwrap().questions().len(), 1, "the old answer answers nothing");
        assert!(thread.discard().await.unwrap());
        assert_eq!(thread.invoke(add(1)).await.unwrap(), Outcome::Completed(2));
    });
}

#[test]
fn a_failed_run_that_is_given_up_can_be_taken_up_by_a_fork() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Ledger::default()));
        let thread = runtime.thread("t").unwrap();
        assert!(thread.invoke(steps("bad".to_owned())).await.is_err());
        assert!(thread.discard().await.unwrap());
        let newest = thread.history().limit(1).await.unwrap().remove(0);
        assert!(matches!(newest.what, CheckpointWhat::Discarded), "{newest:?}");
        assert_eq!(thread.runs().await.unwrap()[0].status, Status::Cancelled);
        let forked = thread.fork(newest.id).await.unwrap();
        assert_eq!(forked.state().await.unwrap().unwrap().status, Status::Failed);
        assert!(matches!(forked.resume(steps).await, Err(RunError::Failed(_))));
    });
}

#[task]
async fn on_its_own_thread(n: i64) -> anyhow::Result<i64> {
    let thread = durably::resource::<Runtime>().thread("child")?;
    thread.invoke(add(n)).wait().await?.completed().ok_or_else(|| anyhow::anyhow!("it paused"))
}

#[entrypoint]
async fn parent(n: i64, #[previous] before: Option<i64>) -> anyhow::Result<i64> {
    Ok(on_its_own_thread(n).await? * 100 + before.unwrap_or(0))
}

#[test]
fn a_run_on_a_thread_of_its_own_leaves_the_callers_thread_alone() {
    on_every_checkpointer(async |world| {
        let checkpointer = world.checkpointer();
        let inner = Runtime::builder().shared_checkpointer(checkpointer.clone());
        let runtime = Runtime::builder().resource(inner.clone()).shared_checkpointer(checkpointer);
        let thread = runtime.thread("parent").unwrap();
        // The child's value grows over the parent's runs: 1, then 1 + 1.
        assert_eq!(thread.invoke(parent(1)).await.unwrap(), Outcome::Completed(100));
        assert_eq!(thread.invoke(parent(1)).await.unwrap(), Outcome::Completed(300));
        let child = inner.thread("child").unwrap().state().await.unwrap().unwrap();
        assert_eq!(child.saved().unwrap().unwrap().json(), "2");
    });
}

#[test]
fn a_nested_entrypoint_has_no_previous() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        assert_eq!(thread.invoke(outer(1)).await.unwrap(), Outcome::Completed(2));
        assert_eq!(thread.invoke(outer(1)).await.unwrap(), Outcome::Completed(4));
    });
}

/// Where the first run stands.
#[derive(Debug, Default)]
struct Place {
    reached: Notify,
    opened: Notify,
}

#[task]
async fn held(name: &str) -> String {
    durably::resource::<Ledger>().note(name);
    let place = durably::resource::<Arc<Place>>();
    place.reached.notify_one();
    place.opened.notified().await;
    name.to_owned()
}

#[entrypoint]
async fn holding(name: String) -> String {
    held(&name).await
}

#[test]
fn a_second_start_of_a_used_name_is_refused_and_the_first_is_recovered() {
    on_every_checkpointer(async |world: World| {
        let ledger = Ledger::default();
        let place = Arc::new(Place::default());
        let open = |builder: durably::RuntimeBuilder| {
            builder.resource(ledger.clone()).resource(place.clone()).entrypoint(holding)
        };
        {
            let runtime = world.open(open);
            let thread = runtime.thread("id").unwrap();
            let first = thread.invoke(holding("A".to_owned())).start();
            place.reached.notified().await;
            for refused in [
                thread.invoke(holding("B".to_owned())).await,
                thread.invoke(holding("B".to_owned())).if_unfinished(IfUnfinished::Discard).await,
            ] {
                assert!(matches!(refused, Err(RunError::Busy { .. })), "{refused:?}");
            }
            for refused in [
                thread.stage(holding("B".to_owned())).await.map(|_| ()),
                thread.update(holding, "B".to_owned()).discard_unfinished().await.map(|_| ()),
                thread.discard().await.map(|_| ()),
                runtime.delete_thread("id").await.map(|_| ()),
                runtime.copy_thread("id", "copy").await.map(|_| ()),
            ] {
                assert!(matches!(refused, Err(RunError::Busy { .. })), "{refused:?}");
            }
            first.abort();
            assert!(matches!(first.await, Err(RunError::Aborted { .. })));
        }
        let runtime = world.open(open);
        let refused = runtime.thread("id").unwrap().invoke(holding("B".to_owned())).await;
        assert!(matches!(refused, Err(RunError::Unfinished { status: Status::Running, .. })), "{refused:?}");
        place.opened.notify_one();
        let recovered = runtime.recover().await.unwrap();
        assert_eq!(recovered.len(), 1);
        for run in recovered {
            assert_eq!(run.outcome_as::<String>().await.unwrap(), Outcome::Completed("A".to_owned()));
        }
        assert_eq!((ledger.count("A"), ledger.count("B")), (2, 0));
    });
}
