//! A detached call is made whatever becomes of the code that made it.

use std::{future::Future, sync::Arc, task::Poll};

use durably::{Outcome, Runtime, checkpoint::MemoryCheckpointer, entrypoint, task, testing::FaultyCheckpointer};
use tests::Ledger;

#[task]
async fn notify() {
    // Later than the other one.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    durably::resource::<Ledger>().note("notified");
}

#[task]
async fn work(step: u32) -> u32 {
    step
}

#[entrypoint]
async fn notifies_and_works(steps: u32) -> u32 {
    let mut notified = Box::pin(notify().detached());
    std::future::poll_fn(|cx| {
        let _ = notified.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
    drop(notified);
    let mut sum = 0;
    for step in 0..steps {
        sum += work(step).await;
    }
    sum
}

/// It used to be made only if the crash came before the first outcome: a replay dropped it before it went live.
#[tokio::test]
async fn a_detached_call_without_a_record_is_made_after_a_crash() {
    for steps in 1..4 {
        let ledger = Ledger::default();
        let recorder = Arc::new(FaultyCheckpointer::new(Arc::new(MemoryCheckpointer::new())));
        let runtime = Runtime::builder().resource(ledger.clone()).shared_checkpointer(recorder.clone());
        let outcome = runtime.thread("t").unwrap().invoke(notifies_and_works(steps)).await.unwrap();
        let commits = recorder.recorded();
        assert_eq!(ledger.count("notified"), 1);
        for cut in 1..=commits.len() {
            ledger.clear();
            let store = MemoryCheckpointer::replay(&commits[..cut]).reopen();
            let runtime = Runtime::builder().resource(ledger.clone()).checkpointer(store);
            let thread = runtime.thread("t").unwrap();
            let on_record =
                thread.state().await.unwrap().unwrap().calls.iter().filter(|call| call.name == "notify").count();
            assert_eq!(thread.resume(notifies_and_works).await.unwrap(), outcome);
            assert_eq!(ledger.total() as usize + on_record, 1, "after {cut} of {} commits", commits.len());
        }
        assert_eq!(outcome, Outcome::Completed((0..steps).sum()));
    }
}
