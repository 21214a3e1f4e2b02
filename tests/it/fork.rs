//! Runs that go on from a record of an earlier one.
//!
//! | line | test |
//! | --- | --- |
//! | 88 | `a_fork_at_an_input_runs_anew_with_the_previous_of_then_and_the_old_head_stays_listed` |
//! | 89 | `a_fork_at_the_end_is_the_same_output_and_runs_nothing` |
//! | 90 | `two_forks_of_one_point_are_independent` |
//! | 91 | `a_fork_before_a_question_asks_it_again_under_the_same_id` |
//! | 92 | `what_waits_for_the_old_run_does_not_reach_the_fork`, `a_fork_goes_on_from_an_edited_outcome` |
//! | 97 | `history::an_unknown_checkpoint_is_a_typed_error`, `an_edit_of_a_call_without_an_outcome_is_a_typed_error` |
//!
//! Random flows are forked at every record in `random_flows`.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use durably::{
    CheckpointId, CheckpointKind, CheckpointWhat, Outcome, RunError, Runtime, Status, Thread, entrypoint, interrupt,
    task,
};
use futures::future::join_all;
use tests::{Ledger, in_every_mode, on_every_checkpointer};

/// The idempotency keys that bodies had.
#[derive(Clone, Debug, Default)]
struct Keys(Arc<Mutex<Vec<String>>>);

#[task]
async fn double(n: i64) -> i64 {
    durably::resource::<Ledger>().note(format!("double {n}"));
    let keys = durably::resource::<Keys>();
    keys.0.lock().unwrap_or_else(PoisonError::into_inner).push(durably::idempotency_key().unwrap());
    n * 2
}

#[entrypoint]
async fn sum(n: i64, #[previous] before: Option<i64>) -> i64 {
    durably::resource::<Ledger>().note("sum");
    let doubled = join_all((0..3).map(|more| double(n + more))).await;
    double(doubled.iter().sum::<i64>()).await + before.unwrap_or(0)
}

#[entrypoint]
async fn trade(n: i64) -> String {
    let price = double(n).await;
    let buy: bool = interrupt("buy?", &price).await;
    let paid = if buy { double(price).await } else { 0 };
    format!("{price} {buy} {paid}")
}

struct Lab {
    ledger: Ledger,
    keys: Keys,
}

impl Lab {
    fn new() -> Self {
        Self { ledger: Ledger::default(), keys: Keys::default() }
    }

    fn open(&self, world: &tests::World) -> Runtime {
        world.open(|builder| builder.resource(self.ledger.clone()).resource(self.keys.clone()))
    }

    /// How many bodies ran since this was last asked.
    fn ran(&self) -> u32 {
        let total = self.ledger.total() - self.ledger.count("sum");
        self.ledger.clear();
        total
    }
}

fn id(text: &str) -> CheckpointId {
    text.parse().unwrap()
}

async fn newest(thread: &Thread) -> CheckpointId {
    thread.state().await.unwrap().unwrap().checkpoint
}

#[test]
fn a_fork_at_every_record_comes_to_the_same_output_and_no_task_of_the_prefix_runs_again() {
    in_every_mode(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(sum(1)).await.unwrap(), Outcome::Completed(24));
        assert_eq!(thread.invoke(sum(2)).await.unwrap(), Outcome::Completed(60));
        lab.ran();
        let last = newest(&thread).await.seq().get();
        for seq in 0..=last {
            let at = id(&format!("2.{seq}"));
            let outcomes = thread.state_at(at).await.unwrap().calls.len();
            let elsewhere = format!("fork {seq}");
            for fork in [thread.fork(at), thread.fork(at).to(&elsewhere)] {
                let forked = fork.await.unwrap();
                assert_eq!(lab.ran(), 0, "a fork runs nothing by itself");
                assert_eq!(forked.resume(sum).await.unwrap(), Outcome::Completed(60), "forked at {at}");
                assert_eq!(lab.ran() as usize, 4 - outcomes, "forked at {at}");
                // Its own next run goes on from what it saved.
                assert_eq!(forked.invoke(sum(0)).await.unwrap(), Outcome::Completed(72));
                assert_eq!(lab.ran(), 4);
            }
        }
    });
}

