use durably::entrypoint;

type Final = durably::Final<u8, u8>;

#[entrypoint]
async fn flow() -> Final {
    durably::Final { value: 1, save: 1 }
}

fn main() {}
