//! The recorded bytes, one token at a time: `MessagePack`, and the few extensions that make it exact.
//!
//! | value | bytes |
//! | --- | --- |
//! | `None` | nil |
//! | `()`, unit struct | extension [`UNIT`] with the byte 0 |
//! | `Some(x)` | as `x`, if that is neither of the two above |
//! | `Some(None)`, `Some(Some(None))`, .. | extension [`NONE`] with the number of `Some`s |
//! | `Some(())`, `Some(Some(()))`, .. | extension [`UNIT`] with the number of `Some`s |
//! | integers beyond 64 bits | extension [`WIDE`] or [`WIDE_NEGATIVE`] with 16 bytes, big end first |
//! | unit variant | its name |
//! | other variants | a map of one entry, by the name |
//! | structs | a map by the names |
//!
//! So an option costs nothing, and yet no two values of a type share their bytes.

use std::fmt;

use rmp::Marker;
use serde::de::Unexpected;

/// How deep a value may be nested; deeper ones are refused, written or read, so that no stack overflows.
pub(super) const MAX_DEPTH: u8 = 128;

/// Extension type of `None` within this many `Some`s.
pub(super) const NONE: i8 = 1;
/// Extension type of the unit within this many `Some`s.
pub(super) const UNIT: i8 = 2;
/// Extension type of an integer from 2^64 on.
pub(super) const WIDE: i8 = 3;
/// Extension type of an integer below -2^63.
pub(super) const WIDE_NEGATIVE: i8 = 4;

/// What went wrong within a value, before it is known where.
#[derive(Debug)]
pub(super) enum Fault {
    /// The type's own code, or serde's, refused.
    Refused(Box<str>),
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A string, byte string, sequence or map of 2^32 items or more.
    TooLong,
    /// The bytes end within a value.
    CutOff,
    /// A string is not UTF-8.
    NotText,
    /// A byte or an extension that is never written.
    Unknown(u8),
    /// This many bytes follow the value.
    Trailing(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(cause) => f.write_str(cause),
            Self::TooDeep => write!(f, "it is nested deeper than {MAX_DEPTH} levels"),
            Self::TooLong => f.write_str("it has 2^32 items or more"),
            Self::CutOff => f.write_str("the bytes end within a value"),
            Self::NotText => f.write_str("a string is not UTF-8"),
            Self::Unknown(byte) => write!(f, "the byte {byte:#04x} stands where no value can begin with it"),
            Self::Trailing(count) => write!(f, "{count} bytes follow the value"),
        }
    }
}

impl std::error::Error for Fault {}

impl serde::ser::Error for Fault {
    fn custom<T: fmt::Display>(cause: T) -> Self {
        Self::Refused(cause.to_string().into())
    }
}

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(cause: T) -> Self {
        Self::Refused(cause.to_string().into())
    }
}

/// The depth of what is within a value, if it may have anything within.
pub(super) fn deeper(depth: u8) -> Result<u8, Fault> {
    depth.checked_sub(1).ok_or(Fault::TooDeep)
}

/// A `None` or a unit, within `somes` `Some`s: the values that have no bytes of their own to tell the levels apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hollow {
    pub(super) unit: bool,
    pub(super) somes: u8,
}

impl Hollow {
    /// The bytes of every hollow value, so that what is within a `Some` can be read like any recorded value.
    const BYTES: [[[u8; 3]; MAX_DEPTH as usize + 1]; 2] = {
        let mut table = [[[0; 3]; MAX_DEPTH as usize + 1]; 2];
        let mut somes = 0;
        while somes <= MAX_DEPTH {
            table[0][somes as usize] = [Marker::FixExt1.to_u8(), NONE.cast_unsigned(), somes];
            table[1][somes as usize] = [Marker::FixExt1.to_u8(), UNIT.cast_unsigned(), somes];
            somes += 1;
        }
        table
    };

    /// Its bytes; a plain `None` is a single nil.
    pub(super) fn bytes(self) -> &'static [u8] {
        static BYTES: [[[u8; 3]; MAX_DEPTH as usize + 1]; 2] = Hollow::BYTES;
        static NIL: [u8; 1] = [Marker::Null.to_u8()];
        match self {
            Self { unit: false, somes: 0 } => &NIL,
            Self { unit, somes } => &BYTES[usize::from(unit)][usize::from(somes)],
        }
    }

    /// Reads a whole encoding as one, if it is one.
    pub(super) fn of(encoding: &[u8]) -> Option<Self> {
        const NIL: u8 = Marker::Null.to_u8();
        const EXTENSION: u8 = Marker::FixExt1.to_u8();
        match *encoding {
            [NIL] => Some(Self { unit: false, somes: 0 }),
            [EXTENSION, kind, somes] => Some(Self { unit: kind == UNIT.cast_unsigned(), somes }),
            _ => None,
        }
    }
}

/// The next thing in a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token<'de> {
    Hollow(Hollow),
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Wide(u128),
    WideNegative(i128),
    Float32(f32),
    Float64(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    /// So many elements follow.
    Sequence(usize),
    /// So many keys and values follow.
    Map(usize),
}

impl<'de> Token<'de> {
    /// How serde names it in `invalid type: .., expected ..`.
    pub(super) fn unexpected(self) -> Unexpected<'de> {
        match self {
            Self::Hollow(Hollow { unit: true, somes: 0 }) => Unexpected::Unit,
            Self::Hollow(_) => Unexpected::Option,
            Self::Bool(value) => Unexpected::Bool(value),
            Self::Unsigned(value) => Unexpected::Unsigned(value),
            Self::Negative(value) => Unexpected::Signed(value),
            Self::Wide(_) | Self::WideNegative(_) => Unexpected::Other("128-bit integer"),
            Self::Float32(value) => Unexpected::Float(value.into()),
            Self::Float64(value) => Unexpected::Float(value),
            Self::Text(value) => Unexpected::Str(value),
            Self::Bytes(value) => Unexpected::Bytes(value),
            Self::Sequence(_) => Unexpected::Seq,
            Self::Map(_) => Unexpected::Map,
        }
    }
}

