#![allow(unused)]
use durably::task;

#[task(skip(lmm, self), retry)]
async fn work(llm: &u8, url: &str) -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
