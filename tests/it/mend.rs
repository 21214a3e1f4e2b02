//! A failed run that is resumed opens again exactly the failures that it did not get past.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use durably::{CallStatus, EntrypointFn, Runtime, entrypoint, task};
use futures::{
    StreamExt,
    future::{join_all, try_join_all},
    stream::FuturesUnordered,
};
use tokio::sync::Notify;

/// What is broken until it is mended, and what has happened.
#[derive(Clone, Default)]
struct Lab {
    mended: Arc<AtomicBool>,
    failed: Arc<Notify>,
}

/// Fails until it is mended.
#[task]
async fn brittle(name: &str) -> anyhow::Result<String> {
    let lab = durably::resource::<Lab>();
    lab.failed.notify_one();
    anyhow::ensure!(lab.mended.load(Ordering::Acquire), "{name} is broken");
    Ok(name.to_owned())
}

#[task]
async fn sound(name: &str) -> anyhow::Result<String> {
    Ok(name.to_owned())
}

/// Ends only after the brittle one has failed.
#[task]
async fn late(name: &str) -> anyhow::Result<String> {
    if !durably::resource::<Lab>().mended.load(Ordering::Acquire) {
        durably::resource::<Lab>().failed.notified().await;
    }
    Ok(name.to_owned())
}

#[track_caller]
fn ends_well_once_mended<A, F>(entrypoint: F)
where
    F: EntrypointFn<A> + Copy + Fn() -> durably::EntrypointCall<<F as EntrypointFn<A>>::Definition>,
{
    let lab = Lab::default();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let runtime = Runtime::builder().resource(lab.clone()).memory();
        let thread = runtime.thread("t").unwrap();
        let error = thread.invoke(entrypoint()).await.err().expect("it is broken");
        assert_eq!(error.kind(), "failed", "{error}");
        let again = thread.resume(entrypoint).await.err().expect("it is still broken");
        assert_eq!(again.kind(), "failed", "{again}");
        lab.mended.store(true, Ordering::Release);
        if let Err(error) = thread.resume(entrypoint).await {
            panic!("{error}");
        }
    });
}

/// The failure was released while its stream was not read, and counted as got past with the next call.
#[test]
fn a_failure_that_waited_to_be_read_is_opened_again() {
    #[entrypoint]
    async fn reads_late() -> anyhow::Result<Vec<String>> {
        let mut calls: FuturesUnordered<_> = [brittle("a").spawn()].into_iter().collect();
        // Polled once, so that it starts.
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(calls.poll_next_unpin(cx))).await;
        assert!(first.is_pending());
        let mut names = vec![late("b").await?, sound("c").await?, sound("d").await?];
        while let Some(name) = calls.next().await {
            names.push(name?);
        }
        Ok(names)
    }
    ends_well_once_mended(reads_late);
}

/// The others have failed too by then, and nobody has looked.
#[test]
fn a_failure_in_a_task_is_opened_again_whatever_is_called_beside_it() {
    #[task]
    async fn outer() -> anyhow::Result<Vec<String>> {
        try_join_all([brittle("a"), brittle("b"), brittle("c")]).await
    }
    #[entrypoint]
    async fn flow() -> anyhow::Result<Vec<String>> {
        outer().await
    }
    ends_well_once_mended(flow);
}

/// What a branch failed with was handled outside of it, and the run failed later for another reason.
#[test]
fn a_branchs_failure_that_was_handled_outside_of_it_stays() {
    #[entrypoint]
    async fn flow() -> anyhow::Result<String> {
        let branch = durably::branch("eu", async || brittle("a").await).await;
        match branch {
            Ok(_) => anyhow::bail!("the failure was handled, and is a success now"),
            Err(_) => sound("instead").await?,
        };
        brittle("b").await
    }
    ends_well_once_mended(flow);
}

/// As above, but for the entrypoint: the others were dropped with their failures on record.
#[test]
fn failures_on_record_that_nobody_has_looked_at_are_opened_again() {
    #[entrypoint]
    async fn flow() -> anyhow::Result<Vec<String>> {
        try_join_all([brittle("a"), brittle("b"), brittle("c")]).await
    }
    ends_well_once_mended(flow);
}

#[test]
fn all_failures_that_were_waited_for_together_are_opened_again() {
    #[entrypoint]
    async fn flow() -> anyhow::Result<Vec<String>> {
        join_all([brittle("a"), brittle("b")]).await.into_iter().collect()
    }
    ends_well_once_mended(flow);
}

/// It was listed as opened again, though what it stood in was got past with its failure and stays.
#[tokio::test]
async fn what_failed_within_a_handled_failure_stays() {
    #[entrypoint]
    async fn inner() -> anyhow::Result<String> {
        brittle("a").await
    }
    #[entrypoint]
    async fn flow() -> anyhow::Result<String> {
        let handled = inner().await.is_err();
        assert!(handled, "the failure was handled, and is a success now");
        sound("instead").await?;
        brittle("b").await
    }
    let lab = Lab::default();
    let runtime = Runtime::builder().resource(lab.clone()).memory();
    let thread = runtime.thread("t").unwrap();
    thread.invoke(flow()).await.unwrap_err();
    lab.mended.store(true, Ordering::Release);
    let _ = thread.resume(flow).await.unwrap();
    let calls = thread.state().await.unwrap().unwrap().calls;
    let failed: Vec<&str> = calls
        .iter()
        .filter(|call| matches!(call.status, CallStatus::Failed(_)))
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(failed, ["brittle", "inner"], "{calls:?}");
}
