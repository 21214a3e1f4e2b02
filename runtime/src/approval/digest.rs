//! What an approval is bound to: the digest of a proposal, and the key that its effect is sent with.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex::{hex, unhex};

/// The digest of a proposal: SHA-256 over a domain, the length, and the canonical text. Shown as 64 hex digits.
///
/// ```
/// use durably::approval::Digest;
///
/// let digest: Digest = "44".repeat(32).parse()?;
/// assert_eq!(digest.short(), "444444444444");
/// # Ok::<(), durably::approval::DigestError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub(crate) [u8; 32]);

/// A text is no [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestError;

impl Digest {
    /// Of a canonical text.
    pub(crate) fn of(canonical: &str) -> Self {
        let length = u64::try_from(canonical.len()).unwrap_or(u64::MAX);
        let digest = Sha256::new()
            .chain_update(b"durably.approval.v1\0")
            .chain_update(length.to_be_bytes())
            .chain_update(canonical)
            .finalize();
        Self(digest.into())
    }

    /// The first 12 hex digits, for a title. Never to decide by.
    #[must_use]
    pub fn short(&self) -> String {
        hex(&self.0[..6])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        unhex(text).map(Self).ok_or(DigestError)
    }
}

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a digest: it has 64 lower-case hex digits")
    }
}

impl std::error::Error for DigestError {}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What the receiver of an effect knows an action by: the same at every attempt and after every restart, another one for
/// any other content. 43 characters of base64url.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    pub(crate) fn of(digest: &Digest) -> Self {
        let key = Sha256::new().chain_update(b"durably.idem.v1\0").chain_update(digest.0).finalize();
        Self(base64url(&key))
    }

    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// RFC 4648, section 5, without padding.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_that_of_rfc_4648() {
        for (bytes, text) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE")]
        {
            assert_eq!(base64url(bytes.as_bytes()), text);
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
        assert_eq!(IdempotencyKey::of(&Digest([7; 32])).as_str().len(), 43);
        assert_ne!(IdempotencyKey::of(&Digest([7; 32])), IdempotencyKey::of(&Digest([8; 32])));
    }

    #[test]
    fn a_digest_comes_back_from_its_text_and_nothing_else_does() {
        let digest = Digest::of("{}");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for text in ["", "44", &"G4".repeat(32), &"AA".repeat(32), &"é".repeat(32), &format!("{digest}0")] {
            assert_eq!(text.parse::<Digest>(), Err(DigestError), "{text}");
        }
    }
}
