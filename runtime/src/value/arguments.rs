//! A call's arguments as an identity.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::decode;
use super::encode::{self, Order};
use super::error::ValueError;
use super::json::Page;

/// The arguments of a call, in canonical form: equal values give equal bytes, whatever the order of their maps.
///
/// A set is a sequence to serde, so the order of an unordered set counts: order it, or skip the argument.
/// Floats count by their bits: `0.0` and `-0.0` are two identities, and equal NaNs are one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    form: Form,
    /// Frames of length of name (4 bytes), name, length of value (8 bytes), value: no two lists have the same bytes.
    bytes: Vec<u8>,
}

/// What the bytes are. It is digested too, so that a key never equals an argument.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    List,
    Key,
}

impl Form {
    fn domain(self) -> &'static [u8] {
        match self {
            Self::List => b"durably arguments 1\0",
            Self::Key => b"durably key 1\0",
        }
    }
}

impl Arguments {
    /// No arguments yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A key that stands for the arguments: two calls with the same key are the same call, whatever they were given.
    #[must_use]
    pub fn key(text: &str) -> Self {
        let mut key = Self { form: Form::Key, bytes: Vec::new() };
        // Only a text of 4 GiB cannot be recorded, and no key is that long; it would count as no text.
        let _ = key.push("key", text);
        key
    }

    /// Adds one; those of a call are always added in the order of its signature.
    ///
    /// # Errors
    ///
    /// [`ValueError::Unwritable`] if its `Serialize` refuses. Then nothing was added.
    pub fn push<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), ValueError> {
        let start = self.bytes.len();
        // One allocation for most lists.
        self.bytes.reserve(128);
        // An identifier is short.
        let name_len = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&name_len.to_be_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        let value_start = self.bytes.len();
        if let Err(error) = encode::append(&mut self.bytes, value, Order::Sorted) {
            self.bytes.truncate(start);
            return Err(error);
        }
        let value_len = (self.bytes.len() - value_start) as u64;
        self.bytes[value_start - 8..value_start].copy_from_slice(&value_len.to_be_bytes());
        Ok(())
    }

    /// SHA-256 of the canonical bytes.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::new().chain_update(self.form.domain()).chain_update(&self.bytes).finalize().into()
    }

    /// How many canonical bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no arguments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// For people: `url="https://…", n=3`, at most `limit` characters.
    #[must_use]
    pub fn preview(&self, limit: usize) -> String {
        let mut page = Page::new(limit);
        for (index, (name, value)) in self.frames().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let fits = page.plain(separator) && page.plain(name) && page.plain("=") && page.value_or_damage(value);
            if !fits {
                break;
            }
        }
        page.text
    }

    /// Reads one argument by name; `None` if there is none of that name, or a key stands for them.
    #[must_use]
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<Result<T, ValueError>> {
        if self.form == Form::Key {
            return None;
        }
        let (_, value) = self.frames().find(|(frame, _)| *frame == name)?;
        Some(decode::whole(value, None))
    }

    fn frames(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (name_len, tail) = rest.split_first_chunk()?;
            let (name, tail) = tail.split_at(u32::from_be_bytes(*name_len) as usize);
            let (value_len, tail) = tail.split_first_chunk().expect("push writes whole frames");
            let value_len = usize::try_from(u64::from_be_bytes(*value_len)).expect("it was a length in memory");
            let (value, tail) = tail.split_at(value_len);
            rest = tail;
            Some((std::str::from_utf8(name).expect("push writes names as they are"), value))
        })
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.preview(200))
    }
}
