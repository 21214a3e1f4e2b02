use durably::entrypoint;

#[entrypoint(versoin = 2, cache)]
async fn flow() -> u8 {
    0
}

async fn caller() -> u8 {
    flow().await
}

fn main() {}
