//! W1 and W2: steps that are durable one by one, in one run and in many at a time.

use std::time::{Duration, Instant};

use durably::{Outcome, Runtime, checkpoint::SledCheckpointer};
use futures::{StreamExt, stream};

use crate::{
    flows::{Moments, chain, timed_chain},
    limits::{Rows, append_and_sync, rows_of, sled_barriers},
    options::Options,
    report::{Report, count, median, micros, percentile},
};

/// How many runs are in flight in W2.
const IN_FLIGHT: usize = 256;
/// How many steps a run of W2 has.
const STEPS: u32 = 10;

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

pub(crate) fn alone() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

pub(crate) fn completed<T>(outcome: Outcome<T>) -> anyhow::Result<T> {
    let word = outcome.word();
    outcome.completed().ok_or_else(|| anyhow::anyhow!("the run did not complete but is {word}"))
}

/// The records of a chain, as rows.
async fn chain_rows(n: usize) -> anyhow::Result<Rows> {
    let checkpointer = durably::checkpoint::MemoryCheckpointer::new();
    let runtime = Runtime::builder().checkpointer(checkpointer.clone());
    let thread = runtime.thread("a")?;
    completed(thread.invoke(chain(u32::try_from(n)?)).await?)?;
    rows_of(&checkpointer, thread.id()).await
}

fn total(times: &[Duration]) -> f64 {
    times.iter().map(|time| micros(*time)).sum()
}

pub(crate) fn one_run(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let n = options.size(1000);
    let tokio = alone()?;
    let rows = tokio.block_on(chain_rows(n))?;
    // What is compared is measured in turns, so that a slow minute of the machine is everybody's.
    let (mut ours, mut engine, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds() {
        let folder = options.folder()?;
        let moments = Moments::default();
        let runtime = Runtime::builder().resource(moments.clone()).open(folder.path().join("store"))?;
        tokio.block_on(async { completed(runtime.thread("a")?.invoke(timed_chain(u32::try_from(n)?)).await?) })?;
        let taken = moments.take();
        ours.push(taken.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>());
        tokio.block_on(runtime.close())?;
        engine.push(sled_barriers(folder.path(), &rows, 1)?);
        raw.push(append_and_sync(folder.path(), &rows)?);
    }
    for (mode, rounds) in [("sync", ours), ("sled alone", engine), ("append and sync", raw)] {
        let at = ("W1", mode, n);
        let a_step = median(rounds.iter().map(|times| total(times) / count(times.len())).collect());
        let all: Vec<f64> = rounds.iter().flatten().map(|time| micros(*time)).collect();
        report.add(at, "a step", a_step, "us");
        report.add(at, "p50", percentile(all.clone(), 0.5), "us");
        report.add(at, "p99", percentile(all, 0.99), "us");
        report.add(at, "steps", 1e6 / a_step, "1/s");
    }
    Ok(())
}

pub(crate) fn many_runs(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let n = options.size(1000);
    let steps = n * STEPS as usize;
    let tokio = runtime()?;
    let (mut ours, mut engine, mut batches) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds() {
        let folder = options.folder()?;
        let store = SledCheckpointer::open(folder.path().join("store"))?;
        let runtime = Runtime::builder().checkpointer(store.clone());
        let began = Instant::now();
        tokio.block_on(async {
            let runs = stream::iter(0..n).map(|number| {
                let runtime = runtime.clone();
                async move {
                    let thread = runtime.thread(format!("run-{number}"))?;
                    completed(thread.invoke(chain(STEPS)).start().await?)
                }
            });
            let mut runs = runs.buffer_unordered(IN_FLIGHT);
            while let Some(run) = runs.next().await {
                run?;
            }
            Ok::<(), anyhow::Error>(())
        })?;
        let took = micros(began.elapsed());
        ours.push(1e6 * count(steps) / took);
        let barriers = usize::try_from(store.stats().barriers)?.max(1);
        let rows = tokio.block_on(chain_rows(STEPS as usize))?;
        let rows: Rows = (0..n).flat_map(|number| numbered(&rows, number)).collect();
        let batch = rows.len().div_ceil(barriers);
        tokio.block_on(runtime.close())?;
        let took = total(&sled_barriers(folder.path(), &rows, batch)?);
        // Of its rows, those that are steps.
        engine.push(1e6 * count(steps) / took);
        batches.push(count(batch));
    }
    report.add(("W2", "sync", n), "steps", median(ours), "1/s");
    report.add(("W2", "sync", n), "records a barrier", median(batches), "records");
    report.add(("W2", "sled alone", n), "steps", median(engine), "1/s");
    Ok(())
}

/// The same rows of another thread.
fn numbered(rows: &Rows, number: usize) -> Rows {
    let mut rows = rows.clone();
    for (key, _) in &mut rows {
        key[1..9].copy_from_slice(&(number as u64).to_be_bytes());
    }
    rows
}
