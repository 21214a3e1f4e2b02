//! Starting a run, and going on with one.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{Command, RunStream, Thread};
use crate::{
    CheckpointError, Definition, EntrypointCall, Outcome, RunError, Status,
    checkpoint::{BoxFuture, Change, Lease},
    entrypoint::record_input,
    id::Seq,
    journal::{End, Ended, Record, Start, Update},
    run::{Begin, Plan, drive},
    runtime::Drive,
    scope::{Hold, Mode},
    storage::{self, Head},
    stream::{Line, StreamModes},
    value::{Arguments, Payload},
};

/// When a recorded outcome may be handed on, and so what a crash can take back. Order and content of the journal are
/// the same in all three; only who waits differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// An outcome is on disk before its value is handed on: a crash takes nothing back that any code has seen.
    #[default]
    Sync,
    /// An outcome is handed on at once and written in the background, in order: a crash can take back the newest ones,
    /// whose bodies then run again.
    Async,
    /// Outcomes become visible on disk in one step when the run ends, fails or pauses: a crash takes back all of them.
    Exit,
}

impl From<Durability> for Mode {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Sync => Self::Sync,
            Durability::Async => Self::Async,
            Durability::Exit => Self::Exit,
        }
    }
}

/// What [`Thread::invoke`] does if the thread has a run that has not ended.
///
/// A failed run counts as one that has not ended: it can be resumed. A completed or cancelled one has ended, and an invoke
/// starts the thread's next run, of the same input too: to have the last output again, use [`Thread::resume`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IfUnfinished {
    /// It refuses, with [`RunError::Unfinished`].
    #[default]
    Refuse,
    /// It gives that run up, with its open questions, and starts a new one. Not while a call is in doubt.
    Discard,
    /// It goes on with that run, if it was started with the same input; else [`RunError::InputMismatch`].
    Resume,
}

/// A run to be started; await it, or hand it to the pool with [`start`](Self::start).
#[must_use = "a run begins only when this is awaited or started"]
pub struct Invoke<D: Definition> {
    thread: Thread,
    input: Option<D::Input>,
    drive: Options,
    if_unfinished: IfUnfinished,
    /// Whether a completed run counts too.
    once: bool,
    /// How long the run may take.
    deadline: Option<Duration>,
    tags: BTreeMap<String, String>,
}

/// A run to go on with; await it, or hand it to the pool with [`start`](Self::start).
#[must_use = "a run goes on only when this is awaited or started"]
pub struct Resume<D: Definition> {
    thread: Thread,
    drive: Options,
    /// What is answered before it goes on.
    command: Option<Command>,
    definition: std::marker::PhantomData<fn() -> D>,
}

struct Options {
    mode: Mode,
    wait: bool,
    max_concurrency: Option<u32>,
    /// The reader of this drive.
    line: Option<Arc<Line>>,
}

