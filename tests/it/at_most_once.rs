//! Tasks whose bodies run at most once: in doubt, reconciled, settled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use durably::{
    AnswerError, CallStatus, IfUnfinished, Outcome, Reconciled, RunError, Runtime, SettleError, Settlement, Status,
    Thread, entrypoint, interrupt, resource, task,
};
use tests::{Ledger, World, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

#[derive(Clone, Debug, Default)]
struct Life(Arc<(AtomicBool, Notify)>);

impl Life {
    fn dying() -> Self {
        Self(Arc::new((AtomicBool::new(true), Notify::new())))
    }

    async fn may_end(&self) {
        if self.0.0.load(Ordering::SeqCst) {
            self.0.1.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

fn open(world: &World, ledger: &Ledger, life: &Life) -> Runtime {
    world.open(|builder| {
        let builder = builder.resource(ledger.clone()).resource(life.clone());
        builder.entrypoint(sends).entrypoint(asks_beside).entrypoint(reconciled)
    })
}

fn thread(world: &World, ledger: &Ledger) -> Thread {
    open(world, ledger, &Life::default()).thread("t").unwrap()
}

/// An empty store of the same sort.
fn fresh(world: &World) -> World {
    let empty = if world.folder().is_some() { World::sled() } else { World::memory() };
    empty.with(world.durability)
}

/// The process dies in the body.
async fn dies<D: durably::Definition>(world: &World, ledger: &Ledger, call: durably::EntrypointCall<D>)
where
    D::Value: std::fmt::Debug,
{
    let life = Life::dying();
    let thread = open(world, ledger, &life).thread("t").unwrap();
    tokio::select! {
        outcome = thread.invoke(call) => panic!("{outcome:?}"),
        () = life.0.1.notified() => {}
    }
}

#[task(at_most_once)]
async fn send(what: &str) -> anyhow::Result<String> {
    resource::<Ledger>().note("send");
    resource::<Life>().may_end().await;
    Ok(format!("sent {what}"))
}

#[entrypoint]
async fn sends(what: String) -> anyhow::Result<String> {
    send(&what).await
}

#[test]
fn a_body_that_was_cut_off_is_in_doubt_and_is_settled_once() {
    in_every_mode(async |world| {
        for happened in [true, false] {
            let ledger = Ledger::default();
            let world = fresh(&world);
            dies(&world, &ledger, sends("tea".to_owned())).await;
            let state = thread(&world, &ledger).state().await.unwrap().unwrap();
            assert_eq!((state.doubts.len(), state.doubts[0].awaited), (1, false));
            let call = state.doubts[0].call;
            let early = thread(&world, &ledger).settle(call, Settlement::did_not()).await.unwrap_err();
            assert!(matches!(early, SettleError::NotInDoubt { .. }), "{early}");

            let outcome = thread(&world, &ledger).resume(sends).await.unwrap();
            let [doubt] = outcome.doubts() else { panic!("{outcome:?}") };
            assert_eq!((doubt.call, &*doubt.task, doubt.attempt, doubt.awaited), (call, "send", 1, true));
            // Again: nothing runs, and it is the same doubt.
            assert_eq!(thread(&world, &ledger).resume(sends).await.unwrap(), outcome);
            let state = thread(&world, &ledger).state().await.unwrap().unwrap();
            assert_eq!((state.status, &state.doubts[..]), (Status::InDoubt, outcome.doubts()));
            assert_eq!(state.calls[0].status, CallStatus::InDoubt);

            // What changes nothing.
            let refused = thread(&world, &ledger).invoke(sends("tea".to_owned())).await.unwrap_err();
            assert!(matches!(refused, RunError::Unfinished { status: Status::InDoubt, .. }), "{refused}");
            let other = thread(&world, &ledger).invoke(sends("x".to_owned())).if_unfinished(IfUnfinished::Discard);
            let refused = other.await.unwrap_err();
            assert!(matches!(refused, RunError::Unfinished { status: Status::InDoubt, .. }), "{refused}");
            let refused = thread(&world, &ledger).answer(call, "x").await.unwrap_err();
            assert!(matches!(refused, AnswerError::NoPendingInterrupt { .. }), "{refused}");
            let unknown = format!("{:032x}.0", 1).parse().unwrap();
            let refused = thread(&world, &ledger).settle(unknown, Settlement::did_not()).await.unwrap_err();
            assert!(matches!(&refused, SettleError::NotInDoubt { known, .. } if *known == [call]), "{refused}");
            let runtime = open(&world, &ledger, &Life::default());
            assert!(runtime.recover().await.unwrap().is_empty());
            assert!(runtime.run_due().await.unwrap().is_empty());
            let thread = runtime.thread("t").unwrap();
            let _ = thread.resume(sends).await.unwrap();
            let refused = thread.settle(call, Settlement::happened(5)).await.unwrap_err();
            assert!(matches!(refused, SettleError::WrongType { .. }), "{refused}");

            let (said, other) = match happened {
                true => (Settlement::happened("by phone"), Settlement::did_not()),
                false => (Settlement::did_not(), Settlement::happened("by phone")),
            };
            thread.settle(call, said.clone()).by("alice").await.unwrap();
            thread.settle(call, said).by("bob").await.unwrap();
            let refused = thread.settle(call, other).await.unwrap_err();
            assert!(matches!(refused, SettleError::AlreadySettled { .. }), "{refused}");
            assert!(thread.state().await.unwrap().unwrap().doubts.is_empty());

            let outcome = thread.resume(sends).await.unwrap().completed().unwrap();
            assert_eq!((&*outcome, ledger.count("send")), if happened { ("by phone", 1) } else { ("sent tea", 2) });
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!((state.status, state.doubts.len()), (Status::Completed, 0));
            assert_eq!(state.calls[0].by.as_deref(), happened.then_some("alice"));
        }
    });
}

#[test]
fn a_settlement_of_the_wrong_type_is_refused_when_the_run_goes_on() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        dies(&world, &ledger, sends("tea".to_owned())).await;
        let call = thread(&world, &ledger).resume(sends).await.unwrap().doubts()[0].call;
        // A process that does not know the code.
        thread(&world, &ledger).settle(call, Settlement::happened(5)).await.unwrap();
        let outcome = thread(&world, &ledger).resume(sends).await.unwrap();
        assert!(outcome.doubts()[0].refused.is_some(), "{outcome:?}");
        thread(&world, &ledger).settle(call, Settlement::happened("five")).await.unwrap();
        assert_eq!(thread(&world, &ledger).resume(sends).await.unwrap().completed().unwrap(), "five");
        assert_eq!(ledger.count("send"), 1);
    });
}

async fn look(what: &str) -> anyhow::Result<Reconciled<String>> {
    resource::<Ledger>().note("look");
    match what {
        "did" => Ok(Reconciled::Happened("found".to_owned())),
        "did not" => Ok(Reconciled::DidNot),
        "fails" => anyhow::bail!("the bank is closed"),
        "panics" => panic!("no bank"),
        "calls" => {
            durably::now().await;
            Ok(Reconciled::Unknown)
        }
        _ => Ok(Reconciled::Unknown),
    }
}

#[task(at_most_once, reconcile = look)]
async fn transfer(what: &str) -> anyhow::Result<String> {
    resource::<Ledger>().note("transfer");
    resource::<Life>().may_end().await;
    Ok(format!("sent {what}"))
}

#[entrypoint]
async fn reconciled(what: String) -> anyhow::Result<String> {
    transfer(&what).await
}

#[test]
fn a_reconcile_function_is_asked_before_anybody_else() {
    in_every_mode(async |world| {
        for (what, came, why) in [
            ("did", Some("found"), None),
            ("did not", Some("sent did not"), None),
            ("unknown", None, Some("does not know")),
            ("fails", None, Some("the bank is closed")),
            ("panics", None, Some("no bank")),
        ] {
            let (world, ledger) = (fresh(&world), Ledger::default());
            dies(&world, &ledger, reconciled(what.to_owned())).await;
            let outcome = thread(&world, &ledger).resume(reconciled).await.unwrap();
            if let Some(why) = why {
                assert!(outcome.doubts()[0].why.as_ref().unwrap().contains(why), "{outcome:?}");
            }
            assert_eq!(outcome.completed().as_deref(), came, "{what}");
            let sent = if what == "did not" { 2 } else { 1 };
            assert_eq!((ledger.count("look"), ledger.count("transfer")), (1, sent), "{what}");
        }
        let (world, ledger) = (fresh(&world), Ledger::default());
        dies(&world, &ledger, reconciled("calls".to_owned())).await;
        let error = thread(&world, &ledger).resume(reconciled).await.unwrap_err();
        assert!(matches!(error, RunError::CallInReconcile { .. }), "{error}");
    });
}

#[task(at_most_once)]
async fn asks_within() -> bool {
    interrupt("sure?", "").await
}

#[entrypoint]
async fn asks_in_once() -> bool {
    asks_within().await
}

#[test]
fn a_question_in_the_body_is_an_error() {
    on_every_checkpointer(async |world| {
        let error = world.runtime().thread("t").unwrap().invoke(asks_in_once()).await.unwrap_err();
        assert!(matches!(&error, RunError::AsksInOnce { task, .. } if task == "asks_within"), "{error}");
    });
}

#[entrypoint]
async fn asks_beside(what: String) -> anyhow::Result<String> {
    let (sent, yes) = futures::join!(send(&what), interrupt::<bool>("yes?", ""));
    Ok(format!("{}, {yes}", sent?))
}

#[test]
fn a_question_beside_a_doubt_is_answered_as_ever() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        dies(&world, &ledger, asks_beside("tea".to_owned())).await;
        let outcome = thread(&world, &ledger).resume(asks_beside).await.unwrap();
        let call = outcome.doubts()[0].call;
        let state = thread(&world, &ledger).state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len()), (Status::InDoubt, 1));
        thread(&world, &ledger).answer("yes?", true).await.unwrap();
        assert_eq!(thread(&world, &ledger).resume(asks_beside).await.unwrap().doubts().len(), 1);
        thread(&world, &ledger).settle(call, Settlement::happened("sent")).await.unwrap();
        let outcome = thread(&world, &ledger).resume(asks_beside).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "sent, true");
        assert_eq!(ledger.count("send"), 1);
    });
}

