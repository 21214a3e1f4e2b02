//! Whether a recorded value fits a JSON schema that is recorded too: the common part of JSON Schema 2020-12.
//!
//! Both are read from their recorded bytes, so that no JSON library is needed: whatever serialises as a schema is one.
//! Keywords that are not known here constrain nothing, as JSON Schema has it. A schema is data of the code that asks, and a
//! value of whoever answers: neither can make this panic, or run for longer than their sizes and [`STEPS`] allow.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

use super::Payload;

/// How many schemas are looked at for one value: a schema may refer to itself.
const STEPS: u32 = 100_000;

/// How deep schemas may stand in one another while one value is looked at.
const DEPTH: u32 = 100;

/// Where a value does not fit, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// The place in the value: `.` for the value itself, `items[3].price`.
    pub(crate) path: String,
    pub(crate) why: String,
}

impl Payload {
    /// Whether this can be a schema: a map or a bool.
    pub(crate) fn is_schema(&self) -> bool {
        matches!(self.decode(), Ok(Node::Map(_) | Node::Bool(_)))
    }

    /// Whether a value fits this schema.
    pub(crate) fn accepts(&self, value: &Self) -> Result<(), Misfit> {
        let misfit = |why: String| Misfit { path: ".".to_owned(), why };
        let schema: Node = self.decode().map_err(|error| misfit(format!("the schema cannot be read: {error}")))?;
        let value: Node = value.decode().map_err(|error| misfit(format!("the answer cannot be read: {error}")))?;
        let mut check = Check { root: &schema, path: Vec::new(), steps: STEPS, depth: DEPTH, broken: false };
        check.fits(&schema, &value).map_err(|why| Misfit { path: check.place(), why })
    }
}

/// A value as JSON has them.
#[derive(Clone, Debug)]
enum Node {
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
    fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    fn list(&self, key: &str) -> Option<&[Self]> {
        match self.get(key)? {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    fn number(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "only where one side is a float already")]
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Huge(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// How two numbers stand, exactly where both are integers.
    fn order(&self, other: &Self) -> Option<std::cmp::Ordering> {
        use std::cmp::Ordering::{Greater, Less};
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Some(one.cmp(other)),
            (Self::Huge(one), Self::Huge(other)) => Some(one.cmp(other)),
            (Self::Huge(_), Self::Integer(_)) => Some(Greater),
            (Self::Integer(_), Self::Huge(_)) => Some(Less),
            (one, other) => one.number()?.partial_cmp(&other.number()?),
        }
    }

    fn is_integer(&self) -> bool {
        match self {
            Self::Integer(_) | Self::Huge(_) => true,
            Self::Float(value) => value.is_finite() && value.fract() == 0.0,
            _ => false,
        }
    }

    fn word(&self) -> &'static str {
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

    fn is_a(&self, word: &str) -> bool {
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

/// One look at a value.
struct Check<'s> {
    root: &'s Node,
    /// Where in the value; kept as it is when something does not fit.
    path: Vec<String>,
    steps: u32,
    depth: u32,
    /// Whether a part of the schema could not be looked at: it says neither yes nor no then.
    broken: bool,
}

impl<'s> Check<'s> {
    fn place(&self) -> String {
        if self.path.is_empty() { ".".to_owned() } else { self.path.concat().trim_start_matches('.').to_owned() }
    }

    fn fits(&mut self, schema: &'s Node, value: &Node) -> Result<(), String> {
        self.spend(1)?;
        let Some(depth) = self.depth.checked_sub(1) else { return self.give_up("the schema is nested too deep") };
        self.depth = depth;
        match schema {
            Node::Bool(true) => {}
            Node::Bool(false) => return Err("nothing is allowed here".to_owned()),
            _ => {
                self.refers(schema, value)?;
                any_value(schema, value)?;
                self.combined(schema, value)?;
                match value {
                    Node::Text(text) => text_fits(schema, text)?,
                    Node::List(items) => self.list_fits(schema, items)?,
                    Node::Map(fields) => self.map_fits(schema, fields)?,
                    Node::Integer(_) | Node::Huge(_) | Node::Float(_) => number_fits(schema, value)?,
                    Node::Null | Node::Bool(_) => {}
                }
            }
        }
        self.depth += 1;
        Ok(())
    }

    /// As [`fits`](Self::fits), and wherever it ends, the place is as before.
    fn would_fit(&mut self, schema: &'s Node, value: &Node) -> Result<bool, String> {
        let (path, depth) = (self.path.len(), self.depth);
        let fits = self.fits(schema, value).is_ok();
        self.path.truncate(path);
        self.depth = depth;
        if self.broken { Err("a part of the schema could not be looked at".to_owned()) } else { Ok(fits) }
    }

    fn spend(&mut self, steps: u32) -> Result<(), String> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => self.give_up("it takes too long to check"),
        }
    }

    fn give_up(&mut self, why: impl Into<String>) -> Result<(), String> {
        self.broken = true;
        Err(why.into())
    }

