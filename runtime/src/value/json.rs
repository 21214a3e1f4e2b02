//! Recorded bytes as JSON text, for people and tools that do not have the Rust types.
//!
//! It is for reading: nothing reads it back. What JSON has no form for is shown so:
//!
//! | value | text |
//! | --- | --- |
//! | `None` | `null` |
//! | `Some(x)` | as `x` |
//! | `Some(None)`, `Some(Some(None))` | `[null]`, `[[null]]` |
//! | `()` and `Some(())` | `[]` (the empty tuple) and `[[]]` |
//! | NaN and infinities | `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | 128-bit integers | a number |
//! | bytes | `{"$bytes":"00ff"}` |
//! | a map's key that is no string | its own JSON text, as a string |
//! | bytes that are no value | `{"$damaged":"c1"}` |
//!
//! Characters that could deceive a terminal (control, bidirectional, invisible) are escaped.

use std::fmt::Write as _;

use super::decode;
use super::wire::{Fault, Hollow, MAX_DEPTH, Reader, Token, deeper};

/// The JSON text of one value, cut at `limit` characters.
pub(super) fn json(bytes: &[u8], limit: usize) -> String {
    let mut page = Page::new(limit);
    page.value_or_damage(bytes);
    page.text
}

/// A text for people, with its deceiving characters escaped, cut at `limit` characters.
pub(super) fn tame(text: &str, limit: usize) -> String {
    let mut page = Page::new(limit);
    // A full page is what the limit is for.
    let _ = text.chars().try_for_each(|c| page.tamed(c));
    page.text
}

/// Why writing stopped.
enum Stop {
    /// The page is full.
    Full,
    /// The bytes are no value.
    Damaged,
}

impl From<Fault> for Stop {
    fn from(_: Fault) -> Self {
        Self::Damaged
    }
}

/// Text of a limited length.
pub(super) struct Page {
    pub(super) text: String,
    /// How many characters may still be added.
    left: usize,
}

impl Page {
    pub(super) fn new(limit: usize) -> Self {
        Self { text: String::new(), left: limit }
    }

    /// Writes text that is known to be harmless; false if the page is full.
    pub(super) fn plain(&mut self, text: &str) -> bool {
        self.raw(text).is_ok()
    }

    /// Writes one recorded value, or that the bytes are none; false if the page is full.
    pub(super) fn value_or_damage(&mut self, bytes: &[u8]) -> bool {
        let (len, left) = (self.text.len(), self.left);
        let mut input = Reader::new(bytes);
        let mut written = self.value(&mut input, MAX_DEPTH, Keys::Readable);
        if written.is_ok() && !input.rest.is_empty() {
            written = Err(Stop::Damaged);
        }
        let written = match written {
            Err(Stop::Damaged) => {
                self.text.truncate(len);
                self.left = left;
                self.labelled_hex("$damaged", bytes)
            }
            other => other,
        };
        written.is_ok()
    }

    fn value(&mut self, input: &mut Reader<'_>, depth: u8, keys: Keys) -> Result<(), Stop> {
        match input.token()? {
            Token::Hollow(Hollow { unit, somes }) => {
                (0..somes).try_for_each(|_| self.push('['))?;
                self.raw(if unit { "[]" } else { "null" })?;
                (0..somes).try_for_each(|_| self.push(']'))
            }
            Token::Bool(value) => self.shown(value),
            Token::Unsigned(value) => self.shown(value),
            Token::Negative(value) => self.shown(value),
            Token::Wide(value) => self.shown(value),
            Token::WideNegative(value) => self.shown(value),
            Token::Float32(value) if value.is_finite() => self.raw(&format!("{value:?}")),
            Token::Float32(value) => self.not_finite(value.into()),
            Token::Float64(value) if value.is_finite() => self.raw(&format!("{value:?}")),
            Token::Float64(value) => self.not_finite(value),
            Token::Text(value) => self.quoted(value),
            Token::Bytes(value) => self.labelled_hex("$bytes", value),
            Token::Sequence(len) => {
                let depth = deeper(depth)?;
                self.push('[')?;
                for index in 0..len {
                    self.comma(index)?;
                    self.value(input, depth, keys)?;
                }
                self.push(']')
            }
            Token::Map(len) => {
                let depth = deeper(depth)?;
                self.push('{')?;
                for index in 0..len {
                    self.comma(index)?;
                    self.key(input, depth, keys)?;
                    self.push(':')?;
                    self.value(input, depth, keys)?;
                }
                self.push('}')
            }
        }
    }

