//! Two tasks and an entrypoint. Watch for: each task's body prints once, although the run is resumed.

use durably::{Runtime, entrypoint, task};

#[task]
async fn greet(name: &str) -> String {
    println!("greeting {name}");
    format!("Hello, {name}")
}

#[task]
async fn shout(text: &str) -> String {
    println!("shouting {text:?}");
    format!("{}!", text.to_uppercase())
}

#[entrypoint]
async fn hello(name: String) -> String {
    let greeting = greet(&name).await;
    shout(&greeting).await
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // `.open("./state")` instead of `.memory()` keeps the journal on disk.
    let runtime = Runtime::builder().memory();
    let thread = runtime.thread("hello")?;
    println!("{:?}", thread.invoke(hello("Ada".to_owned())).await?);
    println!("{:?}, from the journal", thread.resume(hello).await?);
    Ok(())
}
