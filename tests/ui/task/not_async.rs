use durably::task;

#[task]
fn work(a: u8) -> u8 {
    a
}

async fn caller() -> u8 {
    work(1).await
}

fn main() {}
