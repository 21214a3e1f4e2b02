//! The canonical form: vectors of RFC 8785, what is refused, and properties over seeded values.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use serde::{Deserialize, Serialize};

use super::{CanonicalFault, Json, MAX_BYTES, MAX_DEPTH, MAX_INTEGER, Node, write};
use crate::approval::Digest;

#[track_caller]
fn refused(text: &str) -> CanonicalFault {
    Json::parse(text).expect_err(text).fault
}

#[test]
fn keys_are_ordered_by_utf_16_code_units() {
    // RFC 8785, section 3.2.3.
    let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
        "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let expected = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\
        \"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\
        \"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
    assert_eq!(Json::parse(text).unwrap().canonical(), expected);
}

#[test]
fn strings_are_escaped_as_little_as_may_be() {
    // RFC 8785, section 3.2.2.2 and its example.
    let text = r#"{"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
    let expected = "{\"literals\":[null,true,false],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(Json::parse(text).unwrap().canonical(), expected);
    let all: String = (0..=0x1f).map(|code| char::from_u32(code).unwrap()).collect();
    let written = Json::of(&all).unwrap().canonical();
    assert!(written.starts_with(r#""\u0000\u0001"#) && written.contains(r"\b\t\n\u000b\f\r"), "{written}");
    // Nothing else is escaped: neither DEL nor the line separators.
    assert_eq!(Json::of("\u{7f}\u{2028}").unwrap().canonical(), "\"\u{7f}\u{2028}\"");
}

#[test]
fn what_is_ambiguous_is_refused_by_name() {
    for float in ["1.0", "-0", "1e3", "1E400", "0.1", "[1.5]"] {
        assert_eq!(refused(float), CanonicalFault::Float, "{float}");
    }
    for large in ["9007199254740992", "-9007199254740992", "123456789012345678901234567890"] {
        assert_eq!(refused(large), CanonicalFault::IntegerRange);
    }
    assert_eq!(Json::parse("9007199254740991").unwrap().0, Node::Integer(MAX_INTEGER));
    assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), CanonicalFault::DuplicateKey { key: "a".to_owned() });
    for lone in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#, r#""\ud83d\ud83d""#, r#"{"\ude00":1}"#] {
        assert!(matches!(refused(lone), CanonicalFault::LoneSurrogate { .. }), "{lone}");
    }
    for no_json in
        ["", "nul", "[1,]", "{\"a\"}", "01", "-", "\"\n\"", "\"", "[", "1 1", "{a:1}", "NaN", "'a'", "\"\\x\""]
    {
        assert!(matches!(refused(no_json), CanonicalFault::Syntax { .. }), "{no_json}");
    }
    assert!(matches!(Json::parse(b"\"\xff\"").unwrap_err().fault, CanonicalFault::Syntax { wanted: "UTF-8", .. }));
    assert_eq!(Json::parse(r#"{"lines":[{"cents":1},{"cents":2.5}]}"#).unwrap_err().path, ".lines[1].cents");
}

#[test]
fn a_document_is_32_deep_at_most_and_a_mebibyte_long() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(Json::parse(deep(MAX_DEPTH)).is_ok());
    assert_eq!(refused(&deep(MAX_DEPTH + 1)), CanonicalFault::TooDeep);
    assert_eq!(refused(&deep(100_000)), CanonicalFault::TooDeep);
    let mut nested = Node::Null;
    for _ in 0..MAX_DEPTH {
        nested = Node::List(vec![nested]);
    }
    assert!(Json::of(&nested).is_ok());
    assert_eq!(Json::of(&Node::List(vec![nested])).unwrap_err().fault, CanonicalFault::TooDeep);
    assert!(Json::of(&"x".repeat(MAX_BYTES - 2)).is_ok());
    assert_eq!(Json::of(&"x".repeat(MAX_BYTES - 1)).unwrap_err().fault, CanonicalFault::TooLarge);
    // What the escapes add counts too.
    assert_eq!(Json::of(&"\u{1}".repeat(MAX_BYTES / 2)).unwrap_err().fault, CanonicalFault::TooLarge);
    assert_eq!(refused(&format!("\"{}\"", "x".repeat(MAX_BYTES))), CanonicalFault::TooLarge);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    New(u32),
    Tuple(u8, String),
    Struct { a: Option<bool>, b: (char, i64) },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    shapes: Vec<Shape>,
    map: BTreeMap<String, Shape>,
    by_letter: BTreeMap<char, Option<u8>>,
    wrapped: Wrapped,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
    large: u128,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(Box<i8>);

#[test]
fn a_value_of_any_shape_comes_back() {
    let value = Everything {
        shapes: vec![Shape::Unit, Shape::New(7), Shape::Tuple(1, "ö".to_owned())],
        map: BTreeMap::from([("k".to_owned(), Shape::Struct { a: None, b: ('x', -5) })]),
        by_letter: BTreeMap::from([('z', None)]),
        wrapped: Wrapped(Box::new(-1)),
        bytes: vec![0, 255],
        large: 12,
    };
    let json = Json::of(&value).unwrap();
    assert_eq!(json.to::<Everything>().unwrap(), value);
    let text = json.canonical();
    assert_eq!(Json::parse_canonical(&text).unwrap(), json);
    assert!(text.starts_with(r#"{"by_letter":{"z":null},"bytes":[0,255],"large":12,"map":{"k":{"Struct":"#), "{text}");
}

#[derive(Serialize)]
struct Skips {
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe: Option<u8>,
}

#[test]
fn a_type_that_leaves_something_out_or_doubles_it_is_refused() {
    let fault = |json: Result<Json, super::CanonicalError>| json.unwrap_err().fault;
    assert_eq!(fault(Json::of(&Skips { maybe: None })), CanonicalFault::FieldSkipped { name: "maybe" });
    assert_eq!(fault(Json::of(&Some(None::<u8>))), CanonicalFault::NestedNothing);
    assert_eq!(fault(Json::of(&Some(()))), CanonicalFault::NestedNothing);
    assert_eq!(fault(Json::of(&BTreeMap::from([(1, 2)]))), CanonicalFault::KeyNotText);
    for float in [f64::NAN, f64::INFINITY, 0.0, 1.5] {
        assert_eq!(fault(Json::of(&float)), CanonicalFault::Float);
    }
    assert_eq!(fault(Json::of(&u64::MAX)), CanonicalFault::IntegerRange);
    assert_eq!(fault(Json::of(&i64::MIN)), CanonicalFault::IntegerRange);
    assert_eq!(fault(Json::of(&u128::MAX)), CanonicalFault::IntegerRange);
    assert!(matches!(
        fault(Json::of(&std::path::Path::new("x")).and_then(|json| json.to::<u8>().map(|_| json))),
        CanonicalFault::Unfit { .. }
    ));
}

/// splitmix64
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        usize::try_from(word % u64::try_from(limit).unwrap()).unwrap()
    }

    fn text(&mut self) -> String {
        const POOL: &[char] = &[
            'a',
            'b',
            '"',
            '\\',
            '\0',
            '\n',
            '\u{7f}',
            'ö',
            '\u{202e}',
            '\u{e000}',
            '\u{ffff}',
            '😀',
            '\u{10ffff}',
            '/',
        ];
        (0..self.below(6)).map(|_| POOL[self.below(POOL.len())]).collect()
    }

    fn node(&mut self, depth: usize) -> Node {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => Node::Null,
            1 => Node::Bool(self.below(2) == 0),
            2 => Node::Integer(i64::try_from(self.below(1 << 54)).unwrap() - MAX_INTEGER).clamp(),
            3 => Node::Text(self.text()),
            4 => Node::List((0..self.below(4)).map(|_| self.node(depth - 1)).collect()),
            _ => {
                let entries: HashMap<String, Node> =
                    (0..self.below(5)).map(|_| (self.text(), self.node(depth - 1))).collect();
                super::map_of(entries.into_iter().collect()).unwrap()
            }
        }
    }

    /// The text of a document with its keys in any order, with spaces, and with any escapes.
    fn disguised(&mut self, node: &Node) -> String {
        let space = [" ", "", "\n", "\t "][self.below(4)];
        let text = match node {
            Node::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.disguised(item)).collect();
                format!("[{space}{}]", items.join(","))
            }
            Node::Map(entries) => {
                let mut entries: Vec<&(String, Node)> = entries.iter().collect();
                for place in (1..entries.len()).rev() {
                    entries.swap(place, self.below(place + 1));
                }
                let entries: Vec<String> = entries
                    .into_iter()
                    .map(|(key, value)| format!("{}{space}:{}", self.quoted(key), self.disguised(value)))
                    .collect();
                format!("{{{space}{}}}", entries.join(" , "))
            }
            Node::Text(text) => self.quoted(text),
            other => write::text(other),
        };
        format!("{space}{text}{space}")
    }

    fn quoted(&mut self, text: &str) -> String {
        let mut quoted = "\"".to_owned();
        for c in text.chars() {
            if self.below(2) == 0 && !matches!(c, '"' | '\\' | '\0'..='\x1f') {
                quoted.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(quoted, "\\u{unit:04X}").unwrap();
                }
            }
        }
        quoted + "\""
    }
}

