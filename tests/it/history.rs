//! What a thread remembers of its runs, a page at a time, and its state at any checkpoint.
//!
//! | line | test |
//! | --- | --- |
//! | 3 | `a_completed_run_shows_its_output_and_what_it_saved` |
//! | 23 | `history_is_newest_first_and_each_checkpoint_shows_what_was_saved_by_then` |
//! | 24 | `a_failed_run_shows_what_failed_and_why` |
//! | 87 | `three_runs_are_six_checkpoints_each_with_the_one_before_as_its_parent` |
//! | 97 | `an_unknown_checkpoint_is_a_typed_error` |
//! | 98 | `a_history_is_filtered_limited_and_paged` |

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use durably::{
    CheckpointId, CheckpointKind, CheckpointWhat, Outcome, RunError, Runtime, Status, Thread, entrypoint, interrupt,
    task,
};
use tests::{Counting, on_every_checkpointer};

/// Whether what can fail does.
#[derive(Clone, Debug, Default)]
struct Broken(Arc<AtomicBool>);

#[task]
async fn work(n: i64) -> anyhow::Result<i64> {
    let broken = durably::resource::<Broken>();
    anyhow::ensure!(!broken.0.load(Ordering::SeqCst), "the machine is broken");
    Ok(n)
}

#[entrypoint]
async fn add(n: i64, #[previous] sum: Option<i64>) -> anyhow::Result<i64> {
    Ok(sum.unwrap_or(0) + work(n).await? * 10 + 1)
}

#[entrypoint]
async fn count(#[previous] runs: Option<u32>) -> u32 {
    runs.unwrap_or(0) + 1
}

#[entrypoint]
async fn ask(what: String) -> bool {
    interrupt("sure?", &what).await
}

fn id(text: &str) -> CheckpointId {
    text.parse().unwrap()
}

async fn ids(thread: &Thread) -> Vec<String> {
    thread.history().await.unwrap().iter().map(|at| at.id.to_string()).collect()
}

#[test]
fn three_runs_are_six_checkpoints_each_with_the_one_before_as_its_parent() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        for n in 1..=3 {
            assert_eq!(thread.invoke(count()).await.unwrap(), Outcome::Completed(n));
        }
        let history = thread.history().await.unwrap();
        assert_eq!(ids(&thread).await, ["3.1", "3.0", "2.1", "2.0", "1.1", "1.0"]);
        for pair in history.windows(2) {
            assert_eq!(pair[0].parent, Some(pair[1].id), "{pair:?}");
            assert!(pair[0].at >= pair[1].at);
        }
        assert_eq!(history[5].parent, None);
        assert!(matches!(&history[1].what, CheckpointWhat::Started { input } if input.json() == "[]"));
        assert!(matches!(&history[0].what, CheckpointWhat::Completed { output, saved }
            if output.json() == "3" && saved.decode::<u32>().unwrap() == 3));
        assert!(history.iter().all(|at| at.entrypoint == "count" && at.forked_from.is_none()));
    });
}

#[test]
fn history_is_newest_first_and_each_checkpoint_shows_what_was_saved_by_then() {
    on_every_checkpointer(async |world| {
        let broken = Broken::default();
        let runtime = world.open(|builder| builder.resource(broken.clone()));
        let thread = runtime.thread("t").unwrap();
        thread.invoke(add(1)).await.unwrap().completed().unwrap();
        broken.0.store(true, Ordering::SeqCst);
        assert!(matches!(thread.invoke(add(2)).await, Err(RunError::Failed(_))));
        broken.0.store(false, Ordering::SeqCst);
        assert_eq!(thread.resume(add).await.unwrap(), Outcome::Completed(32));

        let mut saved = Vec::new();
        for at in thread.history().await.unwrap() {
            let state = thread.state_at(at.id).await.unwrap();
            assert_eq!(state.checkpoint, at.id);
            let value = state.saved().unwrap().map_or("-".to_owned(), |value| value.json());
            saved.push(format!("{} {:?} {} {value}", at.id, at.what.kind(), state.status));
        }
        assert_eq!(
            saved,
            [
                "2.5 Ended completed 32",
                "2.4 Outcome running 11",
                "2.3 Resumed running 11",
                "2.2 Ended failed 11",
                "2.1 Outcome running 11",
                "2.0 Started running 11",
                "1.2 Ended completed 11",
                "1.1 Outcome running -",
                "1.0 Started running -",
            ]
        );
    });
}

