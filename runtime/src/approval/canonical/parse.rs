//! JSON text as a document: strict, and every byte gives a value or an error.

use super::{CanonicalError, CanonicalFault, MAX_BYTES, MAX_DEPTH, MAX_INTEGER, Node, map_of};

/// Reads a whole text.
pub(super) fn document(text: &[u8]) -> Result<Node, CanonicalError> {
    if text.len() > MAX_BYTES {
        return Err(CanonicalFault::TooLarge.into());
    }
    let text = std::str::from_utf8(text)
        .map_err(|error| CanonicalFault::Syntax { at: error.valid_up_to(), wanted: "UTF-8" })?;
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.wants("the end"));
    }
    Ok(node)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn wants(&self, wanted: &'static str) -> CanonicalError {
        CanonicalFault::Syntax { at: self.at, wanted }.into()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, CanonicalError> {
        self.space();
        match self.peek() {
            Some(b'n') => self.word("null", Node::Null),
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'"') => self.string().map(Node::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[' | b'{') if depth == MAX_DEPTH => Err(CanonicalFault::TooDeep.into()),
            Some(b'[') => self.list(depth + 1),
            Some(b'{') => self.map(depth + 1),
            _ => Err(self.wants("a value")),
        }
    }

    fn word(&mut self, word: &'static str, node: Node) -> Result<Node, CanonicalError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.wants(word));
        }
        self.at += word.len();
        Ok(node)
    }

    fn number(&mut self) -> Result<Node, CanonicalError> {
        let start = self.at;
        let is_negative = self.eat(b'-');
        let digits = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == digits {
            return Err(self.wants("a digit"));
        }
        if matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return Err(CanonicalFault::Float.into());
        }
        let number = &self.text[digits..self.at];
        if number.len() > 1 && number.starts_with('0') {
            self.at = digits + 1;
            return Err(self.wants("no digit after a leading zero"));
        }
        if is_negative && number == "0" {
            // It is a float's zero: there is no such integer.
            return Err(CanonicalFault::Float.into());
        }
        let number: i64 = self.text[start..self.at].parse().map_err(|_| CanonicalFault::IntegerRange)?;
        if number.unsigned_abs() > MAX_INTEGER.unsigned_abs() {
            return Err(CanonicalFault::IntegerRange.into());
        }
        Ok(Node::Integer(number))
    }

    fn list(&mut self, depth: usize) -> Result<Node, CanonicalError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Node::List(items));
        }
        loop {
            let item = self.value(depth).map_err(|error| error.within(format_args!("[{}]", items.len())))?;
            items.push(item);
            self.space();
            if self.eat(b']') {
                return Ok(Node::List(items));
            }
            if !self.eat(b',') {
                return Err(self.wants("`,` or `]`"));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Node, CanonicalError> {
        self.at += 1;
        let mut entries = Vec::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Node::Map(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wants("a key in double quotes"));
            }
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(self.wants("`:`"));
            }
            let value = self.value(depth).map_err(|error| error.within(format_args!(".{key}")))?;
            entries.push((key, value));
            self.space();
            if self.eat(b'}') {
                return map_of(entries);
            }
            if !self.eat(b',') {
                return Err(self.wants("`,` or `}`"));
            }
        }
    }

    fn string(&mut self) -> Result<String, CanonicalError> {
        self.at += 1;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = rest.find(|c: char| matches!(c, '"' | '\\' | '\0'..='\x1f')) else {
                self.at = self.text.len();
                return Err(self.wants("the string's end"));
            };
            string.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                _ => return Err(self.wants("control characters to be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, CanonicalError> {
        let start = self.at;
        self.at += 1;
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode(start);
            }
            _ => return Err(self.wants("an escape")),
        };
        self.at += 1;
        Ok(simple)
    }

    fn unicode(&mut self, start: usize) -> Result<char, CanonicalError> {
        let lone = CanonicalFault::LoneSurrogate { at: start };
        let first = self.hex()?;
        if !(0xd800..0xe000).contains(&first) {
            return char::from_u32(first).ok_or(lone.into());
        }
        if first >= 0xdc00 || !(self.eat(b'\\') && self.eat(b'u')) {
            return Err(lone.into());
        }
        let second = self.hex()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(lone.into());
        }
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or(lone.into())
    }

    fn hex(&mut self) -> Result<u32, CanonicalError> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or_default();
        let mut code = 0;
        if digits.is_empty() {
            return Err(self.wants("four hex digits"));
        }
        for digit in digits {
            let Some(digit) = char::from(*digit).to_digit(16) else { return Err(self.wants("four hex digits")) };
            code = code << 4 | digit;
        }
        self.at += 4;
        Ok(code)
    }
}
