use durably::task;

#[task(cache(ttl = 3600))]
async fn without_unit() -> u8 {
    0
}

#[task(cache(tll = "1h", ttl = "0s"))]
async fn unknown_and_nothing() -> u8 {
    0
}

#[task(cache = "1h")]
async fn no_list() -> u8 {
    0
}

#[task(cache(key = "{order.id}"))]
async fn unknown_parameter(id: u8) -> u8 {
    id
}

#[task(cache, cache(version = "2"))]
async fn twice() -> u8 {
    0
}

fn main() {}
