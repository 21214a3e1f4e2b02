//! A run that is watched. Watch for: its events come while it works, one that reads only the first few loses nothing, and
//! whoever comes back with a number gets what was recorded after it, also from another process.

use durably::{EventNo, Runtime, StreamEvent, StreamMode, Streamed, emit, entrypoint, task};

#[task]
async fn count_words(chapter: &str) -> usize {
    emit(&format!("counting {chapter:?}")); // live only: a body may run again
    chapter.split(' ').count()
}

#[entrypoint]
async fn book(chapters: Vec<String>) -> usize {
    let mut words = 0;
    for (done, chapter) in chapters.iter().enumerate() {
        emit(&format!("{done} of {} chapters", chapters.len())); // recorded: told once, however often the code runs
        words += count_words(chapter).await;
    }
    words
}

fn show(event: &StreamEvent) {
    let sort = if event.recorded { "recorded" } else { "live    " };
    match &event.what {
        Streamed::Update { name, value, .. } => println!("  {sort} {name} gave {value}"),
        Streamed::Custom { value, .. } => println!("  {sort} {value}"),
        other => println!("  {sort} {other:?}"),
    }
}

const MODES: [StreamMode; 2] = [StreamMode::Updates, StreamMode::Custom];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let chapters = ["In the beginning", "Then more of it", "The end"].map(str::to_owned).to_vec();
    let number: EventNo = {
        let runtime = Runtime::builder().open(".durably/stream")?;
        let thread = runtime.thread("book")?;
        let mut run = thread.invoke(book(chapters)).stream(MODES);
        let mut last = EventNo::BEGINNING;
        println!("as it happens:");
        for _ in 0..4 {
            let Some(event) = run.next().await else { break };
            show(&event);
            last = event.number;
        }
        println!("the reader has seen enough; the run comes to {:?}", run.outcome().await?);
        last
    };
    println!("another process, another reader, from after {number}:");
    let runtime = Runtime::builder().open(".durably/stream")?;
    let mut watch = runtime.thread("book")?.watch(MODES, number).until_rest();
    while let Some(event) = watch.next().await {
        show(&event?);
    }
    Ok(())
}
