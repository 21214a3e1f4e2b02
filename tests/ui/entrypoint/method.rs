use durably::entrypoint;

struct Service;

impl Service {
    #[entrypoint]
    async fn flow(&self) -> u8 {
        0
    }
}

fn main() {}
