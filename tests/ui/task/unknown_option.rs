use durably::task;

#[task(nmae = "a", retries = 3, timeout = "1s")]
async fn work() -> anyhow::Result<u8> {
    Ok(0)
}

async fn caller() -> anyhow::Result<u8> {
    work().await
}

fn main() {}