    fn key(&mut self, input: &mut Reader<'_>, depth: u8, keys: Keys) -> Result<(), Stop> {
        if input.at_text() {
            return self.value(input, depth, keys);
        }
        match keys {
            Keys::Readable => {
                let mut key = Page::new(self.left);
                match key.value(input, depth, Keys::Hex) {
                    Ok(()) | Err(Stop::Full) => self.quoted(&key.text),
                    Err(Stop::Damaged) => Err(Stop::Damaged),
                }
            }
            Keys::Hex => {
                let bytes = decode::skip(input, depth)?;
                self.push('"')?;
                self.hex(bytes)?;
                self.push('"')
            }
        }
    }

    fn comma(&mut self, index: usize) -> Result<(), Stop> {
        if index == 0 { Ok(()) } else { self.push(',') }
    }

    fn shown(&mut self, value: impl ToString) -> Result<(), Stop> {
        self.raw(&value.to_string())
    }

    fn not_finite(&mut self, value: f64) -> Result<(), Stop> {
        self.raw(match value {
            f64::INFINITY => "\"Infinity\"",
            f64::NEG_INFINITY => "\"-Infinity\"",
            _ => "\"NaN\"",
        })
    }

    fn quoted(&mut self, text: &str) -> Result<(), Stop> {
        self.push('"')?;
        for c in text.chars() {
            match c {
                '"' => self.raw("\\\"")?,
                '\\' => self.raw("\\\\")?,
                c => self.tamed(c)?,
            }
        }
        self.push('"')
    }

    fn labelled_hex(&mut self, label: &str, bytes: &[u8]) -> Result<(), Stop> {
        self.raw("{\"")?;
        self.raw(label)?;
        self.raw("\":\"")?;
        self.hex(bytes)?;
        self.raw("\"}")
    }

    fn hex(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        for byte in bytes {
            self.push(DIGITS[usize::from(byte >> 4)])?;
            self.push(DIGITS[usize::from(byte & 15)])?;
        }
        Ok(())
    }

    fn tamed(&mut self, c: char) -> Result<(), Stop> {
        match c {
            '\n' => self.raw("\\n"),
            '\r' => self.raw("\\r"),
            '\t' => self.raw("\\t"),
            c if deceives(c) => {
                let mut escape = String::new();
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // A string takes every write.
                    let _ = write!(escape, "\\u{unit:04x}");
                }
                self.raw(&escape)
            }
            c => self.push(c),
        }
    }

    fn raw(&mut self, text: &str) -> Result<(), Stop> {
        text.chars().try_for_each(|c| self.push(c))
    }

    /// Adds a character; when there is no room, the last one becomes an ellipsis.
    fn push(&mut self, c: char) -> Result<(), Stop> {
        let Some(left) = self.left.checked_sub(1) else {
            if self.text.pop().is_some() {
                self.text.push('…');
            }
            return Err(Stop::Full);
        };
        self.left = left;
        self.text.push(c);
        Ok(())
    }
}

/// How keys that are no strings are shown.
#[derive(Clone, Copy)]
enum Keys {
    /// As their JSON text in a string.
    Readable,
    /// As hex: we are within such a key already, and escapes of escapes would double with each level.
    Hex,
}

/// Whether a terminal or an editor could show something else than what is there.
fn deceives(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' // soft hyphen, Arabic letter mark, Mongolian vowel separator
            | '\u{200b}'..='\u{200f}' // zero width, left-to-right and right-to-left marks
            | '\u{2028}'..='\u{202e}' // line and paragraph separators, embeddings and overrides
            | '\u{2060}'..='\u{206f}' // invisible operators, isolates
            | '\u{fe00}'..='\u{fe0f}' // variation selectors
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' // byte order mark, interlinear annotation
            | '\u{e0000}'..='\u{e0fff}') // tags, more variation selectors
}