impl Node {
    fn clamp(self) -> Self {
        match self {
            Self::Integer(number) => Self::Integer(number.clamp(-MAX_INTEGER, MAX_INTEGER)),
            other => other,
        }
    }
}

#[test]
fn every_document_has_one_text_and_one_digest_however_it_was_written() {
    for seed in 0..2_000 {
        let mut chance = Chance(seed);
        let node = chance.node(4);
        let text = write::text(&node);
        assert_eq!(Json::parse_canonical(&text).unwrap().0, node, "seed {seed}");
        assert_eq!(Json::of(&node).unwrap().0, node, "seed {seed}");
        assert_eq!(Json(node.clone()).to::<Json>().unwrap().0, node, "seed {seed}");
        let disguised = chance.disguised(&node);
        let again = Json::parse(&disguised).unwrap_or_else(|error| panic!("seed {seed}: {error}: {disguised}"));
        assert_eq!(again.0, node, "seed {seed}");
        assert_eq!(Digest::of(&again.canonical()), Digest::of(&text), "seed {seed}");
        if disguised != text {
            let fault = Json::parse_canonical(&disguised).unwrap_err().fault;
            assert!(matches!(fault, CanonicalFault::NotCanonical { .. }), "seed {seed}: {fault:?}");
        }
    }
}

