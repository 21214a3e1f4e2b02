//! A serde value into bytes, in one pass.

use std::fmt::Debug;

use rmp::encode as put;
use serde::{Serialize, ser};

use super::error::ValueError;
use super::wire::{Fault, Hollow, MAX_DEPTH, WIDE, WIDE_NEGATIVE, deeper};

/// In which order the entries of maps are written. Struct fields always keep theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As the map hands them out.
    AsGiven,
    /// By their bytes, so that equal maps have equal bytes.
    Sorted,
}

/// Appends the value to `out`; on an error `out` is as it was.
pub(super) fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T, order: Order) -> Result<(), ValueError> {
    let start = out.len();
    let written = value.serialize(Encoder { out, depth: MAX_DEPTH, order });
    written.map_err(|fault| {
        let path = failing_field(out, value, order);
        out.truncate(start);
        ValueError::unwritable::<T>(path, &fault)
    })
}

/// Writes the value once more, into `scratch`, to learn which field does not go.
#[cold]
fn failing_field<T: Serialize + ?Sized>(scratch: &mut Vec<u8>, value: &T, order: Order) -> String {
    let mut track = serde_path_to_error::Track::new();
    let encoder = Encoder { out: scratch, depth: MAX_DEPTH, order };
    // The fault is known from the first try.
    let _ = value.serialize(serde_path_to_error::Serializer::new(encoder, &mut track));
    track.path().to_string()
}

struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    /// How many levels may still be opened.
    depth: u8,
    order: Order,
}

impl<'a> Encoder<'a> {
    fn open(self, kind: Kind, len: Option<usize>) -> Result<Compound<'a>, Fault> {
        let Self { out, depth, order } = self;
        let (start, declared) = (out.len(), length(len.unwrap_or(0))?);
        kind.put_header(out, declared);
        let entries = (kind == Kind::Map && order == Order::Sorted).then(Vec::new);
        Ok(Compound { out, depth: deeper(depth)?, order, kind, start, declared, count: 0, entries })
    }

    /// The map of one entry around a variant that holds something.
    fn open_variant(self, name: &str) -> Result<Self, Fault> {
        sure(put::write_map_len(self.out, 1));
        put_text(self.out, name)?;
        Ok(Self { depth: deeper(self.depth)?, ..self })
    }

    fn put_wide(self, kind: i8, bytes: [u8; 16]) {
        sure(put::write_ext_meta(self.out, 16, kind));
        self.out.extend_from_slice(&bytes);
    }
}

/// A vector takes every write.
fn sure<T, E: Debug>(written: Result<T, E>) -> T {
    written.expect("a vector takes every write")
}

