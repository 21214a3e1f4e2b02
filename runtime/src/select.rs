//! A `select!` that is the same on replay.

/// Waits for the first of several futures, the earlier branch winning where several are ready: [`tokio::select!`] with
/// `biased;` said for you, since without it tokio and futures poll in random order, which no replay can repeat.
///
/// ```
/// use durably::{entrypoint, task};
///
/// #[task]
/// async fn primary() -> u32 { 1 }
/// #[task]
/// async fn fallback() -> u32 { 2 }
///
/// #[entrypoint]
/// async fn first() -> u32 {
///     durably::select! {
///         value = primary() => value,
///         value = fallback() => value,
///     }
/// }
/// ```
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::__private::tokio::select! { biased; $($branches)* }
    };
}
