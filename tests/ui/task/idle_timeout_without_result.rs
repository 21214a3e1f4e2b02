use durably::task;

#[task(idle_timeout = "30s")]
async fn work() -> u8 {
    0
}

fn main() {}
