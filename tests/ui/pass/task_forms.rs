//! Each form of a function that a task can be.
#![deny(warnings, missing_docs, unreachable_pub, elided_lifetimes_in_paths, unused_qualifications)]
#![deny(missing_debug_implementations, unused_lifetimes, single_use_lifetimes)]

use std::{collections::HashMap, fmt::Display, sync::Arc};

use durably::task;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A client.
#[derive(Debug)]
pub struct Llm;

/// A context that borrows.
#[derive(Debug, Serialize, Clone, Copy)]
pub struct Context<'a> {
    name: &'a str,
}

/// An error that is recorded as it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Typed;

/// An error that is recorded as messages.
#[derive(Debug, thiserror::Error)]
pub enum Messages {
    /// A task's.
    #[error(transparent)]
    Task(#[from] durably::TaskError),
}

/// Documented.
#[task(retry(max_attempts = 4, initial_interval = "200ms"), timeout = "30s", skip(llm))]
pub async fn fetch(llm: &Llm, url: &str) -> anyhow::Result<String> {
    let _ = llm;
    if url.is_empty() {
        return Err(std::fmt::Error)?;
    }
    Ok(url.to_owned())
}

#[task]
async fn nothing() {}

#[task(name = "plain-value")]
async fn plain(mut a: u32, (b, c): (u32, u32), _: &[&str], &d: &u8) -> u32 {
    a += b + c;
    a + u32::from(d)
}

#[task]
async fn borrowing(context: Context<'_>, many: &mut Vec<&str>) -> Result<usize, Typed> {
    many.push("x");
    Ok(context.name.len() + many.len())
}

#[task(skip(of))]
async fn generic<T, const N: usize>(value: T, of: &[u8; N]) -> Result<T, Messages>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let _ = of;
    Ok(value)
}

#[task]
async fn anonymous(shown: impl Display + Serialize + Send, by: &(impl Display + Serialize + Sync)) -> String {
    format!("{shown}{by}")
}

#[task]
async fn named<'a>(x: &'a str, y: &'a str) -> bool {
    x == y
}

#[task(blocking)]
fn blocking(bytes: Vec<u8>, mut seed: u64) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    for byte in bytes {
        seed += u64::from(byte);
    }
    let text = std::str::from_utf8(&[])?;
    Ok(seed + text.len() as u64)
}

#[task(blocking, retry)]
fn blocking_again(bytes: Vec<u8>) -> anyhow::Result<usize> {
    Ok(bytes.len())
}

fn is_transient(error: &anyhow::Error) -> bool {
    error.to_string().contains("503")
}

#[task(retry(max_attempts = 9, retry_on = is_transient), retry(max_attempts = 2, backoff_factor = 3, jitter = false))]
async fn retried(names: HashMap<String, u8>, by: &str, shown: impl Display + Clone + Serialize + Send) -> anyhow::Result<String> {
    Ok(format!("{}{by}{shown}", names.len()))
}

/// An order.
#[derive(Debug)]
pub struct Order {
    id: u64,
}

#[task(key = "{order.id}/{n:03}")]
async fn keyed(order: &Order, n: u8) -> u64 {
    order.id + u64::from(n)
}

/// A service.
#[derive(Debug)]
pub struct Service;

impl Service {
    /// By reference.
    #[task(retry)]
    pub async fn by_ref(&self, url: &str) -> anyhow::Result<String> {
        Ok(format!("{self:?}{url}"))
    }

    #[task]
    async fn exclusive(&mut self, url: String) -> String {
        *self = Service;
        url
    }

    #[task]
    async fn shared(self: Arc<Self>) -> u8 {
        drop(self);
        1
    }

    #[task]
    async fn by_value(self) -> u8 {
        1
    }

    #[task(skip_all)]
    async fn associated(other: &Self) -> bool {
        let _ = other;
        true
    }
}

