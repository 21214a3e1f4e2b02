//! A folder of text, read once: one durable task a file, one report at the end.
//!
//! ```sh
//! cargo run --release --example corpus -p examples              # the folder you are in
//! cargo run --release --example corpus -p examples -- ~/notes   # any other one
//! ```
//!
//! Kill it at any moment (`kill -9`) and run the same command again: no file that was finished is read again, and the
//! report is byte for byte that of a run that nobody killed. What to look at: [`corpus`] is the whole job, [`list`] and
//! [`read`] are its two tasks. Nothing in them knows of crashes.
//!
//! Each folder is a thread of its own, named by its path, so that jobs on several folders share a store.

mod options;
mod progress;
mod text;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use durably::{IfUnfinished, Outcome, RunError, Runtime, Status, bounded, entrypoint, task};
use options::{Asked, Options};
use progress::{Events, Progress};
use text::Page;

/// What the tasks need of this process. No part of their identity: another process has another one.
struct Desk {
    events: Events,
    pause: Duration,
    /// The store's own folder, which is no text.
    state: PathBuf,
}

/// Finds the files. A task, so that every replay sees the list as it was.
#[task(blocking, skip(desk))]
fn list(desk: Arc<Desk>, folder: String) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(&folder)];
    while let Some(next) = folders.pop() {
        // A folder that cannot be read is listed as if it were a file: reading it then says why.
        let Ok(entries) = fs::read_dir(&next) else {
            files.push(next);
            continue;
        };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != "target" && name != ".git" && path != desk.state => {
                    folders.push(path);
                }
                Ok(kind) if kind.is_file() && text::is_text(&path) => files.push(path),
                _ => {}
            }
        }
    }
    let relative = |path: &PathBuf| path.strip_prefix(&folder).unwrap_or(path).to_string_lossy().into_owned();
    let mut files: Vec<String> = files.iter().map(relative).collect();
    files.sort_unstable();
    files
}

/// Reads one file. That it cannot be read is an outcome like any other: recorded, and part of the report.
#[task(blocking, skip(desk))]
fn read(desk: Arc<Desk>, folder: String, path: String) -> Result<Page, String> {
    desk.events.note("run", &path);
    std::thread::sleep(desk.pause);
    let bytes = fs::read(Path::new(&folder).join(&path)).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|error| error.utf8_error().to_string())?;
    Ok(Page::of(&path, &text))
}

/// The whole job.
#[entrypoint]
async fn corpus(folder: String, parallel: usize) -> String {
    let desk = durably::resource::<Desk>();
    let files = list(desk.clone(), folder.clone()).await;
    let reads = files.iter().map(|path| read(desk.clone(), folder.clone(), path.clone()));
    let pages = bounded(parallel, reads).await;
    text::report(&folder, files.iter().zip(&pages))
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(Asked::Job(options)) => options,
        Ok(Asked::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(mistake) => {
            eprintln!("corpus: {mistake}\nTry `--help`.");
            return ExitCode::from(2);
        }
    };
    let job =
        tokio::runtime::Runtime::new().map_err(anyhow::Error::from).and_then(|tokio| tokio.block_on(run(options)));
    match job {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corpus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> anyhow::Result<()> {
    let shown = || format!("the folder {}", options.folder.display());
    let folder = options.folder.canonicalize().with_context(shown)?;
    let folder = folder.to_str().with_context(|| format!("{} has a path that is not UTF-8", shown()))?.to_owned();
    fs::create_dir_all(&options.state).with_context(|| format!("the state folder {}", options.state.display()))?;

    let events = Events::open(options.events.as_deref())?;
    let desk = Desk { events: events.clone(), pause: options.pause, state: options.state.canonicalize()? };
    let progress = Progress::new(events, std::io::stderr().is_terminal());
    let runtime = Runtime::builder().resource(desk).observer(progress).open(&options.state)?;
    let thread = runtime.thread(&folder)?;
    let status = thread.state().await?.map(|state| state.status);

    let outcome = if status == Some(Status::Completed) && !options.fresh {
        eprintln!("This job was finished before: here is its report, and nothing is read. `--fresh` begins anew.");
        thread.resume(corpus).await
    } else {
        // A run that was cut off goes on, unless it is to begin anew.
        let unfinished = if options.fresh { IfUnfinished::Discard } else { IfUnfinished::Resume };
        thread.invoke(corpus(folder, options.parallel)).if_unfinished(unfinished).await
    };
    let report = match outcome {
        Ok(Outcome::Completed(report)) => report,
        Ok(other) => return Err(anyhow!("the run is {}; run the same command again", other.word())),
        Err(RunError::InputMismatch { recorded, given, .. }) => {
            return Err(anyhow!(
                "this folder's unfinished run was begun with {recorded}, and this is {given}: run it with the same \
                 --parallel as before, or with --fresh to begin anew"
            ));
        }
        Err(error) => return Err(error.into()),
    };
    match &options.report {
        Some(path) => write_whole(path, &report).with_context(|| format!("writing the report to {}", path.display())),
        None => Ok(std::io::stdout().write_all(report.as_bytes())?),
    }
}

/// Puts a file in its place in one step, so that a kill leaves no half of it.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}
