use durably::task;

#[task(nmae = "a", timeout = 30, retry(max_attempts = 0))]
fn work(a: &u8) -> &u8 {
    a
}

fn caller(a: &u8) -> &u8 {
    work(a)
}

fn main() {}
