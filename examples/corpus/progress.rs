//! What the job shows while it runs: a bar, and a file of events. Both are an observer of the run.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use durably::{Event, Observer};

/// How wide the bar is.
const WIDTH: usize = 40;

/// A file that gets one line an event, each written at once. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Events(Option<Arc<File>>);

impl Events {
    pub(crate) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(Some(Arc::new(file.with_context(|| format!("the events file {}", path.display()))?))))
    }

    pub(crate) fn note(&self, what: &str, path: &str) {
        if let Some(file) = &self.0 {
            // One write a line: a kill leaves a whole line or none.
            let line = format!("{what} {path}\n");
            if let Err(error) = file.as_ref().write_all(line.as_bytes()) {
                eprintln!("corpus: the events file lost the line {line:?}: {error}");
            }
        }
    }
}

/// Tells what was replayed (`#`) from what ran in this process (`=`).
pub(crate) struct Progress {
    events: Events,
    is_terminal: bool,
    count: Mutex<Count>,
}

#[derive(Default)]
struct Count {
    files: usize,
    replayed: usize,
    run: usize,
}

impl Progress {
    pub(crate) fn new(events: Events, is_terminal: bool) -> Self {
        Self { events, is_terminal, count: Mutex::default() }
    }

    fn show(&self, count: &Count) {
        let Count { files, replayed, run } = *count;
        let done = replayed + run;
        if self.is_terminal {
            let width = |part: usize| (part * WIDTH).checked_div(files).unwrap_or(WIDTH);
            let (old, all) = (width(replayed), width(done));
            let bar = ["#".repeat(old), "=".repeat(all - old), ".".repeat(WIDTH.saturating_sub(all))].concat();
            let end = if done == files { "\n" } else { "" };
            eprint!("\r[{bar}] {done} of {files} files: {replayed} replayed, {run} read{end}");
        } else if done == files || done.is_multiple_of(files.div_ceil(5)) {
            eprintln!("{done} of {files} files: {replayed} replayed, {run} read");
        }
    }
}

impl Observer for Progress {
    fn observe(&self, event: &Event<'_>) {
        let Event::Released { call, replayed, value, .. } = event else { return };
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        match (call.name, call.argument::<String>("path")) {
            ("list", _) => {
                let files = value.and_then(|value| value.decode::<Vec<String>>().ok());
                count.files = files.unwrap_or_default().len();
            }
            ("read", Some(_)) if *replayed => count.replayed += 1,
            ("read", Some(path)) => {
                count.run += 1;
                self.events.note("done", &path);
            }
            _ => return,
        }
        self.show(&count);
    }
}
