use durably::entrypoint;

struct Opaque;

#[entrypoint]
async fn flow(#[previous] last: Option<Opaque>) -> u8 {
    0
}

fn main() {}
