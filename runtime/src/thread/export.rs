//! Reading a whole thread, to take it elsewhere.

use super::{Thread, file::ThreadFile};
use crate::{
    RunError,
    checkpoint::{Key, rows},
    storage,
};

impl Thread {
    /// Everything that the thread's journal has, as of one moment: all its runs, and answers that have arrived. For a bug
    /// report, for another store, for a test that replays it against tomorrow's code
    /// ([`replay_check`](crate::testing::replay_check)).
    ///
    /// It can be called while the thread runs; the file then has what a crash would leave.
    ///
    /// # Errors
    ///
    /// [`RunError::NothingToResume`] if the thread has never run, [`RunError::Checkpoint`] if it cannot be read or is damaged.
    pub async fn export(&self) -> Result<ThreadFile, RunError> {
        let stored = self.runtime.checkpointer().scan(&self.id, Key::FIRST, Key::LAST).await?;
        if !stored.iter().any(|(key, _)| *key == Key::Head) {
            return Err(RunError::NothingToResume { thread: self.id.clone() });
        }
        let items = rows::unseal(&self.id, stored)?;
        for (key, payload) in &items {
            if *key == Key::Head {
                storage::read_head(&self.id, payload)?;
            }
        }
        Ok(ThreadFile { thread: self.id.clone(), items })
    }
}
