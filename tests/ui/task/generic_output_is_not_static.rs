use durably::task;
use serde::{Serialize, de::DeserializeOwned};

#[task]
async fn work<T: Serialize + DeserializeOwned + Send>(value: T) -> T {
    value
}

fn main() {}
