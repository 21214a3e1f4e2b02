//! One run as all its parts share it: the journal, who is to be woken, what is alive, what is on its way to the store.

use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::task::AtomicWaker;
use tokio::task::JoinHandle;

use super::{
    Polls, Signal,
    cleaning::{CleanUps, Held, Working},
    feed::Feed,
    liveness::Liveness,
    outbox::Outbox,
    questions::Questions,
};
use crate::{
    CheckpointError, RunError, ThreadId,
    checkpoint::{BoxFuture, Checkpointer, Lease},
    environment::{CallView, Environment, Event, RunView},
    id::{CallId, RunNo},
    journal::{Frame, Journal, Slot, Start, Why},
    output::Recorded,
    storage::Answer,
    value::Payload,
};

/// When a recorded outcome may be handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// When it is on disk.
    Sync,
    /// At once; it is written in the background, in order.
    Async,
    /// At once; it is written when the run ends or pauses.
    Exit,
}

/// One drive of a run in this process.
pub(crate) struct Run {
    pub(crate) environment: Arc<Environment>,
    pub(crate) thread: ThreadId,
    pub(crate) no: RunNo,
    pub(crate) entrypoint: String,
    pub(crate) mode: Mode,
    /// Whoever drives the run.
    pub(crate) driver: AtomicWaker,
    /// The polls of its entrypoint.
    pub(crate) polls: Arc<Polls>,
    pub(super) epoch: u64,
    /// When the run has to have come to its end, and how long it was allowed to take, in milliseconds.
    pub(crate) deadline: Option<(u64, u64)>,
    /// The bodies that hold the lease.
    working: Arc<Working>,
    state: Mutex<State>,
}

/// What changes while a run is driven. Locked for a few lines at a time, never across an await or a user's code.
pub(super) struct State {
    pub(super) journal: Journal,
    pub(super) liveness: Liveness,
    pub(super) signals: Vec<Arc<Signal>>,
    pub(super) stop: Option<Stop>,
    /// The run's own code has asked to go on as a new run with this input: it is over, as if it had returned.
    pub(super) next: Option<(Payload, [u8; 32])>,
    /// Answers that have arrived and are not yet outcomes.
    pub(super) answers: HashMap<CallId, Answer>,
    /// The open questions, as the inbox has them.
    pub(super) questions: Questions,
    /// Why the newest answer to a question was not taken.
    pub(super) refused: HashMap<CallId, String>,
    pub(super) outbox: Outbox,
    /// Who reads the run, since somebody does.
    pub(super) feed: Option<Feed>,
    /// How the drive ended, once it did.
    pub(super) parted: Option<String>,
    /// Detached bodies whose code is gone and that may not start yet.
    pub(super) later: Vec<(Slot, BoxFuture<'static, ()>)>,
    /// Bodies on the pool, to be ended with the run.
    pub(super) spawned: Vec<(Slot, JoinHandle<()>)>,
    /// The lease, while the run is driven.
    pub(super) hold: Option<Arc<Hold>>,
    /// What the run's code has left to be done at its end.
    pub(super) clean_ups: CleanUps,
    /// Why the run is to be stopped, until that is recorded.
    pub(super) wanted: Option<Why>,
    /// Whether the run pauses.
    pub(super) halted: bool,
    /// Whether a body was held back since the runtime drains.
    pub(super) held_back: bool,
}

/// A lease that is given back when nothing of the run is left.
#[derive(Debug)]
pub(crate) struct Hold {
    checkpointer: Arc<dyn Checkpointer>,
    pub(crate) lease: Lease,
}

impl Hold {
    pub(crate) fn new(checkpointer: Arc<dyn Checkpointer>, lease: Lease) -> Arc<Self> {
        Arc::new(Self { checkpointer, lease })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.checkpointer.release(&self.lease);
    }
}

/// Why a run does not go on.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// It cannot.
    Error(RunError),
    /// Its driver is gone.
    Gone,
}

/// What a call's future does when it is polled.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing yet.
    Wait,
    /// Poll the body.
    Work,
    /// Hand this on.
    Release(Arc<Recorded>),
}

thread_local! {
    /// The run that is driven on this thread right now: it looks at what was appended by itself.
    static DRIVEN: Cell<usize> = const { Cell::new(0) };
}

/// Marks the run as driven on this thread for as long as it lives.
pub(crate) struct Driving(usize);

impl Driving {
    pub(crate) fn new(run: &Arc<Run>) -> Self {
        Self(DRIVEN.replace(Arc::as_ptr(run).addr()))
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVEN.set(self.0);
    }
}

