//! One run as all its parts share it: the journal, who is to be woken, what is alive, what is on its way to the store.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures::task::AtomicWaker;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Signal, wake_for_release};
use crate::{
    CheckpointError, RunError, ThreadId, ValueError,
    checkpoint::{BoxFuture, Change, Checkpointer, Commit, Expect, Lease, Ticket},
    environment::{CallView, Environment, Event, RunView, recall},
    id::{CallId, RunNo},
    journal::{
        Call, CallKind, ClaimError, Definition, Frame, Journal, NewCall, Next, Order, Scope, Slot, Stage, Then, Waited,
    },
    output::Recorded,
    storage,
    value::Payload,
};

/// The most commits of one run that may be on their way; above it, outcomes wait for the store in every mode.
const IN_FLIGHT: usize = 1024;

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
    epoch: u64,
    state: Mutex<State>,
}

/// What changes while a run is driven. Locked for a few lines at a time, never across an await or a user's code.
struct State {
    journal: Journal,
    activities: Vec<Activity>,
    signals: Vec<Arc<Signal>>,
    stop: Option<Stop>,
    /// How many bodies are alive: running, being polled, and not waiting for an answer.
    live: usize,
    /// Calls that were found to be read by nobody; some of them may be read again since.
    unread: Vec<Slot>,
    /// Calls that wait for the outside, in the order in which they began: open questions and parked sleeps.
    waits: BTreeMap<u64, (Slot, Waits)>,
    next_wait: u64,
    /// Answers that have arrived and are not yet outcomes.
    answers: HashMap<CallId, Payload>,
    /// Changes that wait for the run's end.
    overlay: Vec<Change>,
    /// What is on its way to the store, in order.
    in_flight: VecDeque<(Ticket, Vec<Then>)>,
    /// Detached bodies whose code is gone and that may not start yet.
    later: Vec<(Slot, BoxFuture<'static, ()>)>,
    /// Bodies on the pool, to be ended with the run.
    spawned: Vec<(Slot, JoinHandle<()>)>,
    /// The lease, while the run is driven.
    hold: Option<Arc<Hold>>,
    /// Whether a body was held back since the runtime drains.
    held_back: bool,
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

/// What a call waits for outside of the process.
#[derive(Clone, Debug)]
enum Waits {
    Answer(Payload),
    Until(u64),
}

/// Why a run does not go on.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// It cannot.
    Error(RunError),
    /// It asked to go on as a new run with this input.
    Continue(Payload, [u8; 32]),
    /// Its driver is gone.
    Gone,
}

/// What is known of a call beside the journal.
#[derive(Debug, Default)]
struct Activity {
    /// The call.
    slot: Option<Slot>,
    /// Whether its body is on the pool, where it goes on whoever reads the call.
    spawned: bool,
    /// Of the code that awaits the call.
    waker: Option<Waker>,
    /// Of the body, while it waits for us.
    body: Option<Waker>,
    /// Whether it has a body that was begun and has not ended.
    begun: bool,
    /// What it waits for, in the order of waits.
    wait: Option<u64>,
    /// How many open questions there are in or beneath its body.
    blocked: u32,
    /// Woken, and not polled since: nobody reads it.
    nudged: bool,
    unread: bool,
    /// Whether it is counted as live.
    counted: bool,
}

impl Activity {
    fn is_live(&self) -> bool {
        self.begun && self.blocked == 0 && !self.unread
    }
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

/// What a run waits for when nothing in it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// Something is still going on.
    Not,
    /// Answers.
    Questions,
    /// This moment, in milliseconds since 1970.
    Until(u64),
    /// The end of the drain.
    Drained,
    /// Nothing that could ever come.
    Stalled,
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
        entrypoint: &str,
        mode: Mode,
        journal: Journal,
        answers: HashMap<CallId, Payload>,
    ) -> Arc<Self> {
        Arc::new(Self {
            environment,
            thread: hold.lease.thread.clone(),
            no,
            entrypoint: entrypoint.to_owned(),
            mode,
            driver: AtomicWaker::new(),
            epoch: hold.lease.epoch,
            state: Mutex::new(State {
                journal,
                activities: Vec::new(),
                signals: vec![Arc::default()],
                stop: None,
                live: 0,
                unread: Vec::new(),
                waits: BTreeMap::new(),
                next_wait: 0,
                answers,
                overlay: Vec::new(),
                in_flight: VecDeque::new(),
                later: Vec::new(),
                spawned: Vec::new(),
                hold: Some(hold.clone()),
                held_back: false,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What the lock guards is whole between any two statements; a panic of an observer must not spread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view(&self) -> RunView<'_> {
        RunView { thread: &self.thread, run: self.no, entrypoint: &self.entrypoint }
    }

    /// Tells observers of a call, and of a text that goes with it; nothing is looked up if there are none.
    fn observe(&self, slot: Slot, event: impl for<'a> FnOnce(CallView<'a>, &'a str) -> Event<'a>, text: &str) {
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
    fn nudge(self: &Arc<Self>) {
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

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.lock().stop.clone()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stop.is_some()
    }

    // ---- calls ----

    /// Claims a call in a scope; `None` if the run is stopped by it.
    pub(crate) fn claim(self: &Arc<Self>, scope: &Scope, new: NewCall) -> Option<Slot> {
        let mut state = self.lock();
        if state.stop.is_some() {
            return None;
        }
        let claimed = state.journal.claim(scope, new);
        match claimed {
            Ok(slot) => {
                let index = slot.index();
                if state.activities.len() <= index {
                    state.activities.resize_with(index + 1, Activity::default);
                }
                state.activities[index] = Activity { slot: Some(slot), ..Activity::default() };
                Some(slot)
            }
            Err(error) => {
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
        let activity = &mut state.activities[slot.index()];
        match call.stage {
            Stage::Released(_) => {
                let recorded = state.journal.take(slot).expect("it is released");
                return Step::Release(recorded);
            }
            Stage::Taken => return Step::Wait,
            Stage::Waiting | Stage::Ready | Stage::Working | Stage::Finished => {}
        }
        if !activity.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            activity.waker = Some(waker.clone());
        }
        (activity.nudged, activity.unread) = (false, false);
        let work = match call.stage {
            Stage::Ready if !activity.begun => {
                if call.kind != CallKind::Interrupt
                    && self.environment.draining.load(std::sync::atomic::Ordering::Acquire)
                    && call.scope.owner.is_none()
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
        state.recount(slot);
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
    pub(crate) fn drop_call(&self, slot: Slot, detached: bool) {
        let mut state = self.lock();
        if state.journal.call(slot).is_none() {
            return;
        }
        if !detached {
            state.end_activity(slot);
        }
        state.journal.drop_call(slot, detached);
    }

    /// Begins an attempt of the call's body.
    pub(crate) fn begin_attempt(self: &Arc<Self>, slot: Slot) -> u32 {
        let attempt = self.lock().journal.start(slot);
        self.observe(slot, |call, _| Event::Started { call, attempt }, "");
        attempt
    }

    /// When the next attempt is due; 0: at once.
    pub(crate) fn next_attempt_ms(&self, slot: Slot) -> u64 {
        self.lock().journal.call(slot).map_or(0, |call| call.next_ms)
    }

    /// How many attempts were made.
    pub(crate) fn attempts(&self, slot: Slot) -> u32 {
        self.lock().journal.call(slot).map_or(0, |call| call.attempts)
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

    /// Notes that an attempt failed and another one follows.
    pub(crate) fn attempt_failed(
        self: &Arc<Self>,
        slot: Slot,
        attempt: u32,
        error: String,
        pause: std::time::Duration,
    ) {
        self.observe(slot, |call, error| Event::Retried { call, attempt, error, pause }, &error);
        let now = self.environment.now_ms();
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.lock().journal.attempt_failed(slot, error, now, now.saturating_add(pause));
        self.nudge();
    }

    /// Waits until the note of the failed attempt is kept, so that the next one may start.
    pub(crate) fn poll_try_again(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        match state.journal.call(slot).map(|call| &call.stage) {
            Some(Stage::Ready) => Poll::Ready(()),
            _ => {
                if let Some(activity) = state.activities.get_mut(slot.index()) {
                    activity.body = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
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

    /// Has a body run on the pool.
    pub(crate) fn spawn(&self, slot: Slot, work: BoxFuture<'static, ()>) -> AbortHandle {
        // The thread is kept until the body has ended, also if its run is gone.
        let hold = self.hold();
        let handle = tokio::spawn(async move {
            work.await;
            drop(hold);
        });
        let abort = handle.abort_handle();
        self.keep_spawned(slot, handle);
        abort
    }

    /// Has a detached body, whose code is gone, run on the pool once it may start.
    pub(crate) fn start_later(&self, slot: Slot, work: BoxFuture<'static, ()>) {
        match self.step(slot, Waker::noop()) {
            Step::Work => drop(self.spawn(slot, work)),
            // Kept in a run that is stopped, what it holds would keep that run for good.
            Step::Wait if !self.is_stopped() => self.lock().later.push((slot, work)),
            Step::Wait | Step::Release(_) => {}
        }
    }

    /// Starts those of the detached bodies that may start by now.
    fn start_detached(&self, ready: &[Slot]) {
        for slot in ready {
            let work = {
                let mut state = self.lock();
                let place = state.later.iter().position(|(later, _)| later == slot);
                place.map(|place| state.later.swap_remove(place))
            };
            if let Some((slot, work)) = work {
                self.start_later(slot, work);
            }
        }
    }

    fn keep_spawned(&self, slot: Slot, handle: JoinHandle<()>) {
        let mut state = self.lock();
        state.activities[slot.index()].spawned = true;
        // Those that ended need not be kept.
        if state.spawned.len() >= 64 && state.spawned.len().is_power_of_two() {
            state.spawned.retain(|(_, handle)| !handle.is_finished());
        }
        state.spawned.push((slot, handle));
    }

    /// Ends the bodies on the pool and gives them to be waited for. `keep` says which go on.
    pub(crate) fn take_spawned(&self, abort: bool) -> Vec<JoinHandle<()>> {
        let spawned = std::mem::take(&mut self.lock().spawned);
        spawned
            .into_iter()
            .map(|(_, handle)| {
                if abort {
                    handle.abort();
                }
                handle
            })
            .collect()
    }

    // ---- waits ----

    /// Opens the call's question, unless an earlier drive did.
    pub(crate) fn open_question(self: &Arc<Self>, slot: Slot, payload: Payload, expects: &str) {
        {
            let mut state = self.lock();
            if state.journal.call(slot).is_none() {
                return;
            }
            if state.journal.loaded_wait(slot).is_none() {
                let now = self.environment.now_ms();
                let what = Waited::Answer { payload: payload.clone(), expects: expects.to_owned() };
                state.journal.wait(slot, what, now);
            }
            state.begin_wait(slot, Waits::Answer(payload));
        }
        self.nudge();
    }

    /// Sets the call's timer, unless an earlier drive did; when it is due.
    pub(crate) fn set_timer(self: &Arc<Self>, slot: Slot, pause: std::time::Duration) -> u64 {
        let now = self.environment.now_ms();
        let due = {
            let mut state = self.lock();
            if let Some(Waited::Until { due_ms }) = state.journal.loaded_wait(slot) {
                *due_ms
            } else {
                let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                // Rounded up: a sleep is never shorter than asked for.
                let due_ms = now.saturating_add(pause).saturating_add(1);
                state.journal.wait(slot, Waited::Until { due_ms }, now);
                due_ms
            }
        };
        let left = std::time::Duration::from_millis(due.saturating_sub(now));
        if left >= self.environment.park_after {
            self.lock().begin_wait(slot, Waits::Until(due));
        }
        self.nudge();
        due
    }

    /// The answer to the call's question, once there is one.
    pub(crate) fn poll_answer(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<Payload> {
        let mut state = self.lock();
        let Some(id) = state.journal.call(slot).map(|call| call.id) else { return Poll::Pending };
        match state.answers.remove(&id) {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.activities[slot.index()].body = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Refuses an answer that is not of the type that the code wants; the question stays open.
    pub(crate) fn refuse_answer(self: &Arc<Self>, slot: Slot, error: &ValueError) {
        let now = self.environment.now_ms();
        self.lock().journal.wait(slot, Waited::Refused { reason: error.to_string() }, now);
        self.nudge();
    }

    /// An answer has arrived while the run is driven.
    pub(crate) fn deliver(self: &Arc<Self>, question: CallId, answer: Payload) {
        let waker = {
            let mut state = self.lock();
            let State { answers, waits, journal, activities, .. } = &mut *state;
            answers.insert(question, answer);
            let slot = waits
                .values()
                .find_map(|(slot, _)| journal.call(*slot).is_some_and(|call| call.id == question).then_some(*slot));
            slot.and_then(|slot| activities[slot.index()].body.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
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
                    let waker = state.activities[slot.index()].waker.take();
                    (waker.into_iter().collect(), Some((slot, replayed)), Vec::new())
                }
                Next::Wake(slot) => {
                    let waker = state.activities[slot.index()].waker.clone();
                    (waker.into_iter().collect(), None, Vec::new())
                }
                Next::Live(ready) => {
                    let mut wakers = Vec::with_capacity(ready.len());
                    for slot in &ready {
                        // Whoever made a call that is detached is not to be woken for it.
                        if state.journal.call(*slot).is_some_and(|call| !call.dropped) {
                            wakers.extend(state.nudge_reader(*slot, nudged));
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
                            wakers.extend(state.nudge_reader(slot, nudged));
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

    fn observe_release(&self, slot: Slot, replayed: bool) {
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
                if state.journal.call(*slot).is_none() || !state.activities[slot.index()].nudged {
                    continue;
                }
                noted = true;
                state.journal.unread(*slot);
                let activity = &mut state.activities[slot.index()];
                if !activity.unread {
                    activity.unread = true;
                    state.unread.push(*slot);
                    state.recount(*slot);
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

    /// Sends what was appended on its way, and takes in what became durable; whether anything changed.
    pub(crate) fn pump(self: &Arc<Self>, cx: &mut Context<'_>) -> bool {
        let mut changed = self.flush(false, Vec::new());
        loop {
            let done = {
                let mut state = self.lock();
                let Some((ticket, _)) = state.in_flight.front_mut() else { break };
                match Pin::new(ticket).poll(cx) {
                    Poll::Pending => break,
                    Poll::Ready(answer) => {
                        let (_, thens) = state.in_flight.pop_front().expect("it is the front");
                        answer.map(|()| thens)
                    }
                }
            };
            changed = true;
            match done {
                Ok(thens) => self.take_in(thens),
                Err(error) => {
                    self.fail(RunError::from(error));
                    break;
                }
            }
        }
        changed
    }

    /// Waits until everything on its way is durable.
    pub(crate) async fn drained(self: &Arc<Self>) -> Result<(), RunError> {
        std::future::poll_fn(|cx| {
            self.pump(cx);
            let state = self.lock();
            match &state.stop {
                Some(Stop::Error(error @ RunError::Checkpoint(_))) => Poll::Ready(Err(error.clone())),
                _ if state.in_flight.is_empty() => Poll::Ready(Ok(())),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Sends what was appended as one commit; `with` goes with it. `all`: also what waits for the run's end.
    pub(crate) fn flush(self: &Arc<Self>, all: bool, with: Vec<Change>) -> bool {
        let now = {
            let mut state = self.lock();
            let state = &mut *state;
            if !state.journal.has_appended() && with.is_empty() && !(all && !state.overlay.is_empty()) {
                return false;
            }
            let appended = state.journal.take_appended();
            let mut at_once = all || self.mode != Mode::Exit;
            let mut thens = Vec::with_capacity(appended.len());
            let mut failed = None;
            for entry in appended {
                at_once |= entry.at_once;
                if let crate::journal::Record::Wait(wait) = &entry.record
                    && matches!(wait.what, Waited::Refused { .. })
                {
                    state.overlay.push(storage::remove_answer(wait.call.id));
                }
                let sealed =
                    storage::record_changes(&self.thread, self.no, entry.seq, &entry.record, &mut state.overlay);
                failed = failed.or(sealed.err());
                thens.push(entry.then);
            }
            if let Some(error) = failed {
                state.stop.get_or_insert(Stop::Error(error.into()));
                return true;
            }
            state.overlay.extend(with);
            if at_once {
                let commit = Commit {
                    thread: self.thread.clone(),
                    expect: vec![Expect::Lease(self.epoch)],
                    changes: std::mem::take(&mut state.overlay),
                };
                let ticket = self.environment.checkpointer.commit(commit);
                let waits = self.mode == Mode::Sync || state.in_flight.len() >= IN_FLIGHT;
                let later = if waits { std::mem::take(&mut thens) } else { Vec::new() };
                state.in_flight.push_back((ticket, later));
            }
            thens
        };
        self.take_in(now);
        true
    }

    /// Recorded outcomes take their turn.
    fn take_in(self: &Arc<Self>, thens: Vec<Then>) {
        let mut wake = Vec::new();
        let mut seen = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            for then in thens {
                match &then {
                    Then::Queue(frame, slot, _) => {
                        seen.push((*slot, false));
                        // The run's own entrypoint is looked at by whoever called this.
                        if *frame != Frame::ROOT {
                            state.signals[frame.index()].driver.wake();
                        }
                    }
                    Then::HandOn(slot, _) => seen.push((*slot, true)),
                    Then::Nothing | Then::Opened | Then::TryAgain(_) => {}
                }
                let tries_again = matches!(then, Then::TryAgain(_));
                if let Some(slot) = state.journal.recorded(then) {
                    let activity = &mut state.activities[slot.index()];
                    wake.extend(if tries_again { activity.body.take() } else { activity.waker.clone() });
                }
            }
        }
        if !self.environment.observers.is_empty() {
            for (slot, handed_on) in seen {
                self.observe(slot, |call, _| Event::Recorded { call }, "");
                if handed_on {
                    self.observe_release(slot, false);
                }
            }
        }
        for waker in &wake {
            wake_for_release(waker);
        }
    }

    /// What the run waits for, once its entrypoint has settled.
    pub(crate) fn quiet(&self) -> Quiet {
        let mut state = self.lock();
        if state.is_alive() || state.journal.has_appended() || state.waits_for_the_store(self.mode) {
            return Quiet::Not;
        }
        let mut until = None;
        let mut asks = false;
        for (slot, waits) in state.waits.values() {
            match waits {
                Waits::Until(due) => until = Some(until.map_or(*due, |until: u64| until.min(*due))),
                Waits::Answer(_) => {
                    asks = true;
                    if state.journal.call(*slot).is_some_and(|call| state.answers.contains_key(&call.id)) {
                        return Quiet::Not;
                    }
                }
            }
        }
        if asks {
            return Quiet::Questions;
        }
        match until {
            _ if state.held_back => Quiet::Drained,
            Some(due) => Quiet::Until(due),
            None => Quiet::Stalled,
        }
    }

    /// Whether any body runs on the pool or in place.
    pub(crate) fn is_alive(&self) -> bool {
        self.lock().live > 0
    }

    /// The open questions, in the order in which they were asked.
    pub(crate) fn questions(&self) -> Vec<(CallId, String, Payload)> {
        let state = self.lock();
        let asked = state.waits.values().filter_map(|(slot, waits)| match waits {
            Waits::Answer(payload) => {
                let call = state.journal.call(*slot)?;
                Some((call.id, call.name.clone().into_owned(), payload.clone()))
            }
            Waits::Until(_) => None,
        });
        asked.collect()
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
    /// Whether any body is alive, but for those within calls that nobody reads: they are polled by nobody either.
    fn is_alive(&mut self) -> bool {
        let Self { journal, activities, unread, .. } = self;
        unread.retain(|slot| journal.call(*slot).is_some() && activities[slot.index()].unread);
        self.live > 0 && (self.unread.is_empty() || self.activities.iter().any(|activity| self.is_polled(activity)))
    }

    /// Whether the body is alive, and everything around it is read.
    fn is_polled(&self, activity: &Activity) -> bool {
        let (mut activity, mut next) = (activity, activity.slot);
        if !activity.counted {
            return false;
        }
        while let Some(call) = next.and_then(|slot| self.journal.call(slot)) {
            if activity.unread {
                return false;
            }
            let Some((owner, _)) = call.scope.owner.filter(|_| !activity.spawned) else { return true };
            (activity, next) = (&self.activities[owner.index()], Some(owner));
        }
        // What it stands in is gone: it is a body on the pool that is about to end.
        true
    }

    /// What wakes the code that awaits the call, so that it polls the body. It is noted whether it does.
    fn nudge_reader(&mut self, slot: Slot, nudged: &mut Vec<Slot>) -> Option<Waker> {
        let activity = &mut self.activities[slot.index()];
        let waker = activity.waker.clone()?;
        activity.nudged = true;
        nudged.push(slot);
        Some(waker)
    }

    /// Counts a call as live or not, after something of it changed.
    fn recount(&mut self, slot: Slot) {
        let activity = &mut self.activities[slot.index()];
        let live = activity.is_live();
        if live != activity.counted {
            activity.counted = live;
            if live {
                self.live += 1;
            } else {
                self.live -= 1;
            }
        }
    }

    /// The call waits for the outside: neither its body nor those around it are alive.
    fn begin_wait(&mut self, slot: Slot, waits: Waits) {
        let activity = &mut self.activities[slot.index()];
        if activity.wait.is_some() {
            return;
        }
        activity.wait = Some(self.next_wait);
        self.waits.insert(self.next_wait, (slot, waits));
        self.next_wait += 1;
        self.shift_blocked(slot, true);
    }

    /// The call's body is over, or gone.
    fn end_activity(&mut self, slot: Slot) {
        if self.journal.call(slot).is_none() {
            return;
        }
        let activity = &mut self.activities[slot.index()];
        activity.begun = false;
        if let Some(place) = activity.wait.take() {
            self.waits.remove(&place);
            self.shift_blocked(slot, false);
        }
        self.recount(slot);
    }

    /// Counts a question in or out for the body it stands in, and all bodies around that.
    fn shift_blocked(&mut self, slot: Slot, opened: bool) {
        let mut next = Some(slot);
        while let Some(slot) = next {
            let Some(call) = self.journal.call(slot) else { return };
            next = call.scope.owner.map(|(owner, _)| owner);
            let activity = &mut self.activities[slot.index()];
            activity.blocked = if opened { activity.blocked + 1 } else { activity.blocked.saturating_sub(1) };
            self.recount(slot);
        }
    }

    /// Whether something on its way to the store is still to be handed on.
    fn waits_for_the_store(&self, mode: Mode) -> bool {
        match mode {
            Mode::Sync => !self.in_flight.is_empty(),
            Mode::Async | Mode::Exit => self.in_flight.iter().any(|(_, thens)| !thens.is_empty()),
        }
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
            Some(RunError::Collision { recorded, called })
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
