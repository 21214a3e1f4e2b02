//! A checkpointer that fails, stalls or dies at an operation of the test's choice.

use std::{
    collections::BTreeMap,
    fmt,
    future::{pending, ready},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    ThreadId,
    checkpoint::{
        Acknowledge, BoxFuture, CheckpointError, Checkpointer, Commit, Expect, Key, Lease, Rows, ThreadPage,
        ThreadQuery, Ticket,
    },
};

/// What is asked of a checkpointer; see [`FaultyCheckpointer::on`]. Giving a lease back is none of these: it cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Taking a thread's lease.
    Acquire,
    /// A commit.
    Commit,
    /// Reading a row.
    Get,
    /// Reading a range of rows.
    Scan,
    /// Listing threads.
    Threads,
    /// Removing a thread.
    DeleteThread,
    /// Closing the store.
    Close,
}

/// What happens at an operation.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is refused with this error and nothing is done; later ones go on.
    Fail(CheckpointError),
    /// It is refused with this error, and every later commit with [`CheckpointError::Poisoned`], as after a failed disk.
    Poison(CheckpointError),
    /// It is done at once and answered this much later; a lease is taken only then, so that it is not lost with whoever
    /// asked. Needs a tokio runtime.
    Delay(Duration),
    /// The process is as good as dead before the operation: it is not done, and from here on nothing is done or answered.
    StopBefore,
    /// The process is as good as dead after the operation: it is done but not answered, nor is anything later done.
    StopAfter,
    /// The lease under which the commit is made has been taken over: it is refused with [`CheckpointError::Fenced`], and so
    /// is every later commit under that lease or an older one. Any other operation goes on.
    Fence,
    /// From this commit on, commits are neither applied nor answered, while all else goes on: what is on its way when a
    /// process dies. Any other operation goes on.
    Hold,
}

/// Wraps a checkpointer; counts what is asked of it, keeps its commits, and makes chosen operations go wrong.
///
/// A test of crashes runs a flow once for every n with [`Fault::StopAfter`] at the n-th commit, then goes on with the
/// wrapped store opened anew:
///
/// ```
/// use std::sync::Arc;
///
/// use durably::{
///     ThreadId,
///     checkpoint::{Change, Checkpointer, Commit, Key, MemoryCheckpointer},
///     testing::{Fault, FaultyCheckpointer},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = MemoryCheckpointer::new();
/// let faulty = FaultyCheckpointer::new(Arc::new(memory.clone())).at(2, Fault::StopAfter);
/// let thread = ThreadId::new("t")?;
/// let commit = |row: &str| Commit {
///     thread: thread.clone(),
///     expect: vec![],
///     changes: vec![Change::Put(Key::Head, row.as_bytes().to_vec())],
/// };
/// faulty.commit(commit("one")).await?;
/// let unanswered = faulty.commit(commit("two"));
/// faulty.stopped().await;
/// assert_eq!(memory.reopen().get(&thread, Key::Head).await?.as_deref(), Some(&b"two"[..]));
///
/// // Or cut the list of commits afterwards, at every place.
/// let cut = MemoryCheckpointer::replay(&faulty.recorded()[..1]);
/// assert_eq!(cut.get(&thread, Key::Head).await?.as_deref(), Some(&b"one"[..]));
/// # drop(unanswered);
/// # Ok(())
/// # }
/// ```
pub struct FaultyCheckpointer {
    inner: Arc<dyn Checkpointer>,
    state: Mutex<State>,
    stopped: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// By kind, or by none for the count of all kinds.
    faults: BTreeMap<(Option<Operation>, u64), Fault>,
    asked: Vec<Operation>,
    commits: u64,
    recorded: Vec<Commit>,
    poisoned: Option<CheckpointError>,
    /// The newest lease that was taken over.
    fenced: Option<u64>,
    holds: bool,
    /// Kept, so that their tickets stay open.
    unanswered: Vec<Acknowledge>,
}

impl FaultyCheckpointer {
    /// Wraps a checkpointer; without a fault it only counts and records.
    #[must_use]
    pub fn new(inner: Arc<dyn Checkpointer>) -> Self {
        Self { inner, state: Mutex::default(), stopped: watch::Sender::new(false) }
    }

    /// Sets what happens at the n-th commit, counted from 1.
    #[must_use]
    pub fn at(self, nth: u64, fault: Fault) -> Self {
        self.on(Operation::Commit, nth, fault)
    }

    /// Sets what happens at the n-th operation of a kind, counted from 1.
    #[must_use]
    pub fn on(self, operation: Operation, nth: u64, fault: Fault) -> Self {
        self.state().faults.insert((Some(operation), nth), fault);
        self
    }

