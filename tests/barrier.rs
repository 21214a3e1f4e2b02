//! The commit barrier, seen from outside: `strace` notes the system calls of a process that says when it hands on an
//! outcome, and each such word must come after a sync of the store that began when the outcome's bytes had been written.
//!
//! Without `strace` these tests say so and look at nothing; with `DURABLY_BARRIER=1`, as `tests/barrier.sh` and CI set it,
//! they fail instead.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, fs, process::Command};

/// What happened, in order, of what is of interest. Numbers are places in the trace.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    /// Where the first write with this outcome's bytes had ended.
    written: HashMap<String, usize>,
    /// Where syncs of the log began and ended.
    syncs: Vec<(usize, usize)>,
    /// Where it was said that this outcome is handed on.
    acknowledged: Vec<(String, usize)>,
}

/// The texts between `<<` and `>>`.
fn outcomes(line: &str) -> impl Iterator<Item = String> + '_ {
    line.split("<<").skip(1).filter_map(|rest| rest.split_once(">>")).map(|(outcome, _)| outcome.to_owned())
}

impl Trace {
    /// Reads what `strace -f -y` wrote: a call on one line, or its begin and its end on two if others came between.
    fn read(text: &str) -> Self {
        let mut trace = Self::default();
        let mut open: HashMap<&str, (usize, &str)> = HashMap::new();
        for (place, line) in text.lines().enumerate() {
            let Some((thread, call)) = line.trim_start().split_once(' ') else { continue };
            let call = call.trim_start();
            let (begin, whole) = if call.starts_with("<... ") {
                let Some(begun) = open.remove(thread) else { continue };
                begun
            } else {
                (place, call)
            };
            // What is said counts from its beginning: it may be read before the call returns.
            if begin == place && whole.starts_with("write(1<") && whole.contains("\"ack <<") {
                trace.acknowledged.extend(outcomes(whole).map(|outcome| (outcome, place)));
            }
            if call.contains("<unfinished ...>") {
                open.insert(thread, (place, whole));
                continue;
            }
            let is_log = whole.split(')').next().is_some_and(|arguments| arguments.contains("/sled/db>"));
            let is_good = !line.contains(" = -1 ");
            if is_good && is_log && whole.starts_with("pwrite64(") {
                for outcome in outcomes(whole) {
                    trace.written.entry(outcome).or_insert(place);
                }
            } else if is_good && is_log && (whole.starts_with("fdatasync(") || whole.starts_with("fsync(")) {
                trace.syncs.push((begin, place));
            }
        }
        trace
    }

    /// The first outcome that was handed on without having been synced.
    fn early(&self) -> Option<&str> {
        let is_durable = |outcome: &String, said: usize| {
            let written = self.written.get(outcome);
            written.is_some_and(|written| self.syncs.iter().any(|(begin, end)| written < begin && *end < said))
        };
        self.acknowledged
            .iter()
            .find(|(outcome, said)| !is_durable(outcome, *said))
            .map(|(outcome, _)| outcome.as_str())
    }
}

/// Whether there is a working `strace`.
#[track_caller]
fn has_strace() -> bool {
    let tried = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let reason = match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let words = format!("strace does not work here ({}): install it, as with `apt-get install strace`", reason.trim());
    assert!(std::env::var_os("DURABLY_BARRIER").is_none(), "{words}");
    eprintln!("skipped, nothing was looked at: {words}");
    false
}

/// Runs the process under strace, checks each word it said, and gives the numbers of outcomes and of syncs.
#[track_caller]
fn trace(runs: u32, steps: u32) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "1000000", "-e", "trace=pwrite64,write,fdatasync,fsync,sync_file_range", "-o"]);
    strace.arg(&file).arg(env!("CARGO_BIN_EXE_acknowledge")).arg(folder.path().join("store"));
    let output = strace.args([runs.to_string(), steps.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap().lines().count();
    assert_eq!(said, usize::try_from(runs * steps).unwrap(), "lines that the process said");
    let trace = Trace::read(&fs::read_to_string(&file).unwrap());
    assert_eq!(trace.acknowledged.len(), said, "lines in the trace");
    assert_eq!(trace.early(), None, "handed on before it was on disk");
    println!(
        "{runs} runs at a time, {steps} steps each: {said} outcomes handed on, each after its sync; {} syncs",
        trace.syncs.len()
    );
    (said, trace.syncs.len())
}

#[test]
fn an_outcome_is_on_disk_before_it_is_handed_on_and_one_run_syncs_for_each() {
    if has_strace() {
        let (outcomes, syncs) = trace(1, 50);
        // Besides the outcomes: opening, the run's start, its end, closing.
        assert!((outcomes..=outcomes + 12).contains(&syncs), "{syncs} syncs for {outcomes} outcomes");
    }
}

#[test]
fn one_sync_serves_many_concurrent_runs() {
    if has_strace() {
        let (outcomes, syncs) = trace(64, 20);
        assert!(syncs * 4 < outcomes, "{syncs} syncs for {outcomes} outcomes");
    }
}

#[test]
fn the_check_sees_an_outcome_that_is_handed_on_too_early() {
    let write = r#"7 pwrite64(9</s/sled/db>, "..<<0/1>>..", 11, 0) = 11"#;
    let sync = "7 fdatasync(9</s/sled/db>) = 0";
    let said = r#"8 write(1<pipe:[1]>, "ack <<0/1>>\n", 12) = 12"#;
    let early = |lines: &[&str]| Trace::read(&lines.join("\n")).early().map(str::to_owned);
    let yes = Some("0/1".to_owned());
    assert_eq!(early(&[write, sync, said]), None);
    assert_eq!(early(&[write, said, sync]), yes);
    assert_eq!(early(&[sync, write, said]), yes);
    assert_eq!(early(&[sync, said]), yes);
    assert_eq!(early(&[write, "7 fdatasync(9</s/sled/db>) = -1 EIO (Input/output error)", said]), yes);
    assert_eq!(early(&[write, "7 fdatasync(9</s/HWM>) = 0", said]), yes);
    let (begun, ended) = ("7 fdatasync(9</s/sled/db> <unfinished ...>", "7 <... fdatasync resumed>) = 0");
    assert_eq!(early(&[write, begun, ended, said]), None);
    assert_eq!(early(&[write, begun, said, ended]), yes);
    assert_eq!(early(&[begun, write, ended, said]), yes);
    let (begun, ended) = (write.replace(", 11, 0) = 11", " <unfinished ...>"), "7 <... pwrite64 resumed>, 11, 0) = 11");
    assert_eq!(early(&[&begun, ended, sync, said]), None);
    assert_eq!(early(&[&begun, "9 fdatasync(9</s/sled/db>) = 0", ended, said]), yes);
}
