//! What the tests of behaviours see of a run from outside: its events in order, a clock set by hand, a cut in mid-run.

use std::{
    future::IntoFuture,
    pin::pin,
    sync::{Arc, Mutex},
};

use durably::{Event, Observer, Recall};

/// Keeps the events of all runs, each as a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Mutex<Vec<String>>>);

impl Watch {
    /// All lines since this was last asked.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// What was handed to the code for the first time, and how runs stopped, since this was last asked: `name value`.
    pub(crate) fn updates(&self) -> Vec<String> {
        let keep = |line: String| {
            let update = line.strip_prefix("released ").filter(|line| !line.ends_with("(failed)"));
            update.or_else(|| line.strip_prefix("stopped ")).map(str::to_owned)
        };
        self.take().into_iter().filter_map(keep).collect()
    }
}

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        let line = match event {
            Event::RunStarted { run, resumed: false } => format!("began {} {}", run.entrypoint, run.run),
            Event::RunStarted { run, .. } => format!("resumed {} {}", run.entrypoint, run.run),
            Event::Started { call, attempt } => format!("started {} {attempt}", call.name),
            Event::Recorded { call } => format!("recorded {}", call.name),
            Event::Released { call, replayed: false, value } => format!("released {} {}", call.name, text(*value)),
            Event::Released { call, value, .. } => format!("replayed {} {}", call.name, text(*value)),
            Event::Retried { call, attempt, error, .. } => format!("retried {} {attempt} {error}", call.name),
            Event::Cached { call } => format!("cached {}", call.name),
            Event::CacheFailed { call, reason } => format!("cache failed {} {reason}", call.name),
            Event::Overdue { call, attempt, .. } => format!("overdue {} {attempt}", call.name),
            Event::Refused { call, attempt } => format!("refused {} {attempt}", call.name),
            Event::RunRetried { run, attempt, error, .. } => format!("again {} {attempt} {error}", run.entrypoint),
            Event::RunStopped { run, how } => format!("stopped {} {how}", run.entrypoint),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

/// A recorded value as text, if it is of one of the types that the tests use.
fn text(value: Option<Recall<'_>>) -> String {
    let Some(value) = value else { return "(failed)".to_owned() };
    let number = || value.decode::<u64>().map(|number| number.to_string());
    let truth = || value.decode::<bool>().map(|truth| truth.to_string());
    value.decode::<String>().or_else(|_| number()).or_else(|_| truth()).unwrap_or_else(|_| "(value)".to_owned())
}

/// Drives until something happens in the run, then drops the drive, as a crash would.
pub(crate) async fn cut<R: IntoFuture<Output: std::fmt::Debug>>(drive: R, when: impl Future<Output = ()>) {
    let mut drive = pin!(drive.into_future());
    tokio::select! {
        biased;
        outcome = &mut drive => panic!("the run was to be cut off before it came to {outcome:?}"),
        () = when => {}
    }
}