#[test]
fn a_completed_run_shows_its_output_and_what_it_saved() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Broken::default()));
        let thread = runtime.thread("t").unwrap();
        thread.invoke(add(4)).await.unwrap().completed().unwrap();
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.output().unwrap().decode::<i64>().unwrap(), 41);
        assert_eq!(state.saved().unwrap().unwrap().json(), "41");
        assert_eq!(state.checkpoint, id("1.2"));
        let before = thread.state_at(id("1.1")).await.unwrap();
        assert_eq!((before.output(), before.calls.len()), (None, 1));
    });
}

#[test]
fn a_failed_run_shows_what_failed_and_why() {
    on_every_checkpointer(async |world| {
        let broken = Broken::default();
        broken.0.store(true, Ordering::SeqCst);
        let runtime = world.open(|builder| builder.resource(broken.clone()));
        let thread = runtime.thread("t").unwrap();
        assert!(thread.invoke(add(1)).await.is_err());
        let failures = thread.history().kind(CheckpointKind::Outcome).await.unwrap();
        let [failed] = &failures[..] else { panic!("one task failed: {failures:?}") };
        assert!(matches!(&failed.what, CheckpointWhat::Failure { call, failure, .. }
            if call.name == "work" && failure.to_string() == "the machine is broken"));
        let state = thread.state_at(id("1.2")).await.unwrap();
        assert_eq!((state.status, state.entrypoint.as_str()), (Status::Failed, "add"));
        assert_eq!(state.reason.as_deref(), Some("the machine is broken"));
    });
}

#[test]
fn a_state_in_the_past_has_the_questions_that_were_open_then() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        let asked = thread.invoke(ask("now".to_owned())).await.unwrap();
        thread.answer("sure?", true).await.unwrap();
        assert_eq!(thread.resume(ask).await.unwrap(), Outcome::Completed(true));
        let kinds: Vec<_> = thread.history().await.unwrap().iter().map(|at| at.what.kind()).collect();
        let expected =
            [CheckpointKind::Ended, CheckpointKind::Answer, CheckpointKind::Question, CheckpointKind::Started];
        assert_eq!(kinds, expected);
        let then = thread.state_at(id("1.1")).await.unwrap();
        assert_eq!(then.status, Status::Interrupted);
        assert_eq!(then.questions, asked.questions());
        let after = thread.state_at(id("1.2")).await.unwrap();
        assert_eq!((after.status, after.questions.len()), (Status::Running, 0));
    });
}

