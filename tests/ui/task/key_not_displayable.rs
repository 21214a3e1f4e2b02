use durably::task;

struct Order;

#[task(key = "{order}")]
async fn work(order: &Order) -> u8 {
    0
}

fn main() {}
