//! One run as all its parts share it: the journal, who is to be woken, what is alive, what is on its way to the store.

use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    task::Waker,
};

use futures::task::AtomicWaker;
use tokio::task::JoinHandle;

use super::{Polls, Signal, liveness::Liveness, outbox::Outbox, wake_for_release};
use crate::{
    CheckpointError, RunError, ThreadId,
    checkpoint::{BoxFuture, Checkpointer, Lease},
    environment::{CallView, Environment, Event, RunView, recall},
    id::{CallId, RunNo},
    journal::{
        Call, CallKind, ClaimError, Definition, Frame, Journal, NewCall, Next, Order, Scope, Slot, Stage, Start, Waited,
    },
    output::Recorded,
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
    state: Mutex<State>,
}

/// What changes while a run is driven. Locked for a few lines at a time, never across an await or a user's code.
pub(super) struct State {
    pub(super) journal: Journal,
    pub(super) liveness: Liveness,
    pub(super) signals: Vec<Arc<Signal>>,
    pub(super) stop: Option<Stop>,
    /// The run's own code has asked to go on as a new run with this input: it is over, as if it had returned.
    next: Option<(Payload, [u8; 32])>,
    /// Answers that have arrived and are not yet outcomes.
    pub(super) answers: HashMap<CallId, Payload>,
    /// Why the newest answer to a question was not taken.
    pub(super) refused: HashMap<CallId, String>,
    pub(super) outbox: Outbox,
    /// Detached bodies whose code is gone and that may not start yet.
    pub(super) later: Vec<(Slot, BoxFuture<'static, ()>)>,
    /// Bodies on the pool, to be ended with the run.
    pub(super) spawned: Vec<(Slot, JoinHandle<()>)>,
    /// The lease, while the run is driven.
    hold: Option<Arc<Hold>>,
    /// Whether the run pauses.
    halted: bool,
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
        start: &Start,
        mode: Mode,
        journal: Journal,
    ) -> Arc<Self> {
        Arc::new(Self {
            environment,
            thread: hold.lease.thread.clone(),
            no,
            entrypoint: start.entrypoint.clone(),
            mode,
            driver: AtomicWaker::new(),
            polls: Arc::default(),
            epoch: hold.lease.epoch,
            state: Mutex::new(State {
                journal,
                liveness: Liveness::default(),
                signals: vec![Arc::default()],
                stop: None,
                next: None,
                answers: HashMap::new(),
                refused: HashMap::new(),
                outbox: Outbox::default(),
                later: Vec::new(),
                spawned: Vec::new(),
                hold: Some(hold.clone()),
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
        self.lock().next.clone()
    }

    /// Whether the entrypoint is not to be polled any more.
    pub(crate) fn is_over(&self, frame: Frame) -> bool {
        let state = self.lock();
        state.stop.is_some() || (frame == Frame::ROOT && state.next.is_some())
    }

    // ---- calls ----

    /// Claims a call in a scope; `None` if the run is stopped by it.
    pub(crate) fn claim(self: &Arc<Self>, scope: &Scope, new: NewCall) -> Option<Slot> {
        let mut state = self.lock();
        if state.stop.is_some() || (state.next.is_some() && scope.owner.is_none()) {
            return None;
        }
        let claimed = state.journal.claim(scope, new);
        match claimed {
            Ok(slot) => {
                state.liveness.claimed(slot);
                Some(slot)
            }
            Err(error) => {
                if error == ClaimError::Stale {
                    // What it stands in would wait for good, and the run for it.
                    let owners = state.journal.owners(scope);
                    state.spawned.iter().filter(|(slot, _)| owners.contains(slot)).for_each(|(_, body)| body.abort());
                }
                drop(state);
                if let Some(error) = refusal(error) {
                    self.fail(error);
                }
                None
            }
        }
    }

    pub(crate) fn branch(&self, scope: &Scope, name: &str) -> Scope {
        self.lock().journal.branch(scope, name)
    }

    pub(crate) fn leave_branch(&self, parent: &Scope, branch: &Scope) {
        self.lock().journal.leave_branch(parent, branch);
    }

    /// Whether the journal has the call's outcome, so that no body is needed.
    pub(crate) fn is_recorded(&self, slot: Slot) -> bool {
        self.lock().journal.call(slot).is_some_and(|call| call.replayed)
    }

    pub(crate) fn call_id(&self, slot: Slot) -> Option<CallId> {
        Some(self.lock().journal.call(slot)?.id)
    }

    /// The call's future is polled: what it is to do, and whom to wake later.
    pub(crate) fn step(&self, slot: Slot, waker: &Waker) -> Step {
        let mut state = self.lock();
        let state = &mut *state;
        if state.stop.is_some() {
            return Step::Wait;
        }
        let Some(call) = state.journal.call(slot) else { return Step::Wait };
        if state.next.is_some() && call.scope.owner.is_none() && !call.dropped {
            return Step::Wait;
        }
        match call.stage {
            Stage::Released(_) => {
                let recorded = state.journal.take(slot).expect("it is released");
                return Step::Release(recorded);
            }
            Stage::Taken => return Step::Wait,
            Stage::Waiting | Stage::Ready | Stage::Working | Stage::Finished => {}
        }
        let activity = state.liveness.polled(slot, waker);
        let work = match call.stage {
            Stage::Ready if !activity.begun => {
                if call.kind != CallKind::Interrupt
                    && self.environment.draining.load(Ordering::Acquire)
                    && !state.journal.is_in_a_body(call.scope)
                {
                    state.held_back = true;
                    false
                } else if is_foreign(&state.signals, call) {
                    false
                } else {
                    // A nested entrypoint is as alive as what is in it.
                    activity.begun = call.kind != CallKind::Entrypoint;
                    true
                }
            }
            Stage::Ready | Stage::Working | Stage::Finished => true,
            _ => false,
        };
        state.liveness.recount(slot);
        if work { Step::Work } else { Step::Wait }
    }

    /// The entrypoint that a call stands in directly, to be told of its body's wakes; `None` in a task's body.
    pub(crate) fn signal_of(&self, slot: Slot) -> Option<Arc<Signal>> {
        let state = self.lock();
        match state.journal.call(slot)?.scope.order {
            Order::Released(frame) => Some(state.signals[frame.index()].clone()),
            Order::AtOnce => None,
        }
    }

    /// The call's future is gone.
    pub(crate) fn drop_call(self: &Arc<Self>, slot: Slot, detached: bool) {
        let mut state = self.lock();
        if state.journal.call(slot).is_none() {
            return;
        }
        let counted = !detached && state.liveness.is_begun(slot);
        if !detached {
            // Dropped by the code itself, and not by a pause: nobody is to answer it any more.
            if state.stop.is_none() && !state.halted && state.liveness.asks(slot) {
                state.journal.wait(slot, Waited::Withdrawn, self.environment.now_ms());
            }
            state.end_activity(slot);
        }
        state.journal.drop_call(slot, detached);
        drop(state);
        if counted {
            // It may have been the last thing that was alive, and on the pool nobody else would have the driver look.
            self.nudge();
        }
    }

    pub(crate) fn body_scope(&self, slot: Slot) -> Option<Scope> {
        self.lock().journal.body_scope(slot)
    }

    /// Enters a nested entrypoint whose body starts.
    pub(crate) fn enter_nested(&self, slot: Slot) -> Option<(Frame, Scope, Arc<Signal>)> {
        let mut state = self.lock();
        let (frame, scope) = state.journal.enter_nested(slot)?;
        let signal = Arc::<Signal>::default();
        state.signals.push(signal.clone());
        Some((frame, scope, signal))
    }

    pub(crate) fn root_signal(&self) -> Arc<Signal> {
        self.lock().signals[0].clone()
    }

    /// Notes what a body left.
    pub(crate) fn finish(self: &Arc<Self>, slot: Slot, recorded: Recorded, took_ms: u32) {
        {
            let mut state = self.lock();
            if state.stop.is_some() {
                return;
            }
            state.end_activity(slot);
            let now = self.environment.now_ms();
            state.journal.finish(slot, recorded, now, took_ms);
        }
        self.nudge();
    }

    /// Answers a call without a record, which only replay needs.
    pub(crate) fn answer_unrecorded(&self, slot: Slot, recorded: Recorded) {
        self.lock().journal.answer_unrecorded(slot, recorded);
    }

    /// Whether the call waits for replay to end and has no record.
    pub(crate) fn waits_for_replay(&self, slot: Slot) -> bool {
        let state = self.lock();
        state.journal.call(slot).is_some_and(|call| {
            matches!(call.stage, Stage::Waiting)
                && !call.replayed
                && matches!(call.scope.order, Order::Released(frame) if state.journal.is_replaying(frame))
        })
    }

    // ---- driving ----

    /// Gives the settled entrypoint what is next for it, and wakes whoever that is for; whether to poll it again.
    /// Bodies that are polled in place and were woken are added to `nudged`.
    pub(crate) fn advance(self: &Arc<Self>, frame: Frame, signal: &Signal, nudged: &mut Vec<Slot>) -> bool {
        let (wakers, released, ready) = {
            let mut state = self.lock();
            let state = &mut *state;
            if state.stop.is_some() {
                return false;
            }
            match state.journal.next(frame) {
                Next::Release { slot, replayed } => {
                    let waker = state.liveness.of(slot).waker.take();
                    (waker.into_iter().collect(), Some((slot, replayed)), Vec::new())
                }
                Next::Wake(slot) => {
                    let waker = state.liveness.of(slot).waker.clone();
                    (waker.into_iter().collect(), None, Vec::new())
                }
                Next::Live(ready) => {
                    let mut wakers = Vec::with_capacity(ready.len());
                    for slot in &ready {
                        // Whoever made a call that is detached is not to be woken for it.
                        if state.journal.call(*slot).is_some_and(|call| !call.dropped) {
                            wakers.extend(state.liveness.nudge(*slot, nudged));
                        }
                    }
                    (wakers, None, if state.later.is_empty() { Vec::new() } else { ready })
                }
                Next::Diverged(divergence) => {
                    state.stop = Some(Stop::Error(RunError::Nondeterminism(divergence)));
                    return false;
                }
                Next::Nothing => {
                    // Bodies that are polled in place are woken through the code that holds them.
                    let woken = signal.take_bodies();
                    if woken.is_empty() {
                        return false;
                    }
                    let mut wakers = Vec::with_capacity(woken.len());
                    for slot in woken {
                        if state.journal.call(slot).is_some() {
                            wakers.extend(state.liveness.nudge(slot, nudged));
                        }
                    }
                    (wakers, None, Vec::new())
                }
            }
        };
        self.start_detached(&ready);
        if let Some((slot, replayed)) = released {
            self.observe_release(slot, replayed);
        }
        for waker in &wakers {
            wake_for_release(waker);
        }
        true
    }

    pub(super) fn observe_release(&self, slot: Slot, replayed: bool) {
        if self.environment.observers.is_empty() {
            return;
        }
        let seen = {
            let state = self.lock();
            let Some(call) = state.journal.call(slot) else { return };
            let Stage::Released(recorded) = &call.stage else { return };
            (call.id, call.kind, call.name.clone(), call.arguments.clone(), recorded.clone())
        };
        let (id, kind, name, arguments, recorded) = &seen;
        let call = CallView { run: self.view(), id: *id, kind: *kind, name, arguments };
        self.environment.observe(|| Event::Released { call, replayed, value: recall(recorded) });
    }

    /// After the entrypoint settled: calls that were woken and not polled are read by nobody. That is recorded, since
    /// what holds them may read what was woken first, first.
    pub(crate) fn note_unread(self: &Arc<Self>, woken: &[Slot]) {
        let mut noted = false;
        {
            let mut state = self.lock();
            for slot in woken {
                if state.journal.call(*slot).is_some() && state.liveness.settled(*slot) {
                    state.journal.unread(*slot);
                    noted = true;
                }
            }
        }
        if noted {
            self.nudge();
        }
    }

    /// Ends an entrypoint's order: whether all that is left belongs to calls that were made.
    pub(crate) fn leave(self: &Arc<Self>, frame: Frame) -> bool {
        let left = self.lock().journal.leave(frame);
        match left {
            Ok(ready) => {
                self.start_detached(&ready);
                true
            }
            Err(divergence) => {
                self.fail(RunError::Nondeterminism(divergence));
                false
            }
        }
    }

    pub(crate) fn abandon(&self, frame: Frame) {
        self.lock().journal.abandon(frame);
    }

    /// The run's hold on its thread, for a body that may outlive its drive.
    pub(crate) fn hold(&self) -> Option<Arc<Hold>> {
        self.lock().hold.clone()
    }

    /// Ends the drive: nothing of it has an effect on the run any more. Bodies on the pool keep the thread until they end.
    pub(crate) fn close(self: &Arc<Self>) {
        let (spawned, later) = {
            let mut state = self.lock();
            state.stop.get_or_insert(Stop::Gone);
            state.hold = None;
            (std::mem::take(&mut state.spawned), std::mem::take(&mut state.later))
        };
        // What they hold leads back to the run.
        drop(later);
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

/// Whether the entrypoint that the call stands in was woken by something foreign: nothing new starts then.
fn is_foreign(signals: &[Arc<Signal>], call: &Call) -> bool {
    match call.scope.order {
        Order::Released(frame) => signals[frame.index()].is_foreign(),
        Order::AtOnce => false,
    }
}

/// A refused claim as what its caller is told; `None`: nothing, the call stays pending.
fn refusal(error: ClaimError) -> Option<RunError> {
    let place = |definition: Definition| format!("{} ({}:{})", definition.module, definition.file, definition.line);
    match error {
        ClaimError::Stale => None,
        ClaimError::TwoDefinitions { kind, name, first, second } => {
            Some(RunError::TwoDefinitions { kind, name, first: place(first), second: place(second) })
        }
        ClaimError::Collision(pair) => {
            let (recorded, called) = *pair;
            Some(RunError::Collision { recorded: Box::new(recorded), called: Box::new(called) })
        }
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
