//! A call's arguments as they are gathered, and which one could not be recorded.

use std::{error::Error, fmt};

use super::TaskArgument;
use crate::value::{Arguments, ValueError};

/// Gathers a call's arguments; keeps the first error for the runtime to report.
#[derive(Debug)]
#[must_use]
pub struct ArgumentsBuilder(Result<Arguments, ArgumentError>);

/// An argument that could not be recorded.
#[derive(Clone, Debug)]
pub struct ArgumentError {
    /// The parameter's name.
    pub(crate) parameter: &'static str,
    /// What was wrong with its value.
    pub(crate) error: ValueError,
}

impl ArgumentsBuilder {
    /// No arguments yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(Ok(Arguments::new()))
    }

    /// Adds one.
    pub fn push<T>(mut self, name: &'static str, value: &T) -> Self
    where
        T: TaskArgument + ?Sized,
    {
        if let Ok(arguments) = &mut self.0
            && let Err(error) = arguments.push(name, value)
        {
            self.0 = Err(ArgumentError { parameter: name, error });
        }
        self
    }

    /// All of them, or the first that could not be recorded.
    ///
    /// # Errors
    ///
    /// [`ArgumentError`] with the parameter's name.
    pub fn finish(self) -> Result<Arguments, ArgumentError> {
        self.0
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the argument `{}` cannot be recorded: {}", self.parameter, self.error)
    }
}

impl Error for ArgumentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
