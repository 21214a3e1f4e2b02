//! A stream reads again in the order in which it was woken, also when nobody read it meanwhile.

use std::sync::Arc;

use durably::{Outcome, Runtime, checkpoint::MemoryCheckpointer, entrypoint, task, testing::FaultyCheckpointer};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{Notify, mpsc};

/// Lets bodies go on, by name.
#[derive(Default)]
struct Gates {
    held: Notify,
    first: Notify,
    second: Notify,
}

#[task]
async fn held() -> u32 {
    let gates = durably::resource::<Gates>();
    // Woken once for nothing.
    gates.held.notified().await;
    gates.held.notified().await;
    0
}

#[task]
async fn waits(which: u32) -> u32 {
    let gates = durably::resource::<Gates>();
    if which == 1 { &gates.first } else { &gates.second }.notified().await;
    which
}

/// While this runs nobody reads the stream.
#[task]
async fn conducts() {
    let gates = durably::resource::<Gates>();
    for gate in [&gates.held, &gates.first, &gates.second] {
        gate.notify_one();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    gates.held.notify_one();
}

#[entrypoint]
async fn flow() -> Vec<u32> {
    let (seen, mut order) = mpsc::unbounded_channel();
    let other = seen.clone();
    let mut calls: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    // Woken first, for the body that it polls in place.
    calls.push(
        async move {
            let second = async {
                let _ = seen.send(waits(2).spawn().await);
            };
            futures::join!(held(), second);
        }
        .boxed(),
    );
    calls.push(
        async move {
            let _ = other.send(waits(1).spawn().await);
        }
        .boxed(),
    );
    calls.push(async {}.boxed());
    calls.next().await;
    conducts().await;
    while calls.next().await.is_some() {}
    let mut all = Vec::new();
    while let Some(which) = order.recv().await {
        all.push(which);
    }
    all
}

#[tokio::test]
async fn wakes_that_nobody_read_are_repeated_on_replay() {
    let recorder = Arc::new(FaultyCheckpointer::new(Arc::new(MemoryCheckpointer::new())));
    let runtime = Runtime::builder().resource(Gates::default()).shared_checkpointer(recorder.clone());
    let outcome = runtime.thread("t").unwrap().invoke(flow()).await.unwrap();
    // The outcomes are recorded as 1, 2; the stream was woken for 2 before.
    assert_eq!(outcome, Outcome::Completed(vec![2, 1]));
    let commits = recorder.recorded();
    let store = MemoryCheckpointer::replay(&commits[..commits.len() - 1]).reopen();
    let runtime = Runtime::builder().resource(Gates::default()).checkpointer(store);
    assert_eq!(runtime.thread("t").unwrap().resume(flow).await.unwrap(), outcome);
}