fn length(len: usize) -> Result<u32, Fault> {
    u32::try_from(len).map_err(|_| Fault::TooLong)
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Result<(), Fault> {
    sure(put::write_str_len(out, length(text.len())?));
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

macro_rules! integers {
    ($($method:ident($type:ty) => $as:ident,)*) => {$(
        fn $method(self, value: $type) -> Result<(), Fault> {
            self.$as(value.into())
        }
    )*};
}

impl<'a> ser::Serializer for Encoder<'a> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Compound<'a>;
    type SerializeTuple = Compound<'a>;
    type SerializeTupleStruct = Compound<'a>;
    type SerializeTupleVariant = Compound<'a>;
    type SerializeMap = Compound<'a>;
    type SerializeStruct = Compound<'a>;
    type SerializeStructVariant = Compound<'a>;

    /// serde reads tagged and flattened parts as a human-readable form, whatever the format says; a format that is not
    /// would not get an `IpAddr` in a tagged enum back. And people do read these values, in previews.
    fn is_human_readable(&self) -> bool {
        true
    }

    integers! {
        serialize_i8(i8) => serialize_i64,
        serialize_i16(i16) => serialize_i64,
        serialize_i32(i32) => serialize_i64,
        serialize_u8(u8) => serialize_u64,
        serialize_u16(u16) => serialize_u64,
        serialize_u32(u32) => serialize_u64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        sure(put::write_bool(self.out, value));
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Fault> {
        sure(put::write_sint(self.out, value));
        Ok(())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Fault> {
        sure(put::write_uint(self.out, value));
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), Fault> {
        if let Ok(value) = u128::try_from(value) {
            return self.serialize_u128(value);
        }
        match i64::try_from(value) {
            Ok(value) => self.serialize_i64(value)?,
            Err(_) => self.put_wide(WIDE_NEGATIVE, value.to_be_bytes()),
        }
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), Fault> {
        match u64::try_from(value) {
            Ok(value) => self.serialize_u64(value)?,
            Err(_) => self.put_wide(WIDE, value.to_be_bytes()),
        }
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        sure(put::write_f32(self.out, value));
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Fault> {
        sure(put::write_f64(self.out, value));
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        put_text(self.out, value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        put_text(self.out, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        sure(put::write_bin_len(self.out, length(value.len())?));
        self.out.extend_from_slice(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.out.extend_from_slice(Hollow { unit: false, somes: 0 }.bytes());
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        let Self { out, depth, order } = self;
        let start = out.len();
        value.serialize(Encoder { out: &mut *out, depth: deeper(depth)?, order })?;
        if let Some(hollow) = Hollow::of(&out[start..]) {
            out.truncate(start);
            // The depth bounds the number.
            out.extend_from_slice(Hollow { somes: hollow.somes + 1, ..hollow }.bytes());
        }
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        self.out.extend_from_slice(Hollow { unit: true, somes: 0 }.bytes());
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Fault> {
        put_text(self.out, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(self.open_variant(variant)?)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Compound<'a>, Fault> {
        self.open(Kind::Sequence, len)
    }

    fn serialize_tuple(self, len: usize) -> Result<Compound<'a>, Fault> {
        self.open(Kind::Sequence, Some(len))
    }

    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Result<Compound<'a>, Fault> {
        self.open(Kind::Sequence, Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Compound<'a>, Fault> {
        self.open_variant(variant)?.open(Kind::Sequence, Some(len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Compound<'a>, Fault> {
        self.open(Kind::Map, len)
    }

    fn serialize_struct(self, _name: &'static str, len: usize) -> Result<Compound<'a>, Fault> {
        self.open(Kind::Struct, Some(len))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Compound<'a>, Fault> {
        self.open_variant(variant)?.open(Kind::Struct, Some(len))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sequence,
    Map,
    Struct,
}

impl Kind {
    fn put_header(self, out: &mut Vec<u8>, len: u32) {
        match self {
            Self::Sequence => sure(put::write_array_len(out, len)),
            Self::Map | Self::Struct => sure(put::write_map_len(out, len)),
        };
    }
}

/// A sequence, map or struct that is being written.
struct Compound<'a> {
    out: &'a mut Vec<u8>,
    /// For what is within.
    depth: u8,
    order: Order,
    kind: Kind,
    /// Where its header stands.
    start: usize,
    /// The length in the header, which may be a guess.
    declared: u32,
    count: usize,
    /// Where the entries begin, if they are to be sorted.
    entries: Option<Vec<usize>>,
}

impl Compound<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        value.serialize(Encoder { out: self.out, depth: self.depth, order: self.order })
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.count += 1;
        self.item(value)
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        if let Some(entries) = &mut self.entries {
            entries.push(self.out.len());
        }
        self.element(key)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Fault> {
        self.count += 1;
        put_text(self.out, name)?;
        self.item(value)
    }

    fn finish(self) -> Result<(), Fault> {
        if let Some(entries) = self.entries {
            sort(self.out, &entries);
        }
        let count = length(self.count)?;
        if count != self.declared {
            // The length was not known beforehand (a flattened struct), or was told wrong.
            let (mut guessed, mut header) = (Vec::new(), Vec::new());
            self.kind.put_header(&mut guessed, self.declared);
            self.kind.put_header(&mut header, count);
            self.out.splice(self.start..self.start + guessed.len(), header);
        }
        Ok(())
    }
}

/// Sorts the entries that begin at these places and reach to the end.
///
/// No key's bytes begin with another key's, so comparing whole entries compares the keys first.
fn sort(out: &mut Vec<u8>, starts: &[usize]) {
    let Some(&first) = starts.first() else { return };
    let ends = starts[1..].iter().copied().chain([out.len()]);
    let mut entries: Vec<&[u8]> = starts.iter().zip(ends).map(|(&start, end)| &out[start..end]).collect();
    if entries.is_sorted() {
        return;
    }
    entries.sort_unstable();
    let sorted = entries.concat();
    out.truncate(first);
    out.extend_from_slice(&sorted);
}

macro_rules! compounds {
    ($($trait:ident::$method:ident,)*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Fault;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
                self.element(value)
            }

            fn end(self) -> Result<(), Fault> {
                self.finish()
            }
        }
    )*};
}

compounds! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

macro_rules! structs {
    ($($trait:ident,)*) => {$(
        impl ser::$trait for Compound<'_> {
            type Ok = ();
            type Error = Fault;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Fault> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Fault> {
                self.finish()
            }
        }
    )*};
}

structs! { SerializeStruct, SerializeStructVariant, }

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.item(value)
    }

    fn end(self) -> Result<(), Fault> {
        self.finish()
    }
}
