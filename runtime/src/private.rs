//! What expansions of the macros name, and nobody else. Not part of the public API.
#![allow(missing_docs)]

pub use std::{
    boxed::Box,
    file, format, line, module_path,
    option::Option::{self, None, Some},
    result::Result::{self, Err, Ok},
    time::Duration,
};

pub use tokio;

pub use crate::{
    checkpoint::BoxFuture,
    entrypoint::{
        Definition, EntrypointCall, EntrypointSpec, Previous, Returned, entrypoint_codec, entrypoint_plain_codec,
    },
    output::{
        ArgumentError, ArgumentsBuilder, Journaled, OutputCodec, ResultType, RetriedArgument, TaskArgument,
        TaskFailure, TimeoutFailure, plain_codec, probe, result_codec,
    },
    policy::{CachePolicy, RetryPolicy},
    task::{Applies, Body, Reconciling, Retries, TaskCall, TaskSpec, call, in_run, reconciling},
    value::{Arguments, ValueError},
};

/// The value behind `key = ".."`, which stands for all arguments.
pub fn key(key: &str) -> Result<Arguments, ArgumentError> {
    ArgumentsBuilder::new().push("key", key).finish()
}

/// An argument for one more attempt.
pub fn again<T: RetriedArgument>(argument: &T) -> T {
    argument.clone()
}

/// A job for the blocking pool that is done once: it may use up its arguments.
pub fn only<J>(job: J) -> impl FnMut() -> J {
    let mut job = Some(job);
    move || job.take().expect("a task without `retry` has one attempt")
}

/// `retry_on = path` as a question about the whole output.
pub fn retry_on<R>(applies: impl Fn(&R::Error) -> bool + Send + Sync + 'static) -> Option<Applies<R>>
where
    R: ResultType,
{
    Some(Box::new(move |output| output.error().is_some_and(&applies)))
}

/// The saved value of the last run, as the type in `#[previous] name: Option<T>`.
///
/// # Errors
///
/// [`ValueError`] if it is of another type.
pub fn previous<T>(previous: &Previous) -> Result<Option<T>, ValueError>
where
    T: Journaled,
{
    previous.decode()
}
