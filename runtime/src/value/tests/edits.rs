//! A type changed after its value was recorded: it reads as the new type says, or is refused by name.

use std::fmt::Debug;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::super::{Payload, ValueError};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u32,
    name: String,
    price: Price,
    tags: Option<Vec<String>>,
    state: State,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Price {
    cents: i64,
    rate: f32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum State {
    Open,
    Paid(u8),
    Sent { at: u64 },
}

fn order() -> Order {
    Order {
        id: 7,
        name: "n".into(),
        price: Price { cents: -5, rate: 0.5 },
        tags: Some(vec!["t".into()]),
        state: State::Sent { at: 9 },
    }
}

#[track_caller]
fn reads<T: DeserializeOwned + PartialEq + Debug>(old: &(impl Serialize + ?Sized), new: T) {
    assert_eq!(Payload::encode(old).unwrap().decode::<T>().unwrap(), new);
}

#[track_caller]
fn refused<T: DeserializeOwned + Debug>(old: &(impl Serialize + ?Sized), field: Option<&str>, cause: &str) {
    let error = Payload::encode(old).unwrap().decode::<T>().unwrap_err();
    assert!(matches!(error, ValueError::Unreadable { .. }), "{error}");
    assert_eq!(error.field(), field, "{error}");
    assert!(error.to_string().contains(cause), "{error}");
}

/// A type with some of the order's fields, changed.
macro_rules! shape {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct $name { $($(#[$attribute])* $field: $type),* }
    };
}

#[test]
fn a_field_is_added() {
    shape!(Needed { id: u32, weight: u8 });
    refused::<Needed>(&order(), None, "missing field `weight`");
    shape!(Optional { id: u32, weight: Option<u8> });
    reads(&order(), Optional { id: 7, weight: None });
    shape!(Defaulted {
        id: u32,
        #[serde(default)]
        weight: u8
    });
    reads(&order(), Defaulted { id: 7, weight: 0 });
}

#[test]
fn a_field_is_removed() {
    shape!(Fewer { name: String });
    reads(&order(), Fewer { name: "n".into() });
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        #[expect(dead_code)]
        name: String,
    }
    refused::<Strict>(&order(), Some("id"), "unknown field `id`");
}

#[test]
fn a_field_is_renamed() {
    shape!(Renamed { number: u32 });
    refused::<Renamed>(&order(), None, "missing field `number`");
    shape!(Aliased {
        #[serde(alias = "id")]
        number: u32
    });
    reads(&order(), Aliased { number: 7 });
}

#[test]
fn fields_are_reordered() {
    shape!(One { a: u32, b: u32 });
    shape!(Two { b: u32, a: u32 });
    reads(&One { a: 1, b: 2 }, Two { b: 2, a: 1 });
}

#[test]
fn a_field_is_retyped() {
    shape!(Text { id: String });
    refused::<Text>(&order(), Some("id"), "invalid type: integer `7`, expected a string");
    shape!(Float { id: f64 });
    refused::<Float>(&order(), Some("id"), "invalid type: integer `7`, expected f64");
    shape!(Bool { id: bool });
    refused::<Bool>(&order(), Some("id"), "expected a boolean");
    shape!(Wide { id: i128 });
    reads(&order(), Wide { id: 7 });
    shape!(Narrow { id: u8 });
    reads(&order(), Narrow { id: 7 });
    reads(&7.5_f32, 7.5_f64);
    refused::<f32>(&7.5_f64, None, "expected f32");
    refused::<u8>(&300, None, "invalid value: integer `300`, expected u8");
    refused::<u8>(&-1, None, "integer `-1`");
    refused::<u64>(&(1_u128 << 64), None, "expected u64");
    refused::<i128>(&u128::MAX, None, "expected i128");
    refused::<Price>(&(1_i64, 0.5_f32), None, "invalid type: sequence, expected struct Price");
    refused::<(i64, f32)>(&order().price, None, "invalid type: map");
    refused::<Price>(&std::collections::BTreeMap::from([(0_u64, 5)]), None, "the name of a field");
    refused::<(u8, u8)>(&(1, 2, 3), None, "invalid length 3, expected 2 items");
    refused::<(u8, u8, u8)>(&(1, 2), None, "invalid length 2");
    refused::<String>(&serde_bytes::ByteBuf::from("text"), None, "expected a string");
    reads(&serde_bytes::ByteBuf::from([1, 200]), vec![1_u8, 200]);
    reads(&vec![1_u8, 200], serde_bytes::ByteBuf::from([1, 200]));
    refused::<Option<()>>(&(), None, "invalid type: unit value, expected option");
    refused::<()>(&None::<()>, None, "expected unit");
}

#[test]
fn variants_are_reordered_added_or_renamed() {
    #[derive(Debug, PartialEq, Deserialize)]
    enum Reordered {
        Sent { at: u64 },
        Lost,
        Paid(u8),
        Open,
    }
    reads(&State::Open, Reordered::Open);
    reads(&State::Paid(1), Reordered::Paid(1));
    reads(&State::Sent { at: 9 }, Reordered::Sent { at: 9 });
    assert_ne!(Reordered::Lost, Reordered::Open);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Renamed {
        Begun,
    }
    refused::<Renamed>(&State::Open, None, "unknown variant `Open`, expected `Begun`");
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Refilled {
        Open(u8),
        Paid,
        Sent(u64),
    }
    refused::<Refilled>(&State::Open, Some("Open"), "invalid type: unit variant");
    refused::<Refilled>(&State::Paid(1), Some("Paid"), "a variant that holds nothing");
    refused::<Refilled>(&State::Sent { at: 9 }, Some("Sent"), "invalid type: map");
}

#[test]
fn an_option_is_put_on_or_taken_off() {
    shape!(On { id: Option<u32> });
    reads(&order(), On { id: Some(7) });
    shape!(Twice { id: Option<Option<u32>> });
    reads(&order(), Twice { id: Some(Some(7)) });
    shape!(Off { tags: Vec<String> });
    reads(&order(), Off { tags: vec!["t".into()] });
    refused::<Off>(&Order { tags: None, ..order() }, Some("tags"), "invalid type: Option value, expected a sequence");
}

#[test]
fn a_nested_type_changes() {
    shape!(NewPrice { cents: i64, rate: f32, currency: String });
    shape!(Nested { price: NewPrice });
    refused::<Nested>(&order(), Some("price"), "missing field `currency`");
    shape!(Cents { cents: String });
    shape!(Retyped { price: Cents });
    refused::<Vec<Retyped>>(&vec![order()], Some("[0].price.cents"), "integer `-5`, expected a string");
}

#[test]
fn a_generic_gets_another_parameter() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Page<T> {
        items: Vec<T>,
    }
    reads(&Page { items: vec![1_u8] }, Page { items: vec![1_u64] });
    refused::<Page<String>>(&Page { items: vec![1_u8] }, Some("items[0]"), "expected a string");
}

#[test]
fn a_newtype_is_put_on_or_taken_off() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Id(u32);
    shape!(Wrapped { id: Id });
    reads(&order(), Wrapped { id: Id(7) });
    shape!(Plain { id: u32 });
    reads(&Wrapped { id: Id(7) }, Plain { id: 7 });
}

#[test]
fn a_unit_becomes_something() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nothing;
    shape!(Empty {});
    reads(&Nothing, ());
    reads(&(), Nothing);
    refused::<Empty>(&Nothing, None, "invalid type: unit value, expected struct Empty");
    refused::<Nothing>(&Empty {}, None, "invalid type: map, expected unit struct Nothing");
    refused::<u8>(&(), None, "invalid type: unit value, expected u8");
}

#[test]
fn the_message_says_what_where_why_and_what_to_do() {
    let error = Payload::encode(&vec![Some("text")]).unwrap().decode::<Vec<u8>>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the record cannot be read as `alloc::vec::Vec<u8>`, at `[0]`: invalid type: string \"text\", expected u8; \
         it was written as another type: the type changed since. let the type read the old form too \
         (`#[serde(default)]` on a new field, `#[serde(alias = \"..\")]` on a renamed one), or start a new run"
    );
}
