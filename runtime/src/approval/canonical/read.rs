//! Documents as values of Rust types, through serde.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{CanonicalError, CanonicalFault, MAX_INTEGER, Node, map_of};

impl<'de> de::IntoDeserializer<'de, CanonicalError> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = CanonicalError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CanonicalError> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Integer(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Node::Text(value) => visitor.visit_borrowed_str(value),
            Node::List(items) => {
                let mut list = SeqDeserializer::new(items.iter());
                let value = visitor.visit_seq(&mut list)?;
                list.end().map(|()| value)
            }
            Node::Map(entries) => {
                let mut map = MapDeserializer::new(entries.iter().map(|(key, value)| (key.as_str(), value)));
                let value = visitor.visit_map(&mut map)?;
                map.end().map(|()| value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CanonicalError> {
        match self {
            Node::Null => visitor.visit_none(),
            some => visitor.visit_some(some),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, CanonicalError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CanonicalError> {
        match self {
            Node::Text(variant) => visitor.visit_enum(Variant { variant, held: None }),
            Node::Map(entries) => match entries.as_slice() {
                [(variant, held)] => visitor.visit_enum(Variant { variant, held: Some(held) }),
                _ => Err(unfit("wanted is a variant: a map with one key")),
            },
            _ => Err(unfit("wanted is a variant: a text, or a map with one key")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn unfit(why: &str) -> CanonicalError {
    CanonicalFault::Unfit { why: why.to_owned() }.into()
}

/// One variant of an enum, and what it holds.
struct Variant<'de> {
    variant: &'de str,
    held: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = CanonicalError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), CanonicalError> {
        let name = de::value::BorrowedStrDeserializer::<CanonicalError>::new(self.variant);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> Variant<'de> {
    fn held(self) -> Result<&'de Node, CanonicalError> {
        self.held.ok_or_else(|| unfit("the variant holds something, but only its name is given"))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = CanonicalError;

    fn unit_variant(self) -> Result<(), CanonicalError> {
        match self.held {
            None => Ok(()),
            Some(_) => Err(unfit("the variant holds nothing, but something is given")),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, CanonicalError> {
        seed.deserialize(self.held()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, CanonicalError> {
        self.held()?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CanonicalError> {
        self.held()?.deserialize_any(visitor)
    }
}

/// Reads a document from any self-describing form, as far as it has a canonical form.
pub(super) fn any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
    struct Any;

    impl<'de> DeserializeSeed<'de> for Any {
        type Value = Node;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
            deserializer.deserialize_any(self)
        }
    }

    impl<'de> Visitor<'de> for Any {
        type Value = Node;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON value without floats")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
            Ok(Node::Null)
        }

        fn visit_none<E: de::Error>(self) -> Result<Node, E> {
            Ok(Node::Null)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
            deserializer.deserialize_any(self)
        }

        fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
            Ok(Node::Bool(value))
        }

        fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
            if value.unsigned_abs() > MAX_INTEGER.unsigned_abs() {
                return Err(E::custom(CanonicalError::from(CanonicalFault::IntegerRange)));
            }
            Ok(Node::Integer(value))
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
            self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
        }

        fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
            Ok(Node::Text(value.to_owned()))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element_seed(Any)? {
                items.push(item);
            }
            Ok(Node::List(items))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
            let mut entries = Vec::new();
            while let Some(key) = map.next_key::<String>()? {
                entries.push((key, map.next_value_seed(Any)?));
            }
            map_of(entries).map_err(de::Error::custom)
        }
    }

    deserializer.deserialize_any(Any)
}
