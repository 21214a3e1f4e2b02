use durably::task;

#[task(retry)]
async fn work() -> u8 {
    0
}

fn main() {}
