//! The threads of a store: listed by what they do, counted, copied, deleted, pruned.

use std::{
    collections::BTreeMap,
    fmt,
    future::IntoFuture,
    time::{Duration, SystemTime},
};

use super::{Runtime, listed};
use crate::{
    Keep, Pruned, RunError, RunNo, Status, Thread, ThreadId,
    checkpoint::{BoxFuture, Cursor},
    environment::moment,
    storage::{self, Head},
};

/// How many threads a page has unless another number is asked for.
const PAGE: usize = 100;
/// How many threads are looked at at a time where all are wanted.
const ALL: usize = 256;

/// One thread in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadSummary {
    /// The thread.
    pub thread: ThreadId,
    /// What it is doing, or how its last run ended.
    pub status: Status,
    /// The entrypoint of its current or last run.
    pub entrypoint: String,
    /// The version of that entrypoint.
    pub version: u32,
    /// Which run that is.
    pub run: RunNo,
    /// Why it is stuck or failed.
    pub reason: Option<String>,
    /// When a paused run is to be looked at: its nearest sleep ends, its deadline passes, or a request to cancel it waits.
    pub due: Option<SystemTime>,
    /// When its first run was started.
    pub created: SystemTime,
    /// When it came to its status.
    pub updated: SystemTime,
    /// What it was marked with.
    pub tags: BTreeMap<String, String>,
}

/// A page of threads.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ThreadList {
    /// The threads: those that have been in their status longest come first; after them those that somebody has to look at
    /// at a moment, in that order.
    pub threads: Vec<ThreadSummary>,
    /// Where the next page goes on; `None` at the end.
    pub next: Option<Cursor>,
}

/// How many threads a store has, and what they are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// How many threads are in each status; one that has none is left out.
    pub by_status: BTreeMap<Status, u64>,
    /// How many runs are driven by this runtime now.
    pub driven: u64,
}

impl RuntimeStats {
    /// All threads.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.by_status.values().sum()
    }
}

/// A question for threads; await it for a page of them, or [`count`](Self::count) them.
#[must_use = "threads are listed only when this is awaited"]
pub struct Threads {
    runtime: Runtime,
    status: Option<Status>,
    entrypoint: Option<String>,
    tags: Vec<(String, String)>,
    older_than: Option<Duration>,
    limit: usize,
    after: Option<Cursor>,
}

impl Runtime {
    /// Lists threads: by status, and in each those first that came to it first (those that sleep: that are due first).
    ///
    /// A page by [`status`](Threads::status) costs what is on it, however many other threads there are; so does one by
    /// status and [age](Threads::older_than). By [entrypoint](Threads::entrypoint) and [tag](Threads::tag) there is no
    /// index: the heads of the threads of the status are looked through, or of all threads if none is given, one small row
    /// each.
    ///
    /// ```
    /// # use durably::{Runtime, Status, entrypoint};
    /// # #[entrypoint] async fn greet() -> u32 { 1 }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().memory();
    /// for name in ["a", "b", "c"] {
    ///     runtime.thread(name)?.invoke(greet()).await?;
    /// }
    /// let page = runtime.threads().status(Status::Completed).limit(2).await?;
    /// assert_eq!(page.threads.len(), 2);
    /// let rest = runtime.threads().status(Status::Completed).after(page.next).await?;
    /// assert_eq!((rest.threads.len(), rest.next), (1, None));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn threads(&self) -> Threads {
        Threads {
            runtime: self.clone(),
            status: None,
            entrypoint: None,
            tags: Vec::new(),
            older_than: None,
            limit: PAGE,
            after: None,
        }
    }

    /// How many threads there are, by status. Looks at each one's place in the list.
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store fails.
    pub async fn stats(&self) -> Result<RuntimeStats, RunError> {
        let mut stats = RuntimeStats { driven: self.inner.driven_now(), ..RuntimeStats::default() };
        for status in Status::ALL {
            let count = self.threads().status(status).count().await?;
            if count > 0 {
                stats.by_status.insert(status, count);
            }
        }
        Ok(stats)
    }

    /// Copies a thread under another name, as it is: its runs, what it has saved, its tags, its answers on their way. The
    /// source is not changed. The copy has other idempotency keys: a task that was cut off runs again in each of them.
    ///
    /// # Errors
    ///
    /// [`RunError::ThreadExists`] if there is a thread of the new name, [`RunError::NothingToResume`] if there is none to
    /// copy, [`RunError::Busy`] while somebody runs it, [`RunError::Corrupt`] or [`RunError::Checkpoint`] if it cannot be
    /// read or written.
    pub async fn copy_thread(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<Thread, RunError> {
        let (from, to) = (self.thread(from)?, self.thread(to)?);
        from.copy_to(&to).await?;
        Ok(to)
    }

    /// Removes everything of a thread, and nothing else; tells whether there was anything. Durable when it returns.
    ///
    /// A thread of this name that is used anew begins with run 1: its tasks have the idempotency keys that those of the
    /// deleted one had, so that a receiver may take a new request for an old one. Use another name where that matters, or
    /// [`prune`](Thread::prune) instead.
    ///
    /// # Errors
    ///
    /// [`RunError::Busy`] while somebody runs the thread, [`RunError::ThreadId`] if the name is none,
    /// [`RunError::Checkpoint`] if the store fails.
    pub async fn delete_thread(&self, thread: impl AsRef<str>) -> Result<bool, RunError> {
        let thread = self.thread(thread)?;
        Ok(self.checkpointer().delete_thread(thread.id()).await?)
    }

    /// Prunes all threads, one after another: see [`Thread::prune`]. What this does at a call, a
    /// [retention](crate::RuntimeBuilder::retention) does for each thread when its run ends.
    ///
    /// # Errors
    ///
    /// As [`Thread::prune`]; threads that came before the failure are pruned.
    pub async fn prune(&self, keep: Keep) -> Result<Pruned, RunError> {
        let mut pruned = Pruned::default();
        let mut after = None;
        loop {
            let page = self.threads().limit(ALL).after(after).await?;
            for summary in page.threads {
                pruned.runs += self.thread(&summary.thread)?.prune(keep).await?.runs;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(pruned),
            }
        }
    }
}

