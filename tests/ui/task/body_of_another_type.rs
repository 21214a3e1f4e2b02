use durably::task;

#[task]
async fn work(name: &str) -> anyhow::Result<String> {
    if name.is_empty() {
        return Ok(1);
    }
    name.to_owned()
}

fn main() {}
