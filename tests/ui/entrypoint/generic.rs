use durably::entrypoint;

#[entrypoint]
async fn flow<T: Send>(a: Vec<T>) -> u8 {
    0
}

#[entrypoint]
async fn anonymous(a: impl Send) -> u8 {
    0
}

async fn caller() -> u8 {
    flow(vec![1]).await + anonymous(1).await
}

fn main() {}
