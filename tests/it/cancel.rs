//! Cancelling a run: durable at once, carried out in its place of the order, the same after a crash anywhere in it.

use durably::{AnswerError, CancelError, Cancellation, Outcome, RunError, Status, entrypoint, interrupt, task};
use tests::{Ledger, in_every_mode, on_every_checkpointer};
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
