use durably::task;
use serde::Serialize;

#[derive(Serialize)]
struct Once;

#[task(retry)]
async fn work(once: Once) -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