#[task]
async fn wins() -> String {
    tests::pends(3).await;
    "won".to_owned()
}

#[task(at_most_once)]
async fn loses() -> String {
    resource::<Ledger>().note("loses");
    std::future::pending().await
}

#[entrypoint]
async fn races() -> String {
    let winner = durably::select! {
        one = loses() => one,
        other = wins() => other,
    };
    let yes: bool = interrupt("go on?", "").await;
    format!("{winner}, {yes}")
}

#[test]
fn a_races_loser_is_listed_and_blocks_nothing() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let outcome = thread(&world, &ledger).invoke(races()).await.unwrap();
        assert_eq!(outcome.questions().len(), 1);
        let state = thread(&world, &ledger).state().await.unwrap().unwrap();
        assert_eq!((state.status, state.doubts.len(), state.doubts[0].awaited), (Status::Interrupted, 1, false));
        thread(&world, &ledger).answer("go on?", true).await.unwrap();
        let outcome = thread(&world, &ledger).resume(races).await.unwrap();
        assert_eq!((outcome.completed().unwrap(), ledger.count("loses")), ("won, true".to_owned(), 1));
    });
}

async fn nothing_happened(_: u32) -> Reconciled<u32> {
    resource::<Ledger>().note("look");
    Reconciled::DidNot
}

