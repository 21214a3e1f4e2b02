//! Reading a thread from a number on: what its journals have, then what happens, over all its drives in this process.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures::Stream;

use super::Thread;
use crate::{
    CheckpointId, RunError,
    checkpoint::BoxFuture,
    id::{RunNo, Seq},
    journal::Record,
    storage,
    stream::{Begin, EventNo, Item, Line, Position, StreamEvent, StreamModes, events_of},
};

/// How many records are read from a journal at a time.
const PAGE: u32 = 256;

impl Thread {
    /// Reads the thread: what was recorded after a number, then what happens, over all runs of the thread that are
    /// driven in this process, by whomever. Without a gap and without repetition: a reader that breaks off comes back
    /// with the number of its last event, in any process. `None`: from the beginning of the current or last run;
    /// [`EventNo::BEGINNING`]: from that of the thread's first run.
    ///
    /// What is recorded comes again to whoever comes back: updates, questions, ends, retries, checkpoints, what
    /// entrypoints [`emit`](crate::emit). The beginning of tasks and what their bodies emit is told live only.
    ///
    /// A watch begins when it is asked for, and reads when it is polled. What is recorded while nobody drives the thread,
    /// by an [`update`](Self::update), a [`fork`](Self::fork) or a [`cancel`](Self::cancel), is told with its next drive here. A fork is a run of
    /// its own, and what it took over is told as recorded in it.
    ///
    /// It does not end by itself, not with the end of a run either, since another drive may follow: stop at a
    /// [`Stopped`](crate::Streamed::Stopped), or use [`until_rest`](Watch::until_rest). While it lives, the runtime does.
    ///
    /// ```
    /// use durably::{Runtime, StreamMode, Streamed, entrypoint, task};
    ///
    /// #[task]
    /// async fn double(n: u32) -> u32 { n * 2 }
    ///
    /// #[entrypoint]
    /// async fn sums(n: u32) -> u32 { double(double(n).await).await }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// let mut run = thread.invoke(sums(3)).stream(StreamMode::Updates);
    /// let first = run.next().await.ok_or("an event")?; // double 6, and this reader is gone
    /// run.outcome().await?;
    ///
    /// let mut rest = thread.watch(StreamMode::Updates, first.number).until_rest();
    /// let mut told = Vec::new();
    /// while let Some(event) = rest.next().await {
    ///     if let Streamed::Update { name, value, .. } = event?.what {
    ///         told.push(format!("{name} {value}"));
    ///     }
    /// }
    /// assert_eq!(told, ["double 12", "sums 12"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Instead of an event, once, at the stream's end: [`RunError::Checkpoint`] if the store cannot be read,
    /// [`RunError::Corrupt`] if a journal is damaged, [`RunError::NoSuchEvent`] if the thread has no such number,
    /// [`RunError::Pruned`] if what it is of was pruned.
    pub fn watch(&self, modes: impl Into<StreamModes>, after: impl Into<Option<EventNo>>) -> Watch {
        let modes = modes.into();
        let inner = &self.runtime.inner;
        let line = Arc::new(Line::new(modes, inner.environment.stream_buffer, true));
        // In this order: a run that does not find the line now is found by it.
        inner.environment.watchers.add(&self.id, &line);
        if let Some(run) = inner.driven(&self.id) {
            run.join(&line);
        }
        let until_rest = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            thread: self.clone(),
            line,
            modes,
            after: after.into(),
            position: Position(EventNo::BEGINNING),
            is_placed: false,
            ready: VecDeque::new(),
            pages: None,
            until_rest: until_rest.clone(),
        };
        Watch { state: State::Idle(Box::new(reader)), until_rest }
    }
}

/// The events of a thread: see [`Thread::watch`]. A [`Stream`].
#[must_use = "a watch reads only when it is polled"]
pub struct Watch {
    state: State,
    until_rest: Arc<AtomicBool>,
}

type Read = (Box<Reader>, Option<Result<StreamEvent, RunError>>);

enum State {
    Idle(Box<Reader>),
    Reading(BoxFuture<'static, Read>),
    Over,
}

impl Watch {
    /// Ends when all that is recorded was read and nobody drives the thread in this process.
    pub fn until_rest(self) -> Self {
        self.until_rest.store(true, Ordering::Release);
        self
    }

