use durably::task;

struct Opaque;

#[task]
async fn work() -> Vec<Opaque> {
    vec![Opaque]
}

fn main() {}
