//! Recorded values: how any serde value becomes bytes that come back equal, and how a call's arguments become an identity.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A recorded value: compact self-describing bytes, and the fingerprint of the type that wrote them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// A digest of the name of the type that wrote it; tells a changed type from a damaged record.
    pub(crate) fingerprint: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: Vec<u8>,
}

/// Why a value could not be recorded, or a record not be read as the type wanted.
#[derive(Clone, Debug)]
pub struct ValueError;

impl ValueError {
    /// Says what was wrong with a record.
    pub(crate) fn custom(_: String) -> Self {
        Self
    }
}
impl fmt::Display for ValueError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}
impl std::error::Error for ValueError {}

impl Payload {
    /// Records a value.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, ValueError> {
        let _ = value;
        todo!()
    }

    /// Reads it as a `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        todo!()
    }

    /// The value as JSON text, readable without the Rust type.
    pub fn to_json(&self) -> String {
        todo!()
    }

    /// The first `limit` characters of [`Self::to_json`], with an ellipsis if there are more.
    pub fn preview(&self, limit: usize) -> String {
        let _ = limit;
        todo!()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.preview(200))
    }
}

/// The arguments of a call, in canonical form: equal values give equal bytes, whatever the order of their maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments;

impl Arguments {
    /// No arguments yet.
    pub fn new() -> Self {
        todo!()
    }
    /// Adds one.
    pub fn push<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), ValueError> {
        let _ = (name, value);
        todo!()
    }
    /// SHA-256 of the canonical bytes.
    pub fn digest(&self) -> [u8; 32] {
        todo!()
    }
    /// How many canonical bytes there are.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// For people: `url="https://…", n=3`, at most `limit` characters.
    pub fn preview(&self, limit: usize) -> String {
        let _ = limit;
        todo!()
    }
    /// Reads one argument by name.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<Result<T, ValueError>> {
        let _ = name;
        todo!()
    }
}
