//! Whatever a user calls their own things, the expansions mean the standard ones.
#![deny(warnings)]
#![allow(dead_code, non_camel_case_types, unused_macros)]

use durably::{entrypoint, task};

struct Option;
struct Box;
struct String;
struct Vec;
struct Some;
struct None;
struct Ok;
struct Err;
struct u32;
struct str;
struct bool;
trait Send {}
trait Sync {}
trait Clone {}
trait From {}
trait Into {}
trait Serialize {}
mod std {}
mod core {}
mod serde {}
macro_rules! format {
    () => {};
}
macro_rules! module_path {
    () => {};
}

#[task(retry, timeout = "1s", key = "{id}")]
async fn keyed(id: u8) -> anyhow::Result<u8> {
    anyhow::Ok(id)
}

#[task]
async fn plain(__arguments: u8, id: &u8) -> u8 {
    *id + __arguments
}

#[entrypoint]
async fn flow(id: u8, __input: u8) -> anyhow::Result<u8> {
    anyhow::Ok(keyed(id).await? + plain(__input, &id).await)
}

mod deeper {
    type Result = u8;
    #[durably::task]
    async fn counted(x: Result) -> u16 {
        u16::from(x)
    }
}

fn main() {
    let _ = flow(1, 2);
}
