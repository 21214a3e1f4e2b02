use durably::task;

struct Opaque;

#[task]
async fn work(name: &str, of: Vec<Opaque>) -> u8 {
    0
}

async fn caller() -> u8 {
    work("a", vec![]).await
}

fn main() {}
