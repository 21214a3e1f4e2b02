//! Stored journals against today's code: whether runs that are open, or were, would go on with it. Nothing is run and
//! nothing is written.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use crate::{
    ImportError, Nondeterminism, Outcome, RunError, RunNo, RuntimeBuilder, Status, Thread, ThreadFile, ThreadId,
    checkpoint::{Change, Checkpointer, Commit, Key, MemoryCheckpointer, rows},
    id::Seq,
    journal::{Record, Start},
    storage::{self, Head},
};

/// Replays exported threads against the code of the entrypoints that a runtime has, and says of each run whether that code
/// still makes the calls that its journal has.
///
/// No body runs, no timer is waited for, nothing is asked, and the files stay as they are. So it can stand in a test of the
/// program: export threads of the released version ([`Thread::export`]), keep the files beside the tests, and check them
/// on every change, before it is deployed where such runs are open.
///
/// ```
/// use durably::{Runtime, ThreadFile, entrypoint, task, testing::replay_check};
///
/// #[task]
/// async fn greet(name: &str) -> String { format!("hello {name}") }
///
/// #[entrypoint]
/// async fn welcome(name: String) -> String { greet(&name).await }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bytes = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// #     let thread = Runtime::builder().memory().thread("t")?;
/// #     thread.invoke(welcome("Ada".to_owned())).await?;
/// #     Ok::<_, durably::RunError>(thread.export().await?.to_bytes())
/// # })?;
/// // `.folder("tests/journals")` takes all files of a folder.
/// let report = replay_check(|| Runtime::builder().entrypoint(welcome))
///     .thread(ThreadFile::from_bytes(&bytes)?)
///     .run()?;
/// println!("{report}");
/// # Ok(())
/// # }
/// ```
pub fn replay_check<'a>(build: impl Fn() -> RuntimeBuilder + 'a) -> ReplayCheck<'a> {
    ReplayCheck { build: Box::new(build), files: Vec::new() }
}

/// Journals to be checked; made by [`replay_check`].
#[must_use = "a check begins with `run`"]
pub struct ReplayCheck<'a> {
    build: Box<dyn Fn() -> RuntimeBuilder + 'a>,
    files: Vec<(String, Result<ThreadFile, Unreadable>)>,
}

/// What was found of all journals.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use = "it says whether the journals replay"]
pub struct ReplayReport {
    /// Each run of each file.
    pub runs: Vec<ReplayedRun>,
}

/// What was found of one run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayedRun {
    /// The file, or the thread.
    pub file: String,
    /// The run; `None` if the file could not be read.
    pub run: Option<RunNo>,
    /// How many records the run has.
    pub records: usize,
    /// What was found.
    pub verdict: Verdict,
}

/// Whether a run's journal replays.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// It does, all of it; how far the code comes with it.
    Compatible(Reach),
    /// The code no longer makes the calls that the journal has: the first one that it does not make, and what it does
    /// instead.
    Diverged(Box<Nondeterminism>),
    /// The code cannot go on with it for another reason: a recorded value is not of the type wanted, two tasks have one
    /// name, or the entrypoint is not there.
    Refused(RunError),
    /// The file could not be read.
    Unreadable(Unreadable),
}

/// How far the code comes with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// To its end.
    Ends,
    /// To open questions.
    Asks,
    /// To a call that is not recorded: there it goes on live.
    GoesOn,
}

/// Why a file could not be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Unreadable {
    /// The system says so.
    Io(Arc<std::io::Error>),
    /// Its bytes are not those of a thread.
    Import(ImportError),
}

