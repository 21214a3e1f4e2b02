//! What a task's body can ask about itself.

use sha2::{Digest as _, Sha256};

use crate::{hex::hex, scope::Ambient};

/// Which attempt of its task the running body is, from 1; 1 outside of a run.
///
/// ```
/// use durably::task;
///
/// #[task(retry(max_attempts = 3))]
/// async fn flaky() -> anyhow::Result<u32> {
///     anyhow::ensure!(durably::attempt() == 3, "not yet");
///     Ok(42)
/// }
/// ```
#[must_use]
pub fn attempt() -> u32 {
    Ambient::current().and_then(|ambient| ambient.body).map_or(1, |(_, attempt)| attempt)
}

/// A key that is the same for every attempt of the running task's call, across crashes and machines, and for no other
/// call: for receivers that do a request once if it comes with the same key again. 64 hex digits.
///
/// Derived from the thread's name, the run and the call. `None` outside of a task's body.
///
/// ```
/// use durably::task;
///
/// #[task]
/// async fn charge(cents: u64) -> anyhow::Result<String> {
///     let key = durably::idempotency_key().unwrap_or_default();
///     // send it with the request: `Idempotency-Key: {key}`
///     Ok(format!("charged {cents} under {key}"))
/// }
/// ```
#[must_use]
pub fn idempotency_key() -> Option<String> {
    let ambient = Ambient::current()?;
    let (slot, _) = ambient.body?;
    let call = ambient.run.call_id(slot)?;
    let thread = ambient.run.thread.as_str();
    let digest = Sha256::new_with_prefix(b"durably.idempotency.1\0")
        .chain_update(u64::try_from(thread.len()).unwrap_or(u64::MAX).to_be_bytes())
        .chain_update(thread)
        .chain_update(ambient.run.no.get().to_be_bytes())
        .chain_update(call.base.to_be_bytes())
        .chain_update(call.ordinal.to_be_bytes())
        .finalize();
    Some(hex(&digest))
}
