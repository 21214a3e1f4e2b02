use durably::task;

struct Opaque;

#[task]
async fn work() -> anyhow::Result<Opaque> {
    Ok(Opaque)
}

fn main() {}
