//! A run's deadline: it holds over pauses and restarts, keeps what had finished, and a resume gives as much time again.

use std::time::Duration;

use durably::{Outcome, RunError, RuntimeBuilder, Status, entrypoint, interrupt, task};
use tests::{HandClock, Ledger, cut_after_every_record, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

use std::sync::Arc;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[task]
async fn quick(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("quick {n}"));
    n
}

#[task]
async fn slow() -> u32 {
    durably::resource::<Ledger>().note("slow");
    let gate = durably::resource::<Gate>();
    gate.begun.notify_one();
    gate.go_on.notified().await;
    10
}

#[task]
async fn undo() {
    durably::resource::<Ledger>().note("undo");
}

#[entrypoint(timeout = "1h")]
async fn takes_long() -> u32 {
    durably::defer(async || undo().await);
    quick(1).await + slow().await
}

fn build(ledger: &Ledger, gate: &Gate, clock: &HandClock) -> impl Fn(RuntimeBuilder) -> RuntimeBuilder {
    let (ledger, gate, clock) = (ledger.clone(), gate.clone(), clock.clone());
    move |builder| builder.resource(ledger.clone()).resource(gate.clone()).clock(clock.clone()).entrypoint(takes_long)
}

#[test]
fn a_run_past_its_deadline_is_stopped_cleans_up_and_keeps_what_had_finished() {
    in_every_mode(async |world| {
        let (ledger, gate, clock) = (Ledger::default(), Gate::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &gate, &clock));
        let thread = runtime.thread("t").unwrap();
        for times in 1..=2 {
            let run = if times == 1 { thread.invoke(takes_long()).start() } else { thread.resume(takes_long).start() };
            gate.begun.notified().await;
            clock.forward(HOUR + Duration::from_secs(1));
            let failed = run.await.unwrap_err();
            assert!(matches!(failed, RunError::TimedOut { limit: HOUR, .. }), "{failed}");
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!(state.status, Status::Failed);
            assert!(state.reason.unwrap().contains("did not end within 3600s"));
            assert_eq!((ledger.count("quick 1"), ledger.count("slow"), ledger.count("undo")), (1, times, times));
        }
        gate.go_on.notify_one();
        assert_eq!(thread.resume(takes_long).await.unwrap(), Outcome::Completed(11));
        assert_eq!((ledger.count("quick 1"), ledger.count("slow"), ledger.count("undo")), (1, 3, 3));
    });
}

#[entrypoint]
async fn asks() -> u32 {
    quick(1).await;
    interrupt("n", &()).await
}

#[test]
fn a_paused_run_is_ended_at_its_deadline_and_asks_again_when_it_is_resumed() {
    in_every_mode(async |world| {
        let (ledger, gate, clock) = (Ledger::default(), Gate::default(), HandClock::default());
        let build = |builder| build(&ledger, &gate, &clock)(builder).entrypoint(asks);
        let question = {
            let runtime = world.open(build);
            let paused = runtime.thread("t").unwrap().invoke(asks()).deadline(HOUR).await.unwrap();
            assert!(runtime.run_due().await.unwrap().is_empty());
            paused.questions()[0].id()
        };
        clock.forward(HOUR * 2);
        let runtime = world.open(build);
        let thread = runtime.thread("t").unwrap();
        for due in runtime.run_due().await.unwrap() {
            assert!(matches!(due.outcome().await, Err(RunError::TimedOut { .. })));
        }
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len(), state.due), (Status::Failed, 0, None));
        assert!(thread.answer("n", 5).await.is_err());
        let paused = thread.resume(asks).await.unwrap();
        assert_eq!(paused.questions()[0].id(), question);
        assert_eq!(thread.state().await.unwrap().unwrap().questions.len(), 1);
        thread.answer("n", 5).await.unwrap();
        assert_eq!(thread.resume(asks).await.unwrap(), Outcome::Completed(5));
        assert_eq!(ledger.count("quick 1"), 1);
    });
}

#[test]
fn a_run_that_comes_to_its_end_in_time_has_no_deadline_any_more() {
    on_every_checkpointer(async |world| {
        let (ledger, gate, clock) = (Ledger::default(), Gate::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &gate, &clock));
        let thread = runtime.thread("t").unwrap();
        gate.go_on.notify_one();
        assert_eq!(thread.invoke(takes_long()).await.unwrap(), Outcome::Completed(11));
        clock.forward(HOUR * 2);
        assert!(runtime.run_due().await.unwrap().is_empty());
        assert_eq!(thread.resume(takes_long).await.unwrap(), Outcome::Completed(11));
    });
}

#[test]
fn a_deadline_that_is_cut_off_at_any_record_ends_the_same_and_can_be_resumed() {
    let (ledger, gate, clock) = (Ledger::default(), Gate::default(), HandClock::default());
    cut_after_every_record(
        build(&ledger, &gate, &clock),
        async |runtime| {
            let run = runtime.thread("t").unwrap().invoke(takes_long()).start();
            gate.begun.notified().await;
            clock.forward(HOUR * 2);
            assert!(matches!(run.await, Err(RunError::TimedOut { .. })));
            ledger.clear();
        },
        async |runtime, cut| {
            if cut == 0 {
                return;
            }
            let thread = runtime.thread("t").unwrap();
            let before = thread.state().await.unwrap().unwrap();
            let undone = before.calls.iter().any(|call| call.name == "undo");
            if before.status != Status::Failed {
                let failed = thread.resume(takes_long).await.unwrap_err();
                assert!(matches!(failed, RunError::TimedOut { .. }), "{failed}");
                assert_eq!(ledger.count("undo") + u32::from(undone), 1);
                assert_eq!(ledger.count("slow"), 0, "nothing starts past the deadline");
            }
            gate.go_on.notify_one();
            assert_eq!(thread.resume(takes_long).await.unwrap(), Outcome::Completed(11));
            let quick = before.calls.iter().any(|call| call.name == "quick");
            assert_eq!(ledger.count("quick 1") + u32::from(quick), 1);
            ledger.clear();
        },
    );
}

#[test]
fn a_staged_run_and_a_fork_have_their_whole_time_from_when_they_begin() {
    on_every_checkpointer(async |world| {
        let (ledger, gate, clock) = (Ledger::default(), Gate::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &gate, &clock));
        let thread = runtime.thread("t").unwrap();
        thread.stage(takes_long()).await.unwrap();
        clock.forward(HOUR * 2);
        let run = thread.resume(takes_long).start();
        gate.begun.notified().await;
        clock.forward(HOUR * 2);
        assert!(matches!(run.await, Err(RunError::TimedOut { .. })));
        // A fork of a run that was stopped goes on from before that.
        let stopped = thread.state().await.unwrap().unwrap().checkpoint;
        clock.forward(HOUR * 2);
        let fork = thread.fork(stopped).to("fork").await.unwrap();
        gate.go_on.notify_one();
        assert_eq!(fork.resume(takes_long).await.unwrap(), Outcome::Completed(11));
        assert_eq!((ledger.count("quick 1"), ledger.count("undo")), (1, 2));
    });
}