#[test]
fn a_fork_at_an_input_runs_anew_with_the_previous_of_then_and_the_old_head_stays_listed() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        for n in 1..=3 {
            thread.invoke(sum(n)).await.unwrap().completed().unwrap();
        }
        let third = thread.state().await.unwrap().unwrap().output().unwrap().decode::<i64>().unwrap();
        assert_eq!(third, 108);
        lab.ran();
        let before = thread.history().await.unwrap();
        let same = thread.fork(id("2.0")).await.unwrap();
        assert_eq!(same.id(), thread.id());
        assert_eq!(thread.state().await.unwrap().unwrap().saved().unwrap().unwrap().json(), "24", "what run 1 saved");
        assert_eq!(thread.resume(sum).await.unwrap(), Outcome::Completed(60));
        assert_eq!(lab.ran(), 4);
        let after = thread.history().await.unwrap();
        let (new, old) = after.split_at(after.len() - before.len());
        assert_eq!(old.iter().map(|at| at.id).collect::<Vec<_>>(), before.iter().map(|at| at.id).collect::<Vec<_>>());
        assert!(new.iter().all(|at| at.id.run().get() == 4));
        let start = new.last().unwrap();
        assert_eq!((start.id, start.parent), (id("4.0"), Some(id("2.0"))));
        let from = start.forked_from.as_ref().unwrap();
        assert_eq!((from.thread.as_ref(), from.checkpoint), (None, id("2.0")));
        assert_eq!(thread.state_at(id("3.5")).await.unwrap().output().unwrap().json(), "108");
        let runs = thread.runs().await.unwrap();
        assert_eq!(runs.iter().map(|run| run.forked_from.is_some()).collect::<Vec<_>>(), [true, false, false, false]);
    });
}

#[test]
fn a_fork_at_the_end_is_the_same_output_and_runs_nothing() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        thread.invoke(sum(1)).await.unwrap().completed().unwrap();
        lab.ran();
        let end = newest(&thread).await;
        for forked in [thread.fork(end).await.unwrap(), thread.fork(end).to("other").await.unwrap()] {
            assert_eq!(forked.state().await.unwrap().unwrap().status, Status::Completed);
            assert_eq!(forked.resume(sum).await.unwrap(), Outcome::Completed(24));
            assert_eq!(lab.ran(), 0);
        }
    });
}

#[test]
fn two_forks_of_one_point_are_independent() {
    in_every_mode(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(trade(5)).await.unwrap().questions().len(), 1);
        let asked = newest(&thread).await;
        let yes = thread.fork(asked).to("yes").await.unwrap();
        let no = thread.fork(asked).to("no").await.unwrap();
        yes.answer("buy?", true).await.unwrap();
        no.answer("buy?", false).await.unwrap();
        assert_eq!(no.resume(trade).await.unwrap(), Outcome::Completed("10 false 0".to_owned()));
        assert_eq!(yes.resume(trade).await.unwrap(), Outcome::Completed("10 true 20".to_owned()));
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Interrupted, "the source still waits");
        thread.answer("buy?", true).await.unwrap();
        assert_eq!(thread.resume(trade).await.unwrap(), Outcome::Completed("10 true 20".to_owned()));
        assert_eq!((lab.ledger.count("double 5"), lab.ledger.count("double 10")), (1, 2));
    });
}

#[test]
fn what_runs_anew_in_a_fork_has_keys_of_its_own() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        thread.invoke(sum(1)).await.unwrap().completed().unwrap();
        for fork in [thread.fork(id("1.0")), thread.fork(id("1.0")), thread.fork(id("1.0")).to("other")] {
            fork.await.unwrap().resume(sum).await.unwrap().completed().unwrap();
        }
        let keys = lab.keys.0.lock().unwrap().clone();
        assert_eq!(keys.len(), 16);
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 16, "{keys:?}");
    });
}

#[test]
fn a_fork_before_a_question_asks_it_again_under_the_same_id() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        let asked = thread.invoke(trade(5)).await.unwrap().questions()[0].id();
        thread.answer("buy?", true).await.unwrap();
        thread.resume(trade).await.unwrap().completed().unwrap();
        // 1.0 the start, 1.1 the price, 1.2 the question, 1.3 the answer.
        for (at, answer) in [("1.1", false), ("1.1", true), ("1.2", false), ("1.0", true)] {
            let forked = thread.fork(id(at)).discard_unfinished().await.unwrap();
            let paused = forked.resume(trade).await.unwrap();
            assert_eq!(paused.questions()[0].id(), asked, "forked at {at}");
            let again = forked.resume(trade).await.unwrap();
            assert_eq!(again, paused, "nothing has changed");
            forked.answer(asked, answer).await.unwrap();
            let outcome = forked.resume(trade).await.unwrap().completed().unwrap();
            assert_eq!(outcome, format!("10 {answer} {}", if answer { 20 } else { 0 }));
        }
        // At the question it is open at once.
        let forked = thread.fork(id("1.2")).await.unwrap();
        let state = forked.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions[0].id()), (Status::Interrupted, asked));
    });
}

#[test]
fn what_waits_for_the_old_run_does_not_reach_the_fork() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(trade(5)).await.unwrap().questions().len(), 1);
        thread.answer("buy?", true).await.unwrap();
        // The answer has arrived and the run has not gone on; the fork asks for itself.
        let forked = thread.fork(id("1.2")).discard_unfinished().await.unwrap();
        assert_eq!(forked.resume(trade).await.unwrap().questions().len(), 1);
        let other = thread.fork(id("1.2")).to("other").await.unwrap();
        assert_eq!(other.resume(trade).await.unwrap().questions().len(), 1);
    });
}

