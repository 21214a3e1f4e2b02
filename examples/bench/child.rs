//! W5: what a process costs: from its start to its first durable step, its memory after W1, the disk's bytes a step.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use anyhow::Context;
use durably::Runtime;

use crate::{
    flows::chain,
    options::Options,
    report::{Report, count, median, micros},
    steps::{alone, completed},
};

/// Says when its first step is durable, then makes 1,000 more, and says how much memory that took at most.
pub(crate) fn first_steps(folder: &Path) -> ExitCode {
    match try_first_steps(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_first_steps(folder: &Path) -> anyhow::Result<()> {
    let runtime = Runtime::builder().open(folder)?;
    alone()?.block_on(async {
        completed(runtime.thread("first")?.invoke(chain(1)).await?)?;
        println!("first");
        std::io::stdout().flush()?;
        completed(runtime.thread("a")?.invoke(chain(1000)).await?)?;
        runtime.close().await.map_err(anyhow::Error::from)
    })?;
    println!("{}", peak_memory()?);
    Ok(())
}

/// The most memory this process has had, in KiB.
fn peak_memory() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("memory is read from /proc, as on Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

pub(crate) fn footprint(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let (mut first, mut memory, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds() {
        let folder = options.folder()?;
        let store = folder.path().join("store");
        let began = Instant::now();
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg("--first-steps").arg(&store).stdout(Stdio::piped()).spawn()?;
        let mut out = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        first.push(micros(began.elapsed()) / 1000.0);
        anyhow::ensure!(line == "first\n", "the process said {line:?} instead of its first step");
        let mut rest = String::new();
        out.read_to_string(&mut rest)?;
        anyhow::ensure!(child.wait()?.success(), "the process failed");
        memory.push(rest.trim().parse::<f64>()? / 1024.0);
        bytes.push(count(usize::try_from(size_of(store)?)?) / 1001.0);
    }
    report.add(("W5", "sync", 1), "process start to first durable step", median(first), "ms");
    report.add(("W5", "sync", 1000), "peak memory", median(memory), "MiB");
    report.add(("W5", "sync", 1000), "disk bytes a step", median(bytes), "B");
    Ok(())
}

/// The bytes of all files in a folder, as the disk keeps them.
pub(crate) fn size_of(folder: PathBuf) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut size = 0;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                size += entry.metadata()?.blocks() * 512;
            }
        }
    }
    Ok(size)
}
