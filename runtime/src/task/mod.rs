//! What a user awaits when a task is called.

mod body;
mod cached;
mod context;
mod limits;
mod once;
mod retries;
mod spec;
mod work;

use std::{
    fmt,
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll},
};

pub use body::Body;
pub use context::{attempt, idempotency_key};
pub use limits::heartbeat;
pub use once::{Reconciled, Reconciles, Reconciling, reconciling};
pub use retries::{Applies, Retries};
pub use spec::TaskSpec;

use crate::{
    CachePolicy, RunError,
    call::{Claim, Claimed},
    journal::CallKind,
    output::{ArgumentError, OutputCodec},
    scope::Ambient,
    value::Arguments,
};

/// A call of a task: what its function returns. Await it in an entrypoint or in another task.
///
/// The call's identity was claimed when the function was called; what is done with this value decides when its body
/// runs, and whether here or on the pool. Dropping it ends the body.
///
/// ```
/// use durably::task;
///
/// #[task]
/// async fn double(n: u32) -> u32 {
///     n * 2
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert_eq!(double(21).bare().await, 42); // the plain body, in a unit test
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a task runs only when its call is awaited"]
pub struct TaskCall<'a, T>(State<'a, T>);

enum State<'a, T> {
    /// In a run.
    Claimed(Claimed<'a, T>),
    /// Outside of every run.
    Outside { task: &'static str, body: Body<'a, T> },
    /// In a run that is stopped by this very call.
    Stopped,
}

/// Makes the call: claims its identity in the current run, if there is one. Called by the expansion of `#[task]`.
#[track_caller]
pub fn call<'a, T, B>(
    spec: &'static TaskSpec,
    arguments: Option<Result<Arguments, ArgumentError>>,
    codec: OutputCodec<T>,
    body: B,
) -> TaskCall<'a, T>
where
    T: Send + 'static,
    B: FnOnce() -> Body<'a, T>,
{
    let Some(ambient) = Ambient::current() else {
        return TaskCall(State::Outside { task: spec.name, body: body() });
    };
    let arguments = match arguments {
        Some(Ok(arguments)) => arguments,
        Some(Err(error)) => {
            let what = format!("task {:?}, argument {:?}", spec.name, error.parameter);
            ambient.run.fail(RunError::Value { what, source: error.error });
            return TaskCall(State::Stopped);
        }
        // The macro asked before the run was entered; there is no such code.
        None => Arguments::new(),
    };
    let claim = Claim {
        kind: CallKind::Task,
        name: spec.name.into(),
        definition: Some(&spec.definition),
        arguments,
        location: Location::caller(),
    };
    let claimed = Claimed::new(&ambient, claim, codec.decode, |run, slot| {
        Some(Box::pin(work::attempts(run.clone(), slot, spec, codec, body())))
    });
    TaskCall(claimed.map_or(State::Stopped, State::Claimed))
}

/// Whether the running code stands in a run, so that arguments are wanted.
#[must_use]
pub fn in_run() -> bool {
    Ambient::is_set()
}

impl<T: Send + 'static> TaskCall<'_, T> {
    /// The plain body, without a run: for unit tests of the task alone. Nothing is recorded, retried or timed out.
    ///
    /// # Panics
    ///
    /// When awaited in a run: there the call itself is to be awaited.
    pub async fn bare(self) -> T {
        match self.0 {
            State::Outside { body, .. } => body.alone().await,
            State::Claimed(_) | State::Stopped => {
                panic!("`.bare()` was used in a run: await the call itself, so that it is recorded")
            }
        }
    }
}

impl<T> TaskCall<'_, T> {
    /// Shares the call's value with equal calls, as `#[task(cache(..))]` does, and in its place if both are there. To be
    /// said before the call is first awaited; nothing outside of a run.
    pub fn cache(self, policy: CachePolicy) -> Self {
        if let State::Claimed(claimed) = &self.0 {
            claimed.share(policy);
        }
        self
    }
}

impl<T: Send + 'static> TaskCall<'static, T> {
    /// Runs the body on the tokio pool, in parallel with others. It starts when the call is first polled, and is ended
    /// when the call is dropped, unless it is [`detached`](Self::detached).
    pub fn spawn(mut self) -> Self {
        if let State::Claimed(claimed) = &mut self.0 {
            claimed.spawn();
        }
        self
    }

    /// As [`spawn`](Self::spawn), and the body goes on when the call is dropped: the run ends only when it has ended, and
    /// its outcome is recorded.
    pub fn detached(self) -> Self {
        let mut spawned = self.spawn();
        if let State::Claimed(claimed) = &mut spawned.0 {
            claimed.detach();
        }
        spawned
    }
}

impl<T> Future for TaskCall<'_, T> {
    type Output = T;

    /// # Panics
    ///
    /// Outside of a run: a task's outcome would be recorded nowhere.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.get_mut().0 {
            State::Claimed(claimed) => Pin::new(claimed).poll(cx),
            State::Stopped => Poll::Pending,
            State::Outside { task, .. } => panic!(
                "task `{task}` was awaited outside of a run, so that its outcome would be recorded nowhere: call it from an \
                 #[entrypoint] (not from something that it spawns), or await `.bare()` for the plain body"
            ),
        }
    }
}

impl<T> fmt::Debug for TaskCall<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCall").finish_non_exhaustive()
    }
}
