//! The background driver, and what is listed by the moment at which somebody has to look.

use std::{sync::Arc, time::Duration};

use durably::{
    Cancellation, Event, Observer, Outcome, RunError, Runtime, RuntimeBuilder, Status, checkpoint::CheckpointError,
    entrypoint, interrupt, task,
};
use tests::{Counting, HandClock, Ledger, World, block_on, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

const HOUR: Duration = Duration::from_secs(3600);

#[task]
async fn done(name: &str) -> u32 {
    durably::resource::<Ledger>().note(name);
    1
}

#[entrypoint]
async fn reminds(name: String, hours: u32) -> u32 {
    durably::sleep(HOUR * hours).await;
    done(&name).await
}

#[entrypoint]
async fn asks_for_an_hour(name: String) -> u32 {
    durably::select! {
        answer = interrupt::<u32>("n", &()) => answer,
        () = durably::sleep(HOUR) => done(&name).await,
    }
}

/// Says when a run has stopped.
#[derive(Clone, Default)]
struct Stopped(Arc<Notify>);

impl Observer for Stopped {
    fn observe(&self, event: &Event<'_>) {
        if let Event::RunStopped { .. } = event {
            self.0.notify_one();
        }
    }
}

fn build(ledger: &Ledger, stopped: &Stopped, clock: &HandClock) -> impl Fn(RuntimeBuilder) -> RuntimeBuilder {
    let (ledger, stopped, clock) = (ledger.clone(), stopped.clone(), clock.clone());
    move |builder| {
        let builder = builder.entrypoint(reminds).entrypoint(asks_for_an_hour);
        builder.resource(ledger.clone()).observer(stopped.clone()).clock(clock.clone())
    }
}

/// Waits until the thread has this status.
async fn becomes(runtime: &Runtime, thread: &str, status: Status, stopped: &Stopped) {
    let thread = runtime.thread(thread).unwrap();
    loop {
        let state = thread.state().await.unwrap().unwrap();
        if state.status == status && !state.driven {
            return;
        }
        tokio::select! {
            () = stopped.0.notified() => {}
            // The lease is given back a moment after the run has stopped.
            () = tokio::task::yield_now() => {}
        }
    }
}

#[test]
fn the_background_driver_wakes_each_run_at_its_moment_also_one_that_comes_later_and_is_due_before() {
    in_every_mode(async |world| {
        let (ledger, stopped, clock) = (Ledger::default(), Stopped::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &stopped, &clock));
        let background = runtime.background();
        let start = async |name: &str, hours: u32| {
            let outcome = runtime.thread(name).unwrap().invoke(reminds(name.to_owned(), hours)).await.unwrap();
            assert!(matches!(outcome, Outcome::Sleeping { .. }), "{outcome:?}");
        };
        start("late", 5).await;
        start("soon", 1).await;
        let asks = runtime.thread("asks").unwrap();
        assert_eq!(asks.invoke(asks_for_an_hour("asks".to_owned())).await.unwrap().questions().len(), 1);
        assert_eq!(ledger.total(), 0);
        clock.forward(HOUR + Duration::from_secs(1));
        becomes(&runtime, "soon", Status::Completed, &stopped).await;
        becomes(&runtime, "asks", Status::Completed, &stopped).await;
        assert_eq!((ledger.count("soon"), ledger.count("asks"), ledger.count("late")), (1, 1, 0));
        start("sooner", 1).await;
        clock.forward(HOUR + Duration::from_secs(1));
        becomes(&runtime, "sooner", Status::Completed, &stopped).await;
        assert_eq!(ledger.count("late"), 0);
        clock.forward(HOUR * 3);
        becomes(&runtime, "late", Status::Completed, &stopped).await;
        assert_eq!(ledger.total(), 4);
        background.stop().await;
    });
}

#[test]
fn the_background_driver_goes_on_with_what_was_cut_off_and_carries_requests_out() {
    in_every_mode(async |world| {
        let (ledger, stopped, clock) = (Ledger::default(), Stopped::default(), HandClock::default());
        {
            let runtime = world.open(|builder| {
                build(&ledger, &stopped, &clock)(builder).park_after(Duration::MAX).clock(clock.clone())
            });
            // It sleeps in memory: its process dies there.
            let run = runtime.thread("cut off").unwrap().invoke(reminds("cut off".to_owned(), 1)).start();
            while runtime.thread("cut off").unwrap().state().await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
            run.abort();
            assert!(run.await.is_err());
        }
        let runtime = world.open(build(&ledger, &stopped, &clock));
        let background = runtime.background();
        becomes(&runtime, "cut off", Status::Sleeping, &stopped).await;
        clock.forward(HOUR * 2);
        becomes(&runtime, "cut off", Status::Completed, &stopped).await;
        drop(background);
    });
}

