//! Values and schemas: what fits, what does not, where, and that neither side can make it panic or run for ever.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::value::Payload;

/// JSON text as a value, by a reader of the few forms that the tests below have.
#[derive(Clone, Debug)]
enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

fn json(text: &str) -> Json {
    let mut rest = text.trim();
    let value = parse(&mut rest);
    assert!(rest.trim().is_empty(), "{rest}");
    value
}

fn eat(rest: &mut &str, word: &str) -> bool {
    rest.strip_prefix(word).map(|left| *rest = left).is_some()
}

fn parse(rest: &mut &str) -> Json {
    *rest = rest.trim_start();
    if eat(rest, "null") {
        return Json::Null;
    }
    if eat(rest, "true") {
        return Json::Bool(true);
    }
    if eat(rest, "false") {
        return Json::Bool(false);
    }
    if eat(rest, "\"") {
        let (text, left) = rest.split_once('"').expect("a text ends");
        *rest = left;
        return Json::Text(text.to_owned());
    }
    if eat(rest, "[") {
        let mut items = Vec::new();
        while !eat(rest, "]") {
            items.push(parse(rest));
            *rest = rest.trim_start().trim_start_matches(',').trim_start();
        }
        return Json::List(items);
    }
    if eat(rest, "{") {
        let mut entries = Vec::new();
        while !eat(rest, "}") {
            let Json::Text(key) = parse(rest) else { panic!("a key is a text") };
            *rest = rest.trim_start().strip_prefix(':').expect("a colon");
            entries.push((key, parse(rest)));
            *rest = rest.trim_start().trim_start_matches(',').trim_start();
        }
        return Json::Map(entries);
    }
    let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '.' | 'e')).unwrap_or(rest.len());
    let (number, left) = rest.split_at(end);
    *rest = left;
    number.parse().map_or_else(|_| Json::Float(number.parse().expect("a number")), Json::Integer)
}

fn payload(text: &str) -> Payload {
    Payload::encode(&json(text)).expect("it can be recorded")
}

#[track_caller]
fn check(schema: &str, fitting: &[&str], misfits: &[&str]) {
    let schema = payload(schema);
    for value in fitting {
        schema.accepts(&payload(value)).unwrap_or_else(|misfit| panic!("{value}: {misfit:?}"));
    }
    for value in misfits {
        assert!(schema.accepts(&payload(value)).is_err(), "{value} fits");
    }
}

#[test]
fn types_are_told_apart_as_json_schema_does() {
    check("{\"type\": \"integer\"}", &["1", "-1", "1.0"], &["1.5", "\"1\"", "null", "true", "[]", "{}"]);
    check("{\"type\": \"number\"}", &["1", "1.5"], &["\"1\"", "null"]);
    check("{\"type\": \"null\"}", &["null"], &["0", "false", "\"\"", "[]"]);
    check("{\"type\": \"boolean\"}", &["true"], &["0", "null"]);
    check("{\"type\": [\"string\", \"null\"]}", &["\"\"", "null"], &["0"]);
    check("true", &["1", "null"], &[]);
    check("false", &[], &["1", "null"]);
    check("{}", &["1", "null", "{}"], &[]);
    check("{\"unknown\": 1, \"description\": \"what?\"}", &["1"], &[]);
}

#[test]
fn limits_are_kept_at_their_edges() {
    check("{\"minimum\": 1, \"maximum\": 3}", &["1", "3", "2.5", "\"text\""], &["0", "4", "3.1"]);
    check("{\"exclusiveMinimum\": 1, \"exclusiveMaximum\": 3}", &["2", "1.1"], &["1", "3"]);
    check("{\"multipleOf\": 5}", &["0", "10", "-5"], &["7"]);
    check("{\"minLength\": 2, \"maxLength\": 3}", &["\"ab\"", "\"äöü\"", "1"], &["\"a\"", "\"abcd\""]);
    check("{\"minItems\": 1, \"maxItems\": 2}", &["[1]", "[1, 2]"], &["[]", "[1, 2, 3]"]);
    check("{\"minProperties\": 1}", &["{\"a\": 1}"], &["{}"]);
    check("{\"uniqueItems\": true}", &["[1, 2]", "[]"], &["[1, 1]", "[1, 1.0]"]);
}

#[test]
fn values_are_compared_by_what_they_are() {
    check(
        "{\"enum\": [1, \"a\", null, {\"x\": 1, \"y\": 2}]}",
        &["1", "1.0", "null", "{\"y\": 2, \"x\": 1}"],
        &["2", "\"b\""],
    );
    check("{\"const\": [1, 2]}", &["[1, 2]"], &["[2, 1]", "[1]"]);
}

