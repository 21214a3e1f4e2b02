//! How a run is stopped from outside, and what its code has left to be done at its end.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use futures::task::AtomicWaker;

use super::{
    Ambient, Signal,
    run::{Hold, Run, State},
};
use crate::{
    checkpoint::BoxFuture,
    id::CallId,
    journal::{Frame, Order, Scope, Slot, Why},
};

/// One thing to be done at an entrypoint's end; gives the message of its error, if it failed.
pub(crate) type Action = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), String>> + Send>;

/// What the entrypoints of a run have left to be done.
#[derive(Default)]
pub(super) struct CleanUps {
    groups: Vec<Group>,
    /// Given to the next group.
    next: u64,
}

/// What one entrypoint has left to be done.
struct Group {
    no: u64,
    /// The entrypoint's own scope.
    scope: Scope,
    frame: Frame,
    /// Its clean-up that is being run, once one is.
    cleaning: Option<Frame>,
    /// Where it stands among the others of the run: how deep, and the call.
    place: (usize, Option<CallId>),
    /// By registration; none: done, or not to be done any more.
    actions: Vec<Option<Action>>,
}

/// The clean-up of one entrypoint, about to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cleaning {
    no: u64,
    /// The entrypoint's own scope.
    pub(crate) scope: Scope,
}

/// The bodies of a run that hold its lease.
#[derive(Debug, Default)]
pub(super) struct Working {
    bodies: AtomicUsize,
    waker: AtomicWaker,
}

/// A body's hold on the lease.
#[derive(Debug)]
pub(crate) struct Held {
    _hold: Arc<Hold>,
    working: Arc<Working>,
}

