use durably::task;

#[task(skip(a), skip_all)]
async fn work(a: u8) -> u8 {
    a
}

fn main() {}
