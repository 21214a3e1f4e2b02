use durably::entrypoint;

#[entrypoint(max_concurrency = 0)]
async fn none() -> u8 {
    0
}

#[entrypoint(max_concurrency = "8", retry = 3)]
async fn text() -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
