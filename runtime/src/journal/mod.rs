//! Where a run's calls stand: the replay state machine. Pure: no I/O, no clock, no waker.
//!
//! A run is an entrypoint stepped by its journal. The caller (the driver, or a test) claims a call when the code makes
//! it, asks for the next release when the entrypoint has settled, and appends what bodies leave. Nothing here depends on
//! the order in which calls are claimed, only on which are; what is handed on is in the journal's order alone.
//!
//! Two kinds of scope: an entrypoint's calls are *released* one by one in the order of their records; calls made in a
//! task's body are answered at once when they have a record, since a body is free to be nondeterministic.

mod body;
mod call;
mod claim;
mod compact;
mod cut;
mod divergence;
mod emit;
mod hasher;
mod load;
mod order;
mod record;
mod show;
mod table;
#[cfg(test)]
mod tests;
mod text;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::Arc,
};

pub(crate) use call::{Call, Definition, Frame, NewCall, Order, Scope, Slot, Stage};
pub use divergence::{CallSketch, Nondeterminism, RecordedStep};
use hasher::ByDigest;
pub(crate) use record::{
    Again, Answered, Around, Asked, Attempt, Begin, CallInfo, Cancel, Deadline, Doubted, Emitted, End, Ended, Origin,
    Outcome, Record, Resume, Start, Unread, Update, Wait, Waited, Why,
};
pub use record::{AnswerKind, CallKind};
pub(crate) use show::json_text;
use table::Table;
pub(crate) use text::Names;

use crate::{
    id::{CallId, ScopeId, Seq},
    output::Recorded,
};

/// How many of the code's unmatched calls a divergence shows.
const SHOWN: usize = 3;

/// A run's journal in memory: what was loaded, what is claimed, what is to be released and what to be appended.
#[derive(Debug)]
pub(crate) struct Journal {
    next_seq: u32,
    calls: Table,
    frames: Vec<FrameState>,
    scopes: HashMap<ScopeId, ScopeState, ByDigest>,
    loaded: Vec<Loaded>,
    loaded_calls: HashMap<CallId, u32, ByDigest>,
    /// The loaded records of entrypoints that are not entered yet, by scope.
    loaded_frames: HashMap<ScopeId, VecDeque<Step>, ByDigest>,
    definitions: HashMap<(CallKind, std::borrow::Cow<'static, str>), Definition>,
    appended: Vec<Appended>,
    /// What entrypoints have told their readers; it is not told again.
    emitted: HashSet<CallId, ByDigest>,
    /// Failures in a task's body that are on their way to the store.
    failing: HashMap<CallId, Failing, ByDigest>,
    /// What stops the run, and its end.
    cut: cut::Cut,
}

/// A failure in a task's body that is on its way to the store.
#[derive(Debug)]
struct Failing {
    /// Whether it was opened again meanwhile.
    reopened: bool,
    /// The entrypoint whose order it is in.
    frame: Option<ScopeId>,
}

/// One entered entrypoint: the run's own or a nested one.
#[derive(Debug)]
struct FrameState {
    scope: ScopeId,
    /// What is to be released or passed, in the journal's order.
    queue: VecDeque<Step>,
    /// How many steps of the queue were loaded; replay lasts while there are any.
    replaying: usize,
    /// How many outcomes were recorded in this process and not released yet.
    ahead: u32,
    /// Calls that wait for the end of replay.
    waiting: Vec<Slot>,
    /// What it was released so far, kept where the entrypoint may be entered anew in this process: in a task's body.
    history: Option<Vec<Step>>,
    /// Whether its future is gone.
    abandoned: bool,
}

/// One step of an entrypoint's order.
#[derive(Clone, Debug)]
enum Step {
    /// A loaded record of this call.
    Loaded { loaded: u32, seq: Seq, step: RecordedStep, voided: bool },
    /// A loaded wake of this call that nobody read.
    Unread { loaded: u32 },
    /// An outcome of this process.
    Live { slot: Slot, recorded: Arc<Recorded> },
    /// The run is stopped here; only in the run's own entrypoint.
    Cancel,
}

/// Calls made in one scope.
#[derive(Debug, Default)]
struct ScopeState {
    ordinals: HashMap<u128, u32, ByDigest>,
    branches: HashMap<String, u32>,
    /// How often the same was told here.
    emits: HashMap<u128, u32, ByDigest>,
    /// Failures taken after which no call was claimed: those the code has not got past.
    unpassed: Vec<CallId>,
    /// Recorded failures that the code has not taken.
    unseen: HashSet<CallId, ByDigest>,
    /// Scopes that stand within, through a branch, and calls whose bodies were begun here.
    within: Vec<ScopeId>,
    /// What was called last.
    family: Option<Family>,
}

/// Calls of one name in one scope.
#[derive(Debug)]
struct Family {
    kind: CallKind,
    name: std::borrow::Cow<'static, str>,
    definition: Option<Definition>,
    id: u128,
}

/// What the journal has of one call.
#[derive(Debug)]
struct Loaded {
    info: CallInfo,
    outcome: Option<(Arc<Recorded>, u32)>,
    attempts: u32,
    next_ms: u64,
    wait: Option<Waited>,
    /// Whether its outcome says that a question was asked in it.
    asked: bool,
    /// Whether its body has begun, and may run at most once.
    begun: bool,
    claimed: bool,
    /// The claim's place, while its future lives.
    holder: Option<Slot>,
}

/// A record that was made and is to be written.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) seq: Seq,
    pub(crate) record: Record,
    /// What becomes of it once it is durable.
    pub(crate) then: Then,
    /// Whether it must be durable at once in every durability mode, with all before it.
    pub(crate) at_once: bool,
    /// Whether nothing comes of it before it is durable, in every durability mode.
    pub(crate) durable: bool,
}

