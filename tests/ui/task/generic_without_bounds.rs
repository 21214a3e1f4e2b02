use durably::task;

#[task(skip_all)]
async fn work<T: Send + 'static, E: Send + 'static>(value: Result<T, E>) -> Result<T, E> {
    value
}

fn main() {}
