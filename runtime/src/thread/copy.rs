//! A thread under another name.

use super::{Thread, invoke::hold};
use crate::{
    RunError,
    checkpoint::{Change, CheckpointError, Commit, Expect, Key, rows},
    storage,
};

impl Thread {
    /// Copies all rows of this thread to a fresh one, in one step.
    pub(crate) async fn copy_to(&self, to: &Self) -> Result<(), RunError> {
        let exists = || RunError::ThreadExists { thread: to.id.clone() };
        if self.id == to.id {
            return Err(exists());
        }
        let checkpointer = self.runtime.checkpointer();
        // Nobody runs the one, and nobody begins the other meanwhile.
        let _source = hold(self, false).await?;
        let target = hold(to, false).await?;
        let Some((head, _)) = storage::head(checkpointer, &self.id).await? else {
            return Err(RunError::NothingToResume { thread: self.id.clone() });
        };
        // A row's checksum is of its thread too.
        let items = rows::unseal(&self.id, checkpointer.scan(&self.id, Key::FIRST, Key::LAST).await?)?;
        let mut changes = Vec::with_capacity(items.len() + 1);
        for (key, bytes) in items {
            rows::seal(&to.id, key, &bytes, rows::PAYLOAD_LIMIT, &mut changes)?;
        }
        changes.push(Change::List(storage::listing(&head)));
        let expect = vec![Expect::Lease(target.lease.epoch), Expect::Absent(Key::Head)];
        match checkpointer.commit(Commit { thread: to.id.clone(), expect, changes }).await {
            Err(CheckpointError::Conflict { .. }) => Err(exists()),
            answer => Ok(answer?),
        }
    }
}
