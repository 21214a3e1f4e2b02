//! Whether a recorded value fits a JSON schema that is recorded too: the common part of JSON Schema 2020-12.
//!
//! Both are read from their recorded bytes, so that no JSON library is needed: whatever serialises as a schema is one.
//! Keywords that are not known here constrain nothing, as JSON Schema has it. A schema is data of the code that asks, and a
//! value of whoever answers: neither can make this panic, or run for longer than their sizes and [`STEPS`] allow.

use super::{Payload, node::Node};

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