/// What becomes of a record once it is durable.
#[derive(Debug)]
pub(crate) enum Then {
    /// Nothing waits for it.
    Nothing,
    /// It takes its place in its entrypoint's order.
    Queue(Frame, Slot, Arc<Recorded>),
    /// It is handed on at once.
    HandOn(Slot, Arc<Recorded>),
    /// This call's question is visible from now on.
    Opened(Slot),
    /// The run's code is dropped when this has its turn.
    Cancel,
    /// The next attempt may start. Not before: what the last one left is on disk, and known, by then.
    TryAgain(Slot),
}

/// What an entrypoint is given next.
#[derive(Debug)]
pub(crate) enum Next {
    /// This call's outcome; wake it. Whether it was loaded.
    Release { slot: Slot, replayed: bool },
    /// Wake this call: it was woken here before, and nobody looked.
    Wake(Slot),
    /// Replay is over; wake these, their bodies may start.
    Live(Vec<Slot>),
    /// The run is stopped here. Wake these: nested entrypoints come to where they were, and nothing else starts.
    Cancel(Vec<Slot>),
    /// The code and the journal do not agree.
    Diverged(Box<Nondeterminism>),
    /// Nothing until something is recorded.
    Nothing,
}

/// Why a call could not be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimError {
    /// Two definitions have one name.
    TwoDefinitions { kind: CallKind, name: String, first: Definition, second: Definition },
    /// It was made by an earlier attempt of a body that has been started anew.
    Stale,
    /// Two calls have one identity and are not the same.
    Collision(Box<(CallSketch, CallSketch)>),
}

/// Why records are not a journal.
#[derive(Clone, Debug)]
pub(crate) struct BrokenJournal {
    pub(crate) seq: Seq,
    pub(crate) detail: String,
}

impl Journal {
    /// The scope of the calls in the body of `slot`: a task's.
    pub(crate) fn body_scope(&self, slot: Slot) -> Option<Scope> {
        Some(self.calls.get(slot)?.body_scope(slot, Order::AtOnce))
    }

    /// The scope of a branch of this name; branches of one name in a scope are told apart by their order.
    pub(crate) fn branch(&mut self, scope: &Scope, name: &str) -> Scope {
        let state = self.scopes.entry(scope.id).or_default();
        let ordinal = state.branches.entry(name.to_owned()).or_default();
        let id = call::branch(scope.id, name, *ordinal);
        *ordinal += 1;
        state.within.push(id);
        Scope { id, ..*scope }
    }

