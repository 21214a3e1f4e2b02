use durably::task;

#[task]
async fn work() -> u8 {
    let shared = std::rc::Rc::new(1);
    std::future::ready(()).await;
    *shared
}

fn main() {}
