use durably::task;

#[task(key = "{ordr.id}-{}")]
async fn both(order: u8) -> u8 {
    order
}

#[task(key = "{ordr.id}")]
async fn name(order: u8) -> u8 {
    order
}

#[task(key = "{order")]
async fn brace(order: u8) -> u8 {
    order
}

fn main() {}
