//! Measures durable steps beside what the disk and the engine allow, in one run, since machines differ and are noisy.
//!
//! `cargo run --release --example bench -p examples -- [W1 W2 …] [--state DIR] [--quick] [--json]`
//!
//! A *step* is a task with a trivial body that gives a string of 100 bytes. What each workload does is said in the file
//! that has its name in it; what is wanted of the figures stands in `targets.rs`.
#![forbid(unsafe_code)]

mod child;
mod fan;
mod flows;
mod limits;
mod options;
mod overhead;
mod replay;
mod report;
mod scale;
mod steps;
mod targets;

use std::process::ExitCode;

use options::{Asked, HELP, Options};
use report::Report;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Asked::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        // A process of its own, whose start and memory are looked at.
        Ok(Asked::Child(folder)) => return child::first_steps(&folder),
        Ok(Asked::Bench(options)) => options,
        Err(wrong) => {
            eprintln!("bench: {wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match bench(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::new(options.json);
    for workload in &options.workloads {
        match workload.as_str() {
            "W1" => steps::one_run(options, &mut report)?,
            "W2" => steps::many_runs(options, &mut report)?,
            "W3" => replay::replay(options, &mut report)?,
            "W4" => fan::fan_out_everywhere(options, &mut report)?,
            "W5" => child::footprint(options, &mut report)?,
            "W6" => overhead::without_durability(options, &mut report)?,
            _ => scale::many_threads(options, &mut report)?,
        }
    }
    targets::judge(&mut report);
    Ok(())
}