impl Run {
    pub(crate) fn new(
        environment: Arc<Environment>,
        hold: &Arc<Hold>,
        no: RunNo,
        (start, deadline): (&Start, Option<(u64, u64)>),
        mode: Mode,
        journal: Journal,
    ) -> Arc<Self> {
        let outbox = Outbox::after(journal.next_seq());
        Arc::new(Self {
            environment,
            thread: hold.lease.thread.clone(),
            no,
            entrypoint: start.entrypoint.clone(),
            mode,
            driver: AtomicWaker::new(),
            polls: Arc::default(),
            epoch: hold.lease.epoch,
            deadline,
            working: Arc::default(),
            state: Mutex::new(State {
                journal,
                liveness: Liveness::default(),
                signals: vec![Arc::default()],
                stop: None,
                next: None,
                answers: HashMap::new(),
                questions: Questions::default(),
                refused: HashMap::new(),
                outbox,
                feed: None,
                parted: None,
                later: Vec::new(),
                spawned: Vec::new(),
                hold: Some(hold.clone()),
                clean_ups: CleanUps::default(),
                wanted: None,
                halted: false,
                held_back: false,
            }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // What the lock guards is whole between any two statements; a panic of an observer must not spread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view(&self) -> RunView<'_> {
        RunView { thread: &self.thread, run: self.no, entrypoint: &self.entrypoint }
    }

    /// Tells observers of a call, and of a text that goes with it; nothing is looked up if there are none.
    pub(super) fn observe(
        &self,
        slot: Slot,
        event: impl for<'a> FnOnce(CallView<'a>, &'a str) -> Event<'a>,
        text: &str,
    ) {
        if self.environment.observers.is_empty() {
            return;
        }
        let view = {
            let state = self.lock();
            let Some(call) = state.journal.call(slot) else { return };
            (call.id, call.kind, call.name.clone(), call.arguments.clone())
        };
        let (id, kind, name, arguments) = &view;
        let call = CallView { run: self.view(), id: *id, kind: *kind, name, arguments };
        self.environment.observe(|| event(call, text));
    }

    /// Has the driver look at the run, unless it is the one that runs now.
    pub(super) fn nudge(self: &Arc<Self>) {
        if DRIVEN.get() != Arc::as_ptr(self).addr() {
            self.driver.wake();
        }
    }

    /// Stops the run; the first reason counts.
    pub(crate) fn stop(self: &Arc<Self>, stop: Stop) {
        self.lock().stop.get_or_insert(stop);
        self.nudge();
    }

    pub(crate) fn fail(self: &Arc<Self>, error: RunError) {
        self.stop(Stop::Error(error));
    }

    /// The run pauses: what is dropped from now on is dropped by us, and not by the code.
    pub(crate) fn halt(&self) {
        self.lock().halted = true;
    }

    /// The drive is stopped as a crash would stop it, but for what is recorded: that is kept.
    pub(crate) fn cut_off(self: &Arc<Self>) {
        let what = format!("the drive of thread {}, whose bodies did not end within the drain's time,", self.thread);
        self.fail(RunError::Aborted { what });
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.lock().stop.clone()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stop.is_some()
    }

    /// The run's own code asks to go on as a new run with this input; the first one counts.
    pub(crate) fn go_on_as_new(&self, input: &Payload, digest: [u8; 32]) {
        self.lock().next.get_or_insert_with(|| (input.clone(), digest));
    }

    /// What the run is to go on as a new run with, if it is.
    pub(crate) fn next_input(&self) -> Option<(Payload, [u8; 32])> {
        let state = self.lock();
        state.next.clone().filter(|_| !state.journal.is_ending())
    }

    /// Whether the entrypoint is not to be polled any more.
    pub(crate) fn is_over(&self, frame: Frame) -> bool {
        let state = self.lock();
        state.stop.is_some() || (frame == Frame::ROOT && state.next.is_some())
    }

    /// The run's hold on its thread, for a body that may outlive its drive.
    pub(crate) fn hold(&self) -> Option<Held> {
        let hold = self.lock().hold.clone()?;
        Some(Held::new(hold, &self.working))
    }

    /// Waits until no body holds the lease any more.
    pub(crate) async fn bodies_ended(&self) {
        self.working.idle().await;
    }

    /// Ends the drive: nothing of it has an effect on the run any more. Bodies on the pool keep the thread until they end.
    pub(crate) fn close(self: &Arc<Self>) {
        let (spawned, later, clean_ups, hold, how) = {
            let mut state = self.lock();
            let state = &mut *state;
            state.stop.get_or_insert(Stop::Gone);
            state.liveness.leading.drain(..).for_each(|(_, lead)| lead.give_up());
            let how = state.parted.take().unwrap_or_else(|| "cut off".to_owned());
            let (spawned, later) = (std::mem::take(&mut state.spawned), std::mem::take(&mut state.later));
            (spawned, later, std::mem::take(&mut state.clean_ups), state.hold.take(), how)
        };
        // Before the thread is given back: whoever drives it next has readers that know that this is over.
        self.part(Some(&how));
        drop(hold);
        // What they hold leads back to the run.
        drop((later, clean_ups));
        for (_, handle) in spawned {
            handle.abort();
        }
    }

    /// Changes the journal by a record of the run as a whole.
    pub(crate) fn with_journal<T>(&self, change: impl FnOnce(&mut Journal) -> T) -> T {
        change(&mut self.lock().journal)
    }
}

impl State {
    pub(super) fn end_activity(&mut self, slot: Slot) {
        self.liveness.end(&self.journal, slot);
    }
}

impl From<CheckpointError> for Stop {
    fn from(error: CheckpointError) -> Self {
        Self::Error(error.into())
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("thread", &self.thread).field("run", &self.no).finish_non_exhaustive()
    }
}