    fn refers(&mut self, schema: &'s Node, value: &Node) -> Result<(), String> {
        let Some(Node::Text(target)) = schema.get("$ref") else { return Ok(()) };
        let mut found = Some(self.root);
        let Some(pointer) = target.strip_prefix('#') else {
            return self.give_up(format!("the schema refers to {target:?}, outside of itself"));
        };
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            found = found.and_then(|node| match node {
                Node::List(items) => items.get(step.parse::<usize>().ok()?),
                node => node.get(&step),
            });
        }
        match found {
            Some(found) => self.fits(found, value),
            None => self.give_up(format!("the schema refers to {target:?}, which it does not have")),
        }
    }

    fn combined(&mut self, schema: &'s Node, value: &Node) -> Result<(), String> {
        for part in schema.list("allOf").unwrap_or_default() {
            self.fits(part, value)?;
        }
        for (keyword, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(parts) = schema.list(keyword) else { continue };
            let mut fitting = 0;
            for part in parts {
                fitting += usize::from(self.would_fit(part, value)?);
            }
            if fitting == 0 {
                return Err(format!("it fits none of the {} forms that are allowed", parts.len()));
            }
            if fitting > most {
                return Err(format!("it fits {fitting} of the allowed forms, and must fit one"));
            }
        }
        match schema.get("not") {
            Some(part) if self.would_fit(part, value)? => Err("it has a form that is not allowed".to_owned()),
            _ => Ok(()),
        }
    }

    fn list_fits(&mut self, schema: &'s Node, items: &[Node]) -> Result<(), String> {
        count_fits(schema, ("minItems", "maxItems"), items.len(), "items")?;
        if let Some(Node::Bool(true)) = schema.get("uniqueItems") {
            // Few items, or it ends with the steps: comparing all pairs is the only way without an order.
            for (place, item) in items.iter().enumerate() {
                self.spend(u32::try_from(place).unwrap_or(u32::MAX))?;
                if items[..place].contains(item) {
                    return Err(format!("item {place} is there twice"));
                }
            }
        }
        let first = schema.list("prefixItems").unwrap_or_default();
        let rest = schema.get("items");
        for (place, item) in items.iter().enumerate() {
            if let Some(of) = first.get(place).or(rest) {
                self.path.push(format!("[{place}]"));
                self.fits(of, item)?;
                self.path.pop();
            }
        }
        Ok(())
    }

    fn map_fits(&mut self, schema: &'s Node, fields: &[(String, Node)]) -> Result<(), String> {
        count_fits(schema, ("minProperties", "maxProperties"), fields.len(), "properties")?;
        for name in schema.list("required").unwrap_or_default() {
            if let Node::Text(name) = name
                && !fields.iter().any(|(field, _)| field == name)
            {
                return Err(format!("property {name:?} is missing"));
            }
        }
        let known = schema.get("properties");
        for (name, value) in fields {
            let of = known.and_then(|known| known.get(name)).or_else(|| schema.get("additionalProperties"));
            match of {
                Some(Node::Bool(false)) => return Err(format!("there is no property {name:?}")),
                Some(of) => {
                    self.path.push(format!(".{name}"));
                    self.fits(of, value)?;
                    self.path.pop();
                }
                None => {}
            }
        }
        Ok(())
    }
}

fn any_value(schema: &Node, value: &Node) -> Result<(), String> {
    let fits = |wanted: &Node| matches!(wanted, Node::Text(word) if value.is_a(word));
    match schema.get("type") {
        Some(Node::List(wanted)) if !wanted.iter().any(fits) => {
            return Err(format!("it is {}, which is none of the allowed types", value.word()));
        }
        Some(wanted @ Node::Text(word)) if !fits(wanted) => {
            return Err(format!("it is {}, and must be of type {word:?}", value.word()));
        }
        _ => {}
    }
    if let Some(wanted) = schema.list("enum")
        && !wanted.contains(value)
    {
        return Err(format!("it is none of the {} allowed values", wanted.len()));
    }
    match schema.get("const") {
        Some(wanted) if wanted != value => Err("it is not the one allowed value".to_owned()),
        _ => Ok(()),
    }
}

fn text_fits(schema: &Node, text: &str) -> Result<(), String> {
    count_fits(schema, ("minLength", "maxLength"), text.chars().count(), "characters")
}

fn count_fits(schema: &Node, (least, most): (&str, &str), count: usize, what: &str) -> Result<(), String> {
    let have = Node::Integer(i128::try_from(count).unwrap_or(i128::MAX));
    let order = |keyword: &str| schema.get(keyword).and_then(|limit| have.order(limit));
    if order(least).is_some_and(std::cmp::Ordering::is_lt) {
        return Err(format!("it has {count} {what}, fewer than are allowed"));
    }
    if order(most).is_some_and(std::cmp::Ordering::is_gt) {
        return Err(format!("it has {count} {what}, more than are allowed"));
    }
    Ok(())
}

fn number_fits(schema: &Node, value: &Node) -> Result<(), String> {
    // A limit that is no number limits nothing; a NaN is within none.
    let misses = |keyword: &str, within: fn(std::cmp::Ordering) -> bool| {
        let limit = schema.get(keyword).filter(|limit| limit.number().is_some());
        limit.is_some_and(|limit| !value.order(limit).is_some_and(within))
    };
    if misses("minimum", std::cmp::Ordering::is_ge) || misses("exclusiveMinimum", std::cmp::Ordering::is_gt) {
        return Err("it is less than is allowed".to_owned());
    }
    if misses("maximum", std::cmp::Ordering::is_le) || misses("exclusiveMaximum", std::cmp::Ordering::is_lt) {
        return Err("it is more than is allowed".to_owned());
    }
    match (schema.get("multipleOf"), value) {
        (Some(Node::Integer(of)), Node::Integer(value)) if *of > 0 && value % of != 0 => {
            Err(format!("it is no multiple of {of}"))
        }
        _ => Ok(()),
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
