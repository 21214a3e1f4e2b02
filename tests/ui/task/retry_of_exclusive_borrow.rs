use durably::task;

#[task(retry)]
async fn work(list: &mut Vec<u8>) -> anyhow::Result<u8> {
    Ok(0)
}

async fn caller() -> anyhow::Result<u8> {
    work(&mut vec![]).await
}

fn main() {}
