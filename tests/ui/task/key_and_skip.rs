use durably::task;

#[task(key = "{a}", skip(a))]
async fn work(a: u8) -> u8 {
    a
}

fn main() {}