impl Threads {
    /// Only those of this status.
    pub fn status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Only those whose current or last run is of this entrypoint.
    pub fn entrypoint(mut self, name: impl Into<String>) -> Self {
        self.entrypoint = Some(name.into());
        self
    }

    /// Only those that are marked so now. Of several, all must hold.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Only those that came to their status longer ago than this.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// At most so many on a page (0 counts as 1). Default: 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    /// Goes on after an earlier page, with the [`next`](ThreadList::next) of that; `None` begins at the front.
    pub fn after(mut self, cursor: Option<Cursor>) -> Self {
        self.after = cursor;
        self
    }

    /// How many there are, from `after` on; `limit` does not count. Costs a look at each.
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store fails.
    pub async fn count(self) -> Result<u64, RunError> {
        let mut count = 0;
        let mut question = self.limit(ALL);
        loop {
            let page = question.read_some(ALL).await?;
            count += page.threads.len() as u64;
            match page.next {
                Some(next) => question.after = Some(next),
                None => return Ok(count),
            }
        }
    }

    async fn read(mut self) -> Result<ThreadList, RunError> {
        let mut found = ThreadList::default();
        loop {
            // No more than are missing, so that the cursor stands after the last one that is wanted.
            let page = self.read_some(self.limit - found.threads.len()).await?;
            found.threads.extend(page.threads);
            found.next = page.next;
            if found.threads.len() == self.limit || found.next.is_none() {
                return Ok(found);
            }
            self.after.clone_from(&found.next);
        }
    }

    /// Looks at so many threads; those of them that are wanted.
    async fn read_some(&self, limit: usize) -> Result<ThreadList, RunError> {
        let environment = &self.runtime.inner.environment;
        let before_ms = self.older_than.map(|age| {
            environment.now_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)).saturating_sub(1)
        });
        // Those that sleep stand where they are due.
        let by_place = self.status.is_some_and(|status| status != Status::Sleeping);
        let until_ms = before_ms.filter(|_| by_place);
        let page = listed::page(&environment.checkpointer, self.status, until_ms, self.after.clone(), limit).await?;
        let mut found = ThreadList { threads: Vec::new(), next: page.next };
        for listed in page.threads {
            let head = storage::parse_head(&listed.thread, &listed.head)?;
            if self.wants(&head) && before_ms.is_none_or(|before| head.updated_ms <= before) {
                found.threads.push(summary(listed.thread, head));
            }
        }
        Ok(found)
    }

    fn wants(&self, head: &Head) -> bool {
        self.entrypoint.as_ref().is_none_or(|name| *name == head.entrypoint)
            && self.tags.iter().all(|(key, value)| head.tags.get(key) == Some(value))
    }
}

fn summary(thread: ThreadId, head: Head) -> ThreadSummary {
    ThreadSummary {
        thread,
        status: head.status,
        entrypoint: head.entrypoint,
        version: head.version,
        run: head.run,
        reason: head.reason,
        due: head.due_ms.map(moment),
        created: moment(head.created_ms),
        updated: moment(head.updated_ms),
        tags: head.tags,
    }
}

impl IntoFuture for Threads {
    type Output = Result<ThreadList, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("status", &self.status).field("limit", &self.limit).finish_non_exhaustive()
    }
}
