//! Settlements: somebody says what became of a call in doubt.

use std::{fmt, future::IntoFuture};

use serde::Serialize;

use super::Thread;
use crate::{
    CallId, CheckpointError, RunError, Status, ThreadId, ValueError,
    checkpoint::{BoxFuture, Commit, Expect, Key},
    journal::{AnswerKind, Answered},
    storage::{self, Answer, Entry, EntryState},
    value::Payload,
};

/// How often a settlement is tried again when the thread changes under it.
const TRIES: u32 = 100;

/// What became of a call in doubt, as somebody says.
#[derive(Clone, Debug)]
pub struct Settlement(Result<Option<Payload>, ValueError>);

impl Settlement {
    /// Its effect happened. The value is what the task gives: for a task that gives a `Result`, what is in its `Ok`.
    pub fn happened(value: impl Serialize) -> Self {
        Self(Payload::encode(&value).map(Some))
    }

    /// Its effect did not happen, and never will: the body runs again.
    #[must_use]
    pub fn did_not() -> Self {
        Self(Ok(None))
    }
}

/// Why a settlement was not taken; nothing was changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SettleError {
    /// The thread's run does not wait for this call to be settled.
    NotInDoubt {
        /// The thread.
        thread: ThreadId,
        /// What was named.
        call: CallId,
        /// What the thread is doing; `None`: it has never run.
        status: Option<Status>,
        /// The calls that it waits for.
        known: Vec<CallId>,
    },
    /// The call was settled otherwise already.
    AlreadySettled {
        /// The call.
        call: CallId,
    },
    /// The value is not of the type that the task gives.
    WrongType {
        /// The call.
        call: CallId,
        /// The task's name.
        task: String,
        /// Why it is not.
        source: ValueError,
    },
    /// The value cannot be recorded.
    Value(ValueError),
    /// The store failed, or the thread changed all the time.
    Run(RunError),
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInDoubt { thread, call, status, known } => {
                let status = status.map_or_else(|| "it has never run".to_owned(), |status| status.to_string());
                let known: Vec<String> = known.iter().map(CallId::to_string).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                write!(
                    f,
                    "thread {thread} ({status}) does not wait for call {call} to be settled; it waits for: {known}; a call that was cut off is waited for once the run was gone on with"
                )
            }
            Self::AlreadySettled { call } => write!(f, "call {call} was settled otherwise already, and that counts"),
            Self::WrongType { call, task, source } => {
                write!(f, "the value for call {call} is not what task {task:?} gives: {source}")
            }
            Self::Value(source) => write!(f, "the value cannot be recorded: {source}"),
            Self::Run(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for SettleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::WrongType { source, .. } | Self::Value(source) => Some(source),
            Self::Run(error) => Some(error),
            Self::NotInDoubt { .. } | Self::AlreadySettled { .. } => None,
        }
    }
}

impl From<RunError> for SettleError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<CheckpointError> for SettleError {
    fn from(error: CheckpointError) -> Self {
        Self::Run(error.into())
    }
}

impl Thread {
    /// Says what became of a call in doubt: one of a task that is `at_most_once`, whose body had begun and left no outcome.
    /// [`Outcome::InDoubt`](crate::Outcome::InDoubt) and [`ThreadState::doubts`](crate::ThreadState::doubts) list them.
    ///
    /// It is durable when this returns, and waits for the run to go on: by a [`resume`](Self::resume), or by itself if the
    /// run is driven in this process. The first settlement counts; the same again is taken as the same.
    ///
    /// ```
    /// use durably::{Outcome, Runtime, Settlement, entrypoint, task};
    ///
    /// #[task(at_most_once, timeout = "5ms")]
    /// async fn transfer(cents: u64) -> anyhow::Result<String> {
    ///     std::future::pending().await // the bank does not answer
    /// }
    ///
    /// #[entrypoint]
    /// async fn pay(cents: u64) -> anyhow::Result<String> {
    ///     transfer(cents).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("invoice-7")?;
    /// let paused = thread.invoke(pay(500)).await?;
    /// let doubt = &paused.doubts()[0];
    /// assert_eq!(doubt.task, "transfer");
    /// // Somebody looks at the account, and finds it there.
    /// thread.settle(doubt.call, Settlement::happened("receipt 7")).by("alice").await?;
    /// assert_eq!(thread.resume(pay).await?, Outcome::Completed("receipt 7".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SettleError`]; nothing was changed then.
    pub fn settle(&self, call: CallId, settlement: Settlement) -> Settling {
        Settling { thread: self.clone(), call, settlement, by: None }
    }

