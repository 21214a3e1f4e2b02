//! The command line.

use std::{ffi::OsString, path::PathBuf, str::FromStr, time::Duration};

pub(crate) const HELP: &str = "\
Reads a folder of text (*.rs, *.md, *.toml, *.txt), one durable task a file, and reports on it.
Kill it at any moment, and run the same command again: it goes on where it was.

corpus [FOLDER] [OPTIONS]

  FOLDER           what to read (default: the current folder); target, .git and the state folder are left out
  --state DIR      where the journal is kept (default: .durably)
  --report FILE    where the report goes (default: standard output)
  --parallel N     how many files are read at a time (default: 4)
  --fresh          begin anew, also if this folder's job is finished or was cut off
  --events FILE    append `run PATH` when a file is being read, `done PATH` when that can no longer be lost
  --pause-ms N     spend this much longer on each file, to have the time to kill it
  --help           show this

Exit status: 0 done, 1 the job failed, 2 the command line is not understood.
";

/// What the command line asks for.
pub(crate) enum Asked {
    Help,
    Job(Options),
}

pub(crate) struct Options {
    pub(crate) folder: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) report: Option<PathBuf>,
    pub(crate) events: Option<PathBuf>,
    pub(crate) parallel: usize,
    pub(crate) pause: Duration,
    pub(crate) fresh: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Asked, String> {
        let mut folder = None;
        let mut options = Self {
            folder: PathBuf::from("."),
            state: PathBuf::from(".durably"),
            report: None,
            events: None,
            parallel: 4,
            pause: Duration::ZERO,
            fresh: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value =
                |name: &str| arguments.next().ok_or_else(|| format!("{name} is the last word, but needs a value"));
            match argument.to_str() {
                Some("--help" | "-h") => return Ok(Asked::Help),
                Some("--fresh") => options.fresh = true,
                Some(name @ "--state") => options.state = value(name)?.into(),
                Some(name @ "--report") => options.report = Some(value(name)?.into()),
                Some(name @ "--events") => options.events = Some(value(name)?.into()),
                Some(name @ "--pause-ms") => options.pause = Duration::from_millis(number(name, value(name)?)?),
                Some(name @ "--parallel") => options.parallel = number(name, value(name)?)?,
                Some(name) if name.starts_with('-') => return Err(format!("there is no option {name}")),
                Some(_) | None if folder.is_none() => folder = Some(PathBuf::from(argument)),
                Some(_) | None => {
                    return Err(format!("one folder at a time, but there is a second one: {}", argument.display()));
                }
            }
        }
        if options.parallel == 0 {
            return Err("--parallel needs at least 1".to_owned());
        }
        Ok(Asked::Job(Self { folder: folder.unwrap_or(options.folder), ..options }))
    }
}

fn number<T: FromStr>(name: &str, value: OsString) -> Result<T, String> {
    let text = value.to_string_lossy();
    text.parse().map_err(|_| format!("{name} needs a whole number, not {text:?}"))
}
