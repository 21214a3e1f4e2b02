#![allow(unused)]
use durably::entrypoint;

#[entrypoint]
async fn flow(#[previous] a: Option<u8>, #[previous] b: Option<u8>) -> u8 {
    0
}

fn main() {}
