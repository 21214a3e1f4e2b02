//! Bytes into a serde value, in one pass; any bytes end in a value or a fault, in time and memory bounded by their number.
//!
//! Where the type says what it wants, only that is taken: an integer never becomes a float, a sequence never a struct.
//! What serde reads without such a hint (untagged, internally tagged, flattened parts) is converted by serde's own rules.

use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::error::ValueError;
use super::wire::{Fault, Hollow, MAX_DEPTH, Reader, Token, deeper};

/// Reads all the bytes as one value; `fingerprint` is of the type that wrote them, where it is known.
pub(super) fn whole<T: DeserializeOwned>(bytes: &[u8], fingerprint: Option<u64>) -> Result<T, ValueError> {
    read(bytes, |decoder| T::deserialize(decoder)).map_err(|fault| explain::<T>(bytes, fingerprint, &fault))
}

/// Whether the bytes are one recorded value, of any type.
pub(super) fn check(bytes: &[u8]) -> Result<(), Fault> {
    read(bytes, |decoder| IgnoredAny::deserialize(decoder)).map(drop)
}

/// Passes over one value and gives its bytes.
pub(super) fn skip<'de>(input: &mut Reader<'de>, depth: u8) -> Result<&'de [u8], Fault> {
    let before = input.rest;
    IgnoredAny::deserialize(Decoder { input, depth })?;
    Ok(&before[..before.len() - input.rest.len()])
}

fn read<'de, T>(bytes: &'de [u8], read: impl FnOnce(Decoder<'_, 'de>) -> Result<T, Fault>) -> Result<T, Fault> {
    let mut input = Reader::new(bytes);
    let value = read(Decoder { input: &mut input, depth: MAX_DEPTH })?;
    match input.rest.len() {
        0 => Ok(value),
        count => Err(Fault::Trailing(count)),
    }
}

/// Reads once more, to tell a damaged record from one of another type, and to learn the field.
#[cold]
fn explain<T: DeserializeOwned>(bytes: &[u8], fingerprint: Option<u64>, fault: &Fault) -> ValueError {
    if let Err(fault) = check(bytes) {
        return ValueError::damaged::<T>(&fault);
    }
    let mut track = serde_path_to_error::Track::new();
    // The fault is known from the first try.
    let _ = read(bytes, |decoder| T::deserialize(serde_path_to_error::Deserializer::new(decoder, &mut track)));
    ValueError::unreadable::<T>(track.path().to_string(), fault, fingerprint)
}

/// How many items a type may make room for before it has read any. Honest types grow beyond it at little cost, and a
/// hostile length that is repeated at each level cannot fill the memory.
const MAX_HINT: usize = 256;

pub(super) struct Decoder<'r, 'de> {
    input: &'r mut Reader<'de>,
    /// How many levels may still be entered.
    depth: u8,
}

impl<'de> Decoder<'_, 'de> {
    fn hollow<V: Visitor<'de>>(self, hollow: Hollow, visitor: V) -> Result<V::Value, Fault> {
        match hollow {
            Hollow { unit, somes: 1.. } => {
                let mut within = Reader::new(Hollow { unit, somes: hollow.somes - 1 }.bytes());
                visitor.visit_some(Decoder { input: &mut within, depth: deeper(self.depth)? })
            }
            Hollow { unit: false, somes: 0 } => visitor.visit_none(),
            Hollow { unit: true, somes: 0 } => visitor.visit_unit(),
        }
    }

    fn sequence<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Items { input: self.input, depth: deeper(self.depth)?, left: len, fields: false };
        let value = visitor.visit_seq(&mut items)?;
        items.finish(len, value)
    }

    /// `fields`: the keys are names of fields, which no number may stand for.
    fn map<V: Visitor<'de>>(self, len: usize, fields: bool, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Items { input: self.input, depth: deeper(self.depth)?, left: len, fields };
        let value = visitor.visit_map(&mut items)?;
        items.finish(len, value)
    }

    fn bytes_as_sequence<V: Visitor<'de>>(bytes: &[u8], visitor: V) -> Result<V::Value, Fault> {
        let mut items = SeqDeserializer::<_, Fault>::new(bytes.iter().copied());
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }
}

fn mismatch<'de, V: Visitor<'de>>(token: Token<'_>, visitor: &V) -> Fault {
    Fault::invalid_type(token.unexpected(), visitor)
}

macro_rules! integers {
    ($($method:ident => $visit:ident($type:ty),)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            // What does not fit goes as it is, for serde to say so.
            match self.input.token()? {
                Token::Unsigned(value) => match <$type>::try_from(value) {
                    Ok(value) => visitor.$visit(value),
                    Err(_) => visitor.visit_u64(value),
                },
                Token::Negative(value) => match <$type>::try_from(value) {
                    Ok(value) => visitor.$visit(value),
                    Err(_) => visitor.visit_i64(value),
                },
                Token::Wide(value) => match <$type>::try_from(value) {
                    Ok(value) => visitor.$visit(value),
                    Err(_) => visitor.visit_u128(value),
                },
                Token::WideNegative(value) => match <$type>::try_from(value) {
                    Ok(value) => visitor.$visit(value),
                    Err(_) => visitor.visit_i128(value),
                },
                other => Err(mismatch(other, &visitor)),
            }
        }
    )*};
}

