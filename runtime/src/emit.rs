//! What code tells whoever reads its run.

use serde::Serialize;

use crate::{
    RunError,
    scope::Ambient,
    value::{Arguments, Payload},
};

/// Tells those who read the run something: the [`Custom`](crate::StreamMode::Custom) events of a
/// [`stream`](crate::Invoke::stream) or a [`watch`](crate::Thread::watch). It returns at once, and waits for nobody.
///
/// *In an entrypoint* it is recorded, and told once however often the code runs again: on replay, in this process or in
/// another one, what was told is not told again. What is told is known by its value, its place among equal values, and
/// the entrypoint or [`branch`](crate::branch) that it stands in; code that tells other things than it did is no
/// divergence, and what is new in it is told. Readers are told once it is on disk, so that a crash before that repeats
/// nothing; in [`Durability::Exit`](crate::Durability::Exit), where a crash takes everything back, they are told at once.
///
/// *In a task's body* it is told live only: it is not recorded, a body that runs again tells again, and a reader that
/// comes back later does not get it. It keeps its place among the other events of the run.
///
/// Outside of a run it does nothing, so that bodies can be tested alone. A value that cannot be recorded stops the run
/// with [`RunError::Value`].
///
/// ```
/// use durably::{entrypoint, task};
///
/// #[task]
/// async fn fetch(url: &str) -> usize {
///     durably::emit(&format!("fetching {url}")); // as often as the body runs
///     url.len()
/// }
///
/// #[entrypoint]
/// async fn lengths(urls: Vec<String>) -> usize {
///     let mut sum = 0;
///     for (at, url) in urls.iter().enumerate() {
///         durably::emit(&(at, urls.len())); // once
///         sum += fetch(url).await;
///     }
///     sum
/// }
/// ```
pub fn emit(value: &(impl Serialize + ?Sized)) {
    let Some(ambient) = Ambient::current() else { return };
    if !ambient.run.hears(&ambient.scope) {
        return;
    }
    let mut arguments = Arguments::new();
    match arguments.push("value", value).and_then(|()| Payload::encode(value)) {
        Ok(payload) => ambient.run.emit(&ambient.scope, payload, &arguments.digest()),
        Err(source) => ambient.run.fail(RunError::Value { what: "what was told with `emit`".to_owned(), source }),
    }
}
