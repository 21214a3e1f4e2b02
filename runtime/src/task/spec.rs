//! What is known of a task when it is defined.

use std::time::Duration;

/// What `#[task]` says of a function; a `static` beside each.
#[derive(Debug)]
pub struct TaskSpec {
    /// Its name in journals.
    pub(crate) name: &'static str,
    /// The module it is defined in, to tell two definitions of one name apart.
    pub(crate) module: &'static str,
    /// The source file of its definition.
    pub(crate) file: &'static str,
    /// The line of its definition.
    pub(crate) line: u32,
    /// How long one attempt may take.
    pub(crate) timeout: Option<Duration>,
}

impl TaskSpec {
    /// A task of this name, defined here.
    #[must_use]
    pub const fn new(name: &'static str, module: &'static str, file: &'static str, line: u32) -> Self {
        Self { name, module, file, line, timeout: None }
    }

    /// Limits each attempt. Default: no limit.
    #[must_use]
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
}
