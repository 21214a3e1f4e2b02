//! One step of an action: what is there is read, the move is looked at, and what is done or refused is written.

use std::{fmt, sync::Arc};

use super::{
    Account, ApprovalError, AuditEntry, Digest, Event, Guard, Matter, Policies, Principal, RevisionId, Role, State,
    TenantId,
    machine::{self, Broken, Facts, Refusal},
    rows::{Action, Desk, Rows},
};
use crate::{Runtime, Which, checkpoint::Change, environment::Environment};

/// The approvals of a store. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    pub(super) environment: Arc<Environment>,
    pub(super) rows: Rows,
    pub(super) policies: Policies,
    /// To tell runs that wait; not there within a run.
    runtime: Option<Runtime>,
}

/// How often a verb is tried again when an action changes under it.
pub(super) const TRIES: u32 = 1000;

/// Tries a verb again for as long as others are first.
macro_rules! tries {
    ($verb:expr) => {{
        let mut left = $crate::approval::desk::TRIES;
        loop {
            match $verb {
                Err($crate::approval::ApprovalError::Store($crate::CheckpointError::Conflict { .. })) if left > 0 => {
                    left -= 1;
                }
                other => break other,
            }
        }
    }};
}
pub(super) use tries;

/// Who does something, and in which part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor<'a> {
    pub(super) role: Role,
    pub(super) who: Option<&'a Principal>,
    pub(super) method: &'a str,
}

impl<'a> Actor<'a> {
    pub(super) fn new(role: Role, who: &'a Principal, method: &'a str) -> Self {
        Self { role, who: Some(who), method }
    }

    pub(super) const CLOCK: Self = Self { role: Role::Clock, who: None, method: "" };
}

/// What somebody asks for.
#[derive(Clone, Debug)]
pub(super) struct Move<'a> {
    pub(super) event: Event,
    pub(super) actor: Actor<'a>,
    pub(super) revision: u32,
    pub(super) digest: Option<Digest>,
    pub(super) enough: bool,
    pub(super) happened: bool,
    pub(super) reason: String,
}

impl<'a> Move<'a> {
    pub(super) fn new(event: Event, actor: Actor<'a>, revision: u32) -> Self {
        Self { event, actor, revision, digest: None, enough: true, happened: false, reason: String::new() }
    }

    pub(super) fn digest(self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self }
    }

    pub(super) fn reason(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }
}

/// The guards that do not hold, each with what its caller is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    broken: Broken,
    errors: Vec<(Guard, ApprovalError)>,
}

impl Checks {
    pub(super) fn check(mut self, guard: Guard, holds: bool, error: ApprovalError) -> Self {
        self.broken = self.broken.unless(holds, guard);
        if !holds && self.error(guard).is_none() {
            self.errors.push((guard, error));
        }
        self
    }

    /// As [`check`](Self::check), for what says itself what is wrong.
    pub(super) fn and(self, guard: Guard, outcome: Result<(), ApprovalError>) -> Self {
        match outcome {
            Ok(()) => self,
            Err(error) => self.check(guard, false, error),
        }
    }

    fn error(&self, guard: Guard) -> Option<&ApprovalError> {
        self.errors.iter().find_map(|(broken, error)| (*broken == guard).then_some(error))
    }
}

impl Approvals {
    /// The approvals in a runtime's store, under these policies.
    #[must_use]
    pub fn new(runtime: &Runtime, policies: Policies) -> Self {
        let environment = runtime.inner.environment.clone();
        Self { runtime: Some(runtime.clone()), ..Self::within(environment, policies) }
    }

    /// The approvals that a run has.
    pub(super) fn within(environment: Arc<Environment>, policies: Policies) -> Self {
        let rows = Rows::new(environment.checkpointer.clone());
        Self { environment, rows, policies, runtime: None }
    }

    /// What the clock says; an action's own time is never before what was seen there.
    pub(super) fn clock_ms(&self) -> u64 {
        self.environment.now_ms()
    }

