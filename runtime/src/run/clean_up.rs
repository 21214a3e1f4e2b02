//! The clean-ups of an entrypoint that has come to its end, run as one more entrypoint: in a scope and an order of their own.

use std::{future::poll_fn, sync::Arc};

use super::Entered;
use crate::{
    RunError,
    entrypoint::Returned,
    journal::{Frame, Scope},
    scope::{Ambient, Cleaning, Run, Signal, Within, within},
};

/// The clean-up of one entrypoint; gives the messages of those that failed.
pub(super) fn enter(
    run: &Arc<Run>,
    cleaning: Cleaning,
    (frame, scope, signal): (Frame, Scope, Arc<Signal>),
) -> Entered<Vec<String>> {
    let actions = all(run.clone(), cleaning, scope);
    let name = run.name_of(&cleaning.scope);
    Entered::new(run.clone(), (frame, scope, signal), name, Box::pin(actions))
}

/// Runs what is left to be done, the newest first, each in a scope of its own; one that fails does not keep the others.
async fn all(run: Arc<Run>, cleaning: Cleaning, scope: Scope) -> Returned<Vec<String>> {
    let mut failed = Vec::new();
    while let Some((index, action)) = run.next_action(&cleaning) {
        let own = run.branch(&scope, &format!("defer {index}"));
        let ambient = Ambient { run: run.clone(), scope: own, body: None };
        let future = within(ambient.clone(), action);
        match Within::new(ambient, future).await {
            Ok(()) => run.cleaned_up(&own),
            Err(message) => failed.push(message),
        }
    }
    Returned::plain(failed)
}

/// Cleans up a nested entrypoint that has come to its end. Pending for good if the run is stopped by it, or before it.
pub(crate) async fn clean_up_nested(run: &Arc<Run>, frame: Frame) {
    if run.is_cut() {
        // Its code is being dropped with the run's: it cleans up with that.
        return std::future::pending().await;
    }
    let Some((cleaning, frame, scope, signal)) = run.clean_up_nested(frame) else { return };
    let name = run.name_of(&cleaning.scope);
    let mut entered = enter(run, cleaning, (frame, scope, signal));
    let Returned { output: failed, .. } = poll_fn(|cx| entered.poll(cx)).await;
    drop(entered);
    if !failed.is_empty() {
        run.fail(unclean(name, &failed));
        std::future::pending().await
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
