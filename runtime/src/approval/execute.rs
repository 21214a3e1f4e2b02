//! An effect between its two writes: that it may have been begun, before; and what became of it, after.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    AnswerToken, ApprovalError, Approvals, Done, Effect, Event, Guard, IdempotencyKey, NotDone, Permit, RevisionId,
    Role, State,
    desk::{Actor, Checks, Move, entry, tries},
    permit::Held,
    proposal::Document,
    rows::{Action, Caller, Claim, Desk, Rows},
    view::scrubbed,
};
use crate::{ValueError, value::Payload};

/// What an executor reports.
pub(super) enum Report {
    Applied(Payload),
    NotApplied(String),
    Unknown(String),
}

impl Report {
    pub(super) fn of<T: Serialize>(effect: &Effect<T>) -> Result<Self, ValueError> {
        Ok(match effect {
            Effect::Applied { receipt } => Self::Applied(Payload::encode(receipt)?),
            Effect::NotApplied { proof } => Self::NotApplied(proof.clone()),
            Effect::Unknown { why } => Self::Unknown(why.clone()),
        })
    }
}

impl<A> Permit<A> {
    /// Executes under a claim of this process.
    pub(super) async fn execute_here<T, F, Fut>(self, effect: F) -> Result<Done<T>, NotDone>
    where
        A: DeserializeOwned,
        F: FnOnce(Arc<A>, IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Effect<T>> + Send,
        T: Serialize,
    {
        let Held::Claim(token) = &self.held else { unreachable!("a permit of a run is executed in it") };
        if let Some(proof) = self.unseen() {
            let report = Report::NotApplied(proof.clone());
            let reported = self.approvals.report(&self.id, token, report, &self.secrets).await;
            return Err(reported.map_or_else(NotDone::NotBegun, |_| NotDone::Failed { proof }));
        }
        let document = match self.approvals.start(&self.id, token, None).await {
            Ok(document) => document,
            Err(error) => return Err(NotDone::NotBegun(error)),
        };
        // Read once more from the bytes that were hashed just now: what is executed is what was approved.
        let args = match document.args.to() {
            Ok(args) => Arc::new(args),
            Err(error) => return Err(NotDone::NotBegun(error.into())),
        };
        let effect = effect(args, self.key.clone()).await;
        let report = match Report::of(&effect) {
            Ok(report) => report,
            Err(error) => Report::Unknown(format!("it happened, but its receipt cannot be recorded: {error}")),
        };
        if let Err(error) = self.approvals.report(&self.id, token, report, &self.secrets).await {
            return Err(NotDone::Unrecorded(error));
        }
        match effect {
            Effect::Applied { receipt } => Ok(Done { receipt, key: self.key }),
            Effect::NotApplied { proof } => Err(NotDone::Failed { proof }),
            Effect::Unknown { why } => Err(NotDone::Uncertain { why }),
        }
    }

    /// What was to be shown and was not.
    pub(super) fn unseen(&self) -> Option<String> {
        let (content, _) = self.content.iter().find(|(_, seen)| !seen)?;
        Some(format!(
            "nothing was sent: the content with SHA-256 {} was not shown as it was approved",
            content.sha256()
        ))
    }
}

/// Whether an action executes under the claim with this token.
fn checks(desk: &Desk, action: &Action, token: &AnswerToken) -> Checks {
    let claim = action.claim.as_ref().filter(|claim| claim.hash == token.hash());
    Checks::default().check(Guard::Claim, claim.is_some(), ApprovalError::Fenced).check(
        Guard::Lease,
        claim.is_some_and(|claim| desk.now_ms < claim.until_ms),
        ApprovalError::Fenced,
    )
}

fn worker(action: &Action) -> Option<&Claim> {
    action.claim.as_ref()
}

impl Approvals {
    /// Writes that the effect may have been begun from now on; gives what is to be done. `waits`: the call of a run that
    /// waits if it does not come back.
    pub(super) async fn start(
        &self,
        id: &RevisionId,
        token: &AnswerToken,
        waits: Option<&Caller>,
    ) -> Result<Document, ApprovalError> {
        tries!(self.start_once(id, token, waits).await)
    }