    /// The next event.
    ///
    /// # Errors
    ///
    /// As [`Thread::watch`] says; nothing comes after an error.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, RunError>> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<StreamEvent, RunError>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Idle(mut reader) => {
                    self.state = State::Reading(Box::pin(async move {
                        let event = reader.next().await.transpose();
                        (reader, event)
                    }));
                }
                State::Reading(mut reading) => {
                    let Poll::Ready((reader, event)) = reading.as_mut().poll(cx) else {
                        self.state = State::Reading(reading);
                        return Poll::Pending;
                    };
                    if let Some(Ok(_)) = event {
                        self.state = State::Idle(reader);
                    }
                    return Poll::Ready(event);
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for Watch {
    type Item = Result<StreamEvent, RunError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Who reads a thread, and how far it has come.
struct Reader {
    thread: Thread,
    line: Arc<Line>,
    modes: StreamModes,
    after: Option<EventNo>,
    position: Position,
    /// Whether it is known where to begin.
    is_placed: bool,
    /// What was read from a journal and not handed on.
    ready: VecDeque<StreamEvent>,
    /// What is still to be read from journals.
    pages: Option<Pages>,
    until_rest: Arc<AtomicBool>,
}

/// A journal that is being read.
#[derive(Debug)]
struct Pages {
    run: RunNo,
    /// The entrypoint of that run, once it is known.
    entrypoint: Option<String>,
    next: u32,
    /// The run and the number of its records to read up to; all that there are, if they are fewer.
    end: (RunNo, u32),
}

impl Reader {
    async fn next(&mut self) -> Result<Option<StreamEvent>, RunError> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if let Some(event) = self.position.take(event) {
                    return Ok(Some(event));
                }
            }
            if self.pages.is_some() {
                self.read_page().await?;
                continue;
            }
            if !self.is_placed {
                self.place().await?;
                continue;
            }
            match self.next_item().await {
                None => return Ok(None),
                Some(Item::Event(event)) => self.ready.push_back(event),
                Some(Item::Begin(Begin { run, records, mut durable, told })) => {
                    self.position.skip_to(told);
                    // If the drive is over before that, the journal has all that there is.
                    let _ = durable.wait_for(|durable| *durable >= records).await;
                    self.read_up_to((run, records));
                }
            }
        }
    }

    /// Finds where to begin.
    async fn place(&mut self) -> Result<(), RunError> {
        let checkpointer = self.thread.runtime.checkpointer();
        let head = storage::head(checkpointer, &self.thread.id).await?.map(|(head, _)| head);
        self.position = Position(match (self.after, &head) {
            (Some(after), _) => self.known(after).await?,
            // There may have been more runs since it was asked to watch.
            (None, Some(head)) => {
                let first = self.line.first_begin().map_or(head.run, |(run, _)| run.min(head.run));
                EventNo::after(first, 0)
            }
            (None, None) => EventNo::BEGINNING,
        });
        self.is_placed = true;
        if let Some(head) = head {
            if self.position.0 <= EventNo::BEGINNING {
                let oldest = storage::oldest(checkpointer, &self.thread.id).await?.run;
                self.position.skip_to(EventNo::after(oldest, 0));
            }
            self.read_up_to((head.run, u32::MAX));
        }
        Ok(())
    }

    /// A number that the thread's journals have: then they have all that was recorded after it.
    async fn known(&self, after: EventNo) -> Result<EventNo, RunError> {
        if after <= EventNo::BEGINNING {
            return Ok(after);
        }
        let checkpointer = self.thread.runtime.checkpointer();
        self.check_pruned(after.run(), after.seq()).await?;
        match storage::load_record(checkpointer, &self.thread.id, after.run(), after.seq()).await? {
            Some(_) => Ok(after),
            None => Err(RunError::NoSuchEvent { thread: self.thread.id.clone(), number: after }),
        }
    }

