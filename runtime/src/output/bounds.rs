//! What the macros ask of a user's types, each with the words of its refusal.
//!
//! All are met by a blanket impl that the compiler is told not to look into: what a user reads is our sentence at their
//! type, once, and not two serde bounds. The bounds stand on short lines, because the compiler quotes them.

use serde::{Serialize, de::DeserializeOwned};

/// A value that is recorded and read again: an output, an input, what a run saves for the next.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be journaled",
    label = "not serialisable",
    note = "what a task or an entrypoint returns or takes up again is recorded and read back: it needs `Serialize + DeserializeOwned + Send`",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it, and let it own its data (`String`, not `&str`)"
)]
pub trait Journaled: Serialize + DeserializeOwned + Send {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send> Journaled for T {}

/// An argument that is part of a call's identity.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a task call's identity",
    label = "not serialisable",
    note = "a task call is known by its arguments: each needs `serde::Serialize`",
    note = "derive it, or leave the argument out of the identity with `#[task(skip(..))]`"
)]
pub trait TaskArgument: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> TaskArgument for T {}

/// An argument that each attempt takes anew.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is needed again for each attempt, but is not `Clone`",
    label = "not `Clone`",
    note = "a retried task clones its arguments for each attempt: derive `Clone`, or take it by reference"
)]
pub trait RetriedArgument: Clone {}

#[diagnostic::do_not_recommend]
impl<T: Clone> RetriedArgument for T {}

/// Never implemented: asked of an error that can be recorded neither as a value nor as messages.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be recorded as a failure",
    label = "neither serialisable nor made from a `TaskError`",
    note = "either derive `serde::Serialize` and `serde::Deserialize` for it: it is then recorded as it is",
    note = "or give it `Display` and `From<durably::TaskError>` (with thiserror: a variant with `#[from] TaskError`): \
            its messages are then recorded"
)]
pub trait TaskFailure {}

/// Never implemented: asked of an error that cannot say that an attempt timed out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold a timeout",
    label = "the error has no `From<durably::TaskError>`",
    note = "an attempt over its limit ends as an `Err` made from a `TaskError`: implement `From<durably::TaskError>` \
            for `{Self}` (with thiserror: a variant with `#[from] TaskError`)"
)]
pub trait TimeoutFailure {}