    async fn take_settlement(
        &self,
        call: CallId,
        value: Option<Payload>,
        by: Option<String>,
    ) -> Result<(), SettleError> {
        let checkpointer = self.runtime.checkpointer();
        let at_ms = self.runtime.inner.environment.now_ms();
        let answer = Answer { value, how: Answered { kind: AnswerKind::Given, by, at_ms } };
        for _ in 0..TRIES {
            let Some((head, row)) = storage::head(checkpointer, &self.id).await? else {
                return Err(self.not_in_doubt(call, None).await?);
            };
            let is_over = !head.status.is_unfinished() || head.status == Status::Failed;
            if is_over || storage::cancel_request(checkpointer, &self.id).await?.is_some() {
                return Err(self.not_in_doubt(call, Some(head.status)).await?);
            }
            let stored = storage::entry(checkpointer, &self.id, call).await?;
            let Some(stored) = stored.filter(|stored| stored.entry.doubt) else {
                return Err(self.not_in_doubt(call, Some(head.status)).await?);
            };
            match &stored.entry.state {
                EntryState::Open => {}
                EntryState::Answered(first) if first.digest() == answer.digest() => return Ok(()),
                EntryState::Taken(_, first) if *first == answer.digest() => return Ok(()),
                EntryState::Answered(_) | EntryState::Taken(..) => return Err(SettleError::AlreadySettled { call }),
            }
            self.check_settlement(call, &stored.entry, &answer).map_err(|source| SettleError::WrongType {
                call,
                task: stored.entry.key.clone(),
                source,
            })?;
            let mut changes = Vec::new();
            storage::answer_changes(&self.id, call, &stored.entry, answer.clone(), &mut changes)?;
            let expect = vec![stored.expect(call), Expect::Equals(Key::Head, row), Expect::Absent(storage::CANCEL)];
            match checkpointer.commit(Commit { thread: self.id.clone(), expect, changes }).await {
                Ok(()) => {
                    if let Some(run) = self.runtime.inner.driven(&self.id) {
                        run.deliver(call, stored.entry.asked, answer);
                    }
                    return Ok(());
                }
                // A pause, an end, or another settlement came between.
                Err(CheckpointError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RunError::Busy { thread: self.id.clone() }.into())
    }

    async fn not_in_doubt(&self, call: CallId, status: Option<Status>) -> Result<SettleError, CheckpointError> {
        let inbox = storage::inbox(self.runtime.checkpointer(), &self.id).await?;
        let is_open = |entry: &Entry| entry.doubt && entry.state == EntryState::Open;
        let known = inbox.iter().filter(|(_, entry)| is_open(entry)).map(|(call, _)| *call).collect();
        Ok(SettleError::NotInDoubt { thread: self.id.clone(), call, status, known })
    }

    /// Checks the value's type, if this process has come by the code that makes the call.
    fn check_settlement(&self, call: CallId, entry: &Entry, answer: &Answer) -> Result<(), ValueError> {
        let Some(value) = &answer.value else { return Ok(()) };
        let inner = &self.runtime.inner;
        let driven = inner.driven(&self.id).and_then(|run| run.answer_check(call));
        let types = &inner.environment.answer_types;
        match driven.or_else(|| types.check(&entry.file, entry.line, &entry.expects)) {
            Some(check) => check(value),
            None => Ok(()),
        }
    }
}

/// A settlement on its way: await this to store it.
#[must_use = "a settlement is stored only when this is awaited"]
pub struct Settling {
    thread: Thread,
    call: CallId,
    settlement: Settlement,
    by: Option<String>,
}

impl Settling {
    /// Says who settles. It is kept with the call's outcome, and shown by [`Thread::state`].
    pub fn by(self, who: impl Into<String>) -> Self {
        Self { by: Some(who.into()), ..self }
    }
}

impl IntoFuture for Settling {
    type Output = Result<(), SettleError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let value = self.settlement.0.map_err(SettleError::Value)?;
            self.thread.take_settlement(self.call, value, self.by).await
        })
    }
}

impl fmt::Debug for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settling").field("thread", &self.thread.id).field("call", &self.call).finish_non_exhaustive()
    }
}
