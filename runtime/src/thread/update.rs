//! Changing a thread without running anything: setting what it has saved, storing an input, giving a run up.

use std::{collections::BTreeMap, fmt, future::IntoFuture};

use super::{
    Thread,
    ground::{GivesUp, Ground},
    invoke::check_entrypoint,
    saved::unwritable,
};
use crate::{
    CheckpointId, Definition, EntrypointCall, EntrypointFn, RunError, Status, ValueError,
    checkpoint::BoxFuture,
    entrypoint::record_input,
    environment::length_ms,
    id::{RunNo, Seq},
    journal::{self, End, Ended, Record, Start},
    storage::{self, Head},
    value::Payload,
};

/// A saved value to be set; await it.
#[must_use = "a value is set only when this is awaited"]
pub struct Update<D: Definition> {
    thread: Thread,
    value: Result<Payload, ValueError>,
    output: Option<Result<Payload, ValueError>>,
    gives_up: GivesUp,
    wait: bool,
    definition: std::marker::PhantomData<fn() -> D>,
}

/// An input to be stored; await it.
#[must_use = "an input is stored only when this is awaited"]
pub struct Stage<D: Definition> {
    thread: Thread,
    input: Option<D::Input>,
    tags: BTreeMap<String, String>,
    gives_up: GivesUp,
    wait: bool,
}

impl Thread {
    /// Sets what the thread has saved: the next run of this entrypoint gets it as `previous`, and a
    /// [`resume`](Self::resume) gives it as the output. A run that pauses is given up for it, with its open questions; one
    /// that was cut off, failed or is stuck only if [asked for](Update::discard_unfinished).
    ///
    /// It is recorded as a run of its own, which the history shows. Nothing runs.
    ///
    /// ```
    /// use durably::{Runtime, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn add(n: i64, #[previous] sum: Option<i64>) -> i64 { sum.unwrap_or(0) + n }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// thread.update(add, 5).await?;
    /// assert_eq!(thread.invoke(add(2)).await?.completed(), Some(7));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update<A, F>(&self, _entrypoint: F, value: <F::Definition as Definition>::Save) -> Update<F::Definition>
    where
        F: EntrypointFn<A>,
        <F::Definition as Definition>::Save: serde::Serialize,
    {
        Update {
            thread: self.clone(),
            value: Payload::encode(&value),
            output: None,
            gives_up: GivesUp::Paused,
            wait: false,
            definition: std::marker::PhantomData,
        }
    }

    /// Stores a run's input without running it: [`resume`](Self::resume) does. The thread is `Drained` until then.
    ///
    /// ```
    /// use durably::{Runtime, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn greet(name: String) -> String { format!("Hello, {name}") }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// thread.stage(greet("Ada".to_owned())).await?;
    /// assert_eq!(thread.resume(greet).await?.completed().as_deref(), Some("Hello, Ada"));
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stage<D: Definition>(&self, call: EntrypointCall<D>) -> Stage<D> {
        let input = call.into_input();
        Stage { thread: self.clone(), input, tags: BTreeMap::new(), gives_up: GivesUp::Nothing, wait: false }
    }

    /// Gives up the thread's run, if it has one that has not ended, with its open questions: the thread is `Cancelled`.
    /// What it had saved stays, and its records stay in the history, where a fork can take it up again. Tells whether
    /// there was such a run.
    ///
    /// # Errors
    ///
    /// [`RunError::Busy`] while somebody runs the thread, [`RunError::Unfinished`] while a call is in doubt,
    /// [`RunError::Checkpoint`] if the store fails.
    pub async fn discard(&self) -> Result<bool, RunError> {
        let mut ground = Ground::take(self, false, GivesUp::Any).await?;
        let Some(head) = ground.head.clone().filter(|head| head.status.is_unfinished()) else { return Ok(false) };
        let at_ms = self.runtime.inner.environment.now_ms();
        if head.status == Status::Failed {
            // Its records end already; that it was given up after that is to be seen too.
            let checkpointer = self.runtime.checkpointer();
            let seq = Seq(storage::records_of(checkpointer, &self.id, head.run).await?);
            let record = Record::End(End { how: Ended::Discarded, at_ms });
            storage::record_changes(&self.id, head.run, seq, &record, &mut ground.changes)?;
        }
        storage::head_changes(&self.id, &head.with(Status::Cancelled, None, at_ms), &mut ground.changes)?;
        ground.commit(self, Vec::new()).await?;
        Ok(true)
    }
}

impl<D: Definition> Update<D> {
    /// What a resume gives, for an entrypoint whose output is another thing than what it saves
    /// ([`Final`](crate::Final)). Default: the saved value.
    pub fn output(mut self, output: D::Value) -> Self {
        self.output = Some(Payload::encode(&output));
        self
    }

    /// Gives up also a run that was cut off, failed or is stuck. Default: refused, with [`RunError::Unfinished`].
    pub fn discard_unfinished(mut self) -> Self {
        self.gives_up = GivesUp::Any;
        self
    }

