use durably::task;

struct Broken;

#[task]
async fn work() -> Result<u8, Broken> {
    Err(Broken)
}

fn main() {}
