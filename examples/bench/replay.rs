//! W3: a run with many finished steps goes on in a process that has not seen it: how long until it is past them.

use std::time::Instant;

use durably::{Runtime, checkpoint::MemoryCheckpointer};

use crate::{
    flows::{Moments, pauses},
    options::Options,
    report::{Report, count, median, micros},
    steps::alone,
};

/// The sizes at which growth is looked at.
pub(crate) fn sizes(options: &Options) -> Vec<usize> {
    [1_000, 10_000, 100_000].map(|n| options.size(n)).to_vec()
}

/// Replays the run to its question.
async fn goes_on(runtime: &Runtime) -> anyhow::Result<()> {
    let outcome = runtime.thread("a")?.resume(pauses).await?;
    anyhow::ensure!(outcome.questions().len() == 1, "the run is {} instead of interrupted", outcome.word());
    Ok(())
}

pub(crate) fn replay(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let tokio = alone()?;
    for n in sizes(options) {
        let steps = u32::try_from(n)?;
        for (mode, together) in [("memory", false), ("memory, in parallel", true)] {
            let checkpointer = MemoryCheckpointer::new();
            let moments = Moments::default();
            let builder = || Runtime::builder().resource(moments.clone()).checkpointer(checkpointer.clone());
            tokio.block_on(async {
                drop(builder().thread("a")?.invoke(pauses(steps, together)).await?);
                Ok::<(), anyhow::Error>(())
            })?;
            moments.take();
            let mut took = Vec::new();
            for _ in 0..options.rounds() {
                let began = Instant::now();
                tokio.block_on(goes_on(&builder()))?;
                let past = moments.take();
                took.push(micros(past[0] - began) / count(n));
            }
            report.add(("W3", mode, n), "a replayed step", median(took), "us");
        }
        let folder = options.folder()?;
        let store = folder.path().join("store");
        let moments = Moments::default();
        let builder = || Runtime::builder().resource(moments.clone());
        tokio.block_on(async {
            let runtime = builder().open(&store)?;
            let invoke = runtime.thread("a")?.invoke(pauses(steps, false)).durability(durably::Durability::Async);
            drop(invoke.await?);
            runtime.close().await.map_err(anyhow::Error::from)
        })?;
        moments.take();
        let (mut opened, mut took) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds() {
            let began = Instant::now();
            let runtime = builder().open(&store)?;
            opened.push(micros(began.elapsed()));
            tokio.block_on(goes_on(&runtime))?;
            let past = moments.take();
            took.push(micros(past[0] - began) / count(n));
            tokio.block_on(runtime.close())?;
        }
        report.add(("W3", "sled", n), "opening the store", median(opened) / 1000.0, "ms");
        report.add(("W3", "sled", n), "a replayed step, with opening", median(took), "us");
    }
    Ok(())
}
