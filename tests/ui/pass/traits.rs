//! Tasks in traits: as objects, over borrowed and generic types, in generic impls.
#![deny(warnings)]

use std::marker::PhantomData;

use durably::task;
use serde::{Serialize, de::DeserializeOwned};

trait Fetch: Send + Sync {
    #[task]
    async fn get(&self, url: &str) -> anyhow::Result<String>;

    #[task(name = "get-twice", skip_all)]
    async fn twice(&self, url: &str, other: &dyn Fetch) -> anyhow::Result<String> {
        Ok(self.get(url).await? + &other.get(url).await?)
    }
}

struct Prefixed<'a>(&'a str);

impl Fetch for Prefixed<'_> {
    #[task(name = "get-prefixed")]
    async fn get(&self, url: &str) -> anyhow::Result<String> {
        Ok(self.0.to_owned() + url)
    }
}

struct Typed<T>(PhantomData<fn() -> T>);

impl<T> Typed<T>
where
    T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
{
    #[task(retry)]
    async fn pick(&self, of: &[T], at: usize) -> Result<T, String> {
        of.get(at).cloned().ok_or_else(|| "none".to_owned())
    }

    #[task]
    async fn echo(value: T) -> T {
        value
    }
}

async fn both(by: Box<dyn Fetch>, urls: &[String]) -> anyhow::Result<String> {
    let other = Prefixed("a");
    let pages = futures::future::try_join_all(urls.iter().map(|url| by.get(url))).await?;
    let typed = Typed::<u8>(PhantomData);
    let _ = (typed.pick(&[1], 0).await, Typed::echo(1u8).await);
    Ok(pages.concat() + &by.twice("x", &other).await?)
}

fn assert_send<T: Send>(it: T) -> T {
    it
}

fn main() {
    let _ = || assert_send(both(Box::new(Prefixed("b")), &[]));
}
