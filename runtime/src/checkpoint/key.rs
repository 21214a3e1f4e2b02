//! The byte form of a [`Key`], for backends that keep rows in an ordered map of bytes.

use std::{fmt, ops::Deref};

use super::Key;

const HEAD: u8 = 0x00;
const RECORD: u8 = 0x10;
const ANSWER: u8 = 0x20;
const ASIDE: u8 = 0x30;

/// The longest byte form: an answer's.
const MAX_BYTES: usize = 1 + 16 + 4 + 2;

/// A [`Key`] as bytes that are ordered as keys are; dereferences to a slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBytes {
    bytes: [u8; MAX_BYTES],
    length: u8,
}

impl KeyBytes {
    fn new(tag: u8) -> Self {
        let mut bytes = [0; MAX_BYTES];
        bytes[0] = tag;
        Self { bytes, length: 1 }
    }

    fn with<const N: usize>(mut self, part: [u8; N]) -> Self {
        let start = usize::from(self.length);
        self.bytes[start..start + N].copy_from_slice(&part);
        // At most `MAX_BYTES`: each kind of key is written in one place, below.
        self.length += u8::try_from(N).unwrap_or(0);
        self
    }
}

impl Deref for KeyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl AsRef<[u8]> for KeyBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Key {
    /// The least key of a thread.
    pub const FIRST: Self = Self::Head;
    /// The greatest key of a thread.
    pub const LAST: Self = Self::Aside { space: u8::MAX, id: u128::MAX, chunk: u16::MAX };

    /// The key as bytes, ordered as keys are. The form is stable: it may be stored.
    ///
    /// ```
    /// use durably::checkpoint::Key;
    ///
    /// let key = Key::Record { run: 1, seq: 2, chunk: 0 };
    /// assert!(key.to_bytes() > Key::Head.to_bytes());
    /// assert_eq!(Key::from_bytes(&key.to_bytes()), Some(key));
    /// ```
    #[must_use]
    pub fn to_bytes(self) -> KeyBytes {
        match self {
            Self::Head => KeyBytes::new(HEAD),
            Self::Record { run, seq, chunk } => {
                KeyBytes::new(RECORD).with(run.to_be_bytes()).with(seq.to_be_bytes()).with(chunk.to_be_bytes())
            }
            Self::Answer { question: (base, ordinal), chunk } => {
                KeyBytes::new(ANSWER).with(base.to_be_bytes()).with(ordinal.to_be_bytes()).with(chunk.to_be_bytes())
            }
            Self::Aside { space, id, chunk } => {
                KeyBytes::new(ASIDE).with([space]).with(id.to_be_bytes()).with(chunk.to_be_bytes())
            }
        }
    }

    /// Reads a key back; `None` if these are not exactly the bytes of a key.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&tag, rest) = bytes.split_first()?;
        let mut rest = Parts(rest);
        let key = match tag {
            HEAD => Self::Head,
            RECORD => Self::Record {
                run: u32::from_be_bytes(rest.take()?),
                seq: u32::from_be_bytes(rest.take()?),
                chunk: u16::from_be_bytes(rest.take()?),
            },
            ANSWER => Self::Answer {
                question: (u128::from_be_bytes(rest.take()?), u32::from_be_bytes(rest.take()?)),
                chunk: u16::from_be_bytes(rest.take()?),
            },
            ASIDE => Self::Aside {
                space: u8::from_be_bytes(rest.take()?),
                id: u128::from_be_bytes(rest.take()?),
                chunk: u16::from_be_bytes(rest.take()?),
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(key)
    }

    /// The place of this chunk; 0 for a key that has no chunks.
    #[must_use]
    pub fn chunk(self) -> u16 {
        match self {
            Self::Head => 0,
            Self::Record { chunk, .. } | Self::Answer { chunk, .. } | Self::Aside { chunk, .. } => chunk,
        }
    }

    /// The key of another chunk of the same item; a key that has no chunks stays as it is.
    #[must_use]
    pub fn with_chunk(self, chunk: u16) -> Self {
        match self {
            Self::Head => Self::Head,
            Self::Record { run, seq, .. } => Self::Record { run, seq, chunk },
            Self::Answer { question, .. } => Self::Answer { question, chunk },
            Self::Aside { space, id, .. } => Self::Aside { space, id, chunk },
        }
    }
}

/// Bytes that are taken from the front.
struct Parts<'a>(&'a [u8]);

impl Parts<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind at the edges of its numbers, in order.
    fn samples() -> Vec<Key> {
        let mut keys = vec![Key::FIRST, Key::LAST];
        for chunk in [0, 1, 255, 256, u16::MAX] {
            for n in [0, 1, 255, 256, u32::MAX] {
                keys.push(Key::Record { run: n, seq: 7, chunk });
                keys.push(Key::Record { run: 7, seq: n, chunk });
                keys.push(Key::Answer { question: (u128::from(n) << 64, n), chunk });
                keys.push(Key::Answer { question: (u128::MAX - u128::from(n), n), chunk });
                keys.push(Key::Aside { space: 3, id: u128::from(n), chunk });
                keys.push(Key::Aside { space: u8::MAX, id: u128::MAX - u128::from(n), chunk });
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn bytes_are_ordered_as_keys_are_and_come_back() {
        let keys = samples();
        for pair in keys.windows(2) {
            assert!(pair[0].to_bytes()[..] < pair[1].to_bytes()[..], "{pair:?}");
        }
        for key in keys {
            assert_eq!(Key::from_bytes(&key.to_bytes()), Some(key));
        }
    }

    #[test]
    fn other_bytes_are_no_key() {
        assert_eq!(Key::from_bytes(&[]), None);
        assert_eq!(Key::from_bytes(&[0xff]), None);
        for key in samples() {
            let bytes = key.to_bytes();
            assert_eq!(Key::from_bytes(&[&bytes[..], &[0]].concat()), None, "{key:?} and one byte more");
            assert_eq!(Key::from_bytes(&bytes[..bytes.len() - 1]), None, "{key:?} cut");
        }
    }
}
