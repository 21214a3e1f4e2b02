//! A recorded value as JSON knows values: for schemas, and for answers that come from a browser.
//!
//! An answer that was JSON on its way has lost what JSON cannot say: `3` may be an `f64`, `null` a `None`. So what is not
//! an answer of the wanted type by its recorded form is read once more as serde reads JSON.

use std::fmt::{self, Write as _};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{Payload, ValueError, wire::Fault};

impl Payload {
    /// Reads it as a `T`, or as serde would read a `T` from the same value in JSON.
    ///
    /// # Errors
    ///
    /// That of [`decode`](Self::decode), if it is neither.
    pub(crate) fn decode_as_json<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        let node: Node = self.decode()?;
        T::deserialize(node).map_err(|fault| ValueError::unfit::<T>(fault.to_string()))
    }

    /// As JSON that a program reads: what [`to_json`](Self::to_json) shows apart for people, it does not.
    pub(crate) fn to_plain_json(&self) -> String {
        let mut text = String::new();
        if let Ok(node) = self.decode::<Node>() {
            node.write(&mut text);
        }
        text
    }
}

/// A value as JSON has them.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Integer(i128),
    /// Beyond `i128`.
    Huge(u128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(super) fn list(&self, key: &str) -> Option<&[Self]> {
        match self.get(key)? {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "only where one side is a float already")]
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Huge(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// How two numbers stand, exactly where both are integers.
    pub(super) fn order(&self, other: &Self) -> Option<std::cmp::Ordering> {
        use std::cmp::Ordering::{Greater, Less};
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(other)),
            (Self::Huge(one), Self::Huge(other)) => Some(one.cmp(other)),
            (Self::Huge(_), Self::Integer(_)) => Some(Greater),
            (Self::Integer(_), Self::Huge(_)) => Some(Less),
            (one, other) => one.number()?.partial_cmp(&other.number()?),
        }
    }

    pub(super) fn is_integer(&self) -> bool {
        match self {
            Self::Integer(_) | Self::Huge(_) => true,
            Self::Float(value) => value.is_finite() && value.fract() == 0.0,
            _ => false,
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Huge(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Map(_) => "an object",
        }
    }

    pub(super) fn is_a(&self, word: &str) -> bool {
        match word {
            "null" => matches!(self, Self::Null),
            "boolean" => matches!(self, Self::Bool(_)),
            "integer" => self.is_integer(),
            "number" => self.number().is_some(),
            "string" => matches!(self, Self::Text(_)),
            "array" => matches!(self, Self::List(_)),
            "object" => matches!(self, Self::Map(_)),
            // No type that JSON Schema knows.
            _ => false,
        }
    }
}

/// As JSON has it: numbers by their values, objects whatever their order.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Map(one), Self::Map(fields)) => {
                one.len() == fields.len() && one.iter().all(|(key, value)| other.get(key) == Some(value))
            }
            (one, other) => one.order(other) == Some(std::cmp::Ordering::Equal),
        }
    }
}

impl Node {
    fn write(&self, text: &mut String) {
        // A string takes every write.
        let _ = match self {
            Self::Bool(value) => write!(text, "{value}"),
            Self::Integer(value) => write!(text, "{value}"),
            Self::Huge(value) => write!(text, "{value}"),
            Self::Float(value) if value.is_finite() => write!(text, "{value:?}"),
            Self::Null | Self::Float(_) => write!(text, "null"),
            Self::Text(value) => {
                quote(value, text);
                Ok(())
            }
            Self::List(items) => {
                text.push('[');
                for (place, item) in items.iter().enumerate() {
                    text.push_str(if place == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
                Ok(())
            }
            Self::Map(entries) => {
                text.push('{');
                for (place, (key, value)) in entries.iter().enumerate() {
                    text.push_str(if place == 0 { "" } else { "," });
                    quote(key, text);
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
                Ok(())
            }
        };
    }
}

fn quote(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// As serde reads a value of JSON: numbers as the type wants them, `null` as `None` and as the unit.
impl<'de> Deserializer<'de> for Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Integer(value) => match (u64::try_from(value), i64::try_from(value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (Err(_), Ok(value)) => visitor.visit_i64(value),
                (Err(_), Err(_)) => visitor.visit_i128(value),
            },
            Self::Huge(value) => visitor.visit_u128(value),
            Self::Float(value) => visitor.visit_f64(value),
            Self::Text(value) => visitor.visit_string(value),
            Self::List(items) => {
                let mut items = SeqDeserializer::new(items.into_iter());
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Self::Map(entries) => {
                let mut entries = MapDeserializer::new(entries.into_iter());
                let value = visitor.visit_map(&mut entries)?;
                entries.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Self::Map(entries) if entries.len() == 1 => {
                let entries = MapDeserializer::new(entries.into_iter());
                MapAccessDeserializer::new(entries).deserialize_enum(name, variants, visitor)
            }
            Self::Text(variant) => {
                IntoDeserializer::<Fault>::into_deserializer(variant).deserialize_enum(name, variants, visitor)
            }
            other => other.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl IntoDeserializer<'_, Fault> for Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(i128::try_from(value).map_or(Node::Huge(value), Node::Integer))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_f32<E>(self, value: f32) -> Result<Node, E> {
        Ok(Node::Float(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    /// As JSON would have them.
    fn visit_bytes<E>(self, value: &[u8]) -> Result<Node, E> {
        Ok(Node::List(value.iter().map(|byte| Node::Integer((*byte).into())).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Node, Node>()? {
            map.push((name(key), value));
        }
        Ok(Node::Map(map))
    }
}

/// A map's key as JSON has it: a string.
fn name(key: Node) -> String {
    match key {
        Node::Text(text) => text,
        Node::Bool(value) => value.to_string(),
        Node::Integer(value) => value.to_string(),
        Node::Huge(value) => value.to_string(),
        Node::Float(value) => value.to_string(),
        Node::Null | Node::List(_) | Node::Map(_) => String::new(),
    }
}
