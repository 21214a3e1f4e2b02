//! The bytes of an outcome, the record that a run has most of: its fields one after another, numbers as varints.
//!
//! The other records are MessagePack by position. That costs five times the time to read, which is most of what a replayed
//! step takes, and a third more space.
//!
//! ```text
//! base 16  ordinal v  kind 1  scope 16  frame 1 [16]  name s  digest 32  length v  preview s  file s  line v
//! attempts v  at_ms v  took_ms v  form 1  fingerprint 8 value s | failure s  [answered s]
//! v: LEB128;  s: v bytes, and they;  frame: 0 none, 1 the scope, 2 another one;  failure, answered: MessagePack by position;
//! form: 0 a value, 1 a failure; and 2 if it is cached, 4 if something was asked in it, 8 if it is answered: a question's
//! ```

use std::sync::Arc;

use super::record::{CallInfo, CallKind, Outcome, RecordError};
use super::text::Names;
use crate::{
    id::{CallId, ScopeId},
    output::Recorded,
    value::Payload,
};

/// What the form of an outcome is made of.
const FAILURE: u8 = 1;
const CACHED: u8 = 2;
const ASKED: u8 = 4;
const ANSWERED: u8 = 8;

pub(super) fn write(outcome: &Outcome, bytes: &mut Vec<u8>) {
    let Outcome { call, recorded, attempts, at_ms, took_ms, cached, asked, answered } = outcome;
    write_call(call, bytes);
    for number in [u64::from(*attempts), *at_ms, u64::from(*took_ms)] {
        write_number(number, bytes);
    }
    let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
    let form = flag(CACHED, *cached) | flag(ASKED, *asked) | flag(ANSWERED, answered.is_some());
    match &**recorded {
        Recorded::Value(Payload { fingerprint, bytes: value }) => {
            bytes.push(form);
            bytes.extend_from_slice(&fingerprint.to_le_bytes());
            write_bytes(value, bytes);
        }
        Recorded::Failure(failure) => {
            bytes.push(form | FAILURE);
            let failure = rmp_serde::to_vec(failure).expect("a failure has nothing that cannot be written");
            write_bytes(&failure, bytes);
        }
    }
    if let Some(answered) = answered {
        let answered = rmp_serde::to_vec(answered).expect("a note has nothing that cannot be written");
        write_bytes(&answered, bytes);
    }
}

fn write_call(call: &CallInfo, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&call.id.base.to_le_bytes());
    write_number(call.id.ordinal.into(), bytes);
    bytes.push(call.kind.code());
    bytes.extend_from_slice(&call.scope.0.to_le_bytes());
    match call.frame {
        None => bytes.push(0),
        Some(frame) if frame == call.scope => bytes.push(1),
        Some(frame) => {
            bytes.push(2);
            bytes.extend_from_slice(&frame.0.to_le_bytes());
        }
    }
    write_bytes(call.name.as_bytes(), bytes);
    bytes.extend_from_slice(&call.digest);
    write_number(call.length.into(), bytes);
    write_bytes(call.preview.as_bytes(), bytes);
    write_bytes(call.file.as_bytes(), bytes);
    write_number(call.line.into(), bytes);
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn write_bytes(written: &[u8], bytes: &mut Vec<u8>) {
    write_number(written.len() as u64, bytes);
    bytes.extend_from_slice(written);
}

/// Reads what [`write`] wrote; any bytes give an outcome or an error.
pub(super) fn read(bytes: &[u8], names: &mut Names) -> Result<Outcome, RecordError> {
    let mut rest = Rest(bytes);
    let call = rest.call(names)?;
    let (attempts, at_ms, took_ms) = (rest.small()?, rest.number()?, rest.small()?);
    let form = rest.byte()?;
    let (cached, asked) = (form & CACHED != 0, form & ASKED != 0);
    let recorded = match form & !(CACHED | ASKED | ANSWERED) {
        0 => {
            let fingerprint = u64::from_le_bytes(*rest.array()?);
            Recorded::Value(Payload { fingerprint, bytes: rest.bytes()?.to_vec() })
        }
        FAILURE => Recorded::Failure(rest.packed("failure")?),
        other => return Err(RecordError(format!("neither a value nor a failure, but {other}"))),
    };
    let answered = if form & ANSWERED == 0 { None } else { Some(rest.packed("note of an answer")?) };
    match rest.0.len() {
        0 => Ok(Outcome { call, recorded: Arc::new(recorded), attempts, at_ms, took_ms, cached, asked, answered }),
        left => Err(RecordError(format!("{left} bytes after the record's end"))),
    }
}

/// The bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn call(&mut self, names: &mut Names) -> Result<CallInfo, RecordError> {
        let base = u128::from_le_bytes(*self.array()?);
        let id = CallId { base, ordinal: self.small()? };
        let kind = self.byte()?;
        let kind = CallKind::of_code(kind).ok_or_else(|| RecordError(format!("a call of unknown kind {kind}")))?;
        let scope = ScopeId(u128::from_le_bytes(*self.array()?));
        let frame = match self.byte()? {
            0 => None,
            1 => Some(scope),
            2 => Some(ScopeId(u128::from_le_bytes(*self.array()?))),
            other => return Err(RecordError(format!("no entrypoint is told by {other}"))),
        };
        let name = names.text(self.text()?);
        let digest = *self.array()?;
        let length = self.small()?;
        let preview = self.text()?.to_owned();
        let file = names.text(self.text()?);
        Ok(CallInfo { id, kind, scope, frame, name, digest, length, preview, file, line: self.small()? })
    }

    /// What is MessagePack.
    fn packed<T: serde::de::DeserializeOwned>(&mut self, what: &str) -> Result<T, RecordError> {
        let mut reader = rmp_serde::Deserializer::new(self.bytes()?);
        let read = T::deserialize(&mut reader).map_err(|error| RecordError(format!("the {what} in it: {error}")))?;
        if reader.get_ref().is_empty() { Ok(read) } else { Err(RecordError(format!("bytes after the {what} in it"))) }
    }

    fn ended() -> RecordError {
        RecordError("it ends before its end".to_owned())
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        let (first, rest) = self.0.split_first().ok_or_else(Self::ended)?;
        self.0 = rest;
        Ok(*first)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], RecordError> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(Self::ended)?;
        self.0 = rest;
        Ok(array)
    }

    fn number(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                // One number has one form.
                return if byte == 0 && shift > 0 {
                    Err(RecordError("a number with a zero".into()))
                } else {
                    Ok(number)
                };
            }
        }
        Err(RecordError("a number beyond 64 bits".to_owned()))
    }

    fn small(&mut self) -> Result<u32, RecordError> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| RecordError(format!("{number} where at most 32 bits belong")))
    }

    fn bytes(&mut self) -> Result<&'a [u8], RecordError> {
        let length = usize::try_from(self.number()?).map_err(|_| Self::ended())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(Self::ended)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, RecordError> {
        std::str::from_utf8(self.bytes()?).map_err(|error| RecordError(format!("a text in it: {error}")))
    }
}
