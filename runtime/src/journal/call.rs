//! One call of a run while it is known: its identity, where it stands, and how far it has come.

use std::{borrow::Cow, panic::Location, sync::Arc};

use sha2::{Digest as _, Sha256};

use super::record::{Answered, Around, CallInfo, CallKind};
use crate::{
    id::{CallId, ScopeId},
    output::Recorded,
    value::Arguments,
};

/// The most characters of a call's arguments that its record shows.
const PREVIEW: usize = 120;

/// A place in the table of calls. The generation tells a place that was given to another call since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl Slot {
    /// The place alone, to keep something beside the table.
    pub(crate) fn index(self) -> usize {
        self.index as usize
    }
}

/// A place in the table of entered entrypoints; the run's own is [`Frame::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame(pub(super) u32);

impl Frame {
    /// The run's own entrypoint.
    pub(crate) const ROOT: Self = Self(0);

    /// The place alone, to keep something beside the table.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) id: ScopeId,
    pub(crate) order: Order,
    /// The call whose body this stands in, and which attempt of it; `None` in the run's own entrypoint.
    pub(crate) owner: Option<(Slot, u32)>,
}

/// How the outcomes of a scope's calls are handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One by one, in the journal's order: in an entrypoint.
    Released(Frame),
    /// At once when recorded: in a task's body, which is free to be nondeterministic.
    AtOnce,
}

impl Scope {
    /// The run's own entrypoint.
    pub(crate) const ROOT: Self = Self { id: ScopeId(0), order: Order::Released(Frame::ROOT), owner: None };
}

/// Where the source of a definition stands; two definitions of one name in a run are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) module: &'static str,
    pub(crate) file: &'static str,
    pub(crate) line: u32,
}

/// What a claim says of the call.
#[derive(Debug)]
pub(crate) struct NewCall {
    pub(crate) kind: CallKind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) definition: Option<Definition>,
    pub(crate) arguments: Arguments,
    pub(crate) location: &'static Location<'static>,
}

/// How far a call has come.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// Its outcome is recorded and not yet its turn, or replay is not over and it has no record.
    Waiting,
    /// Its body may start.
    Ready,
    /// Its body runs.
    Working,
    /// Its outcome is being recorded, or waits for its turn.
    Finished,
    /// Its outcome is to be handed on.
    Released(Arc<Recorded>),
    /// Its outcome was handed on.
    Taken,
}

/// A claimed call.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of one another")]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) kind: CallKind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) scope: Scope,
    pub(crate) digest: [u8; 32],
    pub(crate) arguments: Arguments,
    pub(crate) location: &'static Location<'static>,
    pub(crate) stage: Stage,
    /// Whether the outcome it has or gets was loaded rather than made in this process.
    pub(crate) replayed: bool,
    /// How many attempts of its body have been started.
    pub(crate) attempts: u32,
    /// When the next attempt is due, if an earlier one failed.
    pub(crate) next_ms: u64,
    /// What the loaded records of this call are, if there are any.
    pub(super) loaded: Option<u32>,
    /// Whether a question was asked in its body or beneath it.
    pub(crate) asked: bool,
    /// Whether its body may run at most once and has begun: without an outcome, it is in doubt.
    pub(crate) begun: bool,
    /// Whether its value is one that an equal call left.
    pub(crate) cached: bool,
    /// Whether its future is gone.
    pub(crate) dropped: bool,
    /// Whether its outcome is on its way through the checkpointer or the queue.
    pub(super) in_flight: bool,
    /// How its question was answered, on the way to its outcome.
    pub(super) answered: Option<Answered>,
}

impl Call {
    /// What its records say of it.
    pub(super) fn info(&self, frame: Option<ScopeId>, within: Vec<Around>) -> CallInfo {
        CallInfo {
            id: self.id,
            kind: self.kind,
            scope: self.scope.id,
            frame,
            name: self.name.clone().into(),
            digest: self.digest,
            length: u32::try_from(self.arguments.len()).unwrap_or(u32::MAX),
            preview: self.arguments.preview(PREVIEW),
            file: self.location.file().into(),
            line: self.location.line(),
            within,
        }
    }

    /// Whether this attempt of its body is the one that counts, and has not ended.
    pub(crate) fn is_working(&self, attempt: u32) -> bool {
        self.attempts == attempt && matches!(self.stage, Stage::Working)
    }

    /// The scope of the calls made in its body, in the current attempt.
    pub(super) fn body_scope(&self, slot: Slot, order: Order) -> Scope {
        Scope { id: body_scope_id(self.id), order, owner: Some((slot, self.attempts)) }
    }
}

/// The part of a call's identity that calls of one name in one scope share.
pub(super) fn family(scope: ScopeId, kind: CallKind, name: &str) -> u128 {
    truncated(
        Sha256::new_with_prefix(b"durably.call.1\0")
            .chain_update(scope.0.to_be_bytes())
            .chain_update(kind.word())
            .chain_update([0])
            .chain_update(name),
    )
}

/// What was told in a scope, as the part of its identity that equal tellings share.
pub(super) fn told(scope: ScopeId, digest: &[u8; 32]) -> u128 {
    truncated(Sha256::new_with_prefix(b"durably.emit.1\0").chain_update(scope.0.to_be_bytes()).chain_update(digest))
}

/// The part of a call's identity that equal calls share: one block of SHA-256, since it is made for each call.
pub(super) fn base(family: u128, digest: &[u8; 32]) -> u128 {
    truncated(Sha256::new_with_prefix(family.to_be_bytes()).chain_update(digest))
}

/// The scope of the calls made in a call's body.
pub(super) fn body_scope_id(call: CallId) -> ScopeId {
    // The base is a digest already; the ordinal keeps equal calls apart, and the turn keeps a scope from equalling the
    // base of a call.
    ScopeId(call.base.rotate_left(64).wrapping_add(u128::from(call.ordinal) + 1))
}

/// The scope of one clean-up at an entrypoint's end; `end`: how many ends it had that were undone.
pub(super) fn clean_up(entrypoint: ScopeId, end: u32, index: u32) -> ScopeId {
    ScopeId(truncated(
        Sha256::new_with_prefix(b"durably.clean-up.1\0")
            .chain_update(entrypoint.0.to_be_bytes())
            .chain_update(end.to_be_bytes())
            .chain_update(index.to_be_bytes()),
    ))
}

/// The scope of a branch.
pub(super) fn branch(parent: ScopeId, name: &str, ordinal: u32) -> ScopeId {
    ScopeId(truncated(
        Sha256::new_with_prefix(b"durably.branch.1\0")
            .chain_update(parent.0.to_be_bytes())
            .chain_update(ordinal.to_be_bytes())
            .chain_update(name),
    ))
}

/// 128 bits of it: as many as every decision rests on.
fn truncated(digest: Sha256) -> u128 {
    let bytes = digest.finalize();
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    u128::from_be_bytes(half)
}
