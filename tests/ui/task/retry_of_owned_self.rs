use durably::task;

struct Service;

impl Service {
    #[task(retry)]
    async fn work(self) -> anyhow::Result<u8> {
        Ok(0)
    }
}

fn main() {}
