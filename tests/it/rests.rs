//! Where a run comes to rest that has bodies left: a detached one that asks, one that waits for its next attempt.

use std::sync::Arc;

use durably::{Event, Observer, Outcome, Status, entrypoint, interrupt, task};
use tests::{Ledger, on_every_checkpointer};
use tokio::sync::Notify;

#[task]
async fn asks() -> String {
    let answer: String = interrupt("late", &()).await;
    durably::resource::<Ledger>().note(answer.clone());
    answer
}

#[task]
async fn quick() -> u32 {
    1
}

#[entrypoint]
async fn leaves_a_question_behind() -> u32 {
    durably::select! {
        _ = asks().detached() => 0,
        one = quick() => one,
    }
}

#[test]
fn a_run_whose_detached_body_asks_pauses_and_ends_once_it_is_answered() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        let paused = thread.invoke(leaves_a_question_behind()).await.unwrap();
        assert_eq!(paused.questions().len(), 1, "{paused:?}");
        drop((thread, runtime));

        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        thread.answer("late", "yes").await.unwrap();
        assert_eq!(thread.resume(leaves_a_question_behind).await.unwrap(), Outcome::Completed(1));
        assert_eq!(ledger.count("yes"), 1);
    });
}

#[task(retry(max_attempts = 2, initial_interval = "1h", jitter = false))]
async fn fails_once() -> anyhow::Result<u32> {
    anyhow::ensure!(durably::attempt() > 1, "not yet");
    Ok(7)
}

#[entrypoint]
async fn waits_an_hour() -> anyhow::Result<u32> {
    fails_once().await
}

/// Says when an attempt has failed and another one is to come.
#[derive(Clone, Default)]
struct Retried(Arc<Notify>);

impl Observer for Retried {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Retried { .. } = event {
            self.0.notify_one();
        }
    }
}

#[test]
fn a_drain_does_not_wait_for_the_next_attempt() {
    on_every_checkpointer(async |world| {
        let retried = Retried::default();
        let runtime = world.open(|builder| builder.observer(retried.clone()));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(waits_an_hour()).start();
        retried.0.notified().await;
        runtime.drain();
        assert_eq!(run.await.unwrap(), Outcome::Drained);
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.calls[0].attempts), (Status::Drained, 1));
    });
}