#[task(at_most_once, reconcile = nothing_happened, retry(max_attempts = 3, initial_interval = "1ms"))]
async fn flaky(fails: u32) -> anyhow::Result<u32> {
    resource::<Ledger>().note("flaky");
    anyhow::ensure!(durably::attempt() > fails, "not yet");
    Ok(durably::attempt())
}

#[entrypoint]
async fn tries(fails: u32) -> anyhow::Result<u32> {
    flaky(fails).await
}

#[task(at_most_once)]
async fn fails_once() -> anyhow::Result<u32> {
    resource::<Ledger>().note("fails");
    anyhow::bail!("no")
}

#[entrypoint]
async fn fails() -> anyhow::Result<u32> {
    fails_once().await
}

#[test]
fn a_returned_failure_is_an_outcome_and_no_further_attempt_is_silent() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let thread = open(&world, &ledger, &Life::default()).thread("tries").unwrap();
        assert_eq!(thread.invoke(tries(2)).await.unwrap(), Outcome::Completed(3));
        assert_eq!((ledger.count("flaky"), ledger.count("look")), (3, 2));
        drop(thread);
        let thread = open(&world, &ledger, &Life::default()).thread("fails").unwrap();
        assert!(matches!(thread.invoke(fails()).await, Err(RunError::Failed(_))));
        // A resume opens it again: nobody knows whether it had its effect before it failed.
        let outcome = thread.resume(fails).await.unwrap();
        assert_eq!((outcome.doubts().len(), ledger.count("fails")), (1, 1));
        thread.settle(outcome.doubts()[0].call, Settlement::happened(4)).await.unwrap();
        assert_eq!(thread.resume(fails).await.unwrap(), Outcome::Completed(4));
    });
}