    /// Refuses to go on in a run that was pruned: what was told in it is not there any more.
    async fn check_pruned(&self, run: RunNo, seq: Seq) -> Result<(), RunError> {
        let oldest = storage::oldest(self.thread.runtime.checkpointer(), &self.thread.id).await?.run;
        if run >= oldest {
            return Ok(());
        }
        Err(RunError::Pruned { thread: self.thread.id.clone(), checkpoint: CheckpointId { run, seq } })
    }

    /// Reads journals from where the reader is up to this many records of a run.
    fn read_up_to(&mut self, end: (RunNo, u32)) {
        let at = self.position.0;
        if EventNo::after(end.0, end.1) > at {
            let beginning = at.seq() == Seq(u32::MAX);
            let (run, next) = if beginning { (at.run().get() + 1, 0) } else { (at.run().get(), at.seq().get()) };
            self.pages = Some(Pages { run: RunNo(run), entrypoint: None, next, end });
        }
    }

    /// Reads some records.
    async fn read_page(&mut self) -> Result<(), RunError> {
        let Some(pages) = &self.pages else { return Ok(()) };
        let (checkpointer, thread) = (self.thread.runtime.checkpointer(), &self.thread.id);
        let wanted = pages.next.saturating_add(PAGE).min(pages.records());
        let (run, next) = (pages.run, pages.next);
        let read = match wanted.checked_sub(1).filter(|last| *last >= next) {
            Some(last) => storage::load_records(checkpointer, thread, run, (next, last)).await,
            None => Ok(Vec::new()),
        };
        let is_whole = read.as_ref().is_ok_and(|page| page.len() == wanted.saturating_sub(next) as usize);
        if !is_whole {
            self.check_pruned(run, Seq(next)).await?;
        }
        let mut page = read?;
        let Some(pages) = &mut self.pages else { return Ok(()) };
        // What a drive has recorded since it is told of comes through the line, in its place among all else.
        pages.end = self.line.first_begin().map_or(pages.end, |begin| begin.min(pages.end));
        page.retain(|(seq, _)| seq.get() < pages.records());
        if pages.entrypoint.is_none() && !page.is_empty() {
            let start = storage::load_record(checkpointer, thread, pages.run, Seq(0)).await?;
            pages.entrypoint = match start {
                Some(Record::Start(start)) => Some(start.entrypoint),
                _ => Some(String::new()),
            };
        }
        let entrypoint = pages.entrypoint.as_deref().unwrap_or_default();
        for (seq, record) in &page {
            events_of(self.modes, (pages.run, *seq, entrypoint), record, |event| self.ready.push_back(event));
        }
        pages.next = pages.next.saturating_add(u32::try_from(page.len()).unwrap_or(PAGE));
        if !is_whole || pages.next >= pages.records() {
            let Pages { run, next, end, .. } = *pages;
            self.pages = (run < end.0).then(|| Pages { run: RunNo(run.get() + 1), entrypoint: None, next: 0, end });
            if self.ready.is_empty() {
                self.position.skip_to(EventNo::after(run, next));
            }
        }
        Ok(())
    }

    /// What the line has next; `None`: nothing will come, as far as is known.
    async fn next_item(&self) -> Option<Item> {
        let (checkpointer, thread) = (self.thread.runtime.checkpointer(), &self.thread.id);
        let mut released = None;
        poll_fn(|cx| {
            loop {
                let until_rest = self.until_rest.load(Ordering::Acquire);
                // Asked first: before the lease is given back, the line has all of the drive.
                let is_driven = until_rest && checkpointer.is_leased(thread);
                match self.line.poll_next(cx) {
                    Poll::Ready(item) => return Poll::Ready(item),
                    Poll::Pending if !until_rest => return Poll::Pending,
                    Poll::Pending if !is_driven => return Poll::Ready(None),
                    Poll::Pending => {}
                }
                match released.get_or_insert_with(|| checkpointer.released(thread)).as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => released = None,
                }
            }
        })
        .await
    }
}

impl Pages {
    /// How many records are to be read of the run that is being read.
    fn records(&self) -> u32 {
        if self.run == self.end.0 { self.end.1 } else { u32::MAX }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.thread.runtime.inner.environment.watchers.remove(&self.thread.id, &self.line);
    }
}
