//! W4: one run with many steps at once.

use std::time::Instant;

use durably::Runtime;

use crate::{
    flows::{Together, fan_out},
    options::Options,
    replay::sizes,
    report::{Report, count, median, micros},
    steps::{alone, completed},
};

const WAYS: [(&str, &str, Together); 3] = [
    ("sync, join_all", "memory, join_all", Together::JoinAll),
    ("sync, FuturesUnordered", "memory, unordered", Together::Unordered),
    ("sync, bounded(256)", "memory, bounded(256)", Together::Bounded(256)),
];

fn fan_out_of(runtime: &Runtime, n: usize, how: Together) -> anyhow::Result<f64> {
    let tokio = alone()?;
    let began = Instant::now();
    tokio.block_on(async { completed(runtime.thread("a")?.invoke(fan_out(u32::try_from(n)?, how)).await?) })?;
    Ok(micros(began.elapsed()) / count(n))
}

pub(crate) fn fan_out_everywhere(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for n in sizes(options) {
        for (durable, volatile, how) in WAYS {
            let mut took = Vec::new();
            for _ in 0..options.rounds() {
                took.push(fan_out_of(&Runtime::builder().memory(), n, how)?);
            }
            report.add(("W4", volatile, n), "a step", median(took), "us");
            let mut took = Vec::new();
            // The largest is once enough: it takes seconds.
            for _ in 0..if n < 100_000 { options.rounds() } else { 1 } {
                let folder = options.folder()?;
                let runtime = Runtime::builder().open(folder.path().join("store"))?;
                took.push(fan_out_of(&runtime, n, how)?);
                alone()?.block_on(runtime.close())?;
            }
            report.add(("W4", durable, n), "steps", 1e6 / median(took), "1/s");
        }
    }
    Ok(())
}
