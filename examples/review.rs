//! A draft that waits for a person. Watch for: the run pauses at the question and leaves memory; the runtime is dropped,
//! as if days went by; another one answers and resumes, and the draft is not written a second time.

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

fn open() -> anyhow::Result<Runtime> {
    Ok(Runtime::builder().open(".durably/review")?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let thread = "article";
    {
        let runtime = open()?;
        let call = article("sled".to_owned());
        let outcome = runtime.thread(thread)?.invoke(call).if_unfinished(IfUnfinished::Discard).await?;
        show(&outcome);
    }
    for verdict in [Verdict::Rework { wish: "with figures".to_owned() }, Verdict::Publish] {
        println!("-- another process, days later: {verdict:?}");
        let runtime = open()?;
        let thread = runtime.thread(thread)?;
        thread.answer("review", verdict).await?;
        show(&thread.resume(article).await?);
    }
    Ok(())
}

fn show(outcome: &Outcome<String>) {
    match outcome {
        Outcome::Completed(text) => println!("published: {text}"),
        other => other.questions().iter().for_each(|open| println!("{} of {}?", open.key(), open.payload())),
    }
}