impl ReplayCheck<'_> {
    /// Adds a thread.
    pub fn thread(mut self, file: ThreadFile) -> Self {
        self.files.push((format!("thread {}", file.thread()), Ok(file)));
        self
    }

    /// Adds a file with an exported thread.
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let read = std::fs::read(path).map_err(|error| Unreadable::Io(Arc::new(error)));
        let file = read.and_then(|bytes| ThreadFile::from_bytes(&bytes).map_err(Unreadable::Import));
        self.files.push((path.display().to_string(), file));
        self
    }

    /// Adds all files of a folder, in order of their names; folders in it are left out.
    pub fn folder(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let paths = std::fs::read_dir(path).and_then(|entries| {
            let mut paths = Vec::new();
            for entry in entries {
                let path = entry?.path();
                if path.is_file() {
                    paths.push(path);
                }
            }
            Ok(paths)
        });
        match paths {
            Ok(mut paths) => {
                paths.sort();
                paths.into_iter().fold(self, Self::file)
            }
            Err(error) => {
                self.files.push((path.display().to_string(), Err(Unreadable::Io(Arc::new(error)))));
                self
            }
        }
    }

    /// Replays every run of every file.
    ///
    /// # Errors
    ///
    /// The report, if any run does not replay, or a file could not be read.
    ///
    /// # Panics
    ///
    /// If there is no tokio runtime or thread to be had.
    pub fn run(self) -> Result<ReplayReport, ReplayReport> {
        let mut report = ReplayReport { runs: Vec::new() };
        for (name, file) in &self.files {
            let file = match file {
                Ok(file) => file,
                Err(why) => {
                    report.runs.push(unreadable(name, why.clone()));
                    continue;
                }
            };
            match Runs::of(file) {
                Ok(runs) => {
                    for (run, rows) in runs.0 {
                        let records = rows.records;
                        let verdict = self.replayed(file, run, rows);
                        report.runs.push(ReplayedRun { file: name.clone(), run: Some(RunNo(run)), records, verdict });
                    }
                }
                Err(error) => report.runs.push(unreadable(name, Unreadable::Import(error))),
            }
        }
        if report.runs.iter().all(|run| matches!(run.verdict, Verdict::Compatible(_))) {
            Ok(report)
        } else {
            Err(report)
        }
    }

    /// Replays one run on a store of its own, which is thrown away.
    fn replayed(&self, file: &ThreadFile, run: u32, rows: RunRows) -> Verdict {
        let entrypoint = rows.start.entrypoint.clone();
        let builder = (self.build)();
        let outcome = super::on_a_paused_clock(async {
            let store = MemoryCheckpointer::new();
            let mut changes = Vec::new();
            rows.changes(&file.thread, run, &mut changes)?;
            store.commit(Commit { thread: file.thread.clone(), expect: Vec::new(), changes }).await?;
            let runtime = builder.replays_only().checkpointer(store);
            let registered = runtime.registered(entrypoint.clone())?;
            let thread = Thread::new(runtime, file.thread.clone());
            let replay = registered.resume(thread);
            tokio::select! {
                biased;
                outcome = replay => outcome,
                // On a paused clock: when nothing goes on any more.
                () = tokio::time::sleep(std::time::Duration::from_secs(1)) => Err(RunError::Stalled { entrypoint: entrypoint.clone() }),
            }
        });
        match outcome {
            Ok(Outcome::Completed(_) | Outcome::Cancelled)
            | Err(RunError::Failed(_) | RunError::Panicked { .. } | RunError::TimedOut { .. }) => {
                Verdict::Compatible(Reach::Ends)
            }
            Ok(Outcome::Interrupted(_)) => Verdict::Compatible(Reach::Asks),
            Ok(_) => Verdict::Compatible(Reach::GoesOn),
            Err(RunError::Nondeterminism(divergence)) => Verdict::Diverged(divergence),
            Err(error) => Verdict::Refused(error),
        }
    }
}

fn unreadable(name: &str, why: Unreadable) -> ReplayedRun {
    ReplayedRun { file: name.to_owned(), run: None, records: 0, verdict: Verdict::Unreadable(why) }
}

/// The runs of a file.
struct Runs(BTreeMap<u32, RunRows>);

