use durably::task;

#[task(retry(max_attempt = 3, initial = "1s"))]
async fn work() -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
