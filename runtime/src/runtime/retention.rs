//! Old runs pruned in the background when a run of their thread has ended.

use std::sync::{Mutex, PoisonError};

use tokio::task::JoinHandle;

use super::Runtime;
use crate::Thread;

/// Prunes in the background, to be waited for before the store is closed.
#[derive(Debug, Default)]
pub(crate) struct Prunes(Mutex<Vec<JoinHandle<()>>>);

impl Prunes {
    fn add(&self, prune: JoinHandle<()>) {
        let mut prunes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        prunes.retain(|prune| !prune.is_finished());
        prunes.push(prune);
    }

    /// Waits for all that have begun.
    pub(super) async fn ended(&self) {
        let prunes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for prune in prunes {
            // One that was ended, or panicked, is made up for by the next one.
            let _ = prune.await;
        }
    }
}

impl Runtime {
    /// A drive of the thread has ended: what is older than the retention goes, in the background.
    pub(crate) fn keep_to_retention(&self, thread: &Thread) {
        let Some(keep) = self.inner.retention else { return };
        let thread = thread.clone();
        self.inner.prunes.add(tokio::spawn(async move {
            // What a failing store keeps too long, it keeps: the next run's end tries again.
            let _ = thread.prune(keep).await;
        }));
    }
}
