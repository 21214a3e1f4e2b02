//! W6: steps that no disk is waited for: what the library itself costs.

use std::time::Instant;

use durably::{Durability, Runtime};

use crate::{
    flows::chain,
    options::Options,
    replay::sizes,
    report::{Report, count, median, micros},
    steps::{alone, completed},
};

pub(crate) fn without_durability(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let tokio = alone()?;
    for n in sizes(options) {
        for (mode, durability) in
            [("memory", Durability::Sync), ("memory, exit", Durability::Exit), ("memory, async", Durability::Async)]
        {
            let mut took = Vec::new();
            for _ in 0..options.rounds() {
                let runtime = Runtime::builder().memory();
                let began = Instant::now();
                tokio.block_on(async {
                    let invoke = runtime.thread("a")?.invoke(chain(u32::try_from(n)?)).durability(durability);
                    completed(invoke.await?)
                })?;
                took.push(micros(began.elapsed()) / count(n));
            }
            report.add(("W6", mode, n), "a step", median(took), "us");
        }
        let mut took = Vec::new();
        for _ in 0..options.rounds() {
            let folder = options.folder()?;
            let runtime = Runtime::builder().open(folder.path().join("store"))?;
            let began = Instant::now();
            tokio.block_on(async {
                let invoke = runtime.thread("a")?.invoke(chain(u32::try_from(n)?)).durability(Durability::Exit);
                completed(invoke.await?)
            })?;
            took.push(micros(began.elapsed()) / count(n));
            tokio.block_on(runtime.close())?;
        }
        report.add(("W6", "sled, exit", n), "a step, with its write at the end", median(took), "us");
    }
    Ok(())
}
