use durably::task;

struct Service;

#[task(blocking)]
fn work(name: &str, list: Vec<&str>) -> u8 {
    0
}

impl Service {
    #[task(blocking)]
    fn method(&self) -> u8 {
        0
    }
}

fn main() {}
