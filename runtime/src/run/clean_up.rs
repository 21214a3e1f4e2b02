//! What an entrypoint has left to be done at its end, run as entrypoints of their own: each in its scope and its order.

use std::{future::poll_fn, sync::Arc};

use super::Entered;
use crate::{
    RunError,
    entrypoint::Returned,
    journal::{Frame, Scope},
    scope::{Cleaning, Run},
};

/// The next clean-up of an entrypoint, the newest that is left; gives the message of its error, if it fails.
pub(super) fn next(run: &Arc<Run>, cleaning: &Cleaning) -> Option<(Entered<Option<String>>, Scope)> {
    let (index, action) = run.next_action(cleaning)?;
    let place = run.begin_cleaning(cleaning, index);
    let scope = place.1;
    let future = Box::pin(async move { Returned::plain(action().await.err()) });
    Some((Entered::new(run.clone(), place, run.name_of(&cleaning.scope), future), scope))
}

/// Cleans up a nested entrypoint that has come to its end. Pending for good if the run is stopped by it, or before it.
pub(crate) async fn clean_up_nested(run: &Arc<Run>, frame: Frame) {
    if run.is_cut() {
        // Its code is being dropped with the run's: it cleans up with that.
        return std::future::pending().await;
    }
    let Some(cleaning) = run.clean_up_of(frame) else { return };
    let mut failed = Vec::new();
    while let Some((mut entered, scope)) = next(run, &cleaning) {
        let Returned { output, .. } = poll_fn(|cx| entered.poll(cx)).await;
        match output {
            None => run.cleaned_up(&scope),
            Some(message) => failed.push(message),
        }
    }
    if !failed.is_empty() {
        run.fail(unclean(run.name_of(&cleaning.scope), &failed));
        std::future::pending::<()>().await;
    }
}

/// What is told of clean-ups that failed.
pub(super) fn unclean(entrypoint: String, failed: &[String]) -> RunError {
    RunError::CleanUpFailed { entrypoint, message: failed.join("; ") }
}

/// Tells the run when a nested entrypoint is over, or dropped.
pub(crate) struct CleansUp(pub(crate) Arc<Run>, pub(crate) Frame);

impl Drop for CleansUp {
    fn drop(&mut self) {
        self.0.forget_clean_up(self.1);
    }
}
