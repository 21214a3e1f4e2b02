use durably::entrypoint;

#[entrypoint(version = "2", allow(clocks), allow)]
async fn flow() -> u8 {
    0
}

fn main() {}