    /// Waits while somebody runs the thread, instead of failing with [`RunError::Busy`].
    pub fn wait(mut self) -> Self {
        self.wait = true;
        self
    }

    async fn make(self) -> Result<CheckpointId, RunError> {
        let Self { thread, value, output, gives_up, wait, .. } = self;
        let error = |source| unwritable("the saved value", &thread.id, source);
        let value = value.map_err(error)?;
        let output = output.transpose().map_err(error)?;
        let mut ground = Ground::take(&thread, wait, gives_up).await?;
        let mut input = None;
        if let Some(head) = &ground.head {
            check_entrypoint::<D>(&thread, head)?;
            input = match storage::load_record(thread.runtime.checkpointer(), &thread.id, head.run, Seq(0)).await {
                Ok(Some(Record::Start(Start { input, digest, .. }))) => Some((input, digest)),
                Ok(Some(Record::Update(update))) => update.input,
                // A damaged run can be given up too.
                Ok(_) | Err(RunError::Corrupt { .. }) => None,
                Err(error) => return Err(error),
            };
        }
        let run = ground.next_run();
        let head = new_head::<D>(&thread, &ground, run);
        let head = Head { status: Status::Completed, saved: Some((run, Seq(0))), ..head };
        let record = Record::Update(journal::Update {
            entrypoint: head.entrypoint.clone(),
            version: head.version,
            value,
            output,
            input,
            taken: None,
            at_ms: head.updated_ms,
            tags: head.tags.clone(),
        });
        storage::record_changes(&thread.id, run, Seq(0), &record, &mut ground.changes)?;
        storage::head_changes(&thread.id, &head, &mut ground.changes)?;
        ground.commit(&thread, Vec::new()).await?;
        Ok(CheckpointId { run, seq: Seq(0) })
    }
}

impl<D: Definition> Stage<D> {
    /// Gives up the thread's run, if it has one that has not ended. Default: refused, with [`RunError::Unfinished`]. Not
    /// while a call is in doubt.
    pub fn discard_unfinished(mut self) -> Self {
        self.gives_up = GivesUp::Any;
        self
    }

    /// Waits while somebody runs the thread, instead of failing with [`RunError::Busy`].
    pub fn wait(mut self) -> Self {
        self.wait = true;
        self
    }

    /// Marks the thread, as [`Invoke::tag`](crate::Invoke::tag) does.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    async fn make(self) -> Result<CheckpointId, RunError> {
        let Self { thread, input, tags, gives_up, wait } = self;
        let input = input.ok_or_else(|| RunError::Stalled { entrypoint: D::SPEC.name.to_owned() })?;
        let (recorded, arguments) = record_input::<D>(&input)?;
        drop(input);
        let mut ground = Ground::take(&thread, wait, gives_up).await?;
        if let Some(head) = ground.head.as_ref().filter(|head| !head.status.is_unfinished()) {
            check_entrypoint::<D>(&thread, head)?;
        }
        let run = ground.next_run();
        let mut head = new_head::<D>(&thread, &ground, run);
        head.tags = storage::tagged(head.tags, tags)?;
        let record = Record::Start(Start {
            entrypoint: head.entrypoint.clone(),
            version: head.version,
            input: recorded,
            digest: arguments.digest(),
            previous: head.saved,
            at_ms: head.updated_ms,
            limit_ms: D::SPEC.timeout.map(length_ms),
            tags: head.tags.clone(),
            forked: None,
            max_concurrency: None,
        });
        storage::record_changes(&thread.id, run, Seq(0), &record, &mut ground.changes)?;
        storage::head_changes(&thread.id, &head, &mut ground.changes)?;
        ground.commit(&thread, Vec::new()).await?;
        Ok(CheckpointId { run, seq: Seq(0) })
    }
}

/// The head of a new run that nobody drives yet.
fn new_head<D: Definition>(thread: &Thread, ground: &Ground, run: RunNo) -> Head {
    let at_ms = thread.runtime.inner.environment.now_ms();
    let before = ground.head.as_ref();
    Head {
        status: Status::Drained,
        run,
        entrypoint: D::SPEC.name.to_owned(),
        version: D::SPEC.version,
        // What another entrypoint saved on the thread before its run was discarded is not this one's.
        saved: before.filter(|head| head.entrypoint == D::SPEC.name).and_then(|head| head.saved),
        created_ms: before.map_or(at_ms, |head| head.created_ms),
        updated_ms: at_ms,
        reason: None,
        due_ms: None,
        cleans_up: false,
        tags: before.map(|head| head.tags.clone()).unwrap_or_default(),
    }
}

macro_rules! made {
    ($($verb:ident)*) => {$(
        impl<D: Definition> IntoFuture for $verb<D> {
            type Output = Result<CheckpointId, RunError>;
            type IntoFuture = BoxFuture<'static, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.make())
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

made!(Update Stage);
