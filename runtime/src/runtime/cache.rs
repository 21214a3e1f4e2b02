//! What becomes of the values that equal calls share: clearing them, and removing those that have expired.

use super::Runtime;
use crate::{
    RunError,
    cache::{self, CLASS},
    checkpoint::ThreadQuery,
    storage::RESERVED_CLASSES,
};

/// How many entries are looked at at a time.
const PAGE: usize = 256;

const _: () = assert!(CLASS >= RESERVED_CLASSES);

impl Runtime {
    /// Removes the values that calls of a task share, by the task's name; `None`: of all tasks. How many there were.
    ///
    /// A call that begins after this makes its value anew. One that makes a value now keeps it for itself.
    ///
    /// ```
    /// use durably::{Runtime, entrypoint, task};
    ///
    /// #[task(cache(ttl = "1h"))]
    /// async fn rate(currency: String) -> u32 { 107 }
    ///
    /// #[entrypoint]
    /// async fn price(cents: u32) -> u32 { cents * rate("EUR".to_owned()).await / 100 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().memory();
    /// runtime.thread("a")?.invoke(price(200)).await?;
    /// runtime.thread("b")?.invoke(price(300)).await?; // asks for no rate
    /// assert_eq!(runtime.clear_cache(Some("rate")).await?, 1);
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store cannot be read or written.
    pub async fn clear_cache(&self, task: Option<&str>) -> Result<u64, RunError> {
        self.inner.environment.flights.clear();
        // What was on its way to the store by then is in the list after this.
        self.checkpointer().commit(cache::barrier()).await?;
        let of_task = |entry: Option<String>| match (task, entry) {
            // What cannot be read is nobody's, and goes too.
            (None, _) | (_, None) => true,
            (Some(task), Some(entry)) => task == entry,
        };
        self.remove_cached(None, of_task).await
    }

    /// Removes the shared values that have expired; [`run_due`](Self::run_due) does this too. How many there were.
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store cannot be read or written.
    pub async fn purge_cache(&self) -> Result<u64, RunError> {
        let now_ms = self.inner.environment.now_ms();
        self.remove_cached(Some(now_ms), |_| true).await
    }

    async fn remove_cached(
        &self,
        until_ms: Option<u64>,
        wanted: impl Fn(Option<String>) -> bool,
    ) -> Result<u64, RunError> {
        let (mut removed, mut after) = (0, None);
        loop {
            let query = ThreadQuery { class: Some(CLASS), until_ms, after, limit: PAGE };
            let page = self.checkpointer().threads(query).await?;
            for listed in page.threads {
                let task = cache::task_of(&listed.thread, &listed.head);
                // The mark that a clearing leaves is no value.
                let counts = !listed.head.is_empty();
                if wanted(task) && self.checkpointer().delete_thread(&listed.thread).await? && counts {
                    removed += 1;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(removed),
            }
        }
    }
}
