use durably::entrypoint;

#[entrypoint]
async fn flow(name: &str, list: &[u8], of: Vec<&u8>) -> u8 {
    0
}

async fn caller() -> u8 {
    flow("a", &[], vec![]).await
}

fn main() {}
