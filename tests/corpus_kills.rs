//! The corpus example as a real process, killed with SIGKILL at random moments until it is done, again and again.
//!
//! What must hold over any number of kills: a file that was `done` is never `run` again, a kill costs no more bodies than
//! were live, and the report is byte for byte that of a run that nobody killed. `DURABLY_SIZE` multiplies the kills,
//! `DURABLY_SEED` repeats a failure.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const FILES: usize = 60;
const KILLS: u64 = 110;
const SIGKILL: i32 = 9;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Texts to read: nested, one empty, one that is not UTF-8.
fn texts(random: &mut Random) -> TempDir {
    const WORDS: [&str; 8] = ["harbour", "lantern", "mountain", "quiet", "river", "letters", "winter", "answers"];
    let folder = tempfile::tempdir().unwrap();
    for file in 0..FILES - 2 {
        let below = folder.path().join(format!("part {}", file % 3));
        fs::create_dir_all(&below).unwrap();
        let mut text = String::new();
        for word in 0..random.below(300) {
            text.push_str(WORDS[usize::try_from(random.below(8)).unwrap()]);
            text.push_str(if word % 7 == 6 { ". " } else { " " });
        }
        fs::write(below.join(format!("{file:02}.md")), text).unwrap();
    }
    fs::write(folder.path().join("empty.md"), "").unwrap();
    fs::write(folder.path().join("bytes.md"), [b'a', 0xff, 0xfe]).unwrap();
    folder
}

/// One job: the example, what it reads, and its own state.
struct Job<'a> {
    program: &'a Path,
    folder: &'a Path,
    state: TempDir,
    parallel: u64,
    pause_ms: u64,
}

impl<'a> Job<'a> {
    fn new(program: &'a Path, folder: &'a Path, parallel: u64, pause_ms: u64) -> Self {
        Self { program, folder, state: tempfile::tempdir().unwrap(), parallel, pause_ms }
    }

    fn events(&self) -> PathBuf {
        self.state.path().join("events")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.arg(self.folder).arg("--state").arg(self.state.path().join("store"));
        command.arg("--events").arg(self.events()).args(["--pause-ms", &self.pause_ms.to_string()]);
        command.args(["--parallel", &self.parallel.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// One process, killed after a while unless it is done before.
    fn killed_after(&self, delay: Duration) -> Output {
        let mut process = self.command().spawn().unwrap();
        thread::sleep(delay);
        process.kill().unwrap();
        process.wait_with_output().unwrap()
    }

    /// One process, to its end; what it printed.
    #[track_caller]
    fn finished(&self) -> Vec<u8> {
        report(self.command().output().unwrap())
    }

    fn history(&self) -> String {
        fs::read_to_string(self.events()).unwrap_or_default()
    }
}

#[track_caller]
fn report(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// How often each file was begun, if none was begun after it was done.
fn begun(history: &str) -> Result<BTreeMap<&str, u64>, String> {
    let mut begun = BTreeMap::new();
    let mut done = BTreeSet::new();
    for line in history.lines() {
        match line.split_once(' ') {
            Some(("run", path)) if done.contains(path) => return Err(format!("{path} was run after it was done")),
            Some(("run", path)) => *begun.entry(path).or_default() += 1,
            Some(("done", path)) if !begun.contains_key(path) => return Err(format!("{path} was done, but not run")),
            Some(("done", path)) if !done.insert(path) => return Err(format!("{path} was done twice")),
            Some(("done", _)) => {}
            _ => return Err(format!("what is {line:?}?")),
        }
    }
    Ok(begun)
}

#[test]
fn no_file_is_read_again_and_the_report_is_the_same_over_any_number_of_kills() {
    let seed = from_environment("DURABLY_SEED", 20_261_130);
    let wanted = KILLS * from_environment("DURABLY_SIZE", 1);
    println!("DURABLY_SEED={seed}");
    let random = &mut Random(seed);
    let program = tests::example("corpus");
    let folder = texts(random);

    let untouched = Job::new(&program, folder.path(), 4, 1);
    let start = Instant::now();
    let expected = untouched.finished();
    let whole = u64::try_from(start.elapsed().as_micros()).unwrap();
    assert_eq!(begun(&untouched.history()).unwrap().into_values().collect::<Vec<_>>(), [1; FILES]);

    let (mut kills, mut runs, mut again) = (0, 0, 0);
    while kills < wanted {
        let parallel = [1, 2, 4, 8][usize::try_from(random.below(4)).unwrap()];
        let job = Job::new(&program, folder.path(), parallel, 1 + random.below(3));
        let mut killed = 0;
        let printed = loop {
            // Early moments more often than late ones, so that a run takes many kills.
            let limit = whole / (1 + random.below(4));
            let output = job.killed_after(Duration::from_micros(random.below(limit)));
            if output.status.signal() == Some(SIGKILL) {
                killed += 1;
            } else {
                break report(output);
            }
        };
        let context = format!("run {runs}, {killed} kills, {parallel} at a time");
        assert!(printed == expected, "{context}: another report:\n{}", String::from_utf8_lossy(&printed));
        let history = job.history();
        let begun = begun(&history).unwrap_or_else(|error| panic!("{context}: {error}:\n{history}"));
        assert_eq!(begun.len(), FILES, "{context}");
        let repeated = begun.values().sum::<u64>() - u64::try_from(FILES).unwrap();
        assert!(repeated <= killed * parallel, "{context}: {repeated} bodies ran again:\n{history}");

        // Once more, when all is done.
        assert!(job.finished() == expected, "{context}: another report from the journal");
        assert_eq!(job.history(), history, "{context}: a finished job ran something");
        (kills, runs, again) = (kills + killed, runs + 1, again + repeated);
    }
    println!(
        "{kills} kills over {runs} runs of {FILES} files: {again} bodies were cut off and ran again, none after it was done"
    );
}

#[test]
fn an_unfinished_job_with_other_options_is_refused_with_the_remedy_until_it_begins_anew() {
    let program = tests::example("corpus");
    let folder = texts(&mut Random(7));
    let mut job = Job::new(&program, folder.path(), 2, 20);
    // Killed once the first file is done: after that the run is there.
    let mut process = job.command().spawn().unwrap();
    while !job.history().contains("done") {
        thread::yield_now();
    }
    process.kill().unwrap();
    process.wait().unwrap();

    (job.parallel, job.pause_ms) = (3, 0);
    let refused = job.command().output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("--parallel") && words.contains("--fresh"), "{words}");
    fs::remove_file(job.events()).unwrap();
    report(job.command().arg("--fresh").output().unwrap());
    assert_eq!(begun(&job.history()).unwrap().len(), FILES);
}

#[test]
fn the_check_sees_a_file_that_is_read_again() {
    assert_eq!(begun("run a\nrun b\nrun a\ndone a\ndone b\n"), Ok(BTreeMap::from([("a", 2), ("b", 1)])));
    assert_eq!(begun("run a\ndone a\nrun a\n"), Err("a was run after it was done".to_owned()));
    assert_eq!(begun("run a\ndone a\ndone a\n"), Err("a was done twice".to_owned()));
    assert_eq!(begun("done a\n"), Err("a was done, but not run".to_owned()));
}