/// One kind of token for one kind of type, handed on by one visit.
macro_rules! exactly {
    ($($method:ident: $token:pat => $visit:ident($($value:expr)?),)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.input.token()? {
                $token => visitor.$visit($($value)?),
                other => Err(mismatch(other, &visitor)),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Decoder<'_, 'de> {
    type Error = Fault;

    fn is_human_readable(&self) -> bool {
        true
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.input.token()? {
            Token::Hollow(hollow) => self.hollow(hollow, visitor),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Negative(value) => visitor.visit_i64(value),
            Token::Wide(value) => visitor.visit_u128(value),
            Token::WideNegative(value) => visitor.visit_i128(value),
            Token::Float32(value) => visitor.visit_f32(value),
            Token::Float64(value) => visitor.visit_f64(value),
            Token::Text(value) => visitor.visit_borrowed_str(value),
            Token::Bytes(value) => visitor.visit_borrowed_bytes(value),
            Token::Sequence(len) => self.sequence(len, visitor),
            Token::Map(len) => self.map(len, false, visitor),
        }
    }

    forward_to_deserialize_any! { bytes byte_buf map }

    /// A name; a flattened struct also takes the keys of its map as such.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if let Some(name) = self.input.short_text() {
            return visitor.visit_borrowed_str(name);
        }
        match self.input.token()? {
            Token::Text(value) => visitor.visit_borrowed_str(value),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Negative(value) => visitor.visit_i64(value),
            Token::Bytes(value) => visitor.visit_borrowed_bytes(value),
            other => Err(mismatch(other, &visitor)),
        }
    }

    integers! {
        deserialize_i8 => visit_i8(i8),
        deserialize_i16 => visit_i16(i16),
        deserialize_i32 => visit_i32(i32),
        deserialize_i64 => visit_i64(i64),
        deserialize_i128 => visit_i128(i128),
        deserialize_u8 => visit_u8(u8),
        deserialize_u16 => visit_u16(u16),
        deserialize_u32 => visit_u32(u32),
        deserialize_u64 => visit_u64(u64),
        deserialize_u128 => visit_u128(u128),
    }

    exactly! {
        deserialize_bool: Token::Bool(value) => visit_bool(value),
        deserialize_f32: Token::Float32(value) => visit_f32(value),
        deserialize_char: Token::Text(value) => visit_borrowed_str(value),
        deserialize_str: Token::Text(value) => visit_borrowed_str(value),
        deserialize_string: Token::Text(value) => visit_borrowed_str(value),
        deserialize_unit: Token::Hollow(Hollow { unit: true, somes: 0 }) => visit_unit(),
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.input.token()? {
            Token::Float64(value) => visitor.visit_f64(value),
            Token::Float32(value) => visitor.visit_f64(value.into()),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if !self.input.at_hollow() {
            return visitor.visit_some(Decoder { depth: deeper(self.depth)?, ..self });
        }
        match self.input.token()? {
            // A unit is not in an option; serde would take it for `None`.
            token @ Token::Hollow(Hollow { unit: true, somes: 0 }) => Err(mismatch(token, &visitor)),
            Token::Hollow(hollow) => self.hollow(hollow, visitor),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.input.token()? {
            Token::Sequence(len) => self.sequence(len, visitor),
            // `serde_bytes` was taken off a field.
            Token::Bytes(bytes) => Self::bytes_as_sequence(bytes, visitor),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // A derived struct would take a sequence too, by position: what was a tuple must not become its fields.
        match self.input.token()? {
            Token::Map(len) => self.map(len, true, visitor),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.input.token()? {
            Token::Text(name) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
            Token::Map(1) => {
                let depth = deeper(self.depth)?;
                match self.input.token()? {
                    Token::Text(name) => visitor.visit_enum(Variant { name, content: Decoder { depth, ..self } }),
                    other => Err(Fault::invalid_type(other.unexpected(), &"the name of a variant")),
                }
            }
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }
}

/// The items of a sequence or map.
struct Items<'r, 'de> {
    input: &'r mut Reader<'de>,
    depth: u8,
    left: usize,
    fields: bool,
}

impl<'de> Items<'_, 'de> {
    fn next<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.item(seed).map(Some)
    }

    fn item<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(Decoder { input: self.input, depth: self.depth })
    }

    /// Refuses a value that has not taken all items.
    fn finish<T>(self, len: usize, value: T) -> Result<T, Fault> {
        match self.left {
            0 => Ok(value),
            left => Err(Fault::invalid_length(len, &format!("{} items", len - left).as_str())),
        }
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        self.next(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(MAX_HINT))
    }
}

impl<'de> de::MapAccess<'de> for Items<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        if self.fields && self.left > 0 && !self.input.at_text() {
            let token = self.input.token()?;
            return Err(Fault::invalid_type(token.unexpected(), &"the name of a field"));
        }
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        self.item(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(MAX_HINT))
    }
}

/// A variant that holds something.
struct Variant<'r, 'de> {
    name: &'de str,
    content: Decoder<'r, 'de>,
}

impl<'r, 'de> de::EnumAccess<'de> for Variant<'r, 'de> {
    type Error = Fault;
    type Variant = Decoder<'r, 'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Decoder<'r, 'de>), Fault> {
        Ok((seed.deserialize(BorrowedStrDeserializer::new(self.name))?, self.content))
    }
}

impl<'de> de::VariantAccess<'de> for Decoder<'_, 'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        let token = self.input.token()?;
        Err(Fault::invalid_type(token.unexpected(), &"a variant that holds nothing"))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        de::Deserializer::deserialize_tuple(self, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        de::Deserializer::deserialize_struct(self, "", fields, visitor)
    }
}