    async fn start_once(
        &self,
        id: &RevisionId,
        token: &AnswerToken,
        waits: Option<&Caller>,
    ) -> Result<Document, ApprovalError> {
        let desk = self.desk(&id.tenant, &id.action).await?;
        let action = desk.found()?;
        let Some(claim) = worker(action) else { return Err(ApprovalError::Fenced) };
        let actor = Actor::new(Role::Executor, &claim.worker, "");
        let asked = Move::new(Event::Claim, actor, id.revision).digest(action.digest).reason("to begin");
        let is_held = action.revision == id.revision
            && action.state == State::Executing
            && claim.hash == token.hash()
            && !claim.begun;
        if !is_held {
            return Err(self.refuse(&desk, &asked, ApprovalError::Fenced).await);
        }
        let document = match self.stored(&desk, action).await {
            Ok(document) => document,
            Err(error @ ApprovalError::Corrupt { .. }) => return Err(self.refuse(&desk, &asked, error).await),
            Err(error) => return Err(error),
        };
        if desk.now_ms >= action.expires_ms {
            let late = Move::new(Event::Fail, actor, id.revision)
                .digest(action.digest)
                .reason("nothing was sent: its time was over before it was begun");
            self.apply(&desk, late, checks(&desk, action, token), |_| {}, Vec::new()).await?;
            return Err(ApprovalError::Expired);
        }
        let mut next = action.clone();
        next.sent_ms = next.sent_ms.or(Some(desk.now_ms));
        next.claim = next.claim.map(|claim| Claim { begun: true, ..claim });
        if let Some(waits) = waits {
            next.waits = Some(waits.clone());
        }
        let mut begun = entry(&desk, &asked, Some(action.state), Some(action.state), action.fence);
        "begin".clone_into(&mut begun.event);
        begun.reason.clear();
        self.rows.save(&desk, next, vec![begun], Vec::new()).await?;
        Ok(document)
    }

    /// Writes what became of the effect, if the claim still counts. If not, the audit has what was reported.
    pub(super) async fn report(
        &self,
        id: &RevisionId,
        token: &AnswerToken,
        report: Report,
        secrets: &[String],
    ) -> Result<State, ApprovalError> {
        tries!(self.report_once(id, token, &report, secrets).await)
    }

    async fn report_once(
        &self,
        id: &RevisionId,
        token: &AnswerToken,
        report: &Report,
        secrets: &[String],
    ) -> Result<State, ApprovalError> {
        let desk = self.desk(&id.tenant, &id.action).await?;
        let action = desk.found()?;
        let Some(claim) = worker(action) else { return Err(ApprovalError::Fenced) };
        let (event, reason) = match report {
            Report::Applied(receipt) => (Event::Complete, receipt.preview(200)),
            Report::NotApplied(proof) => (Event::Fail, proof.clone()),
            Report::Unknown(why) => (Event::Lose, why.clone()),
        };
        let actor = Actor::new(Role::Executor, &claim.worker, "");
        let asked = Move::new(event, actor, id.revision).digest(action.digest).reason(scrubbed(&reason, secrets));
        let (mut changes, mut digest) = (Vec::new(), None);
        if let Report::Applied(receipt) = report {
            let (rows, hash) = Rows::put_receipt(&desk, action.revision, &receipt_bytes(receipt))?;
            (changes, digest) = (rows, Some(hash));
        }
        let keep = |next: &mut Action| next.receipt = digest;
        Ok(self.apply(&desk, asked, checks(&desk, action, token), keep, changes).await?.state)
    }
}

/// A receipt's stored form.
pub(super) fn receipt_bytes(receipt: &Payload) -> Vec<u8> {
    rmp_serde::to_vec(receipt).expect("a recorded value has nothing that cannot be written")
}

/// Reads a stored receipt.
pub(super) fn receipt_of(bytes: &[u8]) -> Result<Payload, ApprovalError> {
    rmp_serde::from_slice(bytes).map_err(|error| ApprovalError::Corrupt { detail: format!("a receipt: {error}") })
}
