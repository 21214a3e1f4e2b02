//! Values as documents, and documents as canonical text.

use std::{cell::Cell, fmt::Write as _};

use serde::{Serialize, ser};

use super::{CanonicalError, CanonicalFault, MAX_BYTES, MAX_DEPTH, MAX_INTEGER, Node, map_of};

type Written = Result<Node, CanonicalError>;

/// A value as a document.
pub(super) fn node<T: Serialize + ?Sized>(value: &T) -> Written {
    let left = Cell::new(MAX_BYTES);
    let node = value.serialize(Writer { depth: 0, left: &left })?;
    // What escapes add is known only from the text.
    if text(&node).len() > MAX_BYTES {
        return Err(CanonicalFault::TooLarge.into());
    }
    Ok(node)
}

/// The canonical text of a document.
pub(super) fn text(node: &Node) -> String {
    let mut text = String::new();
    write(node, &mut text);
    text
}

fn write(node: &Node, text: &mut String) {
    match node {
        Node::Null => text.push_str("null"),
        Node::Bool(true) => text.push_str("true"),
        Node::Bool(false) => text.push_str("false"),
        Node::Integer(number) => {
            // Writing to a string never fails.
            let _ = write!(text, "{number}");
        }
        Node::Text(string) => quote(string, text),
        Node::List(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Node::Map(entries) => {
            text.push('{');
            for (place, (key, value)) in entries.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                quote(key, text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
    }
}

/// RFC 8785, section 3.2.2.2.
fn quote(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..='\x1f' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// Writes one value.
#[derive(Clone, Copy)]
struct Writer<'b> {
    depth: usize,
    /// How many bytes the document may still take, at least.
    left: &'b Cell<usize>,
}

impl<'b> Writer<'b> {
    fn spend(self, bytes: usize) -> Result<(), CanonicalError> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(CanonicalFault::TooLarge.into()),
        }
    }

    fn deeper(self) -> Result<Self, CanonicalError> {
        if self.depth == MAX_DEPTH {
            return Err(CanonicalFault::TooDeep.into());
        }
        self.spend(2)?;
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn integer(self, number: i128) -> Written {
        self.spend(1)?;
        match i64::try_from(number) {
            Ok(number) if number.unsigned_abs() <= MAX_INTEGER.unsigned_abs() => Ok(Node::Integer(number)),
            _ => Err(CanonicalFault::IntegerRange.into()),
        }
    }

    fn string(self, string: &str) -> Result<String, CanonicalError> {
        self.spend(string.len() + 2)?;
        Ok(string.to_owned())
    }

    fn items(self) -> Result<ListWriter<'b>, CanonicalError> {
        Ok(ListWriter { writer: self.deeper()?, items: Vec::new(), variant: None })
    }

    fn entries(self) -> Result<MapWriter<'b>, CanonicalError> {
        Ok(MapWriter { writer: self.deeper()?, entries: Vec::new(), key: None, variant: None })
    }
}

/// A list that is being written.
struct ListWriter<'b> {
    writer: Writer<'b>,
    items: Vec<Node>,
    variant: Option<&'static str>,
}

/// A map that is being written.
struct MapWriter<'b> {
    writer: Writer<'b>,
    entries: Vec<(String, Node)>,
    key: Option<String>,
    variant: Option<&'static str>,
}

impl ListWriter<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        let item = value.serialize(self.writer);
        self.items.push(item.map_err(|error| error.within(format_args!("[{}]", self.items.len())))?);
        Ok(())
    }

    fn close(self) -> Node {
        in_variant(self.variant, Node::List(self.items))
    }
}

impl MapWriter<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, key: String, value: &T) -> Result<(), CanonicalError> {
        let value = value.serialize(self.writer).map_err(|error| error.within(format_args!(".{key}")))?;
        self.entries.push((key, value));
        Ok(())
    }

    fn close(self) -> Written {
        Ok(in_variant(self.variant, map_of(self.entries)?))
    }
}

fn in_variant(variant: Option<&'static str>, node: Node) -> Node {
    match variant {
        Some(variant) => Node::Map(vec![(variant.to_owned(), node)]),
        None => node,
    }
}

