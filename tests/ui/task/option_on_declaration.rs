use durably::task;

trait Work {
    #[task(name = "a")]
    async fn work(&self) -> u8;
}

fn main() {}
