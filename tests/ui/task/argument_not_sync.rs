use durably::task;

#[task(skip(cell))]
async fn work(cell: &std::cell::Cell<u8>) -> u8 {
    cell.get()
}

fn main() {}
