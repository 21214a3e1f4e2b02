//! A task that is made again finds what its earlier attempt left.

use durably::{Outcome, Runtime, entrypoint, task};
use tests::Ledger;

#[task]
async fn step(name: &str) -> anyhow::Result<()> {
    let ledger = durably::resource::<Ledger>();
    ledger.note(name);
    anyhow::ensure!(name != "brittle" || ledger.count(name) == 2, "broken for once");
    Ok(())
}

#[entrypoint]
async fn inner() -> anyhow::Result<()> {
    step("sound").await?;
    step("brittle").await
}

#[task(retry(max_attempts = 2, initial_interval = "0ms"))]
async fn outer() -> anyhow::Result<()> {
    inner().await
}

#[entrypoint]
async fn flow() -> anyhow::Result<()> {
    outer().await
}

/// What the entrypoint had been given was forgotten when it returned, while its calls still waited for it: for good.
#[tokio::test]
async fn an_entrypoint_that_failed_in_a_task_is_replayed_by_the_next_attempt() {
    let ledger = Ledger::default();
    let runtime = Runtime::builder().resource(ledger.clone()).memory();
    let run = runtime.thread("t").unwrap().invoke(flow()).start();
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(10), run).await.expect("it ends");
    assert_eq!(outcome.unwrap(), Outcome::Completed(()));
    assert_eq!((ledger.count("sound"), ledger.count("brittle")), (1, 2));
}
