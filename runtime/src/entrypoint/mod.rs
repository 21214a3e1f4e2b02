//! What an annotated entrypoint is to the runtime: a definition at the level of types, and a call that is a value.

mod call;
mod codec;
mod function;

pub(crate) use call::record_input;
pub use call::{EntrypointCall, continue_as_new};
pub use codec::{entrypoint_codec, entrypoint_plain_codec};
pub use function::EntrypointFn;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    checkpoint::BoxFuture,
    output::{ArgumentError, Journaled, OutputCodec},
    task::Retries,
    value::{Arguments, Payload, ValueError},
};

/// What `#[entrypoint]` says of a function.
#[derive(Clone, Copy, Debug)]
pub struct EntrypointSpec {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    pub(crate) max_concurrency: Option<u32>,
    /// How long a run may take.
    pub(crate) timeout: Option<std::time::Duration>,
    pub(crate) definition: crate::journal::Definition,
}

impl EntrypointSpec {
    /// An entrypoint of this name, defined here; its version is 1.
    #[must_use]
    pub const fn new(name: &'static str, module: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            name,
            version: 1,
            max_concurrency: None,
            timeout: None,
            definition: crate::journal::Definition { module, file, line },
        }
    }

    /// Limits how many bodies of a run's tasks are live at a time. Default: no limit.
    #[must_use]
    pub const fn max_concurrency(mut self, limit: u32) -> Self {
        self.max_concurrency = Some(limit);
        self
    }

    /// Limits each run. Default: no limit.
    #[must_use]
    pub const fn timeout(mut self, limit: std::time::Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the version that is recorded with each run.
    #[must_use]
    pub const fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }
}

/// An entrypoint as a type: written by `#[entrypoint]`, never by hand.
pub trait Definition: Send + Sync + 'static {
    /// Its recorded parameters, as a tuple.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// What awaiting a call gives.
    type Output: Send + 'static;
    /// What a completed run gives: for a `Result`, what stood in its `Ok`.
    type Value: Serialize + DeserializeOwned + Send + 'static;
    /// What it saves for the thread's next run: its value, unless it returns a [`Final`](crate::Final).
    type Save;
    /// Its name, version and place.
    const SPEC: EntrypointSpec;
    /// How its output is recorded.
    fn codec() -> OutputCodec<Self::Output>;
    /// Which of its failures are made good by running it again, and when. Default: none.
    #[must_use]
    fn retries() -> Retries<Self::Output> {
        Retries::new()
    }
    /// The parameters by name, for a nested call's identity and for people.
    ///
    /// # Errors
    ///
    /// [`ArgumentError`] if one cannot be recorded.
    fn arguments(input: &Self::Input) -> Result<Arguments, ArgumentError>;
    /// The user's body.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if the saved value is not of the type of the `#[previous]` parameter.
    fn run(input: Self::Input, previous: Previous) -> Result<BoxFuture<'static, Returned<Self::Output>>, ValueError>;
}

/// What the thread's last success saved, if there was one.
#[derive(Clone, Debug, Default)]
pub struct Previous(pub(crate) Option<Payload>);

impl Previous {
    /// The saved value as the type of the `#[previous]` parameter.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if it is of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<Option<T>, ValueError> {
        self.0.as_ref().map(Payload::decode).transpose()
    }
}

/// What a body returned: the output, and what to save for the next run if that is something else.
#[derive(Debug)]
pub struct Returned<O> {
    pub(crate) output: O,
    pub(crate) save: Option<Result<Payload, ValueError>>,
}

/// An entrypoint's result with a value to save for the thread's next run beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final<V, S> {
    /// What the caller gets.
    pub value: V,
    /// What the next run gets as its `#[previous]`.
    pub save: S,
}

impl<O> Returned<O> {
    /// The output is also what is saved.
    pub fn plain(output: O) -> Self {
        Self { output, save: None }
    }
}

impl<V> Returned<V> {
    /// Takes a [`Final`] apart.
    pub fn parted<S: Journaled>(returned: Final<V, S>) -> Self {
        Self { save: Some(Payload::encode(&returned.save)), output: returned.value }
    }
}

impl<V, E> Returned<Result<V, E>> {
    /// Takes a [`Final`] in an `Ok` apart.
    pub fn parted_result<S: Journaled>(returned: Result<Final<V, S>, E>) -> Self {
        match returned {
            Ok(Final { value, save }) => Self { save: Some(Payload::encode(&save)), output: Ok(value) },
            Err(error) => Self::plain(Err(error)),
        }
    }
}
