//! Real processes, killed: at random moments, and by themselves at every boundary of the journal. Whatever was handed on
//! never runs again, and the last process gives what one without faults gives.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tests::{Chance, size};

const FLOWS: [&str; 4] = ["chain", "fan", "equal", "nested"];

fn victim() -> Command {
    Command::new(env!("CARGO_BIN_EXE_victim"))
}

fn run(folder: &Path, flow: &str) -> Command {
    let mut command = victim();
    command.arg("run").arg(folder.join("store")).arg(folder.join("ledger")).arg(flow);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a flow gives without faults, and what it does.
struct Oracle {
    output: String,
    effects: BTreeSet<String>,
    /// How long it takes once the store is open.
    takes: Duration,
}

fn oracle(flow: &str) -> Oracle {
    let folder = tempfile::tempdir().unwrap();
    let mut child = run(folder.path(), flow).spawn().unwrap();
    let opened = says(&mut child);
    let begun = Instant::now();
    let output = opened + "\n" + &completed(child.wait_with_output().unwrap());
    let takes = begun.elapsed();
    let ledger = Ledger::read(folder.path());
    assert!(ledger.starts.values().all(|times| *times == 1));
    Oracle { output, effects: ledger.starts.into_keys().collect(), takes }
}

#[track_caller]
fn completed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What was written down by all processes of a test.
#[derive(Default)]
struct Ledger {
    starts: BTreeMap<String, u32>,
    ends: BTreeMap<String, u32>,
    handed_on: BTreeMap<String, u32>,
}

impl Ledger {
    /// Reads it; fails if an effect ran after its value was handed on.
    #[track_caller]
    fn read(folder: &Path) -> Self {
        let mut ledger = Self::default();
        for line in fs::read_to_string(folder.join("ledger")).unwrap_or_default().lines() {
            let (what, effect) = line.split_once(' ').unwrap();
            let counts = match what {
                "start" => {
                    assert!(!ledger.handed_on.contains_key(effect), "{effect} runs again after it was handed on");
                    &mut ledger.starts
                }
                "end" => &mut ledger.ends,
                "handed-on" => &mut ledger.handed_on,
                other => panic!("a line of the ledger is torn: {other}"),
            };
            *counts.entry(effect.to_owned()).or_default() += 1;
        }
        ledger
    }

    /// The ends of effects, beyond one of each.
    fn repeated(&self) -> u32 {
        self.ends.values().map(|times| times - 1).sum()
    }
}

/// Looks at everything, after the last process came to the end.
#[track_caller]
fn check(folder: &Path, oracle: &Oracle, output: &str) -> Ledger {
    assert_eq!(output, oracle.output);
    let ledger = Ledger::read(folder);
    assert!(ledger.ends.keys().eq(&oracle.effects), "{:?}", ledger.ends);
    assert!(ledger.starts.keys().eq(&oracle.effects));
    assert!(ledger.handed_on.values().all(|times| *times == 1), "{:?}", ledger.handed_on);
    ledger
}

#[test]
fn a_process_that_dies_at_any_commit_is_gone_on_with() {
    let mut deaths = 0;
    for flow in FLOWS {
        let oracle = oracle(flow);
        for when in ["before", "queued", "after"] {
            for nth in 1.. {
                let folder = tempfile::tempdir().unwrap();
                let mut command = run(folder.path(), flow);
                let first = command.arg(nth.to_string()).arg(when).output().unwrap();
                let died = !first.status.success();
                if !died {
                    // It has fewer commits than that.
                    check(folder.path(), &oracle, &completed(first));
                    break;
                }
                println!("{flow}: dead {when} commit {nth}");
                assert!(String::from_utf8_lossy(&first.stderr).is_empty(), "it died of something else: {first:?}");
                let output = completed(run(folder.path(), flow).output().unwrap());
                let ledger = check(folder.path(), &oracle, &output);
                let at_once = if flow == "fan" { 8 } else { 2 };
                match (when, flow) {
                    // All that had ended was on disk.
                    ("after", "chain" | "equal") => assert_eq!(ledger.repeated(), 0),
                    // What was on its way is lost at most, and with one call at a time that is one.
                    (_, "chain" | "equal") => assert!(ledger.repeated() <= 1),
                    _ => assert!(ledger.repeated() <= at_once, "{}", ledger.repeated()),
                }
                deaths += 1;
                if deaths % 8 == 0 {
                    // One more process finds the end, and does nothing.
                    let again = completed(run(folder.path(), flow).output().unwrap());
                    assert_eq!(again, oracle.output);
                    assert_eq!(Ledger::read(folder.path()).starts, ledger.starts);
                }
                assert!(nth < 200, "the flow does not end");
            }
        }
    }
    println!("{deaths} deaths at commits");
    assert!(deaths >= 4 * 3 * 8);
}

#[test]
fn a_process_that_is_killed_at_any_moment_is_gone_on_with() {
    let seed = std::env::var("DURABLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    println!("DURABLY_SEED={seed}");
    let mut chance = Chance::new(seed);
    let oracles: Vec<(&str, Oracle)> = FLOWS.iter().map(|flow| (*flow, oracle(flow))).collect();
    let (mut kills, mut runs, mut in_the_middle) = (0, 0, 0);
    while kills < size(100) {
        let (flow, oracle) = chance.pick(&oracles);
        let folder = tempfile::tempdir().unwrap();
        let output = loop {
            let mut child = run(folder.path(), flow).spawn().unwrap();
            // One in four dies while it begins or opens the store.
            let opened = if chance.below(4) > 0 { says(&mut child) + "\n" } else { String::new() };
            let moment = chance.below(usize::try_from(oracle.takes.as_micros()).unwrap());
            thread::sleep(Duration::from_micros(moment as u64));
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            if output.status.success() {
                break opened + &completed(output);
            }
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            let ledger = Ledger::read(folder.path());
            in_the_middle += usize::from(!ledger.starts.is_empty());
            kills += 1;
        };
        check(folder.path(), oracle, &output);
        runs += 1;
    }
    println!("{kills} kills in {runs} runs, {in_the_middle} of them after the first effect");
    assert!(in_the_middle >= kills / 3, "the kills come too early: {in_the_middle} of {kills}");
}

fn opener(folder: &Path) -> Child {
    victim().arg("open").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// The first line, and not more, so that the rest can be read later.
fn says(child: &mut Child) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn of_processes_that_open_one_store_one_has_it_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..size(15) {
        let mut openers: Vec<Child> = (0..5).map(|_| opener(folder.path())).collect();
        let said: Vec<String> = openers.iter_mut().map(says).collect();
        assert_eq!(said.iter().filter(|said| *said == "open").count(), 1, "round {round}: {said:?}");
        assert_eq!(said.iter().filter(|said| *said == "locked").count(), 4, "round {round}: {said:?}");
        for (mut opener, said) in openers.into_iter().zip(said) {
            if said == "open" && round % 2 == 0 {
                opener.kill().unwrap();
            } else {
                drop(opener.stdin.take());
            }
            opener.wait().unwrap();
        }
    }
}
