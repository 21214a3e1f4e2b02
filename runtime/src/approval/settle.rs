//! What is uncertain, settled: by its receiver, or by a person. And approvals that are taken back.

use std::{future::Future, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    ApprovalError, Approvals, Authenticated, Event, Guard, IdempotencyKey, Permit, RevisionId, Role, State, Worker,
    desk::{Actor, Checks, Move, tries},
    execute::receipt_bytes,
    rows::{Action, Rows, Settled},
    view::scrubbed,
};
use crate::value::Payload;

/// What a receiver says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// It was applied.
    Applied {
        /// What the receiver gives back for it.
        receipt: T,
    },
    /// It was not applied, and will not be: it never came, or was refused for good.
    NotApplied {
        /// What shows that.
        proof: String,
    },
    /// The receiver cannot be reached, or cannot say.
    CannotTell {
        /// Why.
        why: String,
    },
}

/// Whom effects are sent to, as far as it can be asked what became of them.
pub trait Receiver: Send + Sync {
    /// What it gives back.
    type Receipt: Serialize + DeserializeOwned + Send;

    /// For how long it takes the same key once; `None`: it does not know keys. Default: `None`.
    fn idempotent_for(&self) -> Option<Duration> {
        None
    }

    /// What became of a key. Say [`Lookup::NotApplied`] only if it is certain.
    fn lookup(&self, key: &IdempotencyKey) -> impl Future<Output = Lookup<Self::Receipt>> + Send;
}

/// What came of asking.
#[derive(Debug)]
#[must_use = "it may have to be sent again"]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Reconciled<A> {
    /// It is settled.
    Settled(State),
    /// It may be sent once more, under the same key: execute this permit.
    Again(Permit<A>),
}

/// What a person says became of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It happened.
    Happened,
    /// It did not happen, and never will.
    DidNot,
}

impl Approvals {
    /// Asks a receiver what became of an uncertain action. It is completed or failed if the receiver can tell. If it
    /// cannot, the action may be sent once more under the same key, where that is safe: nothing was ever sent, or the
    /// receiver takes a key once and nine tenths of the time for which it does are not over; and the revision is still
    /// current, in time and permitted.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::CannotTell`] if neither is so: it stays uncertain, for a person to settle.
    /// [`ApprovalError::NotAllowed`] if it is not uncertain.
    pub async fn reconcile<A: DeserializeOwned, R: Receiver>(
        &self,
        worker: &Worker,
        id: &RevisionId,
        receiver: &R,
    ) -> Result<Reconciled<A>, ApprovalError> {
        tries!(self.reconcile_once(worker, id, receiver).await)
    }

    async fn reconcile_once<A: DeserializeOwned, R: Receiver>(
        &self,
        worker: &Worker,
        id: &RevisionId,
        receiver: &R,
    ) -> Result<Reconciled<A>, ApprovalError> {
        let desk = self.desk(&id.tenant, &id.action).await?;
        let actor = Actor::new(Role::Reconciler, &worker.principal, "");
        let mut asked = Move::new(Event::Resolve, actor, id.revision);
        let permission = self.permits(&worker.principal, Role::Reconciler, &desk).await;
        let Some(action) = desk.action.as_ref().filter(|_| permission.is_ok()) else {
            return Err(self.refuse(&desk, &asked, ApprovalError::Forbidden).await);
        };
        asked = asked.digest(action.digest);
        if action.revision != id.revision || action.state != State::Uncertain {
            // Refused, with its name.
            let action = self.apply(&desk, asked, Checks::default(), |_| {}, Vec::new()).await?;
            return Ok(Reconciled::Settled(action.state));
        }
        let secrets = self.secrets(&desk).await?;
        match receiver.lookup(&IdempotencyKey::of(&action.digest)).await {
            Lookup::Applied { receipt } => {
                let receipt = Payload::encode(&receipt).map_err(ApprovalError::Value)?;
                let (changes, hash) = Rows::put_receipt(&desk, action.revision, &receipt_bytes(&receipt))?;
                let said = Move { happened: true, ..asked.reason(scrubbed(&receipt.preview(200), &secrets)) };
                let keep = |next: &mut Action| next.receipt = Some(hash);
                let settled = self.apply(&desk, said, Checks::default(), keep, changes).await?;
                Ok(Reconciled::Settled(settled.state))
            }
            Lookup::NotApplied { proof } => {
                let said = asked.reason(scrubbed(&proof, &secrets));
                let settled = self.apply(&desk, said, Checks::default(), |_| {}, Vec::new()).await?;
                Ok(Reconciled::Settled(settled.state))
            }
            Lookup::CannotTell { why } => {
                let is_safe = may_go_again(action, desk.now_ms, receiver.idempotent_for());
                if is_safe {
                    let digest = action.digest;
                    let again = self.claim_once(worker, id, &digest, Checks::default(), Event::Again).await?;
                    return Ok(Reconciled::Again(self.permit(again)?));
                }
                let error = ApprovalError::CannotTell { guard: Guard::Idempotent };
                let said = Move { event: Event::Again, ..asked.reason(scrubbed(&why, &secrets)) };
                Err(self.refuse(&desk, &said, error).await)
            }
        }
    }

