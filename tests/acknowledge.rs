//! Drives runs in sync mode on sled, and says so on standard output when an outcome is handed on: `tests/barrier.rs` sees
//! from outside whether it was on disk by then.
//!
//! `acknowledge FOLDER RUNS STEPS`

use std::io::Write;

use durably::{Event, Observer, Runtime, RuntimeBuilder, entrypoint, task};
use futures::future::try_join_all;

/// Its outcome is a word that is in no other record.
#[task]
async fn step(run: u32, number: u32) -> String {
    format!("<<{run}/{number}>>")
}

#[entrypoint]
async fn steps(run: u32, count: u32) -> u32 {
    let mut bytes = 0;
    for number in 0..count {
        bytes += u32::try_from(step(run, number).await.len()).unwrap_or(0);
    }
    bytes
}

struct Acknowledge;

impl Observer for Acknowledge {
    fn observe(&self, event: &Event<'_>) {
        let Event::Released { value: Some(value), .. } = event else { return };
        let line = format!("ack {}\n", value.decode::<String>().expect("a step gives a text"));
        std::io::stdout().write_all(line.as_bytes()).expect("standard output takes a line");
    }
}

fn builder() -> RuntimeBuilder {
    Runtime::builder().observer(Acknowledge)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, runs, count] = arguments.as_slice() else { anyhow::bail!("acknowledge FOLDER RUNS STEPS") };
    let (runs, count): (u32, u32) = (runs.parse()?, count.parse()?);
    let runtime = builder().open(folder)?;
    let started = (0..runs).map(|run| Ok(runtime.thread(format!("run {run}"))?.invoke(steps(run, count)).start()));
    let started: Vec<_> = started.collect::<anyhow::Result<_>>()?;
    try_join_all(started).await?;
    runtime.close().await?;
    Ok(())
}
