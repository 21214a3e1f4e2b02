use durably::task;

trait Fetch: Sync {
    #[task]
    async fn get(&self, url: &str) -> u8;
}

struct Service;

impl Fetch for Service {
    async fn get(&self, url: &str) -> u8 {
        url.len() as u8
    }
}

fn main() {}
