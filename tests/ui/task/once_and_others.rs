use durably::task;

#[task(at_most_once, cache)]
async fn cached() -> u8 {
    0
}

#[task(at_most_once, retry(max_attempts = 2))]
async fn retried() -> anyhow::Result<u8> {
    Ok(0)
}

#[task(at_most_once, blocking, timeout = "1s")]
fn blocks() -> anyhow::Result<u8> {
    Ok(0)
}

#[task(reconcile = find)]
async fn reconciled() -> u8 {
    0
}

fn main() {}