    /// Reads an action. What time has done to it is written first: a read never shows what is over as if it were not.
    pub(super) async fn desk(&self, tenant: &TenantId, action: &super::ActionId) -> Result<Desk, ApprovalError> {
        let desk = self.rows.load(tenant, action, self.clock_ms()).await?;
        let Some(found) = &desk.action else { return Ok(desk) };
        let (event, reason) = match found.state {
            State::Pending | State::Approved if desk.now_ms >= found.expires_ms => (Event::Expire, "its time is over"),
            State::Executing if found.claim.as_ref().is_none_or(|claim| desk.now_ms >= claim.until_ms) => {
                (Event::Lose, "the lease of its claim has ended without a word")
            }
            _ => return Ok(desk),
        };
        let ended = Move::new(event, Actor::CLOCK, found.revision).digest(found.digest).reason(reason);
        self.apply(&desk, ended, Checks::default(), |_| {}, Vec::new()).await?;
        self.rows.load(tenant, action, self.clock_ms()).await
    }

    /// Makes one move, or refuses it; either is written, and the audit has it.
    pub(super) async fn apply(
        &self,
        desk: &Desk,
        asked: Move<'_>,
        checks: Checks,
        change: impl FnOnce(&mut Action),
        changes: Vec<Change>,
    ) -> Result<Action, ApprovalError> {
        let Some(action) = &desk.action else {
            return Err(self.refuse(desk, &asked, ApprovalError::Forbidden).await);
        };
        if let Some(error) = checks.error(Guard::Permission) {
            let error = error.clone();
            return Err(self.refuse(desk, &asked, error).await);
        }
        if asked.revision != action.revision {
            return Err(self.refuse(desk, &asked, ApprovalError::Stale { current: action.revision }).await);
        }
        let facts = Facts { broken: checks.broken, enough: asked.enough, happened: asked.happened };
        let to = match machine::step(Some(action.state), asked.event, asked.actor.role, facts) {
            Ok(to) => to,
            Err(Refusal::NotAllowed) => {
                return Err(self.refuse(desk, &asked, not_allowed(asked.event, action.state)).await);
            }
            Err(Refusal::Guard(guard)) => {
                let named = checks.error(guard).cloned();
                let unnamed = ApprovalError::NotAllowed { state: Some(action.state), event: asked.event };
                return Err(self.refuse(desk, &asked, named.unwrap_or(unnamed)).await);
            }
        };
        let mut next = action.clone();
        change(&mut next);
        if to != action.state {
            (next.state, next.since_ms, next.attention) = (to, desk.now_ms, None);
            next.reason.clone_from(&asked.reason);
        }
        let entry = entry(desk, &asked, Some(action.state), Some(to), next.fence);
        let saved = self.rows.save(desk, next, vec![entry], changes).await?;
        if to != action.state {
            self.tell(action).await;
        }
        Ok(saved)
    }

    /// Writes that something was refused, and gives the reason back.
    pub(super) async fn refuse(&self, desk: &Desk, asked: &Move<'_>, error: ApprovalError) -> ApprovalError {
        self.refuse_and(desk, asked, error, |_| {}).await
    }

    /// As [`refuse`](Self::refuse), with a note on the action.
    pub(super) async fn refuse_and(
        &self,
        desk: &Desk,
        asked: &Move<'_>,
        error: ApprovalError,
        note: impl FnOnce(&mut Action),
    ) -> ApprovalError {
        let state = desk.action.as_ref().map(|action| action.state);
        let fence = desk.action.as_ref().map_or(0, |action| action.fence);
        let mut refused = entry(desk, asked, state, state, fence);
        refused.refused = true;
        refused.reason = match refused.reason.as_str() {
            "" => error.to_string(),
            reason => format!("{error}; {reason}"),
        };
        let written = match (&desk.action, asked.actor.who) {
            (Some(action), _) => {
                let mut noted = action.clone();
                note(&mut noted);
                self.rows.save(desk, noted, vec![refused], Vec::new()).await.map(drop)
            }
            (None, Some(who)) => self.rows.refuse(&who.tenant, refused).await,
            (None, None) => Ok(()),
        };
        match written {
            Ok(()) => error,
            Err(unwritten) => unwritten,
        }
    }

    /// Writes that something was refused that is about no action that there is.
    pub(super) async fn refuse_plainly(
        &self,
        asked: &Move<'_>,
        tenant: &TenantId,
        error: ApprovalError,
    ) -> ApprovalError {
        let mut refused = entry_at(self.clock_ms(), asked, (None, None), 0);
        (refused.refused, refused.reason) = (true, error.to_string());
        match tries!(self.rows.refuse(tenant, refused.clone()).await) {
            Ok(()) => error,
            Err(unwritten) => unwritten,
        }
    }

