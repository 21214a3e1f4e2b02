use durably::task;

#[task(name = 1, retry(max_attempts = "3", jitter = 1, backoff_factor = 0.5), blocking = true, skip = a, retry = 3)]
async fn work() -> anyhow::Result<u8> {
    Ok(0)
}

#[task(name)]
async fn missing() {}

#[task(name = "", retry(max_attempts = 0), timeout = "0s")]
async fn empty() -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