/// A trait.
pub trait Fetch: Sync {
    /// Declared.
    #[task]
    async fn get(&self, url: &str, context: Context<'_>) -> anyhow::Result<String>;

    /// Provided.
    #[task]
    async fn twice(&self, url: &str) -> anyhow::Result<String> {
        Ok(url.repeat(2))
    }
}

impl Fetch for Service {
    #[task(name = "service-get", retry(max_attempts = 2))]
    async fn get(&self, url: &str, context: Context<'_>) -> anyhow::Result<String> {
        Ok(format!("{url}{}", context.name))
    }
}

#[task]
async fn r#type(r#in: u8) -> u8 {
    r#in
}

#[task]
async fn never_returns() -> Result<(), Typed> {
    loop {
        std::future::pending::<()>().await;
    }
}

#[cfg(any())]
#[task]
async fn absent(missing: Missing) {}

#[task]
#[cfg(all())]
#[allow(clippy::too_many_arguments)]
async fn present(#[cfg(any())] missing: Missing, there: u8) -> u8 {
    there
}

fn assert_send<T: Send>(it: T) -> T {
    it
}

impl Service {
    #[task(cache(ttl = "1d", key = "{self.region()}/{of}", version = 3), retry, idle_timeout = "5s")]
    async fn cached(&self, of: &str) -> anyhow::Result<usize> {
        Ok(of.len())
    }

    fn region(&self) -> &'static str {
        "eu"
    }
}

#[task(blocking, cache)]
fn cached_blocking(bytes: Vec<u8>) -> Vec<u8> {
    bytes
}

#[task(cache(key = "{value.len()}"), skip(value))]
async fn cached_generic<T: AsRef<[u8]> + Send + Sync>(value: &Vec<T>) -> usize {
    value.len()
}

/// Finds out what became of it, with the task's arguments; a method's with `self` too.
async fn find(id: u64, text: &str) -> durably::Reconciled<u64> {
    if text.is_empty() { durably::Reconciled::DidNot } else { durably::Reconciled::Happened(id) }
}

#[task(at_most_once, reconcile = find)]
async fn once(id: u64, text: &str) -> anyhow::Result<u64> {
    Ok(id + text.len() as u64)
}

struct Sender;

impl Sender {
    #[task(at_most_once, reconcile = Self::look, retry(max_attempts = 2), timeout = "1s")]
    async fn send(&self, to: String) -> anyhow::Result<()> {
        let _ = to;
        Ok(())
    }

    async fn look(&self, to: String) -> anyhow::Result<durably::Reconciled<()>> {
        let _ = to;
        Ok(durably::Reconciled::Unknown)
    }

    #[task(at_most_once, blocking)]
    fn print(text: String) -> usize {
        text.len()
    }
}

fn main() {
    let _ = || {
        let urls = ["a".to_owned()];
        let _ = assert_send(async move {
            let calls: Vec<_> = urls.iter().map(|url| named(url, url)).collect();
            let _ = calls;
            let _ = (fetch(&Llm, "u").await, nothing().await, plain(1, (2, 3), &[], &4).await);
            let _ = borrowing(Context { name: "n" }, &mut vec![]).await;
            let _: Result<u8, _> = generic(1u8, &[1]).await;
            let _ = (anonymous("a", &"b").await, blocking(vec![], 1).spawn().await, blocking_again(vec![]).await);
            let _ = (retried(HashMap::new(), "x", 1).await, keyed(&Order { id: 1 }, 1).await);
            let mut service = Service;
            let _ = (service.by_ref("u").await, service.exclusive(String::new()).await);
            let _ = (service.get("u", Context { name: "n" }).await, service.twice("u").await);
            let _ = (Service::associated(&service).await, Arc::new(Service).shared().await, service.by_value().await);
            let _ = (Service.cached("x").await, cached_blocking(vec![]).await, cached_generic(&vec!["x"]).await);
            let _ = plain(1, (2, 3), &[], &4).cache(durably::CachePolicy::new().key("k")).await;
            let _ = (r#type(1).await, never_returns().await, present(1).await);
        });
    };
}
