//! Why something has no canonical form.

use std::fmt;

use super::{MAX_BYTES, MAX_DEPTH, MAX_INTEGER};

/// Something that the canonical form does not allow, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalError {
    /// Where in the value: field names and places in lists, such as `.lines[3].cents`. Empty for the whole.
    pub path: String,
    /// What it is.
    pub fault: CanonicalFault,
}

/// What the canonical form does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CanonicalFault {
    /// A number with a fraction or an exponent, or a float of any value.
    Float,
    /// An integer that not every reader of JSON takes for the same.
    IntegerRange,
    /// A key stands twice in a map.
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// Half of a UTF-16 surrogate pair, which is no character.
    LoneSurrogate {
        /// At which byte of the text.
        at: usize,
    },
    /// Lists and maps are nested too deep.
    TooDeep,
    /// The document is too large.
    TooLarge,
    /// A map's key is neither a text nor a variant's name.
    KeyNotText,
    /// A field is left out; every field has to be there, as `null` if need be.
    FieldSkipped {
        /// The field.
        name: &'static str,
    },
    /// `Some` of something that is written as `null`, and would come back as `None`.
    NestedNothing,
    /// The text is not the canonical one of its value.
    NotCanonical {
        /// At which byte it begins to differ.
        at: usize,
    },
    /// The text is no JSON.
    Syntax {
        /// At which byte of the text.
        at: usize,
        /// What is wanted there.
        wanted: &'static str,
    },
    /// The value is not of the type that is wanted, or its type refuses to be written.
    Unfit {
        /// What its type says.
        why: String,
    },
}

impl CanonicalError {
    /// The same error, one step further out.
    pub(crate) fn within(mut self, step: impl fmt::Display) -> Self {
        self.path.insert_str(0, &step.to_string());
        self
    }
}

impl From<CanonicalFault> for CanonicalError {
    fn from(fault: CanonicalFault) -> Self {
        Self { path: String::new(), fault }
    }
}

impl fmt::Display for CanonicalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "at {}: ", self.path)?;
        }
        match &self.fault {
            CanonicalFault::Float => {
                f.write_str("a float has no canonical form; give an integer (cents) or a decimal text")
            }
            CanonicalFault::IntegerRange => {
                write!(f, "an integer beyond ±{MAX_INTEGER} is read differently by different tools; give it as a text")
            }
            CanonicalFault::DuplicateKey { key } => write!(f, "the key {key:?} stands twice"),
            CanonicalFault::LoneSurrogate { at } => write!(f, "byte {at}: half of a surrogate pair is no character"),
            CanonicalFault::TooDeep => write!(f, "nested deeper than {MAX_DEPTH} levels"),
            CanonicalFault::TooLarge => {
                write!(f, "larger than {MAX_BYTES} bytes; give large content by reference, with its digest")
            }
            CanonicalFault::KeyNotText => f.write_str("a map's key is no text"),
            CanonicalFault::FieldSkipped { name } => {
                write!(
                    f,
                    "field {name:?} is left out; every field has to be there, so remove its `skip_serializing_if`"
                )
            }
            CanonicalFault::NestedNothing => f.write_str("`Some` of nothing would come back as `None`"),
            CanonicalFault::NotCanonical { at } => write!(f, "byte {at}: not the canonical text of this value"),
            CanonicalFault::Syntax { at, wanted } => write!(f, "byte {at}: no JSON, wanted is {wanted}"),
            CanonicalFault::Unfit { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for CanonicalError {}

impl serde::ser::Error for CanonicalError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        CanonicalFault::Unfit { why: why.to_string() }.into()
    }
}

impl serde::de::Error for CanonicalError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        CanonicalFault::Unfit { why: why.to_string() }.into()
    }
}
