//! A worker claims what is approved: all of it is looked at again, and one worker gets it.

use std::{collections::BTreeSet, time::Duration};

use serde::de::DeserializeOwned;

use super::{
    AnswerToken, ApprovalError, Approvals, Digest, Event, Guard, Permit, PolicyRef, Principal, RevisionId, Role,
    desk::{Actor, Checks, Move, tries},
    proposal::Document,
    rows::{Action, Caller, Claim, Desk},
};

/// Who executes, and how long it may take.
#[derive(Clone, Debug)]
#[must_use = "a worker does nothing until it claims"]
pub struct Worker {
    pub(super) principal: Principal,
    pub(super) lease: Duration,
    /// The call of a run that it executes in.
    pub(super) call: Option<Caller>,
}

impl Worker {
    /// A worker that acts as this principal.
    pub fn new(principal: Principal) -> Self {
        Self { principal, lease: Duration::from_secs(60), call: None }
    }

    /// How long it may take from the claim on, before the action counts as uncertain. Default: 60 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

/// What a claim gives: the right to execute, and what exactly.
pub(super) struct Claimed {
    pub(super) action: Action,
    pub(super) document: Document,
    pub(super) token: AnswerToken,
}

impl Approvals {
    /// Claims an approved revision, so that this worker alone may execute it. Looked at again, in one atomic step: that it
    /// is the current revision, that its stored bytes have this digest, that its time is not over, that its policy is the
    /// same, and that the requester, enough distinct reviewers and the worker have their permissions now.
    ///
    /// # Errors
    ///
    /// [`ApprovalError`] says what does not hold; the attempt is in the audit. After
    /// [`PermissionLost`](ApprovalError::PermissionLost) and [`PolicyChanged`](ApprovalError::PolicyChanged) it is listed
    /// for reviewers again.
    pub async fn claim<A: DeserializeOwned>(
        &self,
        worker: &Worker,
        id: &RevisionId,
        digest: &Digest,
    ) -> Result<Permit<A>, ApprovalError> {
        let claimed = tries!(self.claim_once(worker, id, digest, Checks::default(), Event::Claim).await)?;
        self.permit(claimed)
    }

    pub(super) fn permit<A: DeserializeOwned>(&self, claimed: Claimed) -> Result<Permit<A>, ApprovalError> {
        let args = claimed.document.args.to()?;
        Ok(Permit::claimed(self.clone(), claimed, args))
    }

    /// Claims, as a first attempt or (`Event::Again`) as a further one.
    pub(super) async fn claim_once(
        &self,
        worker: &Worker,
        id: &RevisionId,
        digest: &Digest,
        mut checks: Checks,
        event: Event,
    ) -> Result<Claimed, ApprovalError> {
        let desk = self.desk(&id.tenant, &id.action).await?;
        let role = if event == Event::Again { Role::Reconciler } else { Role::Executor };
        let actor = Actor::new(role, &worker.principal, "");
        let asked = Move::new(event, actor, id.revision).digest(*digest);
        // Whoever may not do this is not told how it stands.
        let mut permission = self.permits(&worker.principal, role, &desk).await;
        if permission.is_ok() && role != Role::Executor {
            permission = self.permits(&worker.principal, Role::Executor, &desk).await;
        }
        let Some(action) = desk.action.as_ref().filter(|_| permission.is_ok()) else {
            return Err(self.refuse(&desk, &asked, ApprovalError::Forbidden).await);
        };
        if id.revision != action.revision {
            return Err(self.refuse(&desk, &asked, ApprovalError::Stale { current: action.revision }).await);
        }
        let document = match self.stored(&desk, action).await {
            Ok(document) => document,
            Err(error @ ApprovalError::Corrupt { .. }) => return Err(self.refuse(&desk, &asked, error).await),
            Err(error) => return Err(error),
        };
        checks = checks
            .check(Guard::Digest, *digest == action.digest, ApprovalError::DigestMismatch { current: action.digest })
            .check(Guard::Time, desk.now_ms < action.expires_ms, ApprovalError::Expired);
        let is_open = matches!(
            (action.state, event),
            (super::State::Approved, Event::Claim) | (super::State::Uncertain, Event::Again)
        );
        if is_open && let Err(error) = self.still_holds(action).await {
            let why = error.to_string();
            return Err(self.refuse_and(&desk, &asked, error, |noted| noted.attention = Some(why)).await);
        }
        let token = AnswerToken::new();
        let lease_ms = u64::try_from(worker.lease.as_millis()).unwrap_or(u64::MAX);
        let claim = Claim {
            hash: token.hash(),
            worker: worker.principal.clone(),
            call: worker.call.clone(),
            lease_ms,
            until_ms: desk.now_ms.saturating_add(lease_ms),
            begun: false,
        };
        let take = |next: &mut Action| {
            next.fence += 1;
            next.attempt += 1;
            // What was said of an earlier attempt says nothing of this one.
            next.settlements.clear();
            next.claim = Some(claim);
        };
        let action = self.apply(&desk, asked, checks, take, Vec::new()).await?;
        Ok(Claimed { action, document, token })
    }

    /// The document of the current revision, from its stored bytes, hashed again and compared with the action.
    pub(super) async fn stored(&self, desk: &Desk, action: &Action) -> Result<Document, ApprovalError> {
        let corrupt = |detail: String| ApprovalError::Corrupt { detail };
        let revision = self.rows.revision(desk, action.revision).await?;
        let document = Document::read(&revision.canonical, &action.digest).map_err(corrupt)?;
        let is_same = document.tenant == action.tenant.as_str()
            && document.action == action.action.as_str()
            && document.revision == action.revision
            && document.op == action.op
            && document.target == action.target
            && document.expires_at_ms == action.expires_ms
            && document.policy == action.policy;
        if is_same { Ok(document) } else { Err(corrupt("the action is not the one that was proposed".to_owned())) }
    }

    /// The secrets of the current revision, to be struck out of messages.
    pub(super) async fn secrets(&self, desk: &Desk) -> Result<Vec<String>, ApprovalError> {
        match &desk.action {
            Some(action) => Ok(self.stored(desk, action).await?.secrets()),
            None => Ok(Vec::new()),
        }
    }

    /// Whether the approval still rests on a policy and on people as it did.
    async fn still_holds(&self, action: &Action) -> Result<(), ApprovalError> {
        let policy = self.policies.of(&action.op);
        let policy = policy.ok_or_else(|| ApprovalError::NoPolicy { op: action.op.clone() })?;
        if !policy.takes(&action.policy) {
            let PolicyRef { version, .. } = policy.reference;
            return Err(ApprovalError::PolicyChanged { current: version });
        }
        if !self.admits(&action.requester, Role::Requester, action).await {
            return Err(ApprovalError::PermissionLost { role: Role::Requester });
        }
        let requester = policy.permissions.person(&action.requester);
        let mut people = BTreeSet::new();
        for vote in action.votes.iter().filter(|vote| vote.approves) {
            let person = policy.permissions.person(&vote.who);
            if (!policy.four_eyes || person != requester) && self.admits(&vote.who, Role::Reviewer, action).await {
                people.insert(person);
            }
        }
        if people.len() < policy.quorum {
            return Err(ApprovalError::PermissionLost { role: Role::Reviewer });
        }
        Ok(())
    }
}
