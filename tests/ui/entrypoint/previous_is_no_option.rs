use durably::entrypoint;

#[entrypoint]
async fn flow(a: u8, #[previous] last: u8) -> u8 {
    a
}

fn main() {}
