//! A draft that waits for a person. Watch for: the process that asked has ended; another one stores the answer, and a third
//! goes on with the run. No draft is written a second time, since each is in the journal.
//!
//! `review ask TOPIC`, `review answer publish`, `review answer WISH`, `review go-on`; without a word it does all of this,
//! each as a process of its own.

use std::process::Command;

use durably::{IfUnfinished, Outcome, Runtime, entrypoint, interrupt, task};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Verdict {
    Publish,
    Rework { wish: String },
}

#[task]
async fn write(topic: &str, wish: &str) -> String {
    println!("writing about {topic}{wish}");
    format!("All about {topic}{wish}.")
}

#[entrypoint]
async fn article(topic: String) -> String {
    let mut wish = String::new();
    loop {
        let draft = write(&topic, &wish).await;
        match interrupt("review", &draft).await {
            Verdict::Publish => return draft,
            Verdict::Rework { wish: next } => wish = format!(", {next}"),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.is_empty() {
        return story();
    }
    let runtime = Runtime::builder().open(".durably/review")?;
    let thread = runtime.thread("article")?;
    match words.as_slice() {
        ["ask", topic] => {
            show(&thread.invoke(article((*topic).to_owned())).if_unfinished(IfUnfinished::Discard).await?);
        }
        ["answer", "publish"] => thread.answer("review", Verdict::Publish).await?,
        ["answer", wish] => thread.answer("review", Verdict::Rework { wish: (*wish).to_owned() }).await?,
        ["go-on"] => show(&thread.resume(article).await?),
        other => anyhow::bail!("ask TOPIC, answer publish, answer WISH or go-on, but not {other:?}"),
    }
    Ok(())
}

fn show(outcome: &Outcome<String>) {
    match outcome {
        Outcome::Completed(text) => println!("published: {text}"),
        other => other.questions().iter().for_each(|open| println!("{} of {}?", open.key(), open.payload())),
    }
}

/// Each line in a process of its own.
fn story() -> anyhow::Result<()> {
    for words in
        [&["ask", "sled"][..], &["answer", "with figures"], &["go-on"], &["answer", "publish"], &["go-on"], &["go-on"]]
    {
        println!("$ review {}", words.join(" "));
        let status = Command::new(std::env::current_exe()?).args(words).status()?;
        anyhow::ensure!(status.success(), "it ended with {status}");
    }
    Ok(())
}