    /// Has the run that waits for an action look at it again. It would do so when it is resumed, too.
    pub(super) async fn tell(&self, action: &Action) {
        let (Some(runtime), Some(waits)) = (&self.runtime, &action.waits) else { return };
        if let Ok(thread) = runtime.thread(&waits.thread) {
            if let Some(run) = runtime.inner.driven(thread.id()).filter(|run| run.no == waits.run) {
                run.tell(waits.call);
            }
            // One that is about to pause looks at its inbox once more. Where the run asks nothing now, it needs no answer: it looks by itself once its question is open.
            let _ = thread.answer(Which::Id(waits.call), ()).await;
        }
    }

    /// What a permission is asked for.
    pub(super) fn matter(action: &Action) -> Matter {
        Matter { id: action.id(), op: action.op.clone(), target: action.target.clone() }
    }

    /// Whether somebody may act on an action.
    pub(super) async fn admits(&self, who: &Principal, role: Role, action: &Action) -> bool {
        match self.policies.of(&action.op) {
            Some(policy) => policy.admits(who, role, &Self::matter(action)).await,
            None => false,
        }
    }

    /// As [`admits`](Self::admits), as the guard that it is.
    pub(super) async fn permits(&self, who: &Principal, role: Role, desk: &Desk) -> Result<(), ApprovalError> {
        match &desk.action {
            Some(action) if self.admits(who, role, action).await => Ok(()),
            _ => Err(ApprovalError::Forbidden),
        }
    }

    /// Whether somebody has any part in an action, so that they may look at it.
    pub(super) async fn has_a_part(&self, who: &Principal, action: &Action) -> Result<(), ApprovalError> {
        for role in Role::ALL {
            if role != Role::Clock && self.admits(who, role, action).await {
                return Ok(());
            }
        }
        Err(ApprovalError::Forbidden)
    }

    /// The person behind an account.
    pub(super) fn person(&self, who: &Principal, op: &str) -> String {
        match self.policies.of(op) {
            Some(policy) => policy.permissions.person(who),
            None => Account::as_str(&who.account).to_owned(),
        }
    }
}

/// The entry of what was asked.
pub(super) fn entry(desk: &Desk, asked: &Move<'_>, from: Option<State>, to: Option<State>, fence: u64) -> AuditEntry {
    entry_at(desk.now_ms, asked, (from, to), fence)
}

fn entry_at(at_ms: u64, asked: &Move<'_>, (from, to): (Option<State>, Option<State>), fence: u64) -> AuditEntry {
    AuditEntry {
        seq: 0,
        previous: Digest([0; 32]),
        after: Digest([0; 32]),
        revision: asked.revision,
        event: asked.event.to_string(),
        refused: false,
        role: asked.actor.role,
        who: asked.actor.who.cloned(),
        method: asked.actor.method.to_owned(),
        from,
        to,
        digest: asked.digest,
        fence,
        at_ms,
        reason: asked.reason.clone(),
    }
}

/// What somebody is told whose move is not possible from this state.
fn not_allowed(event: Event, state: State) -> ApprovalError {
    let decided = match state {
        State::Pending | State::Expired | State::Superseded => None,
        State::Rejected => Some(false),
        State::Approved | State::Revoked | State::Executing | State::Completed | State::Failed | State::Uncertain => {
            Some(true)
        }
    };
    match (event, decided, state) {
        (Event::Approve | Event::Reject | Event::Claim, _, State::Expired) => ApprovalError::Expired,
        (Event::Approve, Some(true), _) | (Event::Reject, Some(false), _) => ApprovalError::AlreadyDecided { state },
        (Event::Approve, Some(false), _) | (Event::Reject, Some(true), _) => ApprovalError::Conflict { state },
        (Event::Claim, _, State::Executing | State::Completed | State::Failed | State::Uncertain) => {
            ApprovalError::AlreadyClaimed { state }
        }
        (Event::Complete | Event::Fail | Event::Lose, _, _) => ApprovalError::Fenced,
        _ => ApprovalError::NotAllowed { state: Some(state), event },
    }
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approvals").field("policies", &self.policies).finish_non_exhaustive()
    }
}

impl Desk {
    /// The action, which has to be there.
    pub(super) fn found(&self) -> Result<&Action, ApprovalError> {
        self.action.as_ref().ok_or(ApprovalError::Forbidden)
    }

    /// The revision that is meant, of the action that is there.
    pub(super) fn id(&self, id: &RevisionId) -> Result<&Action, ApprovalError> {
        let action = self.found()?;
        if action.revision == id.revision { Ok(action) } else { Err(ApprovalError::Stale { current: action.revision }) }
    }
}