    /// Sets what happens at the n-th operation of any kind, counted from 1.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use durably::{
    ///     CheckpointError, RunError, Runtime,
    ///     checkpoint::MemoryCheckpointer,
    ///     entrypoint,
    ///     testing::{Fault, FaultyCheckpointer, Operation},
    /// };
    ///
    /// #[entrypoint]
    /// async fn nothing() {}
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let store = FaultyCheckpointer::new(Arc::new(MemoryCheckpointer::new()));
    /// let store = Arc::new(store.at_operation(2, Fault::Fail(CheckpointError::Closed)));
    /// let runtime = Runtime::builder().shared_checkpointer(store.clone());
    /// let refused = runtime.thread("t")?.invoke(nothing()).await;
    /// assert!(matches!(refused, Err(RunError::Checkpoint(CheckpointError::Closed))));
    /// assert_eq!(store.operations(), [Operation::Acquire, Operation::Get]);
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn at_operation(self, nth: u64, fault: Fault) -> Self {
        self.state().faults.insert((None, nth), fault);
        self
    }

    /// How many commits were asked for.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    /// What was asked for, in order.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.state().asked.clone()
    }

    /// The commits that were passed on, in order, for
    /// [`MemoryCheckpointer::replay`](crate::checkpoint::MemoryCheckpointer::replay).
    ///
    /// Those that the wrapped store refused are left out where it answers at once, as memory does; with another store
    /// one whose lease was void is among them.
    #[must_use]
    pub fn recorded(&self) -> Vec<Commit> {
        self.state().recorded.clone()
    }

    /// Returns once a [`Fault::StopBefore`] or [`Fault::StopAfter`] was reached.
    pub async fn stopped(&self) {
        let mut stopped = self.stopped.subscribe();
        // The sender is in `self`.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Whether a stop was reached.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(&self, state: &mut State, commit: Commit) -> Ticket {
        let copy = commit.clone();
        let ticket = self.inner.commit(commit);
        if !ticket.is_refused() {
            state.recorded.push(copy);
        }
        ticket
    }

    fn stop(&self, state: &mut State) -> Ticket {
        self.stopped.send_replace(true);
        Self::unanswered(state)
    }

    fn unanswered(state: &mut State) -> Ticket {
        let (acknowledge, ticket) = Ticket::pending();
        state.unanswered.push(acknowledge);
        ticket
    }

    /// Counts an operation; what is to go wrong with it.
    fn arrive(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.state();
        state.asked.push(operation);
        let of_its_kind = state.asked.iter().filter(|asked| **asked == operation).count();
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let all = count(state.asked.len());
        let fault = state.faults.remove(&(Some(operation), count(of_its_kind)));
        fault.or_else(|| state.faults.remove(&(None, all)))
    }

    /// An operation whose answer comes later.
    fn ask<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        ask: impl FnOnce() -> BoxFuture<'a, Result<T, CheckpointError>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CheckpointError>> {
        if self.is_stopped() {
            return Box::pin(pending());
        }
        match self.arrive(operation) {
            None | Some(Fault::Fence | Fault::Hold) => self.unless_stopped(ask()),
            Some(Fault::Fail(error)) => Box::pin(ready(Err(error))),
            Some(Fault::Poison(error)) => {
                self.state().poisoned = Some(error.clone());
                Box::pin(ready(Err(error)))
            }
            Some(Fault::Delay(delay)) => {
                if operation == Operation::Acquire {
                    return Box::pin(async move {
                        tokio::time::sleep(delay).await;
                        self.unless_stopped(ask()).await
                    });
                }
                let answer = self.unless_stopped(ask());
                Box::pin(async move {
                    let answer = answer.await;
                    tokio::time::sleep(delay).await;
                    answer
                })
            }
            Some(Fault::StopBefore) => {
                self.stopped.send_replace(true);
                Box::pin(pending())
            }
            Some(Fault::StopAfter) => {
                let answer = ask();
                Box::pin(async move {
                    let _ = answer.await;
                    self.stopped.send_replace(true);
                    pending().await
                })
            }
        }
    }

    /// The answer of the wrapped store, unless the stop was reached before it was given.
    fn unless_stopped<'a, T: Send + 'a>(&'a self, answer: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        Box::pin(async move {
            if self.is_stopped() {
                return pending().await;
            }
            let answer = answer.await;
            if self.is_stopped() { pending().await } else { answer }
        })
    }
}

