use durably::task;

#[task]
async fn work(name: &str) -> u8 {
    name.len() as u8
}

async fn caller(name: String) -> u8 {
    work(&name).spawn().await
}

fn main() {}
