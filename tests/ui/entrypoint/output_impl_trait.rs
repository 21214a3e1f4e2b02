use durably::entrypoint;
use futures::Stream;

#[entrypoint]
async fn streams(n: u8) -> impl Stream<Item = u8> {
    futures::stream::iter(0..n)
}

#[entrypoint]
async fn boxed(n: u8) -> std::pin::Pin<Box<dyn Stream<Item = u8> + Send>> {
    Box::pin(futures::stream::iter(0..n))
}

#[entrypoint]
async fn iterates(n: u8) -> impl Iterator<Item = u8> {
    0..n
}

fn main() {}
