//! A service that fails now and then. Watch for: attempts go on by the policy; a failure that is left when they are used
//! up is recorded like a value, so that the code that handles it takes the same way on replay.

use durably::{Runtime, TaskError, attempt, entrypoint, task};

#[derive(Debug, thiserror::Error)]
enum PriceError {
    #[error("the service is busy")]
    Busy,
    #[error("no such article: {0}")]
    Unknown(String),
    /// How a failure comes back from its record.
    #[error(transparent)]
    Recorded(#[from] TaskError),
}

fn is_busy(error: &PriceError) -> bool {
    matches!(error, PriceError::Busy)
}

#[task(retry(max_attempts = 4, initial_interval = "1ms", retry_on = is_busy))]
async fn price(article: &str) -> Result<u32, PriceError> {
    println!("asking for {article}, attempt {}", attempt());
    match (article, attempt()) {
        ("tea", 1 | 2) => Err(PriceError::Busy),
        ("tea", _) => Ok(21),
        _ => Err(PriceError::Unknown(article.to_owned())),
    }
}

#[entrypoint]
async fn offer(articles: Vec<String>) -> Vec<String> {
    let mut lines = Vec::new();
    for article in &articles {
        lines.push(match price(article).await {
            Ok(cents) => format!("{article} at {cents} cents"),
            Err(error) => format!("{article} left out: {error}"),
        });
    }
    lines
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let runtime = Runtime::builder().memory();
    let articles = vec!["tea".to_owned(), "unobtainium".to_owned()];
    let offer = runtime.thread("offer")?.invoke(offer(articles)).await?;
    println!("{:#?}", offer.completed());
    Ok(())
}
