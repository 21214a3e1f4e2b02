use durably::task;

struct Result;

#[task]
async fn work() -> Result {
    Result
}

fn main() {}