impl Checkpointer for FaultyCheckpointer {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        self.ask(Operation::Acquire, {
            let thread = thread.clone();
            move || self.inner.acquire(&thread)
        })
    }

    fn release(&self, lease: &Lease) {
        if !self.is_stopped() {
            self.inner.release(lease);
        }
    }

    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        self.unless_stopped(self.inner.released(thread))
    }

    fn is_leased(&self, thread: &ThreadId) -> bool {
        self.inner.is_leased(thread)
    }

    fn commit(&self, commit: Commit) -> Ticket {
        let fault = if self.is_stopped() { None } else { self.arrive(Operation::Commit) };
        let mut state = self.state();
        state.commits += 1;
        if self.is_stopped() {
            return self.stop(&mut state);
        }
        if let Some(error) = &state.poisoned {
            return Ticket::ready(Err(CheckpointError::Poisoned { cause: Arc::new(error.clone()) }));
        }
        let epoch = commit.expect.iter().find_map(|expect| match expect {
            Expect::Lease(epoch) => Some(*epoch),
            Expect::Absent(_) | Expect::Equals(..) => None,
        });
        if matches!(fault, Some(Fault::Fence)) {
            state.fenced = state.fenced.max(epoch);
        }
        if let (Some(fenced), Some(epoch)) = (state.fenced, epoch)
            && epoch <= fenced
        {
            let current = Some(fenced.saturating_add(1));
            return Ticket::ready(Err(CheckpointError::Fenced { thread: commit.thread, epoch, current }));
        }
        if state.holds {
            return Self::unanswered(&mut state);
        }
        match fault {
            None | Some(Fault::Fence) => self.pass_on(&mut state, commit),
            Some(Fault::Hold) => {
                state.holds = true;
                Self::unanswered(&mut state)
            }
            Some(Fault::Fail(error)) => Ticket::ready(Err(error)),
            Some(Fault::Poison(error)) => {
                state.poisoned = Some(error.clone());
                Ticket::ready(Err(error))
            }
            Some(Fault::Delay(delay)) => {
                let ticket = self.pass_on(&mut state, commit);
                let (acknowledge, delayed) = Ticket::pending();
                tokio::spawn(async move {
                    let answer = ticket.await;
                    tokio::time::sleep(delay).await;
                    acknowledge.answer(answer);
                });
                delayed
            }
            Some(Fault::StopBefore) => self.stop(&mut state),
            Some(Fault::StopAfter) => {
                drop(self.pass_on(&mut state, commit));
                self.stop(&mut state)
            }
        }
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        self.ask(Operation::Get, {
            let thread = thread.clone();
            move || self.inner.get(&thread, key)
        })
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        self.ask(Operation::Scan, {
            let thread = thread.clone();
            move || self.inner.scan(&thread, first, last)
        })
    }

    fn threads(&self, query: ThreadQuery) -> BoxFuture<'_, Result<ThreadPage, CheckpointError>> {
        self.ask(Operation::Threads, move || self.inner.threads(query))
    }

    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>> {
        self.ask(Operation::DeleteThread, {
            let thread = thread.clone();
            move || self.inner.delete_thread(&thread)
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), CheckpointError>> {
        self.ask(Operation::Close, || self.inner.close())
    }
}

impl fmt::Debug for FaultyCheckpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyCheckpointer")
            .field("inner", &self.inner)
            .field("commits", &self.commits())
            .field("stopped", &self.is_stopped())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Change, MemoryCheckpointer};

    fn thread() -> ThreadId {
        ThreadId::new("t").expect("a legal name")
    }

    fn commit(row: u8) -> Commit {
        Commit { thread: thread(), expect: vec![], changes: vec![Change::Put(Key::Head, vec![row])] }
    }

    async fn head(store: &MemoryCheckpointer) -> Option<u8> {
        let head = store.reopen().get(&thread(), Key::Head).await.expect("readable");
        head.map(|row| row[0])
    }

    fn faulty(nth: u64, fault: Fault) -> (MemoryCheckpointer, FaultyCheckpointer) {
        let memory = MemoryCheckpointer::new();
        (memory.clone(), FaultyCheckpointer::new(Arc::new(memory)).at(nth, fault))
    }

    #[tokio::test]
    async fn a_failed_commit_is_not_applied_and_later_ones_are() {
        let (memory, store) = faulty(1, Fault::Fail(CheckpointError::Closed));
        assert!(store.commit(commit(1)).await.is_err());
        assert_eq!(head(&memory).await, None);
        store.commit(commit(2)).await.expect("no fault there");
        assert_eq!(head(&memory).await, Some(2));
        assert_eq!((store.commits(), store.recorded()), (2, vec![commit(2)]));
    }

    #[tokio::test]
    async fn a_poisoned_store_refuses_everything_later() {
        let (memory, store) = faulty(1, Fault::Poison(CheckpointError::Closed));
        assert!(matches!(store.commit(commit(1)).await, Err(CheckpointError::Closed)));
        assert!(matches!(store.commit(commit(2)).await, Err(CheckpointError::Poisoned { .. })));
        assert_eq!(head(&memory).await, None);
    }

    #[tokio::test]
    async fn a_delayed_commit_is_applied_at_once_and_answered_later() {
        let (memory, store) = faulty(1, Fault::Delay(Duration::from_millis(30)));
        let begun = std::time::Instant::now();
        let ticket = store.commit(commit(1));
        assert_eq!(head(&memory).await, Some(1));
        ticket.await.expect("applied");
        assert!(begun.elapsed() >= Duration::from_millis(30));
    }

    #[tokio::test]
    async fn nothing_is_answered_after_a_stop() {
        for (fault, left) in [(Fault::StopBefore, None), (Fault::StopAfter, Some(1))] {
            let (memory, store) = faulty(1, fault);
            let ticket = store.commit(commit(1));
            store.stopped().await;
            let later = store.commit(commit(2));
            let read = store.get(&thread(), Key::Head);
            let nothing = async {
                tokio::select! { _ = ticket => (), _ = later => (), _ = read => () }
            };
            assert!(tokio::time::timeout(Duration::from_millis(20), nothing).await.is_err());
            assert_eq!(head(&memory).await, left);
        }
    }
}
