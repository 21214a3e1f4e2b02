#![deny(unused_must_use)]
use durably::task;

#[task]
async fn work() -> u8 {
    1
}

async fn caller() {
    work();
}

fn main() {}
