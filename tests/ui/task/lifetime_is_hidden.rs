use durably::task;

#[derive(serde::Serialize)]
struct Context<'a>(&'a str);

#[task]
async fn work(context: Context) -> usize {
    context.0.len()
}

fn main() {}
