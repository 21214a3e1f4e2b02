//! Calls that borrow go through each combinator, in a future that is `Send`.
#![deny(warnings)]

use durably::task;
use futures::{
    StreamExt,
    future::{join_all, try_join_all},
    stream::{self, FuturesUnordered},
};

#[task]
async fn fetch(url: &str) -> anyhow::Result<String> {
    Ok(url.to_owned())
}

#[task]
async fn fetch_owned(url: String) -> anyhow::Result<String> {
    Ok(url)
}

async fn flow(urls: Vec<String>) -> anyhow::Result<usize> {
    let (a, b) = tokio::join!(fetch(&urls[0]), fetch(&urls[1]));
    let both = tokio::try_join!(fetch(&urls[0]), fetch_owned(urls[1].clone()))?;
    let all = try_join_all(urls.iter().map(|url| fetch(url))).await?;
    let each = join_all(urls.iter().map(|url| fetch(url))).await;
    let mut any: FuturesUnordered<_> = urls.iter().map(|url| fetch(url)).collect();
    let mut count = 0;
    while let Some(page) = any.next().await {
        count += page?.len();
    }
    drop(any);
    let bounded: Vec<_> = stream::iter(urls.clone()).map(fetch_owned).buffer_unordered(4).collect().await;
    tokio::select! {
        biased;
        page = fetch(&urls[0]) => count += page?.len(),
        page = fetch(&urls[1]) => count += page?.len(),
    }
    Ok(count + a?.len() + b?.len() + both.0.len() + all.len() + each.len() + bounded.len())
}

fn assert_send<T: Send>(it: T) -> T {
    it
}

fn main() {
    let _ = || assert_send(flow(vec![]));
}
