use durably::entrypoint;

#[entrypoint]
async fn flow(urls: Vec<String>) -> u8 {
    let started = std::time::Instant::now();
    tokio::spawn(async {});
    tokio::time::sleep(started.elapsed()).await;
    let pages: Vec<_> = urls.iter().map(|path| std::fs::read_to_string(path)).collect();
    println!("{:?} {:?}", std::env::var("HOME"), pages);
    0
}

fn main() {}
