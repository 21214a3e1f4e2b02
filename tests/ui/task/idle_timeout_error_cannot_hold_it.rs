use durably::task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Typed;

#[task(idle_timeout = "30s")]
async fn work() -> Result<u8, Typed> {
    Err(Typed)
}

fn main() {}
