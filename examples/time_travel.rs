//! What if the answer had been another? Watch for: a fork before the decision goes on by itself, with the price that was
//! recorded; the first run stays as it was, and both outcomes stand side by side.

use durably::{CheckpointWhat, Runtime, Thread, entrypoint, interrupt, task};

#[task]
async fn quote(article: &str) -> u64 {
    println!("asking what {article} costs");
    4200
}

#[task]
async fn order(article: &str, cents: u64) -> String {
    println!("ordering {article}");
    format!("{article} for {cents} cents")
}

#[entrypoint]
async fn purchase(article: String) -> Option<String> {
    let cents = quote(&article).await;
    if interrupt("buy?", &cents).await { Some(order(&article, cents).await) } else { None }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let runtime = Runtime::builder().memory();
    let thread = runtime.thread("tea")?;
    let _ = thread.invoke(purchase("tea".to_owned())).await?;
    thread.answer("buy?", true).await?;
    let _ = thread.resume(purchase).await?;
    show("what was", &thread).await?;

    let history = thread.history().await?;
    let answer = history.iter().find(|at| matches!(at.what, CheckpointWhat::Answer { .. }));
    let answer = answer.ok_or_else(|| anyhow::anyhow!("it was answered"))?;

    println!("\n-- what if it had been no?");
    let (question, _) = answer.what.call().ok_or_else(|| anyhow::anyhow!("an answer has a question"))?;
    let no = thread.fork(answer.id).edit(question, false).to("tea, declined").await?;
    let _ = no.resume(purchase).await?;
    show("what if", &no).await?;

    println!("\n-- and if it were asked again?");
    let before = answer.parent.ok_or_else(|| anyhow::anyhow!("a question comes first"))?;
    let again = thread.fork(before).to("tea, again").await?;
    again.answer("buy?", true).await?;
    let _ = again.resume(purchase).await?;
    show("once more", &again).await?;
    show("still", &thread).await
}

async fn show(what: &str, thread: &Thread) -> anyhow::Result<()> {
    let Some(state) = thread.state().await? else { return Ok(()) };
    let output = state.output().map_or("nothing".to_owned(), durably::RecordedValue::json);
    println!("{what}: {output} on thread {}, {} records", thread.id(), thread.history().await?.len());
    Ok(())
}
