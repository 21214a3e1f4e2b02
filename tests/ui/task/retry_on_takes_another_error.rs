#![allow(unused)]
use durably::task;

fn is_transient(error: &std::fmt::Error) -> bool {
    false
}

#[task(retry(retry_on = is_transient))]
async fn work() -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