impl Held {
    pub(super) fn new(hold: Arc<Hold>, working: &Arc<Working>) -> Self {
        working.bodies.fetch_add(1, Ordering::AcqRel);
        Self { _hold: hold, working: working.clone() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.working.bodies.fetch_sub(1, Ordering::AcqRel);
        self.working.waker.wake();
    }
}

impl Working {
    pub(super) async fn idle(&self) {
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            if self.bodies.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl State {
    /// Whether the run's own code has asked to go on as a new run, and is over by that.
    pub(super) fn continues(&self) -> bool {
        self.next.is_some() && !self.journal.is_ending()
    }
}

impl Run {
    /// The run is to be stopped; its driver looks.
    pub(crate) fn want_cancel(&self, why: Why) {
        self.lock().wanted.get_or_insert(why);
        self.driver.wake();
    }

    /// Records that the run is stopped, if it is to be; not in the middle of a nested entrypoint's clean-up, which comes
    /// to its end first.
    pub(crate) fn take_up_cancel(&self) {
        let mut state = self.lock();
        let state = &mut *state;
        if state.wanted.is_none() || state.stop.is_some() || state.clean_ups.is_busy() {
            return;
        }
        let now = self.environment.now_ms();
        state.wanted.take().map(|why| state.journal.cancel(why, now));
    }

    /// Whether the run is being stopped: nothing of its own code starts any more.
    pub(crate) fn is_cut(&self) -> bool {
        self.lock().journal.is_cut()
    }

    /// Whether a nested entrypoint is in the middle of its clean-up.
    pub(crate) fn is_cleaning_within(&self) -> bool {
        self.lock().clean_ups.is_busy()
    }

    /// The run's own code is over: calls that are left are gone. The failures that the code has not got past.
    pub(crate) fn begin_ending(&self) -> Vec<CallId> {
        let (later, open) = {
            let mut state = self.lock();
            let state = &mut *state;
            state.halted = false;
            for slot in state.journal.left_calls() {
                state.end_activity(slot);
            }
            (std::mem::take(&mut state.later), state.journal.begin_ending())
        };
        // What they hold leads back to the run.
        drop(later);
        open
    }

    /// Leaves something to be done at the end of the entrypoint that the code stands in; which group, and which of it.
    pub(crate) fn defer(&self, ambient: &Ambient, action: Action) -> (u64, usize) {
        let Order::Released(frame) = ambient.scope.order else {
            unreachable!("the caller has looked that it is no task's body");
        };
        let mut state = self.lock();
        let State { clean_ups, journal, .. } = &mut *state;
        let found = clean_ups.groups.iter().position(|group| group.frame == frame || group.cleaning == Some(frame));
        let place = found.unwrap_or_else(|| {
            let scope = journal.entrypoint_scope(frame, &ambient.scope);
            let call = scope.owner.and_then(|(slot, _)| journal.call(slot)).map(|call| call.id);
            let place = (journal.owners(&scope).len(), call);
            let no = clean_ups.next;
            clean_ups.next += 1;
            clean_ups.groups.push(Group { no, scope, frame, cleaning: None, place, actions: Vec::new() });
            clean_ups.groups.len() - 1
        });
        let group = &mut clean_ups.groups[place];
        group.actions.push(Some(action));
        (group.no, group.actions.len() - 1)
    }

    /// Takes back what was left to be done.
    pub(crate) fn disarm(&self, (no, index): (u64, usize)) {
        let action = self.lock().clean_ups.group(no).and_then(|group| group.actions[index].take());
        // What it holds may lead back to the run.
        drop(action);
    }

    /// The newest of what is left to be done in a clean-up, and its place by registration.
    pub(crate) fn next_action(&self, cleaning: &Cleaning) -> Option<(usize, Action)> {
        let mut state = self.lock();
        let group = state.clean_ups.group(cleaning.no)?;
        let index = group.actions.iter().rposition(Option::is_some)?;
        group.actions[index].take().map(|action| (index, action))
    }

    /// What a nested entrypoint has left to be done, if it has left anything.
    pub(crate) fn clean_up_of(&self, frame: Frame) -> Option<Cleaning> {
        let state = self.lock();
        let group = state.clean_ups.groups.iter().find(|group| group.frame == frame)?;
        Some(Cleaning { no: group.no, scope: group.scope })
    }

    /// What is left to be done at the run's end: the innermost entrypoints first.
    pub(crate) fn clean_ups(&self) -> Vec<Cleaning> {
        let mut state = self.lock();
        let State { clean_ups, .. } = &mut *state;
        clean_ups.groups.sort_by(|one, other| {
            let (one, other) = (one.place, other.place);
            other.0.cmp(&one.0).then(one.1.cmp(&other.1))
        });
        let groups = clean_ups.groups.iter();
        groups.map(|group| Cleaning { no: group.no, scope: group.scope }).collect()
    }

    /// Enters one clean-up of an entrypoint.
    pub(crate) fn begin_cleaning(&self, cleaning: &Cleaning, index: usize) -> (Frame, Scope, Arc<Signal>) {
        let index = u32::try_from(index).expect("an entrypoint leaves fewer than 2^32 things to be done");
        let mut state = self.lock();
        let state = &mut *state;
        let (frame, scope) = state.journal.enter_clean_up(&cleaning.scope, index);
        let signal = Arc::<Signal>::default();
        state.signals.push(signal.clone());
        if let Some(group) = state.clean_ups.group(cleaning.no) {
            group.cleaning = Some(frame);
        }
        (frame, scope, signal)
    }

    /// A nested entrypoint is over, or dropped by the code around it: nothing of it is left to be done. One that is
    /// dropped since the run is stopped or pauses keeps what it has.
    pub(crate) fn forget_clean_up(&self, frame: Frame) {
        let gone = {
            let mut state = self.lock();
            let State { clean_ups, journal, halted, .. } = &mut *state;
            let keeps = *halted;
            let is_gone = |group: &Group| group.frame == frame && (!keeps || journal.is_in_a_body(group.scope));
            clean_ups.groups.iter().position(is_gone).map(|place| clean_ups.groups.swap_remove(place))
        };
        drop(gone);
    }

    /// Whether anything is left to be done at the run's end.
    pub(crate) fn has_clean_ups(&self) -> bool {
        self.lock()
            .clean_ups
            .groups
            .iter()
            .any(|group| group.cleaning.is_some() || group.actions.iter().any(Option::is_some))
    }

    /// One thing to be done has come to its end: what failed in it is behind it.
    pub(crate) fn cleaned_up(&self, scope: &Scope) {
        self.lock().journal.cleaned_up(scope);
    }

    /// The name of an entrypoint in this run.
    pub(crate) fn name_of(&self, scope: &Scope) -> String {
        let name = |slot: Slot| self.lock().journal.call(slot).map(|call| call.name.clone().into_owned());
        scope.owner.and_then(|(slot, _)| name(slot)).unwrap_or_else(|| self.entrypoint.clone())
    }
}

impl CleanUps {
    fn group(&mut self, no: u64) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.no == no)
    }

    /// Whether one that can go on by itself is in the middle of its clean-up.
    fn is_busy(&self) -> bool {
        self.groups.iter().any(|group| group.cleaning.is_some() && group.place.0 > 0)
    }
}