/// Reads tokens from bytes that may be anything.
#[derive(Clone, Debug)]
pub(super) struct Reader<'de> {
    pub(super) rest: &'de [u8],
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether the next token begins as only a [`Hollow`] does.
    pub(super) fn at_hollow(&self) -> bool {
        let Some(&first) = self.rest.first() else { return false };
        matches!(Marker::from_u8(first), Marker::Null | Marker::FixExt1)
    }

    /// Whether the next token is a string.
    pub(super) fn at_text(&self) -> bool {
        let Some(&first) = self.rest.first() else { return false };
        matches!(Marker::from_u8(first), Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32)
    }

    /// The next token, if it is a short string: most are, and names of fields nearly always.
    #[inline]
    pub(super) fn short_text(&mut self) -> Option<&'de str> {
        let (&first, rest) = self.rest.split_first()?;
        let Marker::FixStr(len) = Marker::from_u8(first) else { return None };
        let (text, rest) = rest.split_at_checked(len.into())?;
        let text = std::str::from_utf8(text).ok()?;
        self.rest = rest;
        Some(text)
    }

    /// The next token. A declared length is believed only as far as bytes are left to fill it.
    #[inline]
    pub(super) fn token(&mut self) -> Result<Token<'de>, Fault> {
        let [first] = self.array()?;
        Ok(match Marker::from_u8(first) {
            Marker::Null => Token::Hollow(Hollow { unit: false, somes: 0 }),
            Marker::False => Token::Bool(false),
            Marker::True => Token::Bool(true),
            Marker::FixPos(value) => Token::Unsigned(value.into()),
            Marker::U8 => Token::Unsigned(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Token::Unsigned(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Token::Unsigned(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Token::Unsigned(u64::from_be_bytes(self.array()?)),
            Marker::FixNeg(value) => signed(value.into()),
            Marker::I8 => signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Token::Float32(f32::from_be_bytes(self.array()?)),
            Marker::F64 => Token::Float64(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(len) => self.text(len.into())?,
            Marker::Str8 => self.len8().and_then(|len| self.text(len))?,
            Marker::Str16 => self.len16().and_then(|len| self.text(len))?,
            Marker::Str32 => self.len32().and_then(|len| self.text(len))?,
            Marker::Bin8 => self.len8().and_then(|len| self.take(len)).map(Token::Bytes)?,
            Marker::Bin16 => self.len16().and_then(|len| self.take(len)).map(Token::Bytes)?,
            Marker::Bin32 => self.len32().and_then(|len| self.take(len)).map(Token::Bytes)?,
            Marker::FixArray(len) => self.sequence(len.into())?,
            Marker::Array16 => self.len16().and_then(|len| self.sequence(len))?,
            Marker::Array32 => self.len32().and_then(|len| self.sequence(len))?,
            Marker::FixMap(len) => self.map(len.into())?,
            Marker::Map16 => self.len16().and_then(|len| self.map(len))?,
            Marker::Map32 => self.len32().and_then(|len| self.map(len))?,
            Marker::FixExt1 => self.hollow()?,
            Marker::FixExt16 => self.wide()?,
            Marker::Reserved
            | Marker::FixExt2
            | Marker::FixExt4
            | Marker::FixExt8
            | Marker::Ext8
            | Marker::Ext16
            | Marker::Ext32 => return Err(Fault::Unknown(first)),
        })
    }

    fn hollow(&mut self) -> Result<Token<'de>, Fault> {
        let [kind, somes] = self.array()?;
        let unit = match kind.cast_signed() {
            NONE => false,
            UNIT => true,
            _ => return Err(Fault::Unknown(kind)),
        };
        if somes > MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        Ok(Token::Hollow(Hollow { unit, somes }))
    }

    fn wide(&mut self) -> Result<Token<'de>, Fault> {
        let [kind] = self.array()?;
        match kind.cast_signed() {
            WIDE => Ok(Token::Wide(u128::from_be_bytes(self.array()?))),
            WIDE_NEGATIVE => Ok(Token::WideNegative(i128::from_be_bytes(self.array()?))),
            _ => Err(Fault::Unknown(kind)),
        }
    }

    fn text(&mut self, len: usize) -> Result<Token<'de>, Fault> {
        std::str::from_utf8(self.take(len)?).map(Token::Text).map_err(|_| Fault::NotText)
    }

    fn sequence(&self, len: usize) -> Result<Token<'de>, Fault> {
        // Each element has at least one byte.
        if len > self.rest.len() { Err(Fault::CutOff) } else { Ok(Token::Sequence(len)) }
    }

    fn map(&self, len: usize) -> Result<Token<'de>, Fault> {
        // Each entry has at least two.
        if len > self.rest.len() / 2 { Err(Fault::CutOff) } else { Ok(Token::Map(len)) }
    }

    fn len8(&mut self) -> Result<usize, Fault> {
        Ok(u8::from_be_bytes(self.array()?).into())
    }

    fn len16(&mut self) -> Result<usize, Fault> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    fn len32(&mut self) -> Result<usize, Fault> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| Fault::CutOff)
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'de [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Fault::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Fault::CutOff)?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// Signed forms may hold what an unsigned one could; both are the same number.
fn signed(value: i64) -> Token<'static> {
    u64::try_from(value).map_or(Token::Negative(value), Token::Unsigned)
}