/// Ends a line with the drive that it is of, however that ends.
struct Closing(Arc<Line>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What an [`Invoke`] and a [`Resume`] have in common.
macro_rules! driven {
    ($($verb:ident)*) => {$(
        impl<D: Definition> $verb<D> {
        /// When recorded outcomes may be handed on. Default: as the runtime says, which is [`Durability::Sync`] by default.
        pub fn durability(mut self, durability: Durability) -> Self {
            self.drive.mode = durability.into();
            self
        }

        /// Waits while somebody else runs the thread, instead of failing with [`RunError::Busy`].
        pub fn wait(mut self) -> Self {
            self.drive.wait = true;
            self
        }

        /// At most so many bodies of the run's tasks are live at a time; 0 counts as 1. Default: as the entrypoint says
        /// (`max_concurrency = 8`), else as many as it calls.
        ///
        /// Calls that a task's body makes are covered by that body, and do not count. A body that waits for the outside
        /// does not count while it does. What is said when a run is started is kept with it.
        ///
        /// ```
        /// use durably::{Runtime, entrypoint, task};
        /// use futures::future::join_all;
        ///
        /// #[task]
        /// async fn fetch(n: u32) -> u32 { n }
        ///
        /// #[entrypoint]
        /// async fn fetch_all(n: u32) -> Vec<u32> { join_all((0..n).map(fetch)).await }
        ///
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        /// let runtime = Runtime::builder().memory();
        /// let outcome = runtime.thread("t")?.invoke(fetch_all(100)).max_concurrency(8).await?;
        /// assert_eq!(outcome.completed().map(|all| all.len()), Some(100));
        /// # Ok::<(), durably::RunError>(())
        /// # })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn max_concurrency(mut self, limit: u32) -> Self {
            self.drive.max_concurrency = Some(limit.max(1));
            self
        }

        /// Drives the run on the tokio pool. Dropping what this gives only detaches.
        ///
        /// # Panics
        ///
        /// Outside of a tokio runtime.
        #[must_use = "the run's outcome comes from this; dropping it only detaches"]
        pub fn start(self) -> Started<D::Value> {
            Started(tokio::spawn(self.into_future()))
        }

        /// Drives the run on the tokio pool, and gives what happens in it as it happens: the events of these modes, and
        /// its outcome. Dropping what this gives does not stop the run; the run never waits for whoever reads.
        ///
        /// Only what is new is told: a task that answers from the journal is not. What was before, and what comes after
        /// this drive, can be read with [`Thread::watch`].
        ///
        /// ```
        /// use durably::{Runtime, StreamMode, Streamed, entrypoint, task};
        ///
        /// #[task]
        /// async fn double(n: u32) -> u32 { n * 2 }
        ///
        /// #[entrypoint]
        /// async fn sums(n: u32) -> u32 {
        ///     durably::emit("off we go");
        ///     double(double(n).await).await
        /// }
        ///
        /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        /// let thread = Runtime::builder().memory().thread("t")?;
        /// let mut run = thread.invoke(sums(3)).stream([StreamMode::Updates, StreamMode::Custom]);
        /// let mut told = Vec::new();
        /// while let Some(event) = run.next().await {
        ///     match event.what {
        ///         Streamed::Update { name, value, .. } => told.push(format!("{name} {value}")),
        ///         Streamed::Custom { value, .. } => told.push(value.decode()?),
        ///         _ => {}
        ///     }
        /// }
        /// assert_eq!(told, ["off we go", "double 6", "double 12", "sums 12"]);
        /// assert_eq!(run.outcome().await?.completed(), Some(12));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// # })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Panics
        ///
        /// Outside of a tokio runtime.
        pub fn stream(mut self, modes: impl Into<StreamModes>) -> RunStream<D::Value> {
            let room = self.thread.runtime.inner.environment.stream_buffer;
            let line = Arc::new(Line::new(modes.into(), room, false));
            self.drive.line = Some(line.clone());
            let closing = Closing(line.clone());
            let drive = self.into_future();
            let started = tokio::spawn(async move {
                let _closing = closing;
                drive.await
            });
            RunStream::new(line, Started(started))
        }
        }

        impl<D: Definition> IntoFuture for $verb<D> {
            type Output = Result<Outcome<D::Value>, RunError>;
            type IntoFuture = BoxFuture<'static, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(async move { typed::<D>(self.drive().await?) })
            }
        }

        impl<D: Definition> fmt::Debug for $verb<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = D::SPEC.name;
                f.debug_struct(stringify!($verb)).field("thread", &self.thread.id).field("entrypoint", &name).finish_non_exhaustive()
            }
        }
    )*};
}

driven!(Invoke Resume);

impl<D: Definition> Invoke<D> {
    pub(super) fn new(thread: Thread, call: EntrypointCall<D>) -> Self {
        let mode = thread.runtime.inner.durability.into();
        Self {
            thread,
            input: call.into_input(),
            drive: Options { mode, wait: false, max_concurrency: None, line: None },
            if_unfinished: IfUnfinished::Refuse,
            once: false,
            deadline: None,
            tags: BTreeMap::new(),
        }
    }

    /// Marks the thread, to be found by [`Runtime::threads`](crate::Runtime::threads) and
    /// [`Thread::history`](crate::Thread::history). A tag stays until one of the same key replaces it, over all later runs;
    /// a run that is only gone on with gets none. At most 8 of a thread, each of at most 120 bytes with its value: more is
    /// [`RunError::Tag`].
    ///
    /// ```
    /// # use durably::{Runtime, entrypoint};
    /// # #[entrypoint] async fn greet() -> u32 { 1 }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().memory();
    /// runtime.thread("t")?.invoke(greet()).tag("customer", "42").await?;
    /// assert_eq!(runtime.threads().tag("customer", "42").count().await?, 1);
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// What to do if the thread has a run that has not ended. Default: refuse.
    pub fn if_unfinished(mut self, choice: IfUnfinished) -> Self {
        (self.if_unfinished, self.once) = (choice, false);
        self
    }