#[test]
fn a_fork_goes_on_from_an_edited_outcome() {
    in_every_mode(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(trade(5)).await.unwrap().questions().len(), 1);
        thread.answer("buy?", true).await.unwrap();
        assert_eq!(thread.resume(trade).await.unwrap(), Outcome::Completed("10 true 20".to_owned()));
        let end = newest(&thread).await;
        let calls = thread.history().await.unwrap();
        let call = |kind: CheckpointKind| {
            let mut of_kind = calls.iter().rev().filter(|at| at.what.kind() == kind);
            of_kind.next().and_then(|at| at.what.call()).unwrap().0
        };
        lab.ran();
        // What if the answer had been no?
        let no = thread.fork(end).edit(call(CheckpointKind::Answer), false).to("no").await.unwrap();
        assert_eq!(no.resume(trade).await.unwrap(), Outcome::Completed("10 false 0".to_owned()));
        assert_eq!(lab.ran(), 0);
        // What if the price had been higher? The question is another one then, and asked anew.
        let dear = thread.fork(end).edit(call(CheckpointKind::Outcome), 99_i64).await.unwrap();
        let asked = dear.resume(trade).await.unwrap();
        assert_eq!(asked.questions()[0].payload(), "99");
        dear.answer("buy?", true).await.unwrap();
        assert_eq!(dear.resume(trade).await.unwrap(), Outcome::Completed("99 true 198".to_owned()));
        assert_eq!(lab.ran(), 1);
        let source = thread.state_at(end).await.unwrap();
        assert_eq!(source.output().unwrap().json(), r#""10 true 20""#);
    });
}

#[test]
fn an_edit_of_another_type_is_an_error_where_it_is_read_and_another_fork_mends_it() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        thread.invoke(sum(1)).await.unwrap().completed().unwrap();
        let history = thread.history().kind(CheckpointKind::Outcome).await.unwrap();
        let (call, _) = history[0].what.call().unwrap();
        let forked = thread.fork(history[0].id).edit(call, "many").await.unwrap();
        match forked.resume(sum).await {
            Err(RunError::Value { what, .. }) => assert!(what.contains("double"), "{what}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Stuck);
        let forked = thread.fork(history[0].id).edit(call, 7_i64).discard_unfinished().await.unwrap();
        assert_eq!(forked.resume(sum).await.unwrap(), Outcome::Completed(7));
    });
}

#[test]
fn an_edit_of_a_call_without_an_outcome_is_a_typed_error() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        let asked = thread.invoke(trade(5)).await.unwrap().questions()[0].id();
        match thread.fork(id("1.2")).edit(asked, true).to("other").await {
            Err(RunError::NoOutcome { call, checkpoint }) => assert_eq!((call, checkpoint), (asked, id("1.2"))),
            other => panic!("{other:?}"),
        }
        assert!(runtime.thread("other").unwrap().state().await.unwrap().is_none(), "nothing was written");
    });
}

#[test]
fn a_fork_on_a_thread_whose_run_has_not_ended_is_refused_unless_it_is_to_be_discarded() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        let runtime = lab.open(&world);
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(trade(5)).await.unwrap().questions().len(), 1);
        match thread.fork(id("1.1")).await {
            Err(RunError::Unfinished { status, .. }) => assert_eq!(status, Status::Interrupted),
            other => panic!("{other:?}"),
        }
        assert_eq!(newest(&thread).await, id("1.2"), "nothing was written");
        thread.fork(id("1.1")).discard_unfinished().await.unwrap();
        let ends = thread.history().kind(CheckpointKind::Ended).await.unwrap();
        assert_eq!(ends[0].id, id("1.3"));
        assert!(matches!(ends[0].what, CheckpointWhat::Discarded));
        // A run that was given up can be taken up again, by a fork at its end.
        let again = thread.fork(id("1.3")).discard_unfinished().await.unwrap();
        again.answer("buy?", true).await.unwrap();
        assert_eq!(again.resume(trade).await.unwrap(), Outcome::Completed("10 true 20".to_owned()));
    });
}

#[test]
fn a_fork_on_another_thread_takes_what_its_code_saw_along() {
    on_every_checkpointer(async |world| {
        let lab = Lab::new();
        {
            let runtime = lab.open(&world);
            let thread = runtime.thread("t").unwrap();
            for n in 1..=2 {
                thread.invoke(sum(n)).await.unwrap().completed().unwrap();
            }
            let other = thread.fork(id("2.1")).to("other").await.unwrap();
            let shown = other.history().await.unwrap();
            assert_eq!(shown.last().unwrap().what.kind(), CheckpointKind::Updated);
            let from = shown.last().unwrap().forked_from.as_ref().unwrap();
            assert_eq!((from.thread.as_ref(), from.checkpoint), (Some(thread.id()), id("1.5")));
            drop(other);
            assert!(runtime.delete_thread("t").await.unwrap());
        }
        // Its source is gone; another process goes on with it.
        let runtime = lab.open(&world);
        let other = runtime.thread("other").unwrap();
        assert_eq!(other.resume(sum).await.unwrap(), Outcome::Completed(60));
    });
}
