use durably::task;

trait Fetch {
    fn base(&self) -> String;

    #[task]
    async fn get(&self) -> String {
        self.base()
    }
}

fn main() {}