    /// Runs the entrypoint once for this thread and input, however often it is invoked: starts a run on a fresh thread,
    /// goes on with one that has not ended, and gives the output of a completed one again. For the start of a program
    /// that may have been cut off anywhere, or have come to its end.
    ///
    /// With another input than the recorded one it fails with [`RunError::InputMismatch`].
    ///
    /// ```
    /// use durably::{Outcome, Runtime, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn order(article: String) -> String {
    ///     format!("{article} {}", durably::uuid().await)
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("order-42")?;
    /// let first = thread.invoke(order("tea".to_owned())).once().await?;
    /// assert_eq!(thread.invoke(order("tea".to_owned())).once().await?, first); // not a second order
    /// assert!(thread.invoke(order("coffee".to_owned())).once().await.is_err());
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn once(mut self) -> Self {
        (self.if_unfinished, self.once) = (IfUnfinished::Resume, true);
        self
    }

    /// As awaiting it, with the value as it is recorded.
    #[cfg(feature = "testing")]
    pub(crate) async fn recorded(self) -> Result<Outcome<Payload>, RunError> {
        self.drive().await
    }

    /// Limits how long the run may take, from its start on, over pauses, crashes and restarts. Default: what
    /// `#[entrypoint(timeout = "..")]` says, else no limit.
    ///
    /// When the time is over, the run's code is dropped where it awaits, it cleans up (see [`defer`](crate::defer)), and
    /// ends with [`RunError::TimedOut`]. What had finished is kept: resuming goes on with it, and gives it as long again.
    /// A run that waits outside of memory is ended by [`run_due`](crate::Runtime::run_due) or
    /// [`background`](crate::Runtime::background). A run that goes on keeps the limit that it was started with.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durably::{RunError, Runtime, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn slow() -> u32 {
    ///     durably::sleep(Duration::from_secs(30)).await;
    ///     1
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// let outcome = thread.invoke(slow()).deadline(Duration::from_millis(10)).await;
    /// assert!(matches!(outcome, Err(RunError::TimedOut { .. })));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    async fn drive(self) -> Result<Outcome<Payload>, RunError> {
        let Self { thread, input, drive: options, if_unfinished, once, deadline, tags } = self;
        let input = input.ok_or_else(|| RunError::Stalled { entrypoint: D::SPEC.name.to_owned() })?;
        let (recorded, arguments) = record_input::<D>(&input)?;
        drop(input);
        let hold = hold(&thread, options.wait).await?;
        let head = storage::head(thread.runtime.checkpointer(), &thread.id).await?.map(|(head, _)| head);
        if let Some(head) = &head
            && !(head.status.is_unfinished() && if_unfinished == IfUnfinished::Discard)
        {
            check_entrypoint::<D>(&thread, head)?;
        }
        let limit = deadline.or(D::SPEC.timeout);
        let start = |with| Begin::Start {
            input: recorded.clone(),
            digest: arguments.digest(),
            limit,
            with,
            tags: tags.clone(),
        };
        let begin = match (&head, if_unfinished) {
            (None, _) => start(Vec::new()),
            (Some(head), _) if once && head.status == Status::Completed => {
                let start = storage::load_record(thread.runtime.checkpointer(), &thread.id, head.run, Seq(0)).await?;
                let start: Vec<(Seq, Record)> = start.into_iter().map(|record| (Seq(0), record)).collect();
                if let Some((_, Record::Update(Update { input: None, .. }))) = start.first() {
                    // The thread's value was set before it ever ran.
                    Begin::Start { input: recorded, digest: arguments.digest(), limit, with: Vec::new(), tags }
                } else {
                    check_input::<D>(&thread, &start, &arguments)?;
                    return last_output::<D>(&thread, head).await;
                }
            }
            (Some(head), _) if !head.status.is_unfinished() => start(Vec::new()),
            (Some(head), IfUnfinished::Resume) => {
                let records = records::<D>(&thread, head).await?;
                check_input::<D>(&thread, &records, &arguments)?;
                if thread.carry_out_cancel(&hold, head).await? {
                    return Ok(Outcome::Cancelled);
                }
                Begin::Replay(records)
            }
            (Some(head), IfUnfinished::Discard) if head.status != Status::InDoubt => {
                start(discard(&thread, head).await?)
            }
            (Some(head), IfUnfinished::Refuse | IfUnfinished::Discard) => {
                return Err(RunError::Unfinished { thread: thread.id, status: head.status });
            }
        };
        drive_held::<D>(thread, hold, options, head, begin).await
    }
}

