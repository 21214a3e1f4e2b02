use durably::entrypoint;

#[entrypoint]
async fn flow() -> Result<&'static str, String> {
    Ok("a")
}

fn main() {}