#[task(at_most_once, timeout = "5ms")]
async fn slow(panics: bool) -> anyhow::Result<u32> {
    resource::<Ledger>().note("slow");
    assert!(!panics, "in the body");
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(1)
}

#[entrypoint]
async fn takes_long(panics: bool) -> anyhow::Result<u32> {
    slow(panics).await
}

#[test]
fn a_timeout_and_a_panic_leave_the_call_in_doubt() {
    in_every_mode(async |world| {
        for panics in [false, true] {
            let ledger = Ledger::default();
            let thread = open(&world, &ledger, &Life::default()).thread(panics.to_string()).unwrap();
            let mut outcome = thread.invoke(takes_long(panics)).await;
            if panics {
                assert!(matches!(outcome, Err(RunError::Panicked { .. })));
                outcome = thread.resume(takes_long).await;
            }
            let outcome = outcome.unwrap();
            assert_eq!((outcome.doubts().len(), ledger.count("slow")), (1, 1));
            thread.settle(outcome.doubts()[0].call, Settlement::happened(2)).await.unwrap();
            assert_eq!(thread.resume(takes_long).await.unwrap(), Outcome::Completed(2));
        }
    });
}

#[test]
fn a_fork_keeps_a_doubt_and_a_copy_does_too() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        dies(&world, &ledger, sends("tea".to_owned())).await;
        let runtime = open(&world, &ledger, &Life::default());
        let source = runtime.thread("t").unwrap();
        let call = source.resume(sends).await.unwrap().doubts()[0].call;
        let at = source.state().await.unwrap().unwrap().checkpoint;
        let fork = source.fork(at).to("fork").await.unwrap();
        assert_eq!(fork.state().await.unwrap().unwrap().status, Status::InDoubt);
        fork.settle(call, Settlement::happened("forked")).await.unwrap();
        assert_eq!(fork.resume(sends).await.unwrap().completed().unwrap(), "forked");
        assert_eq!(source.resume(sends).await.unwrap().doubts().len(), 1);
        assert_eq!(ledger.count("send"), 1);
    });
}
