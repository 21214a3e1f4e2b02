use durably::task;

#[task]
async fn work() -> u8 {
    let x = ;
    1
}

fn main() {}
