use durably::entrypoint;

#[entrypoint]
async fn flow() -> u8 {
    tokio::select! {
        a = std::future::ready(1) => a,
        b = std::future::ready(2) => b,
    }
}

fn main() {}
