//! The command line.

use std::path::PathBuf;

use anyhow::Context;

pub(crate) const HELP: &str = "\
Measures durable steps beside what the disk and the engine allow, in one run.

bench [WORKLOAD ...] [OPTIONS]

  W1  one run, 1,000 steps one after another, each durable before the next
  W2  1,000 runs of 10 steps, 256 in flight
  W3  a run of 1,000 to 100,000 finished steps goes on: time from opening the store to past the last finished step
  W4  one run, 1,000 to 100,000 steps in parallel
  W5  disk bytes a step, memory, time from the start of a process to its first durable step
  W6  steps without durability: what one costs by itself
  W7  1,000,000 threads: open, list, resume one, delete one, prune (takes minutes and 4 GB of disk; only if named)
                   (default: W1 to W6)
  --state DIR      where stores are made and removed again (default: a new folder in the current one)
  --quick          a tenth of everything, one round instead of five
  --json           one line of JSON for each figure, instead of a table
  --help           show this
";

pub(crate) const WORKLOADS: [&str; 7] = ["W1", "W2", "W3", "W4", "W5", "W6", "W7"];

/// What the command line asks for.
pub(crate) enum Asked {
    Help,
    /// To be the process that W5 looks at, with its store in this folder.
    Child(PathBuf),
    Bench(Options),
}

pub(crate) struct Options {
    pub(crate) workloads: Vec<String>,
    pub(crate) state: PathBuf,
    pub(crate) quick: bool,
    pub(crate) json: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Asked> {
        let mut options = Self { workloads: Vec::new(), state: PathBuf::from("."), quick: false, json: false };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => return Ok(Asked::Help),
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--state" => options.state = arguments.next().context("--state needs a folder")?.into(),
                "--first-steps" => return Ok(Asked::Child(arguments.next().context("needs a folder")?.into())),
                workload if WORKLOADS.contains(&workload) => options.workloads.push(workload.to_owned()),
                other => anyhow::bail!("there is no workload or option {other:?}"),
            }
        }
        if options.workloads.is_empty() {
            options.workloads = WORKLOADS[..6].iter().map(|workload| (*workload).to_owned()).collect();
        }
        Ok(Asked::Bench(options))
    }

    /// A new folder for one store; it goes with what is returned.
    pub(crate) fn folder(&self) -> anyhow::Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.state)
            .with_context(|| format!("the folder {} cannot be made", self.state.display()))?;
        let folder = tempfile::Builder::new().prefix("durably-bench-").tempdir_in(&self.state);
        folder.with_context(|| format!("no folder can be made in {}", self.state.display()))
    }

    /// How often each figure is taken; the middle one counts.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// A size, or a tenth of it.
    pub(crate) fn size(&self, size: usize) -> usize {
        if self.quick { size / 10 } else { size }
    }
}