impl<'b> ser::Serializer for Writer<'b> {
    type Ok = Node;
    type Error = CanonicalError;
    type SerializeSeq = ListWriter<'b>;
    type SerializeTuple = ListWriter<'b>;
    type SerializeTupleStruct = ListWriter<'b>;
    type SerializeTupleVariant = ListWriter<'b>;
    type SerializeMap = MapWriter<'b>;
    type SerializeStruct = MapWriter<'b>;
    type SerializeStructVariant = MapWriter<'b>;

    fn serialize_bool(self, value: bool) -> Written {
        self.spend(4)?;
        Ok(Node::Bool(value))
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.integer(value.into())
    }

    fn serialize_i16(self, value: i16) -> Written {
        self.integer(value.into())
    }

    fn serialize_i32(self, value: i32) -> Written {
        self.integer(value.into())
    }

    fn serialize_i64(self, value: i64) -> Written {
        self.integer(value.into())
    }

    fn serialize_i128(self, value: i128) -> Written {
        self.integer(value)
    }

    fn serialize_u8(self, value: u8) -> Written {
        self.integer(value.into())
    }

    fn serialize_u16(self, value: u16) -> Written {
        self.integer(value.into())
    }

    fn serialize_u32(self, value: u32) -> Written {
        self.integer(value.into())
    }

    fn serialize_u64(self, value: u64) -> Written {
        self.integer(value.into())
    }

    fn serialize_u128(self, value: u128) -> Written {
        self.integer(i128::try_from(value).unwrap_or(i128::MAX))
    }

    fn serialize_f32(self, _: f32) -> Written {
        Err(CanonicalFault::Float.into())
    }

    fn serialize_f64(self, _: f64) -> Written {
        Err(CanonicalFault::Float.into())
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        self.string(value).map(Node::Text)
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        value.serialize(self)
    }

    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        match value.serialize(self)? {
            Node::Null => Err(CanonicalFault::NestedNothing.into()),
            node => Ok(node),
        }
    }

    fn serialize_unit(self) -> Written {
        self.spend(4)?;
        Ok(Node::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        let mut map = self.entries()?;
        map.add(variant.to_owned(), value)?;
        map.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<ListWriter<'b>, CanonicalError> {
        self.items()
    }

    fn serialize_tuple(self, _: usize) -> Result<ListWriter<'b>, CanonicalError> {
        self.items()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<ListWriter<'b>, CanonicalError> {
        self.items()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<ListWriter<'b>, CanonicalError> {
        Ok(ListWriter { variant: Some(variant), ..self.deeper()?.items()? })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MapWriter<'b>, CanonicalError> {
        self.entries()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<MapWriter<'b>, CanonicalError> {
        self.entries()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<MapWriter<'b>, CanonicalError> {
        Ok(MapWriter { variant: Some(variant), ..self.deeper()?.entries()? })
    }
}

impl ser::SerializeSeq for ListWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.add(value)
    }

    fn end(self) -> Written {
        Ok(self.close())
    }
}

impl ser::SerializeTuple for ListWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.add(value)
    }

    fn end(self) -> Written {
        Ok(self.close())
    }
}

impl ser::SerializeTupleStruct for ListWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.add(value)
    }

    fn end(self) -> Written {
        Ok(self.close())
    }
}

impl ser::SerializeTupleVariant for ListWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.add(value)
    }

    fn end(self) -> Written {
        Ok(self.close())
    }
}

impl ser::SerializeMap for MapWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonicalError> {
        match key.serialize(self.writer)? {
            Node::Text(key) => {
                self.key = Some(key);
                Ok(())
            }
            _ => Err(CanonicalFault::KeyNotText.into()),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        let key = self.key.take().ok_or(CanonicalFault::KeyNotText)?;
        self.add(key, value)
    }

    fn end(self) -> Written {
        self.close()
    }
}

impl ser::SerializeStruct for MapWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), CanonicalError> {
        self.writer.spend(key.len() + 3)?;
        self.add(key.to_owned(), value)
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), CanonicalError> {
        Err(CanonicalFault::FieldSkipped { name }.into())
    }

    fn end(self) -> Written {
        self.close()
    }
}

impl ser::SerializeStructVariant for MapWriter<'_> {
    type Ok = Node;
    type Error = CanonicalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), CanonicalError> {
        self.writer.spend(key.len() + 3)?;
        self.add(key.to_owned(), value)
    }

    fn skip_field(&mut self, name: &'static str) -> Result<(), CanonicalError> {
        Err(CanonicalFault::FieldSkipped { name }.into())
    }

    fn end(self) -> Written {
        self.close()
    }
}
