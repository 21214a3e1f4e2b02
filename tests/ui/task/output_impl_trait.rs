use durably::task;

#[task]
async fn shown() -> impl std::fmt::Display {
    1
}

#[task]
async fn many() -> impl Iterator<Item = u8> {
    [1].into_iter()
}

fn main() {}
