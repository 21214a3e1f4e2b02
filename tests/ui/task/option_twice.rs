use durably::task;

#[task(name = "a", name = "b", retry(max_attempts = 3, max_attempts = 4))]
async fn work() -> anyhow::Result<u8> {
    Ok(0)
}

fn main() {}