#[test]
fn a_request_for_a_run_whose_code_is_elsewhere_is_carried_out_by_the_background_driver_there() {
    on_every_checkpointer(async |world| {
        let (ledger, stopped, clock) = (Ledger::default(), Stopped::default(), HandClock::default());
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).clock(clock.clone()));
            let thread = runtime.thread("t").unwrap();
            runtime.drain();
            assert_eq!(thread.invoke(reminds("t".to_owned(), 0)).await.unwrap(), Outcome::Drained);
            assert_eq!(thread.cancel().await.unwrap(), Cancellation::Requested);
            // It is listed as drained all the same.
            let listed = runtime.threads().status(Status::Drained).await.unwrap();
            assert_eq!((listed.threads.len(), listed.threads[0].status), (1, Status::Drained));
        }
        let runtime = world.open(build(&ledger, &stopped, &clock));
        let _background = runtime.background();
        becomes(&runtime, "t", Status::Cancelled, &stopped).await;
        assert_eq!(ledger.total(), 0);
    });
}

#[test]
fn threads_that_wait_for_an_answer_are_listed_together_whether_a_moment_is_set_or_not() {
    on_every_checkpointer(async |world| {
        let (ledger, stopped, clock) = (Ledger::default(), Stopped::default(), HandClock::default());
        let runtime = world.open(build(&ledger, &stopped, &clock));
        for n in 0..7 {
            let thread = runtime.thread(format!("{n}")).unwrap();
            let asked = match n % 2 {
                0 => thread.invoke(asks_for_an_hour(n.to_string())).await,
                _ => thread.invoke(only_asks()).await,
            };
            assert_eq!(asked.unwrap().questions().len(), 1);
        }
        let _ = runtime.thread("sleeps").unwrap().invoke(reminds("s".to_owned(), 3)).await.unwrap();
        let page = async |status: Option<Status>, limit, after| {
            let mut question = runtime.threads().limit(limit).after(after);
            if let Some(status) = status {
                question = question.status(status);
            }
            question.await.unwrap()
        };
        for limit in [1, 2, 3, 7, 100] {
            for (status, expected) in [(Some(Status::Interrupted), 7), (Some(Status::Sleeping), 1), (None, 8)] {
                let mut after = None;
                let mut names = std::collections::BTreeSet::new();
                loop {
                    let page = page(status, limit, after).await;
                    assert!(page.threads.len() <= limit);
                    for listed in page.threads {
                        assert!(status.is_none_or(|status| listed.status == status));
                        assert!(names.insert(listed.thread), "listed twice");
                    }
                    match page.next {
                        Some(next) => after = Some(next),
                        None => break,
                    }
                }
                assert_eq!(names.len(), expected, "{status:?} by {limit}");
            }
        }
    });
}

#[entrypoint]
async fn only_asks() -> u32 {
    interrupt("n", &()).await
}

#[test]
fn a_look_for_what_is_due_costs_what_is_due() {
    block_on(async {
        let (ledger, stopped, clock) = (Ledger::default(), Stopped::default(), HandClock::default());
        let store = Counting::new();
        let runtime = build(&ledger, &stopped, &clock)(Runtime::builder()).shared_checkpointer(store.clone());
        for n in 0..300 {
            let thread = runtime.thread(format!("{n}")).unwrap();
            let _ = match n % 3 {
                0 => thread.invoke(asks_for_an_hour(n.to_string())).await.unwrap(),
                1 => thread.invoke(only_asks()).await.unwrap(),
                _ => thread.invoke(reminds(n.to_string(), 2)).await.unwrap(),
            };
        }
        assert!(runtime.run_due().await.unwrap().is_empty());
        assert!(store.listed() <= 2, "nothing is due");
        clock.forward(HOUR + Duration::from_secs(1));
        let due = runtime.run_due().await.unwrap();
        assert_eq!(due.len(), 100);
        for due in due {
            assert_eq!(due.outcome().await.unwrap(), Outcome::Completed("1".to_owned()));
        }
        assert_eq!(ledger.total(), 100);
    });
}

#[test]
fn a_background_driver_ends_with_its_store() {
    block_on(async {
        let runtime = World::memory().runtime();
        let background = runtime.background();
        assert!(!background.is_finished());
        runtime.close().await.unwrap();
        let failed = runtime.run_due().await.unwrap_err();
        assert!(matches!(failed, RunError::Checkpoint(CheckpointError::Closed)), "{failed}");
        background.stop().await;
    });
}