#[test]
fn a_history_is_filtered_limited_and_paged() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        for n in 0..4_u32 {
            let call = thread.invoke(count()).tag("n", n.to_string()).tag("odd", (n % 2 == 1).to_string());
            call.await.unwrap().completed().unwrap();
        }
        let shown = async |history: durably::History| -> Vec<String> {
            history.await.unwrap().iter().map(|at| at.id.to_string()).collect()
        };
        assert_eq!(shown(thread.history().limit(3)).await, ["4.1", "4.0", "3.1"]);
        assert_eq!(shown(thread.history().limit(3).before(id("3.1"))).await, ["3.0", "2.1", "2.0"]);
        assert_eq!(shown(thread.history().before(id("3.0"))).await, ["2.1", "2.0", "1.1", "1.0"]);
        assert_eq!(shown(thread.history().before(id("1.0"))).await, [""; 0]);
        assert_eq!(shown(thread.history().before(id("9.9")).limit(1)).await, ["4.1"]);
        assert_eq!(shown(thread.history().tag("odd", "true")).await, ["4.1", "4.0", "2.1", "2.0"]);
        assert_eq!(shown(thread.history().tag("odd", "true").tag("n", "1")).await, ["2.1", "2.0"]);
        assert_eq!(shown(thread.history().tag("odd", "maybe")).await, [""; 0]);
        assert_eq!(
            shown(thread.history().kind(CheckpointKind::Ended).before(id("4.0")).limit(2)).await,
            ["3.1", "2.1"]
        );
        assert_eq!(shown(thread.history().entrypoint("count").limit(1)).await, ["4.1"]);
        assert_eq!(shown(thread.history().entrypoint("other")).await, [""; 0]);
        assert_eq!(shown(thread.history().status(Status::Completed)).await.len(), 8);
        assert_eq!(shown(thread.history().status(Status::Failed)).await.len(), 0);
        // Paged by one, it is the same list.
        let (mut paged, mut page) = (Vec::new(), thread.history().limit(1).await.unwrap());
        while let [at] = &page[..] {
            paged.push(at.id.to_string());
            page = thread.history().limit(1).before(at.id).await.unwrap();
        }
        assert_eq!(paged, ids(&thread).await);
        let runs = thread.runs().limit(2).await.unwrap();
        assert_eq!(runs.iter().map(|run| run.newest.to_string()).collect::<Vec<_>>(), ["4.1", "3.1"]);
        let earlier = thread.runs().before(runs[1].run).await.unwrap();
        assert_eq!(earlier.iter().map(|run| run.tags["n"].as_str()).collect::<Vec<_>>(), ["1", "0"]);
    });
}

#[test]
fn an_unknown_checkpoint_is_a_typed_error() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        let unknown = |error: RunError, asked: &str| match error {
            RunError::UnknownCheckpoint { checkpoint, .. } => assert_eq!(checkpoint, id(asked)),
            other => panic!("{other:?}"),
        };
        unknown(thread.state_at(id("1.0")).await.unwrap_err(), "1.0");
        assert_eq!(thread.history().await.unwrap().len(), 0, "a fresh thread has no history");
        assert_eq!(thread.runs().await.unwrap().len(), 0);
        thread.invoke(count()).await.unwrap().completed().unwrap();
        for asked in ["1.2", "2.0", "0.0", "1.4294967295", "4294967295.0"] {
            unknown(thread.state_at(id(asked)).await.unwrap_err(), asked);
            unknown(thread.fork(id(asked)).await.unwrap_err(), asked);
            unknown(thread.fork(id(asked)).to("other").await.unwrap_err(), asked);
        }
        for text in ["", "1", "1.", ".1", "1.1.1", "+1.1", "01.1", "1.-1", "1.4294967296", "a.b", "1. 1"] {
            assert!(text.parse::<CheckpointId>().is_err(), "{text:?}");
        }
    });
}

#[entrypoint]
async fn long(n: u32) -> u32 {
    for step in 0..n {
        let _ = work(i64::from(step)).await;
    }
    n
}

#[test]
fn a_page_costs_what_is_on_it_however_much_there_is_beside_it() {
    let store = Counting::new();
    let read = |store: &Counting| store.read() + store.listed();
    let runtime = Runtime::builder().resource(Broken::default()).shared_checkpointer(store.clone());
    tests::block_on(async {
        let thread = runtime.thread("t").unwrap();
        for _ in 0..40 {
            thread.invoke(long(100)).await.unwrap().completed().unwrap();
        }
        for n in 0..100 {
            let other = runtime.thread(format!("other {n}")).unwrap();
            other.invoke(count()).await.unwrap().completed().unwrap();
        }
        read(&store);
        assert_eq!(thread.history().limit(5).await.unwrap().len(), 5);
        let newest = read(&store);
        assert!(newest < 30, "{newest} rows for five checkpoints of 4,080");
        assert_eq!(thread.history().limit(5).before(id("2.3")).await.unwrap().len(), 5);
        let oldest = read(&store);
        assert!(oldest < 60, "{oldest} rows for five checkpoints of two runs");
        thread.state_at(id("20.50")).await.unwrap();
        let state = read(&store);
        assert!(state < 60, "{state} rows for a state after 51 records");
        let page = runtime.threads().status(Status::Completed).limit(3).await.unwrap();
        assert_eq!((page.threads.len(), read(&store)), (3, 3), "a page by status is what is on it");
    });
}
