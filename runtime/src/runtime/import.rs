//! Writing a thread that was exported.

use super::Runtime;
use crate::{
    CheckpointError, ImportError, Thread, ThreadFile, ThreadId, ThreadIdError,
    checkpoint::{Commit, Expect, Key, rows},
    storage,
};

impl Runtime {
    /// Stores an exported thread under the name that it had; there must be none of that name. All of it or nothing.
    ///
    /// A run that was cut off or that waits goes on here as it would have there; see that only one of the two does.
    ///
    /// # Errors
    ///
    /// [`ImportError`]; nothing was stored then.
    pub async fn import(&self, file: &ThreadFile) -> Result<Thread, ImportError> {
        self.store(file.thread().clone(), file).await
    }

    /// As [`import`](Self::import), under another name. Calls that are not recorded yet get other
    /// [idempotency keys](crate::idempotency_key) than they would have had, as these come from the thread's name.
    ///
    /// # Errors
    ///
    /// [`ImportError`]; nothing was stored then.
    pub async fn import_as(&self, name: impl AsRef<str>, file: &ThreadFile) -> Result<Thread, ImportError> {
        let thread = ThreadId::new(name).map_err(|error: ThreadIdError| ImportError::Run(error.into()))?;
        self.store(thread, file).await
    }

    async fn store(&self, thread: ThreadId, file: &ThreadFile) -> Result<Thread, ImportError> {
        // Read as a whole, so that what this version cannot read is not stored.
        file.records()?;
        let mut changes = Vec::new();
        let mut has_head = false;
        for (key, payload) in &file.items {
            if *key == Key::Head {
                has_head = true;
                storage::head_changes(&thread, &storage::read_head(&thread, payload)?, &mut changes)?;
            } else {
                rows::seal(&thread, *key, payload, rows::PAYLOAD_LIMIT, &mut changes)?;
            }
        }
        if !has_head {
            let detail = "it has no head".to_owned();
            return Err(ImportError::Damaged { at: 0, detail });
        }
        let checkpointer = self.checkpointer();
        let lease = checkpointer.acquire(&thread).await?;
        let stored = async {
            let exists = ImportError::Exists { thread: thread.clone() };
            if !checkpointer.scan(&thread, Key::FIRST, Key::LAST).await?.is_empty() {
                return Err(exists);
            }
            let expect = vec![Expect::Lease(lease.epoch), Expect::Absent(Key::Head)];
            match checkpointer.commit(Commit { thread: thread.clone(), expect, changes }).await {
                Err(CheckpointError::Conflict { .. }) => Err(exists),
                answer => Ok(answer?),
            }
        };
        let stored = stored.await;
        checkpointer.release(&lease);
        stored.map(|()| Thread::new(self.clone(), thread))
    }
}
