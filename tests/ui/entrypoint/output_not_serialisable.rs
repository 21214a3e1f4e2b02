use durably::entrypoint;

struct Opaque;

#[entrypoint]
async fn plain() -> Opaque {
    Opaque
}

#[entrypoint]
async fn fallible() -> anyhow::Result<Opaque> {
    Ok(Opaque)
}

fn main() {}
