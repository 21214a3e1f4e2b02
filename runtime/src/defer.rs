//! What is to be done at the end of an entrypoint, however that comes about.

use std::{fmt, future::Future, sync::Arc};

use crate::{
    journal::Order,
    scope::{Action, Ambient, Run},
};

/// Leaves something to be done at the end of the entrypoint that it is called in: when that has completed, has failed, or
/// is cancelled or timed out, and never at a pause, a drain or a crash. The newest is done first.
///
/// The closure may call tasks: they are recorded in a scope of their own, and answer from their records when the end was
/// cut off and is come to again. It may also sleep and ask: then the run pauses in the middle of its end. It gives `()`, or a
/// `Result<(), E>`. If one fails, the others are done all the same, and the run then ends as
/// [`RunError::CleanUpFailed`](crate::RunError::CleanUpFailed): resuming it tries again what failed, and only that.
///
/// What this gives can take it back: [`Deferred::disarm`]. Dropping that changes nothing.
///
/// ```
/// use durably::{entrypoint, task};
///
/// #[task]
/// async fn reserve(room: u32) -> anyhow::Result<()> { Ok(()) }
/// #[task]
/// async fn release(room: u32) -> anyhow::Result<()> { Ok(()) }
/// #[task]
/// async fn pay() -> anyhow::Result<()> { Ok(()) }
///
/// #[entrypoint]
/// async fn book(room: u32) -> anyhow::Result<()> {
///     reserve(room).await?;
///     let undo = durably::defer(async move || release(room).await);
///     pay().await?; // failed or cancelled here: the room is released
///     undo.disarm(); // kept from here on
///     Ok(())
/// }
/// ```
///
/// # When it is not done
///
/// - A panic, a divergence or an error of the store is no end: the run can be resumed, and cleans up at the end that it then
///   comes to, or when it is cancelled.
/// - A failed run has cleaned up. If it is resumed, its code goes on, and all of it is done anew at the next end.
/// - A nested entrypoint does it at its own end. If the code around drops the nested one before (as a race's loser, or
///   since that code itself returned), it is not done: leave it to be done in the entrypoint that may drop the other. A
///   cancellation of the run drops nothing silently: nested entrypoints that had not ended clean up too, the innermost
///   first. Only those in a task's body go with that.
///
/// # Panics
///
/// Outside of a run, and in a task's body, which cleans up by itself.
pub fn defer<F, Fut, O>(action: F) -> Deferred
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = O> + Send + 'static,
    O: CleanedUp,
{
    let Some(ambient) = Ambient::current() else {
        panic!("`durably::defer` was called outside of a run: call it in an #[entrypoint]");
    };
    assert!(
        ambient.body.is_none() && matches!(ambient.scope.order, Order::Released(_)),
        "`durably::defer` was called in a task's body: call it in the #[entrypoint] that calls the task"
    );
    let action: Action = Box::new(move || {
        let future = action();
        Box::pin(async move { future.await.cleaned_up() })
    });
    let place = ambient.run.defer(&ambient, action);
    Deferred { run: ambient.run, place }
}

/// Something that is left to be done at the end: see [`defer`].
pub struct Deferred {
    run: Arc<Run>,
    place: (u64, usize),
}

impl Deferred {
    /// Takes it back: it is not done.
    pub fn disarm(self) {
        self.run.disarm(self.place);
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").finish_non_exhaustive()
    }
}

/// What a closure of [`defer`] may give: `()`, or a `Result<(), E>` whose error can be shown.
pub trait CleanedUp: sealed::Sealed {
    /// The message of its error, if it failed.
    #[doc(hidden)]
    fn cleaned_up(self) -> Result<(), String>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<E> Sealed for Result<(), E> {}
}

impl CleanedUp for () {
    fn cleaned_up(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> CleanedUp for Result<(), E> {
    fn cleaned_up(self) -> Result<(), String> {
        // With the causes that anyhow and eyre show this way.
        self.map_err(|error| format!("{error:#}"))
    }
}
