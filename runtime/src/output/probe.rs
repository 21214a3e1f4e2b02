//! What an error's type can do, found out where the macro wrote the type.
//!
//! `(&&&Probe::<E>::new()).messages()` looks for a method on `&&&Probe`, then on `&&Probe`, and so on: the first trait
//! whose bounds `E` meets answers, with a marker. The markers are types, so that a codec can stay plain fn pointers.

use std::{error::Error, fmt::Display, marker::PhantomData, ops::Deref};

use serde::{Serialize, de::DeserializeOwned};

use super::{TaskError, TaskFailure, TimeoutFailure};
use crate::value::{Payload, ValueError};

/// Asks about `E`.
#[derive(Debug)]
pub struct Probe<E>(PhantomData<fn() -> E>);

impl<E> Clone for Probe<E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Probe<E> {}

impl<E> Probe<E> {
    /// Ask it.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Where an error's messages come from.
pub trait Messages<E> {
    /// The message and those of its causes.
    fn of(error: &E) -> Vec<String>;
}

/// Whether an error can be made from a [`TaskError`].
pub trait Origin<E> {
    /// Makes one, if so.
    const MAKE: Option<fn(TaskError) -> E>;

    /// Makes one; only to be called if [`Self::MAKE`] says that it can be.
    #[must_use]
    fn make(error: TaskError) -> E {
        let make = Self::MAKE.expect("only a codec whose `MAKE` is there names this");
        make(error)
    }
}

/// In which form an error is recorded.
pub trait Form<E> {
    /// The error as a value, if it is recorded as one.
    fn encode(error: &E) -> Option<Result<Payload, ValueError>>;
    /// Reads it back, if its type can be.
    fn decode(recorded: &Payload) -> Option<Result<E, ValueError>>;
}

/// It is an [`Error`]: its own message, then its sources'.
#[derive(Debug)]
pub struct Sources;
/// It points at an [`Error`], as `anyhow::Error`, `eyre::Report` and `Box<dyn Error + Send + Sync>` do.
#[derive(Debug)]
pub struct Reported;
/// It has one message.
#[derive(Debug)]
pub struct Displayed;
/// It has none.
#[derive(Debug)]
pub struct Silent;
/// It is `From<TaskError>`.
#[derive(Debug)]
pub struct Made;
/// It is not.
#[derive(Debug)]
pub struct NotMade;
/// It is recorded as a value.
#[derive(Debug)]
pub struct Typed;
/// It is recorded as its messages.
#[derive(Debug)]
pub struct Chain;

fn sources(error: &dyn Error) -> Vec<String> {
    let first = error.to_string();
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    std::iter::once(first).chain(causes).take(MOST_MESSAGES).collect()
}

/// An error whose sources go round in a circle must not fill the journal.
const MOST_MESSAGES: usize = 64;

impl<E: Error> Messages<E> for Sources {
    fn of(error: &E) -> Vec<String> {
        let first = error.to_string();
        let causes = error.source().map(sources).unwrap_or_default();
        std::iter::once(first).chain(causes).collect()
    }
}
impl<E: Deref<Target = dyn Error + Send + Sync>> Messages<E> for Reported {
    fn of(error: &E) -> Vec<String> {
        sources(&**error)
    }
}
impl<E: Display> Messages<E> for Displayed {
    fn of(error: &E) -> Vec<String> {
        vec![error.to_string()]
    }
}
impl<E> Messages<E> for Silent {
    fn of(_: &E) -> Vec<String> {
        Vec::new()
    }
}

impl<E: From<TaskError>> Origin<E> for Made {
    const MAKE: Option<fn(TaskError) -> E> = Some(E::from);
}
impl<E> Origin<E> for NotMade {
    const MAKE: Option<fn(TaskError) -> E> = None;
}

impl<E: Serialize + DeserializeOwned> Form<E> for Typed {
    fn encode(error: &E) -> Option<Result<Payload, ValueError>> {
        Some(Payload::encode(error))
    }
    fn decode(recorded: &Payload) -> Option<Result<E, ValueError>> {
        Some(recorded.decode())
    }
}
impl<E> Form<E> for Chain {
    fn encode(_: &E) -> Option<Result<Payload, ValueError>> {
        None
    }
    fn decode(_: &Payload) -> Option<Result<E, ValueError>> {
        None
    }
}

/// First choice for messages.
pub trait FromSources {
    /// Its marker.
    fn messages(&self) -> Sources {
        Sources
    }
}
impl<E: Error> FromSources for &&Probe<E> {}
/// Second choice for messages.
pub trait FromReported {
    /// Its marker.
    fn messages(&self) -> Reported {
        Reported
    }
}
impl<E: Deref<Target = dyn Error + Send + Sync>> FromReported for &Probe<E> {}
/// Third choice for messages.
pub trait FromDisplayed {
    /// Its marker.
    fn messages(&self) -> Displayed {
        Displayed
    }
}
impl<E: Display> FromDisplayed for Probe<E> {}
/// Last choice for messages.
pub trait FromNothing: Sized {
    /// Its marker.
    fn messages(self) -> Silent {
        Silent
    }
}
impl<E> FromNothing for Probe<E> {}

/// First choice for the origin.
pub trait FromTaskError {
    /// Its marker.
    fn origin(&self) -> Made {
        Made
    }
    /// The check behind `timeout`.
    fn timeout(&self) {}
}
impl<E: From<TaskError>> FromTaskError for &Probe<E> {}
/// Second choice for the origin.
pub trait FromNoTaskError<E> {
    /// Its marker.
    fn origin(&self) -> NotMade {
        NotMade
    }
    /// The check behind `timeout`.
    fn timeout(&self)
    where
        E: TimeoutFailure,
    {
    }
}
impl<E> FromNoTaskError<E> for Probe<E> {}

/// First choice for the form.
pub trait AsTyped {
    /// Its marker.
    fn form<T>(&self) -> Typed {
        Typed
    }
}
impl<E: Serialize + DeserializeOwned> AsTyped for &&Probe<E> {}
/// Second choice for the form.
pub trait AsChain {
    /// Its marker.
    fn form<T>(&self) -> Chain {
        Chain
    }
}
impl<E: Display + From<TaskError>> AsChain for &Probe<E> {}
/// No choice is left.
pub trait AsNothing {
    /// A refusal at the error's type.
    fn form<T>(&self) -> Chain
    where
        T: TaskFailure,
    {
        Chain
    }
}
impl<E> AsNothing for Probe<E> {}
