//! What compiles runs: arguments, keys, patterns and bodies, in a real run.
#![deny(warnings)]

use durably::{Outcome, Runtime, entrypoint, task};

#[derive(serde::Serialize, serde::Deserialize, Clone)]
struct Order {
    id: u64,
    lines: Vec<(String, u32)>,
}

#[task(key = "{order.id}/{order.lines.len():03}")]
async fn price(order: &Order, (factor, _): (u32, u32), mut sum: u32) -> anyhow::Result<u32> {
    for (_, amount) in &order.lines {
        sum += amount * factor;
    }
    Ok(sum)
}

#[task(blocking)]
fn name(order: Order) -> String {
    format!("order {}", order.id)
}

#[task(retry(max_attempts = 3, initial_interval = "1ms"), skip(tries))]
async fn third_time(tries: &std::sync::atomic::AtomicU32) -> anyhow::Result<u32> {
    match tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        2 => Ok(3),
        n => anyhow::bail!("try {n}"),
    }
}

#[task(timeout = "5ms")]
async fn endless() -> anyhow::Result<()> {
    std::future::pending().await
}

#[entrypoint]
async fn flow(order: Order) -> anyhow::Result<(u32, String, u32, bool)> {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let (sum, name) = tokio::join!(price(&order, (2, 0), 1), name(order.clone()));
    let error = endless().await.expect_err("it takes too long").downcast::<durably::TaskError>()?;
    Ok((sum?, name, third_time(&tries).await?, error.is_timeout()))
}

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("tokio");
    tokio.block_on(async {
        let runtime = Runtime::builder().entrypoint(flow).memory();
        let order = Order { id: 7, lines: vec![("a".into(), 3), ("b".into(), 4)] };
        let thread = runtime.thread("t").expect("a thread");
        match thread.invoke(flow(order)).await.expect("the flow ends") {
            Outcome::Completed(output) => assert_eq!(output, (15, "order 7".to_owned(), 3, true)),
            _ => panic!("not completed"),
        }
    });
}