    /// Settles an uncertain action by a person's word. With a policy that wants several people, it is settled when so
    /// many have said the same.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::ReasonMissing`] without a reason; [`AlreadyVoted`](ApprovalError::AlreadyVoted) if the same
    /// person has spoken; [`Conflict`](ApprovalError::Conflict) if another one said otherwise before.
    pub async fn settle(
        &self,
        who: &Authenticated,
        id: &RevisionId,
        settlement: Settlement,
        reason: &str,
    ) -> Result<State, ApprovalError> {
        tries!(self.settle_once(who, id, settlement, reason).await)
    }

    async fn settle_once(
        &self,
        who: &Authenticated,
        id: &RevisionId,
        settlement: Settlement,
        reason: &str,
    ) -> Result<State, ApprovalError> {
        let Authenticated { principal, method } = who;
        let desk = self.desk(&id.tenant, &id.action).await?;
        let actor = Actor::new(Role::Operator, principal, method);
        let mut asked = Move::new(Event::Settle, actor, id.revision);
        let permission = self.permits(principal, Role::Operator, &desk).await;
        let Some(action) = desk.action.as_ref().filter(|_| permission.is_ok()) else {
            return Err(self.refuse(&desk, &asked, ApprovalError::Forbidden).await);
        };
        let happened = settlement == Settlement::Happened;
        asked = asked.digest(action.digest).reason(scrubbed(reason, &self.secrets(&desk).await?));
        let person = self.person(principal, &action.op);
        if action.state == State::Uncertain && action.revision == id.revision {
            if action.settlements.iter().any(|settled| settled.happened != happened) {
                let error = ApprovalError::Conflict { state: action.state };
                return Err(self.refuse(&desk, &asked, error).await);
            }
            if action.settlements.iter().any(|settled| settled.person == person) {
                return Err(self.refuse(&desk, &asked, ApprovalError::AlreadyVoted).await);
            }
        }
        let wanted = self.policies.of(&action.op).map_or(usize::MAX, |policy| policy.settled_by);
        (asked.enough, asked.happened) = (action.settlements.len() + 1 >= wanted, happened);
        let checks = Checks::default().check(Guard::Reason, !reason.trim().is_empty(), ApprovalError::ReasonMissing);
        let note = |next: &mut Action| next.settlements.push(Settled { person, happened });
        Ok(self.apply(&desk, asked, checks, note, Vec::new()).await?.state)
    }

    /// Takes an approval back, before it is claimed: by a reviewer or an operator.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::NotAllowed`] if it is not approved, or was claimed.
    pub async fn revoke(&self, who: &Authenticated, id: &RevisionId, reason: &str) -> Result<State, ApprovalError> {
        tries!(self.revoke_once(who, id, reason).await)
    }

    async fn revoke_once(&self, who: &Authenticated, id: &RevisionId, reason: &str) -> Result<State, ApprovalError> {
        let Authenticated { principal, method } = who;
        let desk = self.desk(&id.tenant, &id.action).await?;
        let mut permission = self.permits(principal, Role::Reviewer, &desk).await;
        let mut role = Role::Reviewer;
        if permission.is_err() {
            (permission, role) = (self.permits(principal, Role::Operator, &desk).await, Role::Operator);
        }
        let actor = Actor::new(role, principal, method);
        let mut asked = Move::new(Event::Revoke, actor, id.revision);
        if let (Some(action), Ok(())) = (&desk.action, &permission) {
            asked = asked.digest(action.digest).reason(scrubbed(reason, &self.secrets(&desk).await?));
        }
        let checks = Checks::default().and(Guard::Permission, permission);
        Ok(self.apply(&desk, asked, checks, |_| {}, Vec::new()).await?.state)
    }
}

/// Whether sending once more under the same key does nothing twice: nothing was ever sent, or the receiver takes a key once
/// for long enough yet.
pub(super) fn may_go_again(action: &Action, now_ms: u64, idempotent_for: Option<Duration>) -> bool {
    let Some(sent_ms) = action.sent_ms else { return true };
    // The receiver's clock is not ours, and sending takes its time.
    let window = idempotent_for.map_or(0, |window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX) / 10 * 9);
    now_ms < sent_ms.saturating_add(window)
}