impl<D: Definition> Resume<D> {
    pub(super) fn new(thread: Thread) -> Self {
        let mode = thread.runtime.inner.durability.into();
        let drive = Options { mode, wait: false, max_concurrency: None, line: None };
        Self { thread, drive, command: None, definition: std::marker::PhantomData }
    }

    /// Answers open questions and goes on, in one call: the command's answers are taken all or not at all, and the run
    /// goes on only if they are.
    ///
    /// ```
    /// use durably::{Command, Outcome, Runtime, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn publish(text: String) -> bool {
    ///     interrupt("publish?", &text).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("essay")?;
    /// let _ = thread.invoke(publish("Dear all".to_owned())).await?;
    /// let outcome = thread.resume(publish).with(Command::resume(true)).await?;
    /// assert_eq!(outcome, Outcome::Completed(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Answer`] if an answer is not taken; nothing was changed then. [`RunError::Busy`], while somebody else
    /// runs the thread, before anything is answered: to answer a run that is driven, use [`Thread::answer`].
    pub fn with(mut self, command: Command) -> Self {
        self.command = Some(command);
        self
    }

    pub(crate) async fn drive(self) -> Result<Outcome<Payload>, RunError> {
        let Self { thread, drive: options, command, .. } = self;
        let hold = hold(&thread, options.wait).await?;
        if let Some(command) = command {
            thread.take(&command).await?;
        }
        let head = storage::head(thread.runtime.checkpointer(), &thread.id).await?.map(|(head, _)| head);
        let Some(known) = &head else { return Err(RunError::NothingToResume { thread: thread.id }) };
        let begin = match known.status {
            Status::Cancelled => return Err(RunError::Cancelled { thread: thread.id }),
            Status::Completed => return last_output::<D>(&thread, known).await,
            Status::Running
            | Status::Interrupted
            | Status::Sleeping
            | Status::Drained
            | Status::InDoubt
            | Status::Failed
            | Status::Stuck => {
                let records = records::<D>(&thread, known).await?;
                if thread.carry_out_cancel(&hold, known).await? {
                    return Ok(Outcome::Cancelled);
                }
                Begin::Replay(records)
            }
        };
        drive_held::<D>(thread, hold, options, head, begin).await
    }
}

