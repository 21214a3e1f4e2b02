//! Recorded values: how any serde value becomes bytes that come back equal, and how a call's arguments become an identity.
//!
//! The bytes are `MessagePack`, structs as maps by their field names, so that tools can show them without the Rust types.
//! The codec is our own layer between serde and the markers of that form (`rmp`): `rmp-serde` gives `Some(())` and
//! `Some(None)` back as `None`, takes a tuple for a struct by position, and cannot sort maps for an identity. Mending that
//! from outside takes a wrapper around each of serde's visitors and accesses, and still no way to the bytes. [`wire`] has
//! the table of what is written how.
//!
//! # What comes back equal
//!
//! Everything that serde's own derive can tell apart: every integer width, floats bit by bit, bytes, options in any
//! nesting, maps with any keys, units, all enum forms. What serde itself cannot do, in any format:
//!
//! - `u128` and `i128` within an untagged, internally tagged or flattened part: refused when read, in this version of
//!   serde even if small. Externally and adjacently tagged enums (`tag` with `content`) hold them.
//! - An untagged enum is the first variant that fits; `skip` drops what it skips.
//!
//! A value that does not come back is found when it is recorded: what a task hands on is always the decoded record.
//!
//! # Which edits of a type stay readable
//!
//! | edit | a record of the old type |
//! | --- | --- |
//! | reorder fields or variants | reads |
//! | add a field that is an `Option` or has `#[serde(default)]` | reads, with the default |
//! | add another field | refused: `missing field` |
//! | remove a field | reads without it (refused under `deny_unknown_fields`) |
//! | rename a field or variant | refused, unless `#[serde(alias = "..")]` keeps the old name |
//! | add a variant | reads |
//! | remove a variant | refused where it was recorded |
//! | widen an integer, or narrow it | reads if the number fits, else refused |
//! | integer to float, number to string, .. | refused |
//! | `f32` to `f64` | reads; the other way is refused |
//! | `T` to `Option<T>` | reads as `Some` (the unit is refused) |
//! | `Option<T>` to `T` | reads if it was `Some`, else refused |
//! | wrap in a newtype, or unwrap it | reads |
//! | tuple to struct, unit to empty struct, unit variant to one that holds something | refused |
//! | rename or move the type itself | reads |
//! | give a generic another parameter | as that field's edit |
//!
//! Refused always means [`ValueError::Unreadable`] with the field's path. Within untagged, internally tagged and flattened
//! parts serde converts more freely: an integer reads as a float there, and a sequence as a struct by position.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

mod arguments;
mod decode;
mod encode;
mod error;
mod json;
mod node;
mod schema;
mod wire;

#[cfg(test)]
mod tests;

pub use arguments::Arguments;
pub use error::ValueError;

/// A recorded value: compact self-describing bytes, and the fingerprint of the type that wrote them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// A digest of the name of the type that wrote it; tells a changed type from a damaged record.
    pub(crate) fingerprint: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: Vec<u8>,
}

/// The most bytes that a value may take: what a store takes in one record, and room for what the record says beside it.
/// Refused here it is an error of the value, told once; refused by the store, its body would run again and again.
const LARGEST: usize = 63 << 20;

impl Payload {
    /// Records a value.
    ///
    /// # Errors
    ///
    /// [`ValueError::Unwritable`] if its `Serialize` refuses, it is nested deeper than 128 levels, or it takes more than
    /// 63 MiB.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, ValueError> {
        // Most values are small; a larger one grows from here.
        let mut bytes = Vec::with_capacity(128);
        encode::append(&mut bytes, value, encode::Order::AsGiven)?;
        if bytes.len() > LARGEST {
            return Err(ValueError::too_large::<T>(bytes.len(), LARGEST));
        }
        Ok(Self { fingerprint: fingerprint::<T>(), bytes })
    }

    /// Reads it as a `T`.
    ///
    /// # Errors
    ///
    /// [`ValueError::Unreadable`] if it is a value, but not one of that type; [`ValueError::Damaged`] if it is none.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        decode::whole(&self.bytes, Some(self.fingerprint))
    }

    /// The value as JSON text, readable without the Rust type. It never fails, and is safe to print.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.preview(usize::MAX)
    }

    /// [`Self::to_json`], cut to at most `limit` characters, the last of which is then an ellipsis.
    #[must_use]
    pub fn preview(&self, limit: usize) -> String {
        json::json(&self.bytes, limit)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.preview(200))
    }
}

/// A digest of a type's name. A hint for messages, never a reason to refuse: the compiler may name a type anew.
fn fingerprint<T: ?Sized>() -> u64 {
    // Eight bytes at a step, as names of generic types are long and this is done for each value.
    std::any::type_name::<T>().as_bytes().chunks(8).fold(0, |digest, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mixed = (digest ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    })
}
