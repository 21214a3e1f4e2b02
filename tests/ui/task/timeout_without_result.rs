use durably::task;

#[task(timeout = "30s")]
async fn work() -> u8 {
    0
}

fn main() {}
