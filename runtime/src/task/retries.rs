//! Which failures are tried again, and when.

use std::{fmt, time::Duration};

use crate::{RetryPolicy, policy::random_share};

/// Whether a retry policy is for a failed output.
pub type Applies<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

/// The retry policies of a task or an entrypoint; the first one that is for a failure counts.
pub struct Retries<T>(Vec<Retry<T>>);

struct Retry<T> {
    policy: RetryPolicy,
    /// Whether it is for this output (which is a failure); `None`: for every failure.
    applies: Option<Applies<T>>,
}

impl<T> Retries<T> {
    /// No policy: nothing is tried again.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a policy, for the failures for which those before it are not.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy, applies: Option<Applies<T>>) -> Self {
        self.0.push(Retry { policy, applies });
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long to wait before the next attempt after this failed output; `None`: this one counts.
    pub(crate) fn next_pause(&self, output: &T, attempt: u32) -> Option<Duration> {
        let mut policies = self.0.iter();
        let policy = policies.find(|retry| retry.applies.as_ref().is_none_or(|applies| applies(output)))?.policy;
        policy.allows_after(attempt).then(|| policy.delay(attempt, random_share()))
    }
}

impl<T> Default for Retries<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Retries<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|retry| retry.policy)).finish()
    }
}
