use durably::entrypoint;

#[entrypoint(retry(max_attempts = 3))]
async fn flow() -> u8 {
    0
}

fn main() {}
