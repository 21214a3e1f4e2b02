use durably::task;

#[task]
async fn elided(name: &str) -> &str {
    name
}

#[task]
async fn named<'a>(name: &'a str) -> anyhow::Result<Vec<std::borrow::Cow<'a, str>>> {
    Ok(vec![name.into()])
}

fn main() {}
