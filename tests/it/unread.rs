//! A body that nobody polls any more does not keep its run from pausing, whatever it stands in.

use std::sync::Arc;

use durably::{Outcome, Runtime, entrypoint, interrupt, task};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tests::{Ledger, on_every_checkpointer};
use tokio::sync::Notify;

/// Tells that a body has begun, and lets it go on.
#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[task]
async fn slow() -> u32 {
    let gate = durably::resource::<Gate>();
    gate.begun.notify_one();
    gate.go_on.notified().await;
    1
}

#[task]
async fn around() -> u32 {
    slow().await + 1
}

#[entrypoint]
async fn nested() -> u32 {
    slow().await + 2
}

#[entrypoint]
async fn reads_one(which: u32) -> (u32, bool, u32) {
    let first: BoxFuture<'static, u32> = if which == 0 { around().boxed() } else { nested().boxed() };
    let mut calls = FuturesUnordered::from_iter([first, async { 0 }.boxed()]);
    let read = calls.next().await.unwrap();
    // Nobody reads the other one meanwhile.
    let go_on: bool = interrupt("go on?", &()).await;
    (read, go_on, calls.next().await.unwrap())
}

#[tokio::test]
async fn what_stands_in_an_unread_call_does_not_keep_a_run_from_pausing() {
    for (which, last) in [(0, 2), (1, 3)] {
        let gate = Gate::default();
        let runtime = Runtime::builder().resource(gate.clone()).memory();
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(reads_one(which)).start();
        gate.begun.notified().await;
        gate.go_on.notify_waiters();
        let paused = tokio::time::timeout(std::time::Duration::from_secs(10), run).await.expect("it pauses").unwrap();
        assert_eq!(paused.questions().len(), 1);
        thread.answer("go on?", true).await.unwrap();
        // Its body runs again.
        gate.go_on.notify_one();
        assert_eq!(thread.resume(reads_one).await.unwrap(), Outcome::Completed((0, true, last)));
    }
}

#[task]
async fn pends_a_while() -> u32 {
    tests::pends(3).await;
    durably::resource::<Ledger>().note("slow");
    1
}

/// Asks while the other call of its stream is under way, and nobody reads the stream.
#[task]
async fn asks_between() -> u32 {
    let zero: BoxFuture<'static, u32> = Box::pin(async { 0 });
    let mut calls: FuturesUnordered<_> = [zero, Box::pin(pends_a_while())].into_iter().collect();
    let mut sum = 0;
    while let Some(n) = calls.next().await {
        sum += interrupt::<u32>(format!("{n}"), &n).await;
    }
    sum
}

#[entrypoint]
async fn a_task_that_asks_between(spawned: bool) -> u32 {
    if spawned { asks_between().spawn().await } else { asks_between().await }
}

#[test]
fn a_run_pauses_when_a_task_asks_while_its_own_stream_is_not_read() {
    on_every_checkpointer(async |world| {
        for spawned in [false, true] {
            let ledger = Ledger::default();
            let runtime = world.open(|builder| builder.resource(ledger.clone()));
            let thread = runtime.thread(format!("{spawned}")).unwrap();
            let mut outcome = thread.invoke(a_task_that_asks_between(spawned)).await.unwrap();
            let mut asked = 0;
            while let Outcome::Interrupted(open) = outcome {
                assert_eq!(open.len(), 1, "{open:?}");
                thread.answer(open[0].id(), 5).await.unwrap();
                asked += 1;
                outcome = thread.resume(a_task_that_asks_between).await.unwrap();
            }
            assert_eq!((outcome, asked), (Outcome::Completed(10), 2));
            // Cut off by the first pause, or recorded before it.
            assert!((1..=2).contains(&ledger.count("slow")), "{:?}", ledger.all());
        }
    });
}

/// Two bodies of one stream that nobody reads are woken one after the other: a stream passes on only the first wake.
#[task(skip(first, second))]
async fn asks_beside_two(first: Gate, second: Gate) -> u32 {
    let body = |gate: Gate| gated(gate).boxed();
    let mut calls: FuturesUnordered<BoxFuture<'static, u32>> = [body(first), body(second)].into_iter().collect();
    calls.push(Box::pin(async { 0 }));
    let mut sum = 0;
    while let Some(n) = calls.next().await {
        sum += n;
        if n == 0 {
            sum += interrupt::<u32>("q", &()).await;
        }
    }
    sum
}

#[task(skip(gate))]
async fn gated(gate: Gate) -> u32 {
    gate.begun.notify_one();
    gate.go_on.notified().await;
    1
}

#[entrypoint]
async fn a_task_that_asks_beside_two(spawned: bool) -> u32 {
    let gates = durably::resource::<[Gate; 2]>();
    let call = asks_beside_two(gates[0].clone(), gates[1].clone());
    if spawned { call.spawn().await } else { call.await }
}

#[tokio::test]
async fn a_run_pauses_when_the_bodies_of_a_stream_that_is_not_read_are_woken_one_after_the_other() {
    for spawned in [false, true] {
        let gates: [Gate; 2] = Default::default();
        let runtime = Runtime::builder().resource(gates.clone()).memory();
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(a_task_that_asks_beside_two(spawned)).start();
        for gate in &gates {
            gate.begun.notified().await;
        }
        for gate in &gates {
            gate.go_on.notify_one();
            // All is on one thread: after these turns the run has looked at what that woke.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        let paused = run.await.unwrap();
        assert_eq!(paused.questions().len(), 1, "{paused:?}");
        thread.answer("q", 5).await.unwrap();
        for gate in &gates {
            gate.go_on.notify_one();
        }
        assert_eq!(thread.resume(a_task_that_asks_beside_two).await.unwrap(), Outcome::Completed(7));
    }
}
