//! Stopping a runtime's runs in order: before the next body, within a time, and what is cut off then.

use std::{sync::Arc, time::Duration};

use durably::{Outcome, RunError, Status, entrypoint, task};
use tests::{Ledger, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[task]
async fn waits(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("waits {n}"));
    let gate = durably::resource::<Gate>();
    gate.begun.notify_one();
    gate.go_on.notified().await;
    n
}

#[task]
async fn quick(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("quick {n}"));
    n
}

#[entrypoint]
async fn inner() -> u32 {
    waits(1).await + quick(2).await
}

#[entrypoint]
async fn flow() -> u32 {
    let sum = inner().await;
    sum + quick(3).await
}

#[entrypoint]
async fn last() -> u32 {
    quick(1).await + waits(2).await
}

#[test]
fn a_drain_stops_a_run_after_the_body_that_runs_also_in_a_nested_entrypoint_and_a_resume_goes_on_at_the_parent() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
            let run = runtime.thread("t").unwrap().invoke(flow()).start();
            gate.begun.notified().await;
            let (report, ()) = futures::join!(runtime.drain_within(Duration::from_secs(600)), async {
                tokio::task::yield_now().await;
                gate.go_on.notify_one();
            });
            assert_eq!(run.await.unwrap(), Outcome::Drained);
            assert_eq!(report.drained, ["t".parse::<durably::ThreadId>().unwrap()]);
            assert!(report.cut_off.is_empty() && report.ended.is_empty(), "{report:?}");
        }
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Drained);
        assert_eq!(thread.resume(flow).await.unwrap(), Outcome::Completed(6));
        assert_eq!((ledger.count("waits 1"), ledger.count("quick 2"), ledger.count("quick 3")), (1, 1, 1));
    });
}

#[test]
fn a_run_that_is_invoked_in_a_drain_keeps_its_input_and_starts_nothing() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
        runtime.drain_within(Duration::ZERO).await;
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(last()).await.unwrap(), Outcome::Drained);
        assert_eq!(ledger.total(), 0);
        runtime.undrain();
        gate.go_on.notify_one();
        assert_eq!(thread.resume(last).await.unwrap(), Outcome::Completed(3));
    });
}

#[test]
fn a_run_in_its_last_body_ends_normally_in_a_drain() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(last()).start();
        gate.begun.notified().await;
        let (report, ()) = futures::join!(runtime.drain_within(Duration::from_secs(600)), async {
            tokio::task::yield_now().await;
            gate.go_on.notify_one();
        });
        assert_eq!(run.await.unwrap(), Outcome::Completed(3));
        assert_eq!((report.ended.len(), report.drained.len(), report.cut_off.len()), (1, 0, 0));
    });
}

#[test]
fn bodies_that_do_not_end_in_time_are_cut_off_and_nothing_on_record_is_lost_in_any_mode() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()));
            let run = runtime.thread("t").unwrap().invoke(last()).start();
            gate.begun.notified().await;
            let report = runtime.drain_within(Duration::from_millis(5)).await;
            assert_eq!((report.ended.len(), report.drained.len(), report.cut_off.len()), (0, 0, 1));
            let failed = run.await.unwrap_err();
            assert!(matches!(failed, RunError::Aborted { .. }), "{failed}");
            runtime.close().await.unwrap();
        }
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()).entrypoint(last));
        gate.go_on.notify_one();
        let mut recovered = runtime.recover().await.unwrap();
        assert_eq!(recovered.pop().unwrap().outcome_as::<u32>().await.unwrap(), Outcome::Completed(3));
        assert_eq!((ledger.count("quick 1"), ledger.count("waits 2")), (1, 2));
    });
}

#[task(blocking)]
fn blocks() -> u32 {
    let gate = durably::resource::<Blocks>();
    gate.begun.notify_one();
    gate.go_on.lock().unwrap().recv().unwrap();
    1
}

#[derive(Debug)]
struct Blocks {
    begun: Arc<Notify>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

#[entrypoint]
async fn runs_what_blocks() -> u32 {
    blocks().await
}

#[test]
fn a_drain_does_not_wait_for_a_body_that_cannot_be_stopped() {
    on_every_checkpointer(async |world| {
        let begun = Arc::new(Notify::new());
        let (sender, receiver) = std::sync::mpsc::channel();
        let gate = Blocks { begun: begun.clone(), go_on: std::sync::Mutex::new(receiver) };
        let runtime = world.open(|builder| builder.resource(gate));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(runs_what_blocks()).start();
        begun.notified().await;
        let report = runtime.drain_within(Duration::from_millis(5)).await;
        assert_eq!(report.cut_off.len(), 1, "{report:?}");
        assert!(run.await.is_err());
        runtime.undrain();
        // It holds its thread until it ends.
        assert!(matches!(thread.resume(runs_what_blocks).await, Err(RunError::Busy { .. })));
        sender.send(()).unwrap();
        sender.send(()).unwrap();
        assert_eq!(thread.resume(runs_what_blocks).wait().await.unwrap(), Outcome::Completed(1));
    });
}

#[test]
fn a_drained_run_can_be_cancelled() {
    in_every_mode(async |world| {
        let (ledger, gate) = (Ledger::default(), Gate::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(gate.clone()).entrypoint(last));
        runtime.drain();
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(last()).await.unwrap(), Outcome::Drained);
        assert_eq!(thread.cancel().await.unwrap(), durably::Cancellation::Cancelled);
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Cancelled);
        assert_eq!(ledger.total(), 0);
    });
}
