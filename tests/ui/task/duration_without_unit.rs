use durably::task;

#[task(timeout = 30)]
async fn number() -> anyhow::Result<u8> {
    Ok(0)
}

#[task(timeout = "30", retry(initial_interval = "1 fortnight"))]
async fn text() -> anyhow::Result<u8> {
    Ok(0)
}

#[task(timeout = 30s)]
async fn suffix() -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
