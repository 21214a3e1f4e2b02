//! Outputs to records and back.

use serde::{Serialize, de::DeserializeOwned};

use super::{
    Failure, Journaled, Recorded, TaskError, TaskErrorKind,
    probe::{Form, Messages, Origin},
};
use crate::value::{Payload, ValueError};

/// How one output type is recorded and read. Chosen by the macro at the user's type.
#[derive(Debug)]
pub struct OutputCodec<T> {
    /// Records an output.
    pub(crate) encode: fn(&T) -> Result<Recorded, ValueError>,
    /// Reads one back, live as on replay; the name is the task's.
    pub(crate) decode: fn(&Recorded, &str) -> Result<T, ValueError>,
    /// Makes an output of a failure that the body did not return itself (a timeout), where the type can hold one.
    pub(crate) from_error: Option<fn(TaskError) -> T>,
}

impl<T> Clone for OutputCodec<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for OutputCodec<T> {}

/// For an output that is no `Result`.
#[must_use]
pub fn plain_codec<T>() -> OutputCodec<T>
where
    T: Journaled,
{
    plain()
}

/// For a `Result`, with what the probes found out about its error.
#[must_use]
pub fn result_codec<A, E, M, O, F>(_: M, _: O, _: F) -> OutputCodec<Result<A, E>>
where
    A: Journaled,
    M: Messages<E>,
    O: Origin<E>,
    F: Form<E>,
{
    result::<A, E, M, O, F>()
}

/// For an output whose bounds were met where it was written.
pub(crate) fn plain<T: Serialize + DeserializeOwned>() -> OutputCodec<T> {
    OutputCodec {
        encode: |output| Payload::encode(output).map(Recorded::Value),
        decode: |recorded, task| match recorded {
            Recorded::Value(value) => value.decode(),
            Recorded::Failure(failure) => Err(ValueError::unfit::<T>(format!(
                "task `{task}` failed when it was recorded (\"{failure}\"), but its output is no longer a `Result`"
            ))),
        },
        from_error: None,
    }
}

/// For a `Result` whose bounds were met where it was written.
pub(crate) fn result<A, E, M, O, F>() -> OutputCodec<Result<A, E>>
where
    A: Serialize + DeserializeOwned,
    M: Messages<E>,
    O: Origin<E>,
    F: Form<E>,
{
    OutputCodec {
        encode: |output| match output {
            Ok(value) => Payload::encode(value).map(Recorded::Value),
            Err(error) => record::<E, M, F>(error).map(Recorded::Failure),
        },
        decode: |recorded, task| match recorded {
            Recorded::Value(value) => value.decode().map(Ok),
            Recorded::Failure(failure) => read::<E, O, F>(failure, task).map(Err),
        },
        from_error: O::MAKE.is_some().then_some(|error| Err(O::make(error))),
    }
}

fn record<E, M: Messages<E>, F: Form<E>>(error: &E) -> Result<Failure, ValueError> {
    Ok(Failure { typed: F::encode(error).transpose()?, kind: TaskErrorKind::Failed, chain: M::of(error) })
}

/// The error as it was recorded, if it was and its type still can; else made from the messages.
fn read<E, O: Origin<E>, F: Form<E>>(failure: &Failure, task: &str) -> Result<E, ValueError> {
    if let Some(typed) = &failure.typed
        && let Some(error) = F::decode(typed)
    {
        return error;
    }
    match O::MAKE {
        Some(make) => Ok(make(failure.to_task_error(task))),
        None => Err(ValueError::unfit::<E>(format!(
            "the error of task `{task}` (\"{failure}\") was recorded as messages only, and its type can no longer be \
             made from them: give `{}` a `From<durably::TaskError>`",
            std::any::type_name::<E>()
        ))),
    }
}
