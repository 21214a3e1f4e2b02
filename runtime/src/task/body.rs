//! The body of a task, made only if it has to run.

use std::{fmt, future::Future, pin::Pin};

use super::{
    Applies, Retries,
    once::{Once, Reconciling},
};
use crate::{CachePolicy, RetryPolicy, output::Journaled};

type Pinned<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Job<T> = Box<dyn FnOnce() -> T + Send + 'static>;

/// What runs when a call has no record.
pub struct Body<'a, T> {
    pub(crate) form: Form<'a, T>,
    pub(crate) retries: Retries<T>,
    pub(crate) cache: Option<CachePolicy>,
    pub(crate) once: Option<Once<'a>>,
}

/// How a body runs.
pub(crate) enum Form<'a, T> {
    /// One attempt, polled in place; taken when it starts.
    Once(Option<Pinned<'a, T>>),
    /// An attempt each time it is called, polled in place.
    Again(Box<dyn FnMut() -> Pinned<'a, T> + Send + 'a>),
    /// A synchronous function, one attempt each time it is called, on the blocking pool.
    Blocking(Box<dyn FnMut() -> Job<T> + Send + 'a>),
}

impl<'a, T> Body<'a, T> {
    /// A body for a single attempt.
    pub fn once(body: impl Future<Output = T> + Send + 'a) -> Self {
        Self { form: Form::Once(Some(Box::pin(body))), retries: Retries::new(), cache: None, once: None }
    }

    /// A body that can be run again.
    pub fn again<F: Future<Output = T> + Send + 'a>(mut body: impl FnMut() -> F + Send + 'a) -> Self {
        Self { form: Form::Again(Box::new(move || Box::pin(body()))), retries: Retries::new(), cache: None, once: None }
    }

    /// A synchronous body; `job` makes one attempt's work.
    pub fn blocking<J: FnOnce() -> T + Send + 'static>(mut job: impl FnMut() -> J + Send + 'a) -> Self {
        Self {
            form: Form::Blocking(Box::new(move || Box::new(job()))),
            retries: Retries::new(),
            cache: None,
            once: None,
        }
    }

    /// The body on its own, once: for unit tests.
    pub(crate) async fn alone(self) -> T {
        match self.form {
            Form::Once(Some(body)) => body.await,
            Form::Once(None) => unreachable!("a body is taken only in a run"),
            Form::Again(mut make) => make().await,
            Form::Blocking(mut make) => make()(),
        }
    }

    /// Adds a retry policy; the first one that applies to a failure counts.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy, applies: Option<Applies<T>>) -> Self {
        self.retries = self.retries.retry(policy, applies);
        self
    }

    /// Lets it begin again only once it is known that it had no effect before. `T` is what the task gives.
    #[must_use]
    pub fn at_most_once<V: Journaled>(mut self) -> Self {
        self.once = Some(Once::new::<V>());
        self
    }

    /// Finds out so what became of it.
    #[must_use]
    pub fn reconcile(mut self, ask: impl FnMut() -> Reconciling<'a> + Send + 'a) -> Self {
        if let Some(once) = &mut self.once {
            once.reconcile = Some(Box::new(ask));
        }
        self
    }

    /// Has equal calls share its value.
    #[must_use]
    pub fn cache(mut self, policy: CachePolicy) -> Self {
        self.cache = Some(policy);
        self
    }
}

impl<T> fmt::Debug for Body<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}
