//! A process that dies in the middle. Run it twice. Watch for: the first one aborts after its second task; the second one
//! goes on with the third, and runs neither of the others again.

use durably::{Event, Observer, Runtime, entrypoint, task};

#[task]
async fn step(name: &str) -> usize {
    println!("running {name}");
    name.len()
}

#[entrypoint]
async fn trip(stops: Vec<String>) -> usize {
    let mut letters = 0;
    for stop in &stops {
        letters += step(stop).await;
    }
    letters
}

/// Pulls the plug when the second task's outcome is handed on live; by then its record is on disk.
struct PowerCut;

impl Observer for PowerCut {
    fn observe(&self, event: &Event<'_>) {
        let Event::Released { call, replayed, .. } = event else { return };
        let stop: String = call.argument("name").unwrap_or_default();
        println!("{stop} {}", if *replayed { "answers from the journal" } else { "is done" });
        if stop == "pack" && !replayed {
            println!("power cut");
            std::process::abort();
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let runtime = Runtime::builder().observer(PowerCut).open(".durably/crash_resume")?;
    let stops = ["wake", "pack", "leave", "arrive"].map(str::to_owned).to_vec();
    // Begins the run, goes on with it if it was cut off, and gives its result again once it has ended.
    let outcome = runtime.thread("trip")?.invoke(trip(stops)).once().await?;
    println!("{outcome:?}");
    Ok(())
}
