//! Each form of a function that an entrypoint can be.
#![deny(warnings, missing_docs, unreachable_pub, elided_lifetimes_in_paths, unused_qualifications)]
#![deny(missing_debug_implementations, unused_lifetimes, single_use_lifetimes)]

use durably::{Definition, EntrypointCall, Final, entrypoint};
use serde::{Deserialize, Serialize};

/// A draft.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Draft(String);

/// What is saved.
#[derive(Debug, Serialize, Deserialize)]
pub struct Saved(u8);

/// Flows.
pub mod flows {
    use super::{Draft, Final, Saved, entrypoint};

    /// Documented.
    #[entrypoint(name = "digest", version = 2)]
    pub async fn digest(urls: Vec<String>, #[previous] last: Option<Saved>) -> anyhow::Result<Final<Draft, Saved>> {
        if urls.is_empty() {
            return Err(std::fmt::Error)?;
        }
        Ok(Final { value: Draft(urls.concat()), save: last.unwrap_or(Saved(0)) })
    }

    #[entrypoint]
    pub(crate) async fn nothing() {}
}

#[entrypoint]
async fn plain((a, b): (u8, u8), mut c: u8) -> u8 {
    c += a + b;
    c
}

#[entrypoint]
async fn last_alone(#[previous] last: Option<u8>) -> Final<Draft, u8> {
    Final { value: Draft(String::new()), save: last.unwrap_or_default() }
}

#[entrypoint(allow(clock, random))]
async fn impure(n: u8) -> Result<Draft, Box<dyn std::error::Error + Send + Sync>> {
    let _ = std::time::Instant::now();
    let text = std::str::from_utf8(&[n])?.to_owned();
    Ok(Draft(text))
}

#[entrypoint]
async fn r#type(r#in: String) -> Result<String, String> {
    Ok(r#in)
}

#[entrypoint(retry, max_concurrency = 3)]
async fn again(n: u8) -> anyhow::Result<u8> {
    Ok(n)
}

#[entrypoint(retry(max_attempts = 2, retry_on = is_odd), retry(jitter = false))]
async fn again_sometimes(#[previous] last: Option<u8>) -> Result<Final<Draft, u8>, u8> {
    last.map(|save| Final { value: Draft(String::new()), save }).ok_or(3)
}

fn is_odd(n: &u8) -> bool {
    n % 2 == 1
}

#[cfg(any())]
#[entrypoint]
async fn absent(missing: Missing) {}

#[entrypoint]
#[cfg(all())]
async fn outer(urls: Vec<String>) -> anyhow::Result<Draft> {
    let draft = flows::digest(urls).await?;
    plain((1, 2), 3).await;
    Ok(draft)
}

fn takes<A, D: Definition>(_: impl Fn(A) -> EntrypointCall<D>) {}

fn main() {
    use flows::digest;
    takes(digest);
    let _ = (digest(vec![]), flows::nothing(), plain((1, 2), 3), last_alone(), impure(1));
    let _ = (r#type(String::new()), outer(vec![]), again(1), again_sometimes());
}