#[test]
fn any_bytes_are_a_document_or_a_named_error() {
    const ODD: &[u8] = b"{}[]\",:\\u0-.e \xff\xd8";
    for seed in 0..4_000 {
        let mut chance = Chance(seed);
        let node = chance.node(3);
        let mut bytes = chance.disguised(&node).into_bytes();
        for _ in 0..=chance.below(3) {
            if bytes.is_empty() {
                break;
            }
            let at = chance.below(bytes.len());
            match chance.below(4) {
                0 => bytes[at] = ODD[chance.below(ODD.len())],
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => bytes.insert(at, u8::try_from(chance.below(256)).unwrap()),
            }
        }
        if let Ok(json) = Json::parse(&bytes) {
            assert_eq!(Json::parse_canonical(json.canonical()).unwrap(), json, "seed {seed}");
        }
    }
}

#[test]
fn the_digest_binds_domain_and_length() {
    // SHA-256 of "durably.approval.v1", 0x00, the length as eight bytes, the text.
    let expected = "7cd0fa73e018120ac9b0642f43c44cbd79be7c5d7764cc8a6cb68b94cb581dd7";
    let digest = Digest::of("{}");
    assert_eq!(digest.to_string(), expected);
    assert_ne!(digest, Digest::of("{} "));
}
