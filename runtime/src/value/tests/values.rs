//! Every kind of value comes back equal.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::super::{Payload, ValueError};
use super::{back, comes_back};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Newtype<T>(T);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pair(u8, Option<()>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Struct {
    name: String,
    nested: Option<Option<u8>>,
    unit: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    skipped: Option<u8>,
    list: Vec<Option<Unit>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum External {
    Unit,
    Newtype(Option<u8>),
    Nested(Option<Option<()>>),
    Tuple(u128, Option<()>),
    Struct { wide: i128, option: Option<Option<u8>> },
    Empty {},
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Internal {
    Unit,
    Newtype(Box<Struct>),
    Wrapped(Unit),
    Struct { option: Option<Option<u8>>, unit: Option<()>, address: IpAddr, bytes: ByteBuf, letter: char },
    Map(BTreeMap<String, i64>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "content")]
enum Adjacent {
    Unit,
    Newtype(Option<Option<u128>>),
    Tuple(i128, Option<()>),
    Struct { wide: u128 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
    Struct { option: Option<Option<u8>>, unit: Option<()> },
    Pair(i64, Option<()>),
    Bool(bool),
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    id: u8,
    #[serde(flatten)]
    inner: Struct,
    #[serde(flatten)]
    kind: External,
    #[serde(flatten)]
    maybe: Option<More>,
    #[serde(flatten)]
    rest: HashMap<String, Option<i32>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct More {
    more: f32,
}

fn a_struct() -> Struct {
    Struct { name: "n".into(), nested: Some(None), unit: Some(()), skipped: None, list: vec![None, Some(Unit), None] }
}

macro_rules! edges {
    ($($type:ident)*) => {$(
        let edges: Vec<$type> = [
            0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 32_767, 32_768, 65_535, 65_536, 1 << 31, 1 << 32, 1 << 63, 1 << 64,
        ]
        .into_iter()
        .flat_map(|edge: i128| [edge, -edge, -edge - 1])
        .filter_map(|edge| edge.try_into().ok())
        .chain([$type::MIN, $type::MIN + 1, $type::MAX - 1, $type::MAX])
        .collect();
        for &edge in &edges {
            comes_back(edge);
            comes_back(Some(edge));
        }
        comes_back(edges);
    )*};
}

#[test]
fn every_integer_width_comes_back() {
    edges!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
}

#[test]
fn floats_come_back_bit_by_bit() {
    for bits in [0, 1 << 31, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7f80_0001, 0xffc1_2345, 0x3f80_0000] {
        assert_eq!(back(&f32::from_bits(bits)).to_bits(), bits);
        assert_eq!(back(&Some(f32::from_bits(bits))).map(f32::to_bits), Some(bits));
    }
    let wide = 0x7ff0_0000_0000_0000_u64;
    for bits in [0, 1 << 63, 1, wide, wide | 1 << 63, wide | 1 << 51, wide | 1, wide | 0x000d_dead_beef_0000] {
        assert_eq!(back(&f64::from_bits(bits)).to_bits(), bits);
    }
}

#[test]
fn options_come_back_in_any_nesting() {
    comes_back(());
    comes_back(None::<()>);
    comes_back(Some(()));
    for value in [None, Some(None), Some(Some(None)), Some(Some(Some(())))] {
        comes_back::<Option<Option<Option<()>>>>(value);
    }
    for value in [None, Some(None), Some(Some(None)), Some(Some(Some(5)))] {
        comes_back::<Option<Option<Option<u8>>>>(value);
        comes_back(Newtype(Newtype(value)));
        comes_back(vec![value; 3]);
    }
    for value in [Ok(None), Ok(Some(())), Err(None), Err(Some(String::new()))] {
        comes_back::<Result<Option<()>, Option<String>>>(value);
    }
    for value in [None, Some(Newtype(None)), Some(Newtype(Some(())))] {
        comes_back::<Option<Newtype<Option<()>>>>(value);
    }
    comes_back(Some(Unit));
    comes_back(Some(Some(u128::MAX)));
    comes_back(vec![Some(()), None]);
    comes_back((Some(()), (), None::<u8>, Some(Some(()))));
}

#[test]
fn texts_and_bytes_come_back() {
    for len in [0, 1, 31, 32, 255, 256, 65_535, 65_536] {
        comes_back("x".repeat(len));
        comes_back(ByteBuf::from(vec![0xa5; len]));
        comes_back(vec![0xa5_u8; len]);
    }
    for letter in ['\0', 'a', 'é', '\u{202e}', '🦀', char::MAX] {
        comes_back(letter);
        comes_back(Some(letter.to_string()));
    }
    comes_back([1_u8, 200, 3]);
}

#[test]
fn maps_with_any_keys_come_back() {
    comes_back(HashMap::from([("a".to_string(), 1), (String::new(), 2)]));
    comes_back(HashMap::from([((1_u8, "x".to_string()), 1), ((2, String::new()), 2)]));
    comes_back(BTreeMap::from([(None, 1), (Some(None), 2), (Some(Some(())), 3)]));
    comes_back(HashMap::from([(i128::MIN, ()), (0, ())]));
    comes_back(HashMap::from([(Newtype('c'), Some(()))]));
    comes_back(BTreeMap::from([
        (External::Unit, 0),
        (External::Newtype(None), 1),
        (External::Tuple(u128::MAX, Some(())), 2),
        (External::Struct { wide: i128::MIN, option: Some(None) }, 3),
    ]));
    comes_back(BTreeMap::from([(BTreeMap::from([(vec![1], true)]), BTreeSet::from([1, 2]))]));
    comes_back((0..70_000).map(|n| (n, ())).collect::<HashMap<u32, ()>>());
}

#[test]
fn structs_and_std_types_come_back() {
    comes_back(Unit);
    comes_back(Newtype(Newtype(5_u8)));
    comes_back(Pair(5, Some(())));
    comes_back(a_struct());
    comes_back(Struct { nested: None, unit: None, skipped: Some(3), ..a_struct() });
    comes_back(Duration::new(3, 5));
    comes_back(SystemTime::UNIX_EPOCH + Duration::from_nanos(5));
    comes_back(IpAddr::V4(Ipv4Addr::LOCALHOST));
    comes_back(1..=5_u8);
    comes_back(std::path::PathBuf::from("/a"));
    comes_back(Box::new([Some(1), None]));
}

#[test]
fn every_enum_form_comes_back() {
    for value in [
        External::Unit,
        External::Newtype(None),
        External::Newtype(Some(1)),
        External::Nested(Some(None)),
        External::Nested(Some(Some(()))),
        External::Tuple(u128::MAX, Some(())),
        External::Struct { wide: i128::MIN, option: Some(None) },
        External::Empty {},
    ] {
        comes_back(Some(value.clone()));
        comes_back(vec![Ok::<_, ()>(value.clone())]);
        let flat = Flat {
            id: 1,
            inner: a_struct(),
            // serde cannot read a 128-bit integer within a flattened part.
            kind: External::Nested(Some(Some(()))),
            maybe: Some(More { more: 0.1 }),
            rest: HashMap::from([("x".into(), None), ("y".into(), Some(-5))]),
        };
        comes_back(flat);
    }
    for value in [
        Internal::Unit,
        Internal::Newtype(Box::new(a_struct())),
        Internal::Wrapped(Unit),
        Internal::Struct {
            option: Some(None),
            unit: Some(()),
            address: Ipv4Addr::LOCALHOST.into(),
            bytes: ByteBuf::from(vec![0, 255]),
            letter: 'é',
        },
        Internal::Map(BTreeMap::from([("a".into(), i64::MIN)])),
    ] {
        comes_back(Some(value));
    }
    for value in [
        Adjacent::Unit,
        Adjacent::Newtype(None),
        Adjacent::Newtype(Some(None)),
        Adjacent::Newtype(Some(Some(u128::MAX))),
        Adjacent::Tuple(i128::MIN, Some(())),
        Adjacent::Struct { wide: u128::MAX },
    ] {
        comes_back(Some(value));
    }
    for value in [
        Untagged::Number(u64::MAX),
        Untagged::Text("t".into()),
        Untagged::Struct { option: Some(None), unit: Some(()) },
        Untagged::Struct { option: Some(Some(1)), unit: None },
        Untagged::Pair(-1, Some(())),
        Untagged::Bool(true),
        Untagged::Nothing,
    ] {
        comes_back(value);
    }
}

/// If this fails, serde has learned it: take the limit out of the module's text.
#[test]
fn what_serde_cannot_buffer_is_refused_and_not_changed() {
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        Wide { wide: u128 },
    }
    for wide in [1, u128::MAX] {
        let payload = Payload::encode(&Tagged::Wide { wide }).unwrap();
        let error = payload.decode::<Tagged>().unwrap_err();
        assert!(matches!(error, ValueError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn a_length_that_was_told_wrong_is_mended() {
    struct Liar;
    impl Serialize for Liar {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeSeq as _;
            let mut seq = serializer.serialize_seq(Some(100_000))?;
            seq.serialize_element(&1)?;
            seq.serialize_element(&2)?;
            seq.end()
        }
    }
    assert_eq!(Payload::encode(&(Liar, Liar)).unwrap().decode::<[Vec<u8>; 2]>().unwrap(), [[1, 2], [1, 2]]);
}

/// The form on disk, byte by byte: a change here is a change of the format.
#[test]
fn the_bytes_are_as_documented() {
    #[track_caller]
    fn check<T: Serialize>(value: T, hex: &str) {
        let bytes: String = Payload::encode(&value).unwrap().bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, hex);
    }
    check(None::<u8>, "c0");
    check(Some(5), "05");
    check(Some(None::<u8>), "d40101");
    check((), "d40200");
    check(Some(()), "d40201");
    check(-1_i64, "ff");
    check(300_i32, "cd012c");
    check(u128::MAX, "d803ffffffffffffffffffffffffffffffff");
    check(i128::MIN, "d80480000000000000000000000000000000");
    check("é", "a2c3a9");
    check(ByteBuf::from([1, 2]), "c4020102");
    check([1, 2], "920102");
    check(External::Unit, "a4556e6974");
    check(External::Newtype(None), "81a74e657774797065c0");
    check(More { more: 1.0 }, "81a46d6f7265ca3f800000");
}
