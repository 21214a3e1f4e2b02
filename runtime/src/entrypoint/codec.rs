//! How an entrypoint's output is recorded: as a task's, its bounds met in the definition.

use super::Definition;
use crate::output::{
    OutputCodec, plain,
    probe::{Form, Messages, Origin},
    result_of,
};

/// For an entrypoint's output that is no `Result`; its definition says already that it can be recorded.
#[must_use]
pub fn entrypoint_plain_codec<D>() -> OutputCodec<D::Value>
where
    D: Definition<Output = <D as Definition>::Value>,
{
    plain()
}

/// For an entrypoint's `Result`; its definition says already that the value in it can be recorded.
#[must_use]
pub fn entrypoint_codec<D, E, M, O, F>(_: M, _: O, _: F) -> OutputCodec<D::Output>
where
    D: Definition<Output = Result<<D as Definition>::Value, E>>,
    M: Messages<E>,
    O: Origin<E>,
    F: Form<E>,
{
    result_of::<D::Value, E, M, O, F>()
}
