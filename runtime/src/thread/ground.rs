//! What the verbs have in common that change a thread without driving it: its lease, its head, an unfinished run given up.

use std::sync::Arc;

use super::{
    Thread,
    invoke::{discard, hold},
};
use crate::{
    CheckpointError, RunError, Status,
    checkpoint::{Change, Commit, Expect},
    id::RunNo,
    scope::Hold,
    storage::{self, Head},
};

/// How often a verb is tried again when the thread changes under it.
pub(super) const TRIES: u32 = 100;

/// Which unfinished runs a verb may give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivesUp {
    /// None.
    Nothing,
    /// Those that pause: they wait for an answer, for a moment, or to be resumed.
    Paused,
    /// All but one with a call in doubt.
    Any,
}

/// A thread whose lease is held.
pub(super) struct Ground {
    hold: Arc<Hold>,
    pub(super) head: Option<Head>,
    /// What gives its unfinished run up, if it has one.
    pub(super) changes: Vec<Change>,
}

impl Ground {
    /// Takes the lease.
    pub(super) async fn take(thread: &Thread, wait: bool, gives_up: GivesUp) -> Result<Self, RunError> {
        let hold = hold(thread, wait).await?;
        let head = storage::head(thread.runtime.checkpointer(), &thread.id).await?.map(|(head, _)| head);
        let mut changes = storage::remove_requests();
        if let Some(head) = head.as_ref().filter(|head| head.status.is_unfinished()) {
            let allowed = match head.status {
                Status::Interrupted | Status::Sleeping | Status::Drained => gives_up != GivesUp::Nothing,
                Status::InDoubt => false,
                _ => gives_up == GivesUp::Any,
            };
            if !allowed {
                return Err(RunError::Unfinished { thread: thread.id.clone(), status: head.status });
            }
            changes = discard(thread, head).await?;
        }
        Ok(Self { hold, head, changes })
    }

    /// The number of the thread's next run.
    pub(super) fn next_run(&self) -> RunNo {
        RunNo(self.head.as_ref().map_or(1, |head| head.run.0.saturating_add(1)))
    }

    /// Applies the changes in one step; gives the lease back.
    pub(super) async fn commit(self, thread: &Thread, more: Vec<Expect>) -> Result<(), CheckpointError> {
        let mut expect = vec![Expect::Lease(self.hold.lease.epoch)];
        expect.extend(more);
        let commit = Commit { thread: thread.id.clone(), expect, changes: self.changes };
        let answer = thread.runtime.checkpointer().commit(commit).await;
        drop(self.hold);
        answer
    }
}
