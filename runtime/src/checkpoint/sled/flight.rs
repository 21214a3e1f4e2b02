//! What is applied but not yet durable, so that nobody reads what a power cut could still take back.

use std::{
    collections::HashSet,
    sync::{Condvar, Mutex, PoisonError},
};

use crate::{
    ThreadId,
    checkpoint::{CheckpointError, leases::lock},
};

/// What a reader has to know. Locked after the store's own lock, if both.
#[derive(Debug, Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Batches that have begun, and that are durable: there is at most one between.
    begun: u64,
    landed: u64,
    /// Whose rows the batch under way changes.
    threads: HashSet<ThreadId>,
    /// Whose large commit is under way.
    partial: Option<ThreadId>,
    failed: Option<CheckpointError>,
}

/// How a reader may read.
#[derive(Debug)]
pub(super) enum Sight {
    /// All that is there is durable.
    Clear,
    /// What is there becomes durable with this batch.
    Landing(u64),
    /// What is there is half a commit.
    Partial,
}

impl Flight {
    /// What a reader of this thread (`None`: of the list of threads) sees.
    pub(super) fn look(&self, thread: Option<&ThreadId>) -> Sight {
        let state = lock(&self.state);
        if state.partial.as_ref().is_some_and(|partial| thread.is_none_or(|thread| thread == partial)) {
            return Sight::Partial;
        }
        let concerned = thread.map_or(!state.threads.is_empty(), |thread| state.threads.contains(thread));
        if concerned { Sight::Landing(state.begun) } else { Sight::Clear }
    }

    /// Waits until the batch is durable.
    pub(super) fn wait_for(&self, batch: u64) -> Result<(), CheckpointError> {
        self.wait(|state| state.landed >= batch)
    }

    /// Waits until no large commit is under way.
    pub(super) fn wait_for_whole(&self) -> Result<(), CheckpointError> {
        self.wait(|state| state.partial.is_none())
    }

    fn wait(&self, done: impl Fn(&State) -> bool) -> Result<(), CheckpointError> {
        let mut state = lock(&self.state);
        loop {
            if done(&state) {
                return Ok(());
            }
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn begin(&self, threads: HashSet<ThreadId>) {
        let mut state = lock(&self.state);
        state.begun += 1;
        state.threads = threads;
    }

    pub(super) fn land(&self) {
        let mut state = lock(&self.state);
        state.landed = state.begun;
        state.threads = HashSet::new();
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn begin_large(&self, thread: ThreadId) {
        lock(&self.state).partial = Some(thread);
    }

    pub(super) fn land_large(&self) {
        lock(&self.state).partial = None;
        self.changed.notify_all();
    }

    /// What is under way stays so for ever.
    pub(super) fn fail(&self, failed: CheckpointError) {
        lock(&self.state).failed.get_or_insert(failed);
        self.changed.notify_all();
    }
}
