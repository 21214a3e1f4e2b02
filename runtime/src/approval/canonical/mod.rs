//! The canonical form DAC-1: JSON as RFC 8785 writes it, with what is ambiguous left out. One value has exactly one text.
//!
//! Numbers are integers within ±(2^53 − 1), keys are unique and ordered by UTF-16 code units, nesting is at most
//! [`MAX_DEPTH`] deep, a document has at most [`MAX_BYTES`]. Nothing is left out of a document because it is empty.

mod error;
mod parse;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize, de::DeserializeOwned, ser::SerializeMap};

pub use error::{CanonicalError, CanonicalFault};

/// How deep lists and maps may be nested.
pub const MAX_DEPTH: usize = 32;

/// The most bytes of a document; what is larger is approved by reference, as a [`ContentRef`](super::ContentRef).
pub const MAX_BYTES: usize = 1 << 20;

/// The largest integer that every JSON reader takes for what it is: 2^53 − 1.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// One value of a document. It has no `Debug` outside of tests: it may be a secret.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Integer(i64),
    Text(String),
    List(Vec<Node>),
    /// Ordered by the UTF-16 code units of the keys, each there once.
    Map(Vec<(String, Node)>),
}

/// A JSON document in canonical form, of whatever shape: for proposals whose arguments have no Rust type, and for what
/// clients send.
///
/// ```
/// use durably::approval::Json;
///
/// let text = Json::parse(r#"{ "to": "DE02", "cents": 4200 }"#)?;
/// assert_eq!(text.canonical(), r#"{"cents":4200,"to":"DE02"}"#);
/// assert_eq!(text, Json::parse(r#"{"cents":4200,"to":"\u0044E02"}"#)?);
/// assert!(Json::parse(r#"{"cents":42.0}"#).is_err());
/// assert!(Json::parse(r#"{"cents":1,"cents":2}"#).is_err());
/// # Ok::<(), durably::approval::CanonicalError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Json(pub(crate) Node);

impl Json {
    /// Reads any JSON text whose value has a canonical form: with spaces, with keys in any order, with any escapes.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] says what the form does not allow, and where.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, CanonicalError> {
        parse::document(text.as_ref()).map(Self)
    }

    /// Reads a text that is in canonical form already: it is written again, and has to be the same.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), and [`CanonicalFault::NotCanonical`] if the text is another one of the same value.
    pub fn parse_canonical(text: impl AsRef<[u8]>) -> Result<Self, CanonicalError> {
        let (text, node) = (text.as_ref(), parse::document(text.as_ref())?);
        let written = write::text(&node);
        if written.as_bytes() == text {
            return Ok(Self(node));
        }
        let at = written.bytes().zip(text).take_while(|(written, read)| written == *read).count();
        Err(CanonicalFault::NotCanonical { at }.into())
    }

    /// Takes any value that has a canonical form.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] says what the form does not allow, and where.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, CanonicalError> {
        write::node(value).map(Self)
    }

    /// The value as a type.
    ///
    /// # Errors
    ///
    /// [`CanonicalFault::Unfit`] if it is not of that type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, CanonicalError> {
        T::deserialize(&self.0)
    }

    /// The canonical text.
    #[must_use]
    pub fn canonical(&self) -> String {
        write::text(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Serialize for Node {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read::any(deserializer).map(Self)
    }
}

/// Not the value: a document may hold what is not to be logged.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.canonical().len())
    }
}

/// The order of keys in RFC 8785: by UTF-16 code units, which is not that of UTF-8 above U+FFFF.
pub(crate) fn key_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

/// Puts the entries of a map in order.
pub(crate) fn map_of(mut entries: Vec<(String, Node)>) -> Result<Node, CanonicalError> {
    entries.sort_by(|(one, _), (other, _)| key_order(one, other));
    match entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(CanonicalFault::DuplicateKey { key: pair[0].0.clone() }.into()),
        None => Ok(Node::Map(entries)),
    }
}
