//! A task's failure, as messages.

use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// How a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TaskErrorKind {
    /// Its body returned an error.
    Failed,
    /// An attempt took longer than the task's `timeout`.
    TimedOut {
        /// The limit, in milliseconds.
        limit_ms: u64,
        /// How long the attempt took, in milliseconds, not counting what it waited for the outside.
        elapsed_ms: u64,
    },
    /// An attempt gave no sign of life for longer than the task's `idle_timeout`.
    Silent {
        /// The limit, in milliseconds.
        limit_ms: u64,
        /// How long the attempt took in all, in milliseconds, not counting what it waited for the outside.
        elapsed_ms: u64,
    },
}

/// A task's failure as the entrypoint sees it when the error's own type cannot be recorded: its messages.
///
/// Its `Display` is the outermost message, its [`source`](Error::source)s are the causes', so that `anyhow` and `eyre`
/// print it as they would have printed the original. A `thiserror` enum takes it in with `#[from] TaskError`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    task: String,
    kind: TaskErrorKind,
    error: Message,
}

/// One message, and what caused it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Message {
    text: String,
    cause: Option<Box<Message>>,
}

impl TaskError {
    /// A failure of the task of this name, with the messages from the outermost to the root cause.
    pub(crate) fn new(task: &str, kind: TaskErrorKind, chain: Vec<String>) -> Self {
        let innermost_first = chain.into_iter().rev();
        let message = innermost_first.fold(None, |cause, text| Some(Message { text, cause: cause.map(Box::new) }));
        let error = message.unwrap_or_else(|| Message { text: "an error without a message".to_owned(), cause: None });
        Self { task: task.to_owned(), kind, error }
    }

    /// The failure of an attempt that took longer than its task allows.
    pub(crate) fn timed_out(task: &str, limit: Duration, elapsed: Duration) -> Self {
        let kind = TaskErrorKind::TimedOut { limit_ms: millis(limit), elapsed_ms: millis(elapsed) };
        Self::new(task, kind, vec![format!("task `{task}` took longer than its timeout of {limit:?}")])
    }

    /// The failure of an attempt that gave no sign of life for longer than its task allows.
    pub(crate) fn silent(task: &str, limit: Duration, elapsed: Duration) -> Self {
        let kind = TaskErrorKind::Silent { limit_ms: millis(limit), elapsed_ms: millis(elapsed) };
        Self::new(task, kind, vec![format!("task `{task}` gave no sign of life for its idle timeout of {limit:?}")])
    }

    /// The name of the task that failed.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// How it failed.
    #[must_use]
    pub fn kind(&self) -> &TaskErrorKind {
        &self.kind
    }

    /// Whether an attempt took longer than the task's `timeout`, or was silent for longer than its `idle_timeout`.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind, TaskErrorKind::TimedOut { .. } | TaskErrorKind::Silent { .. })
    }

    /// How long an attempt took that was ended by a limit; `None` for any other failure.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        match self.kind {
            TaskErrorKind::Failed => None,
            TaskErrorKind::TimedOut { elapsed_ms, .. } | TaskErrorKind::Silent { elapsed_ms, .. } => {
                Some(Duration::from_millis(elapsed_ms))
            }
        }
    }

    /// The error's message and those of its causes, outermost first.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&self.error), |message| message.cause.as_deref()).map(|message| &*message.text)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.text)
    }
}

#[expect(clippy::missing_fields_in_debug, reason = "the messages are those of `error`")]
impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<&str> = self.messages().collect();
        f.debug_struct("TaskError")
            .field("task", &self.task)
            .field("kind", &self.kind)
            .field("messages", &messages)
            .finish()
    }
}

impl Error for TaskError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// As the text alone: it is what `anyhow` and `eyre` show of a cause in some of their forms.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl Error for Message {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_come_back_as_sources() {
        let error =
            TaskError::new("fetch", TaskErrorKind::Failed, vec!["no page".into(), "timed out".into(), "dns".into()]);
        assert_eq!(error.to_string(), "no page");
        let cause = error.source().expect("it has a cause");
        assert_eq!(cause.to_string(), "timed out");
        assert_eq!(cause.source().expect("so has the cause").to_string(), "dns");
        assert_eq!(error.messages().collect::<Vec<_>>(), ["no page", "timed out", "dns"]);
    }

    #[test]
    fn anyhow_prints_it_as_the_original() {
        let error = TaskError::new("fetch", TaskErrorKind::Failed, vec!["no page".into(), "timed out".into()]);
        let original = anyhow::anyhow!("timed out").context("no page");
        let handed_on = anyhow::Error::from(error);
        assert_eq!(format!("{handed_on:#}"), format!("{original:#}"));
        let causes = |error: &anyhow::Error| format!("{error:?}").split("\n\nStack").next().map(str::to_owned);
        assert_eq!(causes(&handed_on), causes(&original));
    }
}
