use durably::task;

#[task]
async fn work() -> &'static str {
    "a"
}

fn main() {}
