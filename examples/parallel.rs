//! Calls side by side. Watch for: outputs come in the order of the calls, whatever ends first; `bounded` keeps at most
//! three bodies alive; `.spawn()` puts a body on tokio's pool.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use durably::{Runtime, bounded, entrypoint, task};
use futures::future::join_all;

/// How many bodies are alive now, and how many were at most.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[task(skip(crowd))]
async fn square(crowd: &Crowd, n: u64) -> u64 {
    crowd.most.fetch_max(crowd.now.fetch_add(1, SeqCst) + 1, SeqCst);
    // The later calls are the quicker ones.
    tokio::time::sleep(Duration::from_millis(30 - n)).await;
    crowd.now.fetch_sub(1, SeqCst);
    n * n
}

#[task]
async fn factorial(n: u64) -> u64 {
    (1..=n).product()
}

#[entrypoint]
async fn sums(upto: u64) -> (u64, u64) {
    let crowd = durably::resource::<Crowd>();
    let squares = bounded(3, (1..=upto).map(|n| square(&crowd, n))).await;
    let factorials = join_all((1..=upto).map(|n| factorial(n).spawn())).await;
    println!("squares {squares:?}\nfactorials {factorials:?}");
    println!("at most {} squares at a time", crowd.most.load(SeqCst));
    (squares.iter().sum(), factorials.iter().sum())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let runtime = Runtime::builder().resource(Crowd::default()).memory();
    println!("{:?}", runtime.thread("sums")?.invoke(sums(9)).await?);
    Ok(())
}
