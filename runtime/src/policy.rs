//! When and how a failed attempt is made again, and how long a value is shared. Pure: no clock, no randomness; both come
//! in as arguments.

use std::time::Duration;

/// How a task's failed attempts are made again. The names and defaults are LangGraph's.
///
/// ```
/// use std::time::Duration;
/// use durably::RetryPolicy;
///
/// let policy = RetryPolicy::new().max_attempts(5).initial_interval(Duration::from_millis(200)).jitter(false);
/// assert_eq!(policy.delay(1, 0.5), Duration::from_millis(200));
/// assert_eq!(policy.delay(2, 0.5), Duration::from_millis(400));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct RetryPolicy {
    initial_interval: Duration,
    backoff_factor: f64,
    max_interval: Duration,
    max_attempts: u32,
    jitter: bool,
}

impl RetryPolicy {
    /// First pause 0.5 s, each next one twice as long, at most 128 s; 3 attempts; with jitter.
    pub const fn new() -> Self {
        Self {
            initial_interval: Duration::from_millis(500),
            backoff_factor: 2.0,
            max_interval: Duration::from_secs(128),
            max_attempts: 3,
            jitter: true,
        }
    }

    /// The pause after the first failed attempt. Default: 0.5 s.
    pub const fn initial_interval(mut self, pause: Duration) -> Self {
        self.initial_interval = pause;
        self
    }

    /// By how much each pause is longer than the one before. Default: 2. Less than 1 counts as 1.
    pub const fn backoff_factor(mut self, factor: f64) -> Self {
        self.backoff_factor = if factor >= 1.0 { factor } else { 1.0 };
        self
    }

    /// The longest pause. Default: 128 s.
    pub const fn max_interval(mut self, pause: Duration) -> Self {
        self.max_interval = pause;
        self
    }

    /// How many attempts there are in all, the first one included. Default: 3. 0 counts as 1.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Whether each pause is drawn between a half and the whole of what it would be, so that many failures at once do
    /// not come back at once. Default: yes.
    pub const fn jitter(mut self, jitter: bool) -> Self {
        self.jitter = jitter;
        self
    }

    /// Whether there is another attempt after this many.
    #[must_use]
    pub const fn allows_after(&self, attempts: u32) -> bool {
        attempts < self.max_attempts
    }

    /// The pause after the `attempt`-th failed attempt (from 1), given a random number from 0 to 1.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.max_interval.as_secs_f64();
        // A power that overflows is infinite, and its minimum with the longest pause is that.
        let seconds = (self.initial_interval.as_secs_f64() * self.backoff_factor.powi(exponent)).min(longest);
        let share = if self.jitter { 0.5 + random.clamp(0.0, 1.0) / 2.0 } else { 1.0 };
        Duration::try_from_secs_f64(seconds * share).unwrap_or(self.max_interval)
    }
}

/// How long, and under which key, equal calls of a task share its value. The name is LangGraph's.
///
/// ```
/// use std::time::Duration;
/// use durably::{CachePolicy, entrypoint, task};
///
/// #[task]
/// async fn rate(currency: &str) -> u32 { 107 }
///
/// #[entrypoint]
/// async fn price(cents: u32) -> u32 {
///     cents * rate("EUR").cache(CachePolicy::new().ttl(Duration::from_secs(3600))).await / 100
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct CachePolicy {
    pub(crate) ttl: Option<Duration>,
    pub(crate) key: Option<String>,
    pub(crate) version: u32,
}

impl CachePolicy {
    /// A value is kept until it is cleared, under what the call is known by: its arguments, or the task's `key`.
    pub const fn new() -> Self {
        Self { ttl: None, key: None, version: 0 }
    }

    /// How long a value counts from when it was made. Default: until it is cleared.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What the value is kept under, in the place of what the call is known by. Default: its arguments.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The version of the task's values; those of another version are not used. Default: 0.
    pub const fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }
}

/// A random number from 0 to 1, for jitter: std's hasher keys are random, and differ each time.
pub(crate) fn random_share() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0_u8);
    f64::from(u32::try_from(bits >> 32).expect("32 bits are left")) / f64::from(u32::MAX)
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}
