#![allow(unused)]
use durably::entrypoint;

struct Opaque;

#[entrypoint]
async fn flow(name: String, of: Opaque) -> u8 {
    0
}

fn main() {}
