//! Who woke the entrypoint: its own poll, our machinery, a task's body, or something that is not recorded.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
};

use futures::task::AtomicWaker;

use crate::journal::Slot;

thread_local! {
    /// What runs on this thread now, as far as wakes are concerned.
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Outside) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Neither of the two below: a task's body, another task of the pool, a timer.
    Outside,
    /// This crate hands on an outcome.
    Machinery,
    /// The entrypoint whose signal stands at this address is polled.
    Entrypoint(usize),
}

/// Sets the phase for as long as it lives, also if what runs then panics.
struct PhaseGuard(Phase);

impl PhaseGuard {
    fn set(phase: Phase) -> Self {
        Self(PHASE.replace(phase))
    }
}

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        PHASE.set(self.0);
    }
}

/// Wakes as our machinery does: the entrypoint is to be polled, and nothing foreign has happened.
pub(crate) fn wake_for_release(waker: &Waker) {
    let _phase = PhaseGuard::set(Phase::Machinery);
    waker.wake_by_ref();
}

/// Runs a piece of a task's body: what it wakes is not the entrypoint's doing.
pub(crate) fn outside<T>(body: impl FnOnce() -> T) -> T {
    let _phase = PhaseGuard::set(Phase::Outside);
    body()
}

/// The signals of one entered entrypoint; as a waker, it is what the entrypoint is polled with.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Whoever drives the entrypoint.
    pub(crate) driver: AtomicWaker,
    /// It woke itself, or our machinery woke it: poll it again.
    own: AtomicBool,
    /// Something else woke it.
    foreign: AtomicBool,
    /// Bodies that were woken since this was last asked.
    bodies: Mutex<Vec<Slot>>,
}

impl Signal {
    /// Polls the entrypoint: wakes from within count as its own.
    pub(crate) fn polling<T>(self: &Arc<Self>, poll: impl FnOnce() -> T) -> T {
        let _phase = PhaseGuard::set(Phase::Entrypoint(Arc::as_ptr(self).addr()));
        poll()
    }

    /// Whether it is to be polled again; forgets it.
    pub(crate) fn take_own(&self) -> bool {
        self.own.swap(false, Ordering::AcqRel)
    }

    /// Whether it was ever woken by something that is not recorded.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }

    /// Has a call be polled, as if its body had been woken.
    pub(crate) fn nudge(&self, slot: Slot) {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        self.driver.wake();
    }

    /// The bodies that were woken since this was last asked.
    pub(crate) fn take_bodies(&self) -> Vec<Slot> {
        std::mem::take(&mut *self.bodies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let phase = PHASE.get();
        if phase == Phase::Machinery || phase == Phase::Entrypoint(Arc::as_ptr(self).addr()) {
            self.own.store(true, Ordering::Release);
        } else {
            self.foreign.store(true, Ordering::Release);
            self.driver.wake();
        }
    }
}

/// The waker of one body that is polled in place: tells its entrypoint's driver which body wants to be polled.
#[derive(Debug)]
pub(crate) struct BodySignal {
    entrypoint: Arc<Signal>,
    slot: Slot,
    woken: AtomicBool,
}

impl BodySignal {
    pub(crate) fn new(entrypoint: Arc<Signal>, slot: Slot) -> Arc<Self> {
        Arc::new(Self { entrypoint, slot, woken: AtomicBool::new(false) })
    }

    /// The body is polled now: later wakes count anew.
    pub(crate) fn polled(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

impl Wake for BodySignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.entrypoint.nudge(self.slot);
        }
    }
}

/// How often something began to be polled, and how often that ended: a run by its driver, or a body on the pool.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    begun: AtomicU64,
    ended: AtomicU64,
    waker: AtomicWaker,
}

impl Polls {
    /// Polls it once.
    pub(crate) fn count<T>(&self, cx: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        self.waker.register(cx.waker());
        self.begun.fetch_add(1, Ordering::AcqRel);
        let polled = poll(cx);
        self.ended.fetch_add(1, Ordering::AcqRel);
        polled
    }
}

/// The waker of one body that is polled in place within another body: tells whether that one reads it.
///
/// A stream passes on one wake for each time that it is read, so that a second body of a stream that nobody reads wakes
/// nobody through it: what polls the stream's owner is woken directly too, to look again.
#[derive(Debug)]
pub(crate) struct InnerSignal {
    /// Of the code around it.
    outer: AtomicWaker,
    /// The polls of the innermost thing around it that is polled by itself.
    polls: Arc<Polls>,
    /// Woken, and not polled since.
    woken: AtomicBool,
    /// How many polls around it had begun when the wake was passed on; the next one finds it.
    woken_at: AtomicU64,
}

impl InnerSignal {
    pub(crate) fn new(polls: Arc<Polls>) -> Arc<Self> {
        let (woken, woken_at) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Arc::new(Self { outer: AtomicWaker::new(), polls, woken, woken_at })
    }

    /// The body is polled now, by code with this waker.
    pub(crate) fn polled(&self, outer: &Waker) {
        self.outer.register(outer);
        self.woken.store(false, Ordering::Release);
    }

    /// Whether it was woken, and the code around it was polled since without polling it: a stream that is not being read.
    pub(crate) fn is_unread(&self) -> bool {
        let ended = self.polls.ended.load(Ordering::Acquire);
        let begun = self.polls.begun.load(Ordering::Acquire);
        self.woken.load(Ordering::Acquire) && begun == ended && begun > self.woken_at.load(Ordering::Acquire)
    }
}

impl Wake for InnerSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken_at.store(u64::MAX, Ordering::Release);
        self.woken.store(true, Ordering::Release);
        self.outer.wake();
        // Only now: a poll that has begun by here may have missed the wake, the next one does not.
        self.woken_at.store(self.polls.begun.load(Ordering::Acquire), Ordering::Release);
        self.polls.waker.wake();
    }
}
