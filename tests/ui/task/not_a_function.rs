use durably::task;

#[task]
struct Work {
    a: u8,
}

fn use_it(work: Work) -> u8 {
    work.a
}

fn main() {}
