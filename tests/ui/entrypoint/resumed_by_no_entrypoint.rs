//! A plain function, and a call, where the annotated function itself is wanted.

use durably::{Thread, entrypoint};

#[entrypoint]
async fn digest(n: u32) -> u32 {
    n
}

async fn plain(n: u32) -> u32 {
    n
}

fn main() {
    let resume = |thread: Thread| {
        let _ = thread.resume(plain);
        let _ = thread.resume(digest(1));
    };
    let _ = resume;
}
