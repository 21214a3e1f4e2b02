//! W7: a store of a million threads of ten records each.

use std::time::Instant;

use durably::{Durability, Runtime, Status, checkpoint::SledCheckpointer};
use futures::{StreamExt, stream};

use crate::{
    child::size_of,
    flows::{Moments, pauses},
    options::Options,
    report::{Report, count, micros, percentile},
    steps::{alone, runtime},
};

/// Start, eight steps, and a question: ten records.
const STEPS: u32 = 8;

pub(crate) fn many_threads(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let n = options.size(1_000_000);
    let at = ("W7", "sled", n);
    let folder = options.folder()?;
    let store = folder.path().join("store");
    let builder = || Runtime::builder().resource(Moments::default());
    let began = Instant::now();
    let filling = builder().open(&store)?;
    runtime()?.block_on(async {
        let runs = stream::iter(0..n).map(|number| {
            let runtime = filling.clone();
            async move {
                let thread = runtime.thread(format!("thread-{number}"))?;
                let invoke = thread.invoke(pauses(STEPS, false)).durability(Durability::Exit);
                drop(invoke.start().await?);
                Ok::<(), anyhow::Error>(())
            }
        });
        let mut runs = runs.buffer_unordered(1024);
        while let Some(run) = runs.next().await {
            run?;
        }
        Ok::<(), anyhow::Error>(())
    })?;
    report.add(at, "threads made", 1e6 * count(n) / micros(began.elapsed()), "1/s");
    let tokio = alone()?;
    tokio.block_on(filling.close())?;
    drop(filling);
    let bytes = count(usize::try_from(size_of(store.clone())?)?);
    report.add(at, "disk bytes a record", bytes / count(n * 10), "B");
    // The first opening writes the snapshot that later ones begin at.
    for metric in ["first open", "open after a clean close"] {
        let began = Instant::now();
        let opened = SledCheckpointer::open(&store)?;
        report.add(at, metric, micros(began.elapsed()) / 1e6, "s");
        tokio.block_on(durably::checkpoint::Checkpointer::close(&opened))?;
    }
    let runtime = builder().open(&store)?;
    tokio.block_on(async {
        let began = Instant::now();
        let page = runtime.threads().status(Status::Interrupted).limit(100).await?;
        report.add(at, "a page of 100 by status", micros(began.elapsed()) / 1000.0, "ms");
        anyhow::ensure!(page.threads.len() == 100, "the page has {} threads", page.threads.len());
        let mut resumed = Vec::new();
        for number in 0..200 {
            let number = number * 7919 % n;
            let thread = runtime.thread(format!("thread-{number}"))?;
            let began = Instant::now();
            drop(thread.resume(pauses).await?);
            resumed.push(micros(began.elapsed()) / 1000.0);
        }
        report.add(at, "resume one, p50", percentile(resumed.clone(), 0.5), "ms");
        report.add(at, "resume one, p99", percentile(resumed, 0.99), "ms");
        runtime.close().await.map_err(anyhow::Error::from)
    })?;
    Ok(())
}
