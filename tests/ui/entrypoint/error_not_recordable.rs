use durably::entrypoint;

#[entrypoint]
async fn flow() -> Result<u8, std::io::Error> {
    Ok(1)
}

fn main() {}
