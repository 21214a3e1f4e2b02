use durably::entrypoint;

#[entrypoint]
fn flow(a: u8) -> u8 {
    a
}

async fn caller() -> u8 {
    flow(1).await
}

fn main() {}
