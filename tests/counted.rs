//! What `tests/instructions.sh` counts instructions of: `counted live|replay N`. One run of N steps in memory; `replay`
//! lets it pause after its steps and goes on once more, so that the difference to `live` is a replay.

use durably::{Runtime, entrypoint, interrupt, task};

const TEXT: &str =
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

#[task]
async fn step(n: u32) -> String {
    let _ = n;
    TEXT.to_owned()
}

#[entrypoint]
async fn chain(n: u32) -> usize {
    let mut bytes = 0;
    for number in 0..n {
        bytes += step(number).await.len();
    }
    interrupt::<()>("go on?", &()).await;
    bytes
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, n] = arguments.as_slice() else { anyhow::bail!("counted live|replay N") };
    let n: u32 = n.parse()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let runtime = Runtime::builder().memory();
        let thread = runtime.thread("a")?;
        anyhow::ensure!(thread.invoke(chain(n)).await?.questions().len() == 1, "the run did not pause");
        if what == "replay" {
            anyhow::ensure!(thread.resume(chain).await?.questions().len() == 1, "the run did not pause again");
        }
        Ok(())
    })
}
