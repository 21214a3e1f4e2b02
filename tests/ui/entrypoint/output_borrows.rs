use durably::entrypoint;

#[entrypoint]
async fn flow() -> Result<&str, String> {
    Ok("a")
}

fn main() {}
