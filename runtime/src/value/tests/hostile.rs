//! Any bytes end in a value or an error.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::super::{Payload, ValueError};

/// Enough randomness for tests, and the same again from the same seed.
pub(super) struct Xorshift(u64);

impl Xorshift {
    /// From the environment's `SEED`, else the clock; printed, so that a failure can be repeated.
    pub(super) fn new() -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) | 1 << 40
        });
        println!("SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf(Option<Option<u128>>),
    Node(Vec<Tree>),
    Named { name: String, child: Box<Tree> },
    Unit,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Loose {
    Struct { a: Option<Box<Loose>> },
    Number(i32),
    Float(f64),
    Text(String),
    List(Vec<Loose>),
    Map(BTreeMap<String, Loose>),
}

/// What recurses without taking a byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Somes(Option<Box<Somes>>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Lists(Vec<Lists>);

fn read_as_anything(bytes: Vec<u8>) {
    let payload = Payload { fingerprint: 0, bytes };
    let _ = payload.decode::<Tree>();
    let _ = payload.decode::<Loose>();
    let _ = payload.decode::<Somes>();
    let _ = payload.decode::<Lists>();
    let _ = payload.decode::<HashMap<(i8, Option<String>), Option<ByteBuf>>>();
    let _ = payload.decode::<(u8, char, Option<()>, f32)>();
    let _ = payload.decode::<Vec<u64>>();
    let _ = payload.decode::<String>();
    assert!(payload.preview(50).chars().count() <= 50);
    assert!(payload.to_json().chars().all(|c| !c.is_control()));
}

#[test]
fn random_bytes_are_a_value_or_an_error() {
    let mut random = Xorshift::new();
    for _ in 0..20_000 {
        let len = random.below(40);
        read_as_anything((0..len).map(|_| random.byte()).collect());
    }
}

#[test]
fn damaged_records_are_a_value_or_an_error() {
    let tree = Tree::Node(vec![
        Tree::Leaf(None),
        Tree::Leaf(Some(None)),
        Tree::Leaf(Some(Some(u128::MAX))),
        Tree::Named { name: "x".repeat(40), child: Box::new(Tree::Unit) },
    ]);
    let loose = Loose::Map(BTreeMap::from([
        ("a".into(), Loose::List(vec![Loose::Number(1), Loose::Float(0.5), Loose::Text("t".into())])),
        ("b".into(), Loose::Struct { a: Some(Box::new(Loose::Struct { a: None })) }),
    ]));
    let keyed = HashMap::from([((1_i8, Some("k".to_string())), Some(ByteBuf::from(vec![1; 20])))]);
    let originals = [Payload::encode(&tree), Payload::encode(&loose), Payload::encode(&keyed)]
        .map(|payload| payload.unwrap().bytes);
    let mut random = Xorshift::new();
    for round in 0..20_000 {
        let mut bytes = originals[round % originals.len()].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.byte(),
                2 => bytes.insert(at, random.byte()),
                _ => bytes.truncate(at.max(1)),
            }
        }
        read_as_anything(bytes);
    }
}

#[test]
fn every_prefix_is_refused_and_so_are_trailing_bytes() {
    let value = ("text".to_string(), Some(Some(7_u128 << 70)), vec![None, Some(())], 1.5_f64);
    let payload = Payload::encode(&value).unwrap();
    for len in 0..payload.bytes.len() {
        let cut = Payload { bytes: payload.bytes[..len].to_vec(), ..payload };
        let error = cut.decode::<(String, Option<Option<u128>>, Vec<Option<()>>, f64)>().unwrap_err();
        assert!(matches!(error, ValueError::Damaged { .. }), "{error}");
    }
    let mut longer = payload.clone();
    longer.bytes.push(0);
    let error = longer.decode::<(String, Option<Option<u128>>, Vec<Option<()>>, f64)>().unwrap_err();
    assert!(error.to_string().contains("is damaged: 1 bytes follow the value"), "{error}");
}

#[test]
fn declared_lengths_take_no_memory() {
    // Sequence, map, string, bytes of 2^32 - 1 items; then sequences that each declare all that is left.
    for marker in [0xdd, 0xdf, 0xdb, 0xc6] {
        read_as_anything(vec![marker, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]);
    }
    let mut nested = Vec::new();
    for _ in 0..120 {
        nested.extend([0xdc, 0x10, 0x00]);
    }
    nested.resize(nested.len() + 0x1000, 0xc0);
    read_as_anything(nested);
}

#[test]
fn depth_is_bounded_when_read() {
    for (open, close) in [(vec![0x91], 0x90), (vec![0x81, 0xa1, b'a'], 0xc0), (vec![0x81], 0x05), (vec![0xd4, 1], 0x7f)]
    {
        let mut bytes = open.repeat(100_000);
        bytes.push(close);
        read_as_anything(bytes);
    }
    let deep = Payload { fingerprint: 0, bytes: [[0x91].repeat(1000), vec![0x90]].concat() };
    let error = deep.decode::<Lists>().unwrap_err();
    assert!(error.to_string().contains("nested deeper than 128 levels"), "{error}");
    // A number read as a type that is all options.
    let error = Payload { fingerprint: 0, bytes: vec![5] }.decode::<Somes>().unwrap_err();
    assert!(error.to_string().contains("nested deeper than 128 levels"), "{error}");
}

#[test]
fn depth_is_bounded_when_written() {
    let nest = |depth| (0..depth).fold(Lists(vec![]), |within, _| Lists(vec![within]));
    super::comes_back(nest(127));
    assert!(Payload::encode(&nest(128)).unwrap_err().to_string().contains("nested deeper than 128 levels"));
    assert!(matches!(Payload::encode(&nest(2000)), Err(ValueError::Unwritable { .. })));
    let nest = |depth| (0..depth).fold(Somes(None), |within, _| Somes(Some(Box::new(within))));
    super::comes_back(nest(128));
    assert!(matches!(Payload::encode(&nest(129)), Err(ValueError::Unwritable { .. })));
}

/// What cannot be read is a fault of the record when no type could, and of the type otherwise.
#[test]
fn a_damaged_record_is_told_from_a_changed_type() {
    let damaged = Payload { fingerprint: 0, bytes: vec![0xc1] }.decode::<u8>().unwrap_err();
    assert_eq!(
        damaged.to_string(),
        "the record of a `u8` is damaged: the byte 0xc1 stands where no value can begin with it; \
         restore the store from a copy, or start a new run"
    );
    let changed = Payload::encode("text").unwrap().decode::<u8>().unwrap_err();
    assert!(matches!(changed, ValueError::Unreadable { retyped: true, .. }), "{changed}");
}
