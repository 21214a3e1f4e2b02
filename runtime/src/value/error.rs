//! Why a value does not go into a record, or does not come back from it.

use std::fmt;

use super::fingerprint;
use super::json::tame;
use super::wire::Fault;

/// Why a value could not be recorded, or a record not be read as the type wanted.
///
/// Each variant carries the Rust type, and the path of the field where it is known: `items[3].price`, or `.` for the
/// value itself. What is within an untagged, internally tagged or flattened part is read by serde by way of a buffer, so
/// there the path ends at that part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// The value cannot be recorded.
    #[non_exhaustive]
    Unwritable {
        /// The type of the whole value.
        type_name: &'static str,
        /// The field that does not go.
        path: String,
        /// What its `Serialize` said.
        cause: String,
    },
    /// The record is sound, but is not a value of the type wanted.
    #[non_exhaustive]
    Unreadable {
        /// The type wanted.
        type_name: &'static str,
        /// The field that does not fit.
        path: String,
        /// What its `Deserialize` said.
        cause: String,
        /// Whether a type of another name wrote the record.
        retyped: bool,
    },
    /// The record's bytes are no value of any type.
    #[non_exhaustive]
    Damaged {
        /// The type wanted.
        type_name: &'static str,
        /// What is wrong with the bytes.
        cause: String,
    },
}

impl ValueError {
    /// A record that cannot be what is wanted, for a reason that is not serde's.
    pub(crate) fn unfit<T: ?Sized>(cause: String) -> Self {
        Self::Unreadable { type_name: std::any::type_name::<T>(), path: ".".to_owned(), cause, retyped: false }
    }

    pub(super) fn too_large<T: ?Sized>(bytes: usize, limit: usize) -> Self {
        let cause =
            format!("it takes {bytes} bytes, and a record has at most {limit}: keep it elsewhere, and record where");
        Self::Unwritable { type_name: std::any::type_name::<T>(), path: ".".to_owned(), cause }
    }

    pub(super) fn unwritable<T: ?Sized>(path: String, fault: &Fault) -> Self {
        Self::Unwritable { type_name: std::any::type_name::<T>(), path: known(&path), cause: said(fault) }
    }

    /// `written_by` is the fingerprint of the type that wrote the record, where it is known.
    pub(super) fn unreadable<T: ?Sized>(path: String, fault: &Fault, written_by: Option<u64>) -> Self {
        let retyped = written_by.is_some_and(|writer| writer != fingerprint::<T>());
        let path = known(&path);
        Self::Unreadable { type_name: std::any::type_name::<T>(), path, cause: said(fault), retyped }
    }

    pub(super) fn damaged<T: ?Sized>(fault: &Fault) -> Self {
        Self::Damaged { type_name: std::any::type_name::<T>(), cause: said(fault) }
    }

    /// The same, told to whoever gave an answer: there is no record yet that could have grown old.
    pub(crate) fn of_an_answer(&self) -> String {
        match self {
            Self::Unreadable { type_name, path, cause, .. } => {
                format!("the answer is not the `{type_name}` that was asked for{}: {cause}; answer again", At(path))
            }
            Self::Unwritable { .. } | Self::Damaged { .. } => self.to_string(),
        }
    }

    /// The Rust type that was to be written or read.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Unwritable { type_name, .. }
            | Self::Unreadable { type_name, .. }
            | Self::Damaged { type_name, .. } => type_name,
        }
    }

    /// The path of the field at fault; `None` if that is the value itself, or is not known.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Unwritable { path, .. } | Self::Unreadable { path, .. } if path != "." => Some(path),
            Self::Unwritable { .. } | Self::Unreadable { .. } | Self::Damaged { .. } => None,
        }
    }
}

/// The longest path and cause, in characters: both may quote the value, which may be a whole page.
const LIMIT: usize = 300;

/// The path as far as it is known, short and harmless too: keys of maps are in it.
fn known(path: &str) -> String {
    match path.trim_end_matches(".?") {
        "?" => ".".into(),
        path => tame(path, LIMIT),
    }
}

/// What serde said, short and harmless to a terminal.
fn said(fault: &Fault) -> String {
    tame(&fault.to_string(), LIMIT)
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwritable { type_name, path, cause } => {
                write!(f, "a value of type `{type_name}` cannot be recorded{}: {cause}", At(path))?;
                f.write_str("; give it a form that serde can write, or leave it out with `#[serde(skip)]`")
            }
            Self::Unreadable { type_name, path, cause, retyped } => {
                write!(f, "the record cannot be read as `{type_name}`{}: {cause}; ", At(path))?;
                f.write_str(if *retyped {
                    "it was written as another type: the type changed since. "
                } else {
                    "it was written by a type of that name: its fields changed since, or it does not read what it writes. "
                })?;
                f.write_str("let the type read the old form too (`#[serde(default)]` on a new field, ")?;
                f.write_str("`#[serde(alias = \"..\")]` on a renamed one), or start a new run")
            }
            Self::Damaged { type_name, cause } => {
                write!(
                    f,
                    "the record of a `{type_name}` is damaged: {cause}; restore the store from a copy, or start a new run"
                )
            }
        }
    }
}

impl std::error::Error for ValueError {}

/// The field, or nothing for the value itself.
struct At<'a>(&'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == "." { Ok(()) } else { write!(f, ", at `{}`", self.0) }
    }
}
