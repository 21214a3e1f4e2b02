//! The two types in a `Result`, whatever alias it was written through.

/// `std::result::Result`, for the macros: `anyhow::Result<T>` names only one of its types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is named `Result`, but is not `std::result::Result`",
    label = "not a `std::result::Result`",
    note = "an output is taken for a `Result` by its name: give this type, or an alias of it, another name"
)]
pub trait ResultType {
    /// What stands in an `Ok`.
    type Value;
    /// What stands in an `Err`.
    type Error;
    /// The error, if it is an `Err`.
    fn error(&self) -> Option<&Self::Error>;
}

impl<A, E> ResultType for Result<A, E> {
    type Value = A;
    type Error = E;
    fn error(&self) -> Option<&E> {
        self.as_ref().err()
    }
}
