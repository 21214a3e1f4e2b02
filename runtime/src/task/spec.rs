//! What is known of a task when it is defined.

use std::time::Duration;

use crate::journal::Definition;

/// What `#[task]` says of a function; a `static` beside each.
#[derive(Debug)]
pub struct TaskSpec {
    /// Its name in journals.
    pub(crate) name: &'static str,
    /// Where it is defined, to tell two definitions of one name apart.
    pub(crate) definition: Definition,
    /// How long one attempt may take.
    pub(crate) timeout: Option<Duration>,
    /// How long one attempt may give no sign of life.
    pub(crate) idle_timeout: Option<Duration>,
}

impl TaskSpec {
    /// A task of this name, defined here.
    #[must_use]
    pub const fn new(name: &'static str, module: &'static str, file: &'static str, line: u32) -> Self {
        Self { name, definition: Definition { module, file, line }, timeout: None, idle_timeout: None }
    }

    /// Limits how long an attempt may go without a [`heartbeat`](crate::heartbeat). Default: no limit.
    #[must_use]
    pub const fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self
    }

    /// Limits each attempt. Default: no limit.
    #[must_use]
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
}