#[test]
fn what_is_within_is_checked_and_its_place_is_told() {
    let schema = "{\"type\": \"object\", \"required\": [\"items\"], \"additionalProperties\": false, \"properties\": {
        \"items\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {\"price\": {\"type\": \"number\"}}}},
        \"pair\": {\"prefixItems\": [{\"type\": \"string\"}], \"items\": {\"type\": \"integer\"}}}}";
    check(
        schema,
        &["{\"items\": []}", "{\"items\": [{\"price\": 1}], \"pair\": [\"a\", 1, 2]}"],
        &["{}", "{\"items\": [], \"more\": 1}", "{\"items\": [], \"pair\": [\"a\", \"b\"]}"],
    );
    let misfit = payload(schema).accepts(&payload("{\"items\": [{\"price\": 1}, {\"price\": \"2\"}]}")).unwrap_err();
    assert_eq!(misfit.path, "items[1].price");
    assert!(misfit.why.contains("\"number\""), "{misfit:?}");
}

#[test]
fn schemas_are_put_together() {
    check("{\"anyOf\": [{\"type\": \"string\"}, {\"minimum\": 5}]}", &["\"a\"", "5"], &["4"]);
    check("{\"oneOf\": [{\"minimum\": 1}, {\"minimum\": 5}]}", &["1", "4"], &["0", "5"]);
    check("{\"allOf\": [{\"minimum\": 1}, {\"maximum\": 5}]}", &["1", "5"], &["0", "6"]);
    check("{\"not\": {\"type\": \"string\"}}", &["1"], &["\"a\""]);
    let tree = "{\"$ref\": \"#/$defs/tree\", \"$defs\": {\"tree\": {\"type\": \"object\", \"properties\": {
        \"left\": {\"$ref\": \"#/$defs/tree\"}, \"n\": {\"type\": \"integer\"}}}}}";
    check(tree, &["{\"left\": {\"left\": {\"n\": 1}}}"], &["{\"left\": {\"left\": {\"n\": \"1\"}}}", "1"]);
}

/// What cannot be looked at is refused, and so is its opposite.
#[test]
fn a_schema_that_cannot_be_followed_accepts_nothing() {
    for part in ["{\"$ref\": \"#/nowhere\"}", "{\"$ref\": \"other.json\"}", "{\"$ref\": \"#\"}"] {
        check(part, &[], &["1"]);
        check(&format!("{{\"not\": {part}}}"), &[], &["1"]);
        check(&format!("{{\"anyOf\": [{part}, true]}}"), &[], &["1"]);
    }
    let mut deep = "{\"type\": \"string\"}".to_owned();
    for _ in 0..40 {
        deep = format!("{{\"anyOf\": [{deep}]}}");
    }
    check(&deep, &["\"a\""], &["1"]);
    // Twice at each level: it would take 2^100 looks.
    let twice = "{\"$defs\": {\"a\": {\"anyOf\": [{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/a\"}]}}, \"$ref\": \"#/$defs/a\"}";
    check(twice, &[], &["1"]);
}

#[test]
fn a_schema_is_shown_as_json_that_a_program_reads() {
    let schema = payload("{\"enum\": [null, 1, 1.5, \"a\", true, []], \"b\": {}}");
    assert_eq!(schema.to_plain_json(), "{\"enum\":[null,1,1.5,\"a\",true,[]],\"b\":{}}");
    let hostile = Payload::encode(&BTreeMap::from([("a\"\\\n\u{1}", "\u{7f}é")])).expect("it can be recorded");
    assert_eq!(hostile.to_plain_json(), "{\"a\\\"\\\\\\u000a\\u0001\":\"\\u007fé\"}");
}

#[test]
fn a_value_that_was_json_is_read_as_serde_reads_json() {
    use serde::Deserialize;
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Choice {
        Plain,
        With(f64),
        Both { a: Option<u8>, b: (f32, u64) },
    }
    let read = |text: &str| payload(text).decode_as_json::<Choice>();
    assert_eq!(read("\"Plain\"").unwrap(), Choice::Plain);
    assert_eq!(read("{\"With\": 3}").unwrap(), Choice::With(3.0));
    let both = Choice::Both { a: None, b: (1.0, 2) };
    assert_eq!(read("{\"Both\": {\"a\": null, \"b\": [1, 2]}}").unwrap(), both);
    for wrong in
        ["\"Other\"", "{\"With\": \"3\"}", "{\"Both\": {\"b\": [1, 2, 3]}}", "{\"With\": 1, \"Plain\": 2}", "7"]
    {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert_eq!(payload("null").decode_as_json::<Option<u32>>().unwrap(), None);
    assert!(payload("\"5\"").decode_as_json::<u32>().is_err());
    assert!(payload("300").decode_as_json::<u8>().is_err());
}
