//! What an entrypoint is given by its process, not by its journal: clients, pools, configuration.

use std::{any::TypeId, sync::Arc};

use crate::scope::Ambient;

/// A resource of the runtime, by its type: a client, a pool, a configuration.
///
/// A resource is not recorded. Hand it to tasks under `skip(..)`, so that it is no part of their identity; an
/// entrypoint whose path depends on one is not deterministic.
///
/// ```
/// use durably::{Runtime, entrypoint, task};
///
/// struct Greeting(String);
///
/// #[task(skip(greeting))]
/// async fn greet(greeting: &Greeting, name: &str) -> String {
///     format!("{}, {name}!", greeting.0)
/// }
///
/// #[entrypoint]
/// async fn welcome(name: String) -> String {
///     greet(&durably::resource::<Greeting>(), &name).await
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let runtime = Runtime::builder().resource(Greeting("Hello".to_owned())).memory();
/// let outcome = runtime.thread("t")?.invoke(welcome("Ada".to_owned())).await?;
/// assert_eq!(outcome.completed().as_deref(), Some("Hello, Ada!"));
/// # Ok::<(), durably::RunError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// Outside of a run, and if the runtime was built without such a resource; the message lists what there is. In a run
/// the panic ends that run as failed.
#[must_use]
pub fn resource<T: Send + Sync + 'static>() -> Arc<T> {
    let wanted = std::any::type_name::<T>();
    let Some(ambient) = Ambient::current() else {
        panic!(
            "`durably::resource::<{wanted}>()` was called outside of a run: call it in an #[entrypoint] or a #[task]"
        );
    };
    let resources = &ambient.run.environment.resources;
    match resources.get(&TypeId::of::<T>()).map(|(_, resource)| resource.clone().downcast::<T>()) {
        Some(Ok(resource)) => resource,
        Some(Err(_)) | None => {
            let mut known: Vec<&str> = resources.values().map(|(name, _)| *name).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            panic!(
                "the runtime has no resource of type `{wanted}` (it has: {known}): add it with `Runtime::builder().resource(..)`"
            );
        }
    }
}
