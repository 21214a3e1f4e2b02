//! Values as people see them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_bytes::ByteBuf;

use super::super::Payload;

#[track_caller]
fn check<T: Serialize>(value: T, json: &str) {
    assert_eq!(Payload::encode(&value).unwrap().to_json(), json);
}

#[test]
fn every_value_has_a_text() {
    check(None::<u8>, "null");
    check(Some(5), "5");
    check(Some(None::<u8>), "[null]");
    check((), "[]");
    check(Some(()), "[[]]");
    check([true, false], "[true,false]");
    check(
        (1.0_f64, -0.0_f32, 1e300, f64::NAN, f32::INFINITY, f64::NEG_INFINITY),
        r#"[1.0,-0.0,1e300,"NaN","Infinity","-Infinity"]"#,
    );
    check((u128::MAX, i128::MIN), "[340282366920938463463374607431768211455,-170141183460469231731687303715884105728]");
    check(ByteBuf::from([0, 255]), r#"{"$bytes":"00ff"}"#);
    check(BTreeMap::from([("a", Ok::<_, ()>(1))]), r#"{"a":{"Ok":1}}"#);
    check(BTreeMap::from([((1, "x"), 1)]), r#"{"[1,\"x\"]":1}"#);
    check(BTreeMap::from([(BTreeMap::from([(1, 2)]), 1)]), r#"{"{\"01\":2}":1}"#);
}

#[test]
fn no_text_deceives_a_terminal() {
    check("\u{1b}[31m\n\"\\\u{202e}\u{85}\u{e0041}é🦀", r#""\u001b[31m\n\"\\\u202e\u0085\udb40\udc41é🦀""#);
}

#[test]
fn a_preview_has_at_most_so_many_characters() {
    let payload = Payload::encode(&"é".repeat(1_000_000)).unwrap();
    assert_eq!(payload.preview(5), "\"ééé…");
    assert_eq!(payload.preview(1), "…");
    assert_eq!(payload.preview(0), "");
    assert_eq!(Payload::encode(&12345).unwrap().preview(5), "12345");
    assert_eq!(Payload::encode(&123_456).unwrap().preview(5), "1234…");
}

#[test]
fn damaged_bytes_are_shown_as_such() {
    let damaged = |bytes: &[u8]| Payload { fingerprint: 0, bytes: bytes.to_vec() }.to_json();
    assert_eq!(damaged(&[]), r#"{"$damaged":""}"#);
    assert_eq!(damaged(&[0x92, 1]), r#"{"$damaged":"9201"}"#);
    assert_eq!(damaged(&[1, 1]), r#"{"$damaged":"0101"}"#);
}