/// What is needed to replay a run.
struct RunRows {
    start: Start,
    /// Its bytes, record by record, without its end.
    items: Vec<(Key, Vec<u8>)>,
    records: usize,
}

impl Runs {
    fn of(file: &ThreadFile) -> Result<Self, ImportError> {
        let mut runs = BTreeMap::new();
        let bytes: BTreeMap<(u32, u32), &Vec<u8>> = file
            .items
            .iter()
            .filter_map(|(key, payload)| match key {
                Key::Record { run, seq, .. } => Some(((*run, *seq), payload)),
                Key::Head | Key::Answer { .. } | Key::Aside { .. } => None,
            })
            .collect();
        let item = |run: u32, seq: u32| {
            let payload = bytes.get(&(run, seq))?;
            Some((Key::Record { run, seq, chunk: 0 }, (*payload).clone()))
        };
        let records = file.records()?;
        let mut newest: BTreeMap<u32, u32> = BTreeMap::new();
        for (run, seq, _) in &records {
            newest.insert(*run, *seq);
        }
        for (run, seq, record) in records {
            match record {
                Record::Start(start) if seq == 0 => {
                    // What the run sees as `previous` stands in another run.
                    let previous = start.previous.and_then(|(run, Seq(seq))| item(run.0, seq));
                    let items = previous.into_iter().chain(item(run, seq)).collect();
                    runs.insert(run, RunRows { start, items, records: 1 });
                }
                // Nothing but a saved value.
                Record::Update(_) => {}
                record => {
                    let rows = runs.get_mut(&run).ok_or_else(|| ImportError::Damaged {
                        at: 0,
                        detail: format!("run {run} does not begin with its start"),
                    })?;
                    rows.records += 1;
                    // An end is what the code is to come to again; one that was gone on after is a part of the run.
                    if !(matches!(record, Record::End(_)) && newest.get(&run) == Some(&seq)) {
                        rows.items.extend(item(run, seq));
                    }
                }
            }
        }
        Ok(Self(runs))
    }
}

impl RunRows {
    /// The rows of a thread that was cut off in this run.
    fn changes(&self, thread: &ThreadId, run: u32, changes: &mut Vec<Change>) -> Result<(), RunError> {
        let head = Head {
            status: Status::Running,
            run: RunNo(run),
            entrypoint: self.start.entrypoint.clone(),
            version: self.start.version,
            saved: self.start.previous,
            created_ms: self.start.at_ms,
            updated_ms: self.start.at_ms,
            reason: None,
            due_ms: None,
            cleans_up: false,
            tags: self.start.tags.clone(),
        };
        storage::head_changes(thread, &head, changes)?;
        for (key, payload) in &self.items {
            rows::seal(thread, *key, payload, rows::PAYLOAD_LIMIT, changes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ReplayCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayCheck").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replayed = self.runs.iter().filter(|run| matches!(run.verdict, Verdict::Compatible(_))).count();
        write!(f, "{replayed} of {} runs replay with today's code", self.runs.len())?;
        self.runs.iter().try_for_each(|run| write!(f, "\n  {run}"))
    }
}

impl fmt::Display for ReplayedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(run) = self.run {
            write!(f, ", run {run} ({} records)", self.records)?;
        }
        match &self.verdict {
            Verdict::Compatible(Reach::Ends) => f.write_str(": compatible, to its end"),
            Verdict::Compatible(Reach::Asks) => f.write_str(": compatible, to its open questions"),
            Verdict::Compatible(Reach::GoesOn) => f.write_str(": compatible, and goes on live after them"),
            Verdict::Diverged(divergence) => write!(f, ": {divergence}"),
            Verdict::Refused(error) => write!(f, ": {error}"),
            Verdict::Unreadable(why) => write!(f, ": {why}"),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => fmt::Display::fmt(error, f),
            Self::Import(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for ReplayReport {}
