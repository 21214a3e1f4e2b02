//! Who woke the entrypoint: its own poll, our machinery, a task's body, or something that is not recorded.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Wake, Waker},
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
            self.entrypoint.bodies.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
            self.entrypoint.driver.wake();
        }
    }
}

/// How often a body on the pool began to be polled, and how often that ended: it is polled by others than the run's driver.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Polls {
    /// Polls the body once.
    pub(crate) fn count<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.begun.fetch_add(1, Ordering::AcqRel);
        let polled = poll();
        self.ended.fetch_add(1, Ordering::AcqRel);
        polled
    }
}

/// The waker of one body that is polled in place within another body: tells whether that one reads it.
#[derive(Debug)]
pub(crate) struct InnerSignal {
    /// Of the body around it.
    outer: AtomicWaker,
    /// The polls of the body around it, if that is on the pool; else the run's driver polls it whenever it was woken.
    polls: Option<Arc<Polls>>,
    /// Woken, and not polled since.
    woken: AtomicBool,
    /// How many polls of the body around it had begun by then.
    woken_at: AtomicU64,
}

impl InnerSignal {
    pub(crate) fn new(polls: Option<Arc<Polls>>) -> Arc<Self> {
        let (woken, woken_at) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { outer: AtomicWaker::new(), polls, woken, woken_at })
    }

    /// The body is polled now, by a body with this waker.
    pub(crate) fn polled(&self, outer: &Waker) {
        self.outer.register(outer);
        self.woken.store(false, Ordering::Release);
    }

    /// Whether it was woken, and the body around it was polled since without polling it: a stream that is not being read.
    pub(crate) fn is_unread(&self) -> bool {
        self.woken.load(Ordering::Acquire)
            && self.polls.as_ref().is_none_or(|polls| {
                let ended = polls.ended.load(Ordering::Acquire);
                let begun = polls.begun.load(Ordering::Acquire);
                begun == ended && begun > self.woken_at.load(Ordering::Acquire)
            })
    }
}

impl Wake for InnerSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let begun = self.polls.as_ref().map_or(0, |polls| polls.begun.load(Ordering::Acquire));
        self.woken_at.store(begun, Ordering::Release);
        self.woken.store(true, Ordering::Release);
        self.outer.wake();
    }
}
