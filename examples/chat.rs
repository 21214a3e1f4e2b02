//! A chat that remembers: each turn gets what the last one saved. Watch for: the saved value is the whole conversation, and
//! the store has each of its versions once; pruned to the last run, only the newest.

use durably::{Final, Keep, Runtime, entrypoint, task};

const TURNS: usize = 100;

/// Stands for a model: a reply of about a kilobyte.
#[task]
async fn reply(turn: usize, message: &str) -> String {
    format!("{message}, you say for the {turn:04}th time. {}", "I see. ".repeat(135))
}

/// What the caller gets is the reply; what is saved for the next turn is everything that was said.
#[entrypoint]
async fn chat(message: String, #[previous] said: Option<Vec<String>>) -> Final<String, Vec<String>> {
    let mut said = said.unwrap_or_default();
    let reply = reply(said.len() + 1, &message).await;
    said.push(reply.clone());
    Final { value: reply, save: said }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let runtime = Runtime::builder().open(".durably/chat")?;
    let thread = runtime.thread("ada")?;
    for _ in 0..TURNS {
        let _ = thread.invoke(chat("Good morning".to_owned())).await?;
    }
    let said = thread.state().await?.and_then(|state| state.saved().ok().flatten());
    let said: Vec<String> = said.map_or(Ok(Vec::new()), |said| said.decode())?;
    println!("{} turns, {:.2} MB said", said.len(), megabytes(said.iter().map(|turn| turn.len() as u64).sum()));

    let whole = thread.size().await?;
    println!("in the store: {:.1} MB in {} runs", megabytes(whole.bytes()), whole.runs.len());
    thread.prune(Keep::runs(1)).await?;
    let left = thread.size().await?;
    println!("once pruned:  {:.1} MB in {} run", megabytes(left.bytes()), left.runs.len());

    let next = thread.invoke(chat("Good night".to_owned())).await?.completed().unwrap_or_default();
    println!("and it still remembers: {}", &next[..41]);
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // for people
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
