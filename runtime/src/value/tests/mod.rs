//! What the codec promises.
#![allow(clippy::unwrap_used, clippy::items_after_statements)] // tests
#![allow(clippy::option_option, clippy::zero_sized_map_values, clippy::trivially_copy_pass_by_ref)] // they are tested
#![allow(clippy::format_collect)] // short

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};

use super::*;

mod edits;
mod hostile;
mod identity;
mod schema;
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
