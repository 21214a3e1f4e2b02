//! What the codec promises.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};

use super::*;

mod edits;
mod hostile;
mod identity;
mod speed;
mod text;
mod values;

/// What the value comes back as.
#[track_caller]
fn back<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let payload = Payload::encode(value).expect("it can be written");
    payload.decode().unwrap_or_else(|error| panic!("{payload:?} does not come back: {error}"))
}

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    assert_eq!(back(&value), value, "as {:?}", Payload::encode(&value).map(|payload| payload.bytes));
}
