//! Each example prints what its golden file has. After a change: `DURABLY_GOLDEN=write cargo test -p examples --test
//! golden`, and read what came out.
#![allow(clippy::unwrap_used)]

use std::{fmt::Write as _, fs, path::Path, process::Command};

/// Runs an example so many times in a folder of its own, one process after another.
#[track_caller]
fn check(name: &str, runs: u32) {
    let program = tests::example(name);
    let folder = tempfile::tempdir().unwrap();
    let mut printed = String::new();
    for run in 1..=runs {
        let output = Command::new(&program).current_dir(folder.path()).output().unwrap();
        if runs > 1 {
            writeln!(printed, "-- run {run}").unwrap();
        }
        printed.push_str(&String::from_utf8(output.stdout).unwrap());
        let is_last = run == runs;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), is_last, "run {run} of {name} ended with {}:\n{errors}", output.status);
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name).with_extension("txt");
    if std::env::var_os("DURABLY_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&golden, &printed).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(printed, expected, "{name} prints other lines than {}", golden.display());
}

#[test]
fn hello_runs_each_task_once() {
    check("hello", 1);
}

#[test]
fn parallel_gives_outputs_in_the_order_of_the_calls() {
    check("parallel", 1);
}

#[test]
fn retry_goes_on_by_its_policy() {
    check("retry", 1);
}

#[test]
fn review_writes_each_draft_once() {
    check("review", 1);
}

#[test]
fn stream_gives_what_happens_and_goes_on_from_a_number() {
    check("stream", 1);
}

#[test]
fn crash_resume_goes_on_where_it_was() {
    check("crash_resume", 2);
}

#[test]
fn publish_publishes_what_was_approved_once() {
    check("publish", 1);
}

#[test]
fn chat_keeps_each_saved_value_once() {
    check("chat", 1);
}

#[test]
fn time_travel_shows_both_outcomes() {
    check("time_travel", 1);
}
