use durably::task;

#[task]
async fn work() -> std::io::Result<u8> {
    Ok(1)
}

fn main() {}
