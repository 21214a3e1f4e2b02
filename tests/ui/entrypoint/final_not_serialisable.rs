use durably::{Final, entrypoint};

struct Opaque;

#[entrypoint]
async fn flow() -> anyhow::Result<Final<u8, Opaque>> {
    Ok(Final { value: 1, save: Opaque })
}

fn main() {}
