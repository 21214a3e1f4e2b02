//! A token that lets a reviewer answer once.

use std::{fmt, str::FromStr};

use super::{Digest, rows::sha256};
use crate::hex::{hex, unhex};

/// Lets somebody answer once. The store has only its hash. Shown by [`reveal`](Self::reveal) alone, never by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct AnswerToken([u8; 32]);

/// A text is no [`AnswerToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerTokenError;

impl AnswerToken {
    pub(super) fn new() -> Self {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).expect("the system's random source works");
        Self(bytes)
    }

    pub(super) fn hash(&self) -> Digest {
        sha256(b"durably.approval.token.v1\0", &self.0)
    }

    /// Its text, 64 hex digits: for the page on which somebody answers, and for nothing else.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex(&self.0)
    }
}

impl FromStr for AnswerToken {
    type Err = AnswerTokenError;

    fn from_str(text: &str) -> Result<Self, AnswerTokenError> {
        unhex(text).map(Self).ok_or(AnswerTokenError)
    }
}

impl fmt::Debug for AnswerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerToken(..)")
    }
}

impl fmt::Display for AnswerTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an answer's token: it has 64 lower-case hex digits")
    }
}

impl std::error::Error for AnswerTokenError {}
