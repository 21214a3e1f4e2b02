//! Equal arguments are one identity, different ones are not.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::super::{Arguments, ValueError};

fn of<T: Serialize + ?Sized>(value: &T) -> Arguments {
    let mut arguments = Arguments::new();
    arguments.push("value", value).unwrap();
    arguments
}

#[test]
fn the_order_of_a_map_does_not_count() {
    for n in [0, 1, 2, 15, 16, 1000] {
        let sorted: BTreeMap<u32, Option<u32>> = (0..n).map(|key| (key * 7, Some(key))).collect();
        // Two maps with two random states.
        let (one, two) = (sorted.iter().collect::<HashMap<_, _>>(), sorted.iter().rev().collect::<HashMap<_, _>>());
        assert_eq!(of(&one), of(&two));
        assert_eq!(of(&vec![("x", &one)]).digest(), of(&vec![("x", &two)]).digest());
        assert_eq!(of(&one), of(&sorted));
        assert_eq!(of(&one).get::<BTreeMap<u32, Option<u32>>>("value").unwrap().unwrap(), sorted);
    }
    let nested = |keys: [&'static str; 3]| {
        keys.map(|key| (key.to_string(), keys.map(|key| (key, 1)).into_iter().collect::<HashMap<_, _>>()))
    };
    assert_eq!(
        of(&nested(["a", "b", "c"]).into_iter().collect::<HashMap<_, _>>()),
        of(&nested(["c", "a", "b"]).into_iter().collect::<HashMap<_, _>>())
    );
}

#[test]
fn what_differs_has_another_digest() {
    let list = |pairs: &[(&'static str, &'static str)]| {
        let mut arguments = Arguments::new();
        for (name, value) in pairs {
            arguments.push(name, value).unwrap();
        }
        arguments
    };
    let all = [
        Arguments::new(),
        list(&[("a", "")]),
        list(&[("", "a")]),
        list(&[("a", "b")]),
        list(&[("ab", "")]),
        list(&[("a", ""), ("b", "")]),
        list(&[("b", ""), ("a", "")]),
        list(&[("key", "k")]),
        Arguments::key("k"),
        Arguments::key(""),
        of(&None::<()>),
        of(&Some(())),
        of(&Some(None::<()>)),
        of(&()),
        of(&1),
        of(&-1),
        of(&1.0_f64),
        of(&1.0_f32),
        of(&0.0),
        of(&-0.0),
        of("1"),
        of(&["1"]),
        of(&[[1], [2]]),
        of(&[[1, 2]]),
    ];
    for (index, one) in all.iter().enumerate() {
        for (other_index, other) in all.iter().enumerate() {
            assert_eq!(one.digest() == other.digest(), index == other_index, "{one:?} and {other:?}");
        }
    }
}

/// The identity in journals: a change here makes recorded calls unknown.
#[test]
fn the_digest_stays() {
    let hex = |arguments: Arguments| arguments.digest().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut arguments = Arguments::new();
    arguments.push("url", "https://a").unwrap();
    arguments.push("n", &3).unwrap();
    assert_eq!(arguments.len(), 39);
    assert_eq!(hex(arguments), "cc5898f0f16fdd6de64348b6b294f04f14433ee3d94565d96b9c526d84bc23a0");
    assert_eq!(hex(Arguments::key("order-7")), "15c90f2b3c0d3e723c054ff1433f0f581c016584a7139ad45d7509d5e1b2357e");
}

#[test]
fn arguments_are_shown_and_read_by_name() {
    let mut arguments = Arguments::new();
    arguments.push("url", "https://a").unwrap();
    arguments.push("n", &3).unwrap();
    arguments.push("when", &None::<u8>).unwrap();
    assert_eq!(arguments.preview(100), r#"url="https://a", n=3, when=null"#);
    assert_eq!(arguments.preview(10), r#"url="http…"#);
    assert_eq!(arguments.preview(0), "");
    assert_eq!(Arguments::key("order-7").preview(100), r#"key="order-7""#);
    assert_eq!(arguments.get::<u64>("n").unwrap().unwrap(), 3);
    assert!(arguments.get::<u64>("m").is_none());
    assert!(matches!(arguments.get::<u64>("url"), Some(Err(ValueError::Unreadable { retyped: false, .. }))));
    assert!(Arguments::key("order-7").get::<String>("key").is_none());
}

#[test]
fn a_refused_argument_adds_nothing() {
    #[derive(Serialize)]
    struct Outer {
        inner: Vec<Inner>,
    }
    #[derive(Serialize)]
    struct Inner {
        #[serde(serialize_with = "refuse")]
        lock: u8,
    }
    fn refuse<S: serde::Serializer>(_: &u8, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a lock\u{202e} is held"))
    }
    let mut arguments = of(&1);
    let error = arguments.push("outer", &Outer { inner: vec![Inner { lock: 0 }] }).unwrap_err();
    assert_eq!(arguments, of(&1));
    assert_eq!(error.field(), Some("inner[0].lock"));
    assert!(error.to_string().contains("recorded, at `inner[0].lock`: a lock\\u202e is held; "), "{error}");
}
