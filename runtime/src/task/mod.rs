//! What a user awaits when a task is called.

mod body;
mod spec;

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

pub use body::{Body, Retry};
pub use spec::TaskSpec;

use crate::{
    output::{ArgumentError, OutputCodec},
    value::Arguments,
};

/// A call of a task: what its function returns. Await it in an entrypoint or in another task.
#[must_use = "a task runs only when its call is awaited"]
pub struct TaskCall<'a, T> {
    stub: PhantomData<fn() -> &'a T>,
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
    T: Send + 'a,
    B: FnOnce() -> Body<'a, T>,
{
    let _ = (spec, arguments, codec, body);
    unimplemented!()
}

/// Whether the current thread of execution is inside a run, so that arguments are wanted.
pub fn in_run() -> bool {
    unimplemented!()
}

impl<'a, T> TaskCall<'a, T> {
    /// The plain body, without a run: for unit tests.
    pub fn bare(self) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
        unimplemented!()
    }
}

impl<T> TaskCall<'static, T> {
    /// Runs the body on the tokio pool, in parallel with others.
    pub fn spawn(self) -> Self {
        self
    }
}

impl<T> Future for TaskCall<'_, T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        unimplemented!()
    }
}