/// Takes the thread's lease.
pub(super) async fn hold(thread: &Thread, wait: bool) -> Result<Arc<Hold>, RunError> {
    let checkpointer = thread.runtime.checkpointer();
    loop {
        match checkpointer.acquire(&thread.id).await {
            Ok(lease) => return Ok(held(thread, lease)),
            Err(CheckpointError::Busy { .. }) if wait => checkpointer.released(&thread.id).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn held(thread: &Thread, lease: Lease) -> Arc<Hold> {
    Hold::new(thread.runtime.checkpointer().clone(), lease)
}

/// Drives a run of a thread whose lease is held.
async fn drive_held<D: Definition>(
    thread: Thread,
    hold: Arc<Hold>,
    Options { mode, max_concurrency, line, .. }: Options,
    head: Option<Head>,
    begin: Begin,
) -> Result<Outcome<Payload>, RunError> {
    let mut driving = Drive::new(thread.runtime.inner.clone(), thread.id.clone());
    let inner = thread.runtime.inner.clone();
    let announce = Box::new(move |run: &Arc<_>| inner.announce(run));
    let environment = thread.runtime.inner.environment.clone();
    let outcome = drive::<D>(Plan { environment, hold, mode, head, begin, max_concurrency, announce, line }).await;
    driving.came(&outcome);
    drop(driving);
    thread.runtime.keep_to_retention(&thread);
    outcome
}

/// The records of an unfinished run, which must be one of this entrypoint.
async fn records<D: Definition>(thread: &Thread, head: &Head) -> Result<Vec<(Seq, Record)>, RunError> {
    check_entrypoint::<D>(thread, head)?;
    storage::load_run(thread.runtime.checkpointer(), &thread.id, head.run).await
}

pub(super) fn check_entrypoint<D: Definition>(thread: &Thread, head: &Head) -> Result<(), RunError> {
    if head.entrypoint == D::SPEC.name {
        return Ok(());
    }
    let (recorded, given) = (head.entrypoint.clone(), D::SPEC.name.to_owned());
    Err(RunError::WrongEntrypoint { thread: thread.id.clone(), recorded, given })
}

/// Refuses to go on with a run that was started with other input.
fn check_input<D: Definition>(thread: &Thread, records: &[(Seq, Record)], given: &Arguments) -> Result<(), RunError> {
    let Some((
        _,
        Record::Start(Start { input, digest, .. }) | Record::Update(Update { input: Some((input, digest)), .. }),
    )) = records.first()
    else {
        return Ok(());
    };
    if *digest == given.digest() {
        return Ok(());
    }
    // By parameter, as the given one is shown; where the parameters have changed since, as it was recorded.
    let recorded = input.decode::<D::Input>().ok().and_then(|input| D::arguments(&input).ok());
    Err(RunError::InputMismatch {
        thread: thread.id.clone(),
        recorded: recorded.map_or_else(|| input.preview(200), |input| input.preview(200)),
        given: given.preview(200),
    })
}

/// What a completed thread's last run gave.
async fn last_output<D: Definition>(thread: &Thread, head: &Head) -> Result<Outcome<Payload>, RunError> {
    check_entrypoint::<D>(thread, head)?;
    let corrupt = |seq| RunError::Corrupt {
        thread: thread.id.clone(),
        run: head.run,
        seq,
        detail: "the end of a completed run is not there".to_owned(),
    };
    let Some((run, seq)) = head.saved else { return Err(corrupt(Seq(0))) };
    let record = storage::load_record(thread.runtime.checkpointer(), &thread.id, run, seq).await?;
    let output = record.as_ref().and_then(Record::output).cloned();
    output.map(Outcome::Completed).ok_or_else(|| corrupt(seq))
}

/// The changes that give an unfinished run up; applied with the start of the next one.
pub(super) async fn discard(thread: &Thread, head: &Head) -> Result<Vec<Change>, RunError> {
    let mut changes = storage::remove_requests();
    let records = match storage::load_run(thread.runtime.checkpointer(), &thread.id, head.run).await {
        Ok(records) => records,
        // What is damaged can be given up too; its rows stay for whoever wants to look.
        Err(RunError::Corrupt { .. }) => return Ok(changes),
        Err(error) => return Err(error),
    };
    if !matches!(records.last(), Some((_, Record::End(_)))) {
        let seq = Seq(u32::try_from(records.len()).unwrap_or(u32::MAX));
        let at_ms = thread.runtime.inner.environment.now_ms();
        let record = Record::End(End { how: Ended::Discarded, at_ms });
        storage::record_changes(&thread.id, head.run, seq, &record, &mut changes)?;
    }
    Ok(changes)
}

/// Reads what a run gave as the entrypoint's type.
fn typed<D: Definition>(outcome: Outcome<Payload>) -> Result<Outcome<D::Value>, RunError> {
    outcome.try_map(|value| {
        let what = || format!("the output of entrypoint {:?}", D::SPEC.name);
        value.decode().map_err(|source| RunError::Value { what: what(), source })
    })
}

/// A run that is driven on the pool. Await it for its outcome; dropping it only detaches.
#[derive(Debug)]
pub struct Started<T>(tokio::task::JoinHandle<Result<Outcome<T>, RunError>>);

impl<T> Started<T> {
    /// Whether the run has ended or paused.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Ends the drive as a crash would; the run can be resumed.
    pub fn abort(&self) {
        self.0.abort();
    }
}

impl<T> Future for Started<T> {
    type Output = Result<Outcome<T>, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|joined| joined.unwrap_or_else(|error| Err(RunError::ended("the drive of the run".to_owned(), error))))
    }
}