    /// A branch is over: what it has not got past is now what the code around it has not got past.
    pub(crate) fn leave_branch(&mut self, parent: &Scope, branch: &Scope) {
        let Some(state) = self.scopes.get_mut(&branch.id) else { return };
        let unpassed = std::mem::take(&mut state.unpassed);
        if let Some(state) = self.scopes.get_mut(&parent.id) {
            state.unpassed.extend(unpassed);
        }
    }

    /// A call, while its future or its outcome is alive.
    pub(crate) fn call(&self, slot: Slot) -> Option<&Call> {
        self.calls.get(slot)
    }

    /// What the call was found to be waiting for when it was loaded.
    pub(crate) fn loaded_wait(&self, slot: Slot) -> Option<&Waited> {
        self.loaded[self.calls.get(slot)?.loaded? as usize].wait.as_ref()
    }

    /// Answers a call during replay that has no record and needs none.
    pub(crate) fn answer_unrecorded(&mut self, slot: Slot, recorded: Recorded) {
        if let Some(call) = self.calls.get_mut(slot) {
            call.stage = Stage::Released(Arc::new(recorded));
        }
    }

    /// A claimed call as its records know it.
    pub(crate) fn info(&self, slot: Slot) -> CallInfo {
        let call = self.calls.get(slot).expect("the caller has looked the call up");
        let frame = match call.scope.order {
            Order::Released(frame) => Some(self.frames[frame.0 as usize].scope),
            Order::AtOnce => None,
        };
        call.info(frame, self.within(call.scope))
    }

    /// The calls in whose bodies a scope stands, the outermost first.
    pub(crate) fn within(&self, scope: Scope) -> Vec<Around> {
        let around =
            |slot: Slot| self.calls.get(slot).map(|call| Around { id: call.id, name: call.name.clone().into() });
        self.owners(&scope).into_iter().rev().filter_map(around).collect()
    }

    /// Adds a record that belongs to no call.
    pub(crate) fn append_plain(&mut self, record: Record) {
        self.push(record, Then::Nothing, true);
    }

    fn append(&mut self, record: Record, then: Then, at_once: bool) {
        if self.is_cut() {
            // What the run's own code leaves after its stop would have no turn any more.
            return;
        }
        self.push(record, then, at_once);
    }

    fn push(&mut self, record: Record, then: Then, at_once: bool) {
        let seq = Seq(self.next_seq);
        self.next_seq += 1;
        self.appended.push(Appended { seq, record, then, at_once, durable: false });
    }

    /// Adds a record of a body that may run at most once: durable before anything comes of it.
    fn append_durable(&mut self, record: Record, then: Then) {
        let before = self.appended.len();
        self.append(record, then, true);
        self.appended[before..].iter_mut().for_each(|appended| appended.durable = true);
    }

    /// The records that were made since this was last asked, in order.
    pub(crate) fn take_appended(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.appended)
    }

    /// Whether there are records to be taken.
    pub(crate) fn has_appended(&self) -> bool {
        !self.appended.is_empty()
    }

    /// The place of the next record.
    pub(crate) fn next_seq(&self) -> u32 {
        self.next_seq
    }

    /// The call's future is gone. `detached`: its body goes on all the same, and is recorded.
    pub(crate) fn drop_call(&mut self, slot: Slot, detached: bool) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        call.dropped = true;
        if let Some(loaded) = call.loaded {
            let entry = &mut self.loaded[loaded as usize];
            if entry.holder == Some(slot) {
                entry.holder = None;
            }
        }
        if !call.in_flight && !detached {
            self.calls.remove(slot);
        }
    }

    /// The failures that the run did not get past, or not even to: opened again when it is resumed.
    pub(crate) fn unpassed(&self) -> Vec<CallId> {
        let failures = |scope: &ScopeState| scope.unpassed.iter().chain(&scope.unseen).copied().collect::<Vec<_>>();
        let mut open: Vec<CallId> = self.scopes.values().flat_map(failures).collect();
        open.retain(|call| !self.cut.is_behind(call));
        open.sort_unstable();
        open.dedup();
        open
    }
}

impl fmt::Display for BrokenJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.seq, self.detail)
    }
}
