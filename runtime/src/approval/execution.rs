//! The execution of a permit in a run: a recorded step that begins at most once, whatever happens to the process.

use std::{panic::Location, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    AnswerToken, ApprovalError, Digest, Done, Effect, Event, Guard, IdempotencyKey, NotDone, Permit, RevisionId, Role,
    State, Worker,
    desk::{Actor, Checks, Move, entry, tries},
    execute::{Report, receipt_of},
    permit::Held,
    request::{caller, claim, is_claimed_by, record, stops},
    rows::{Action, Caller, Claim},
    waiting::Waiting,
};
use crate::{
    call::Claimed,
    checkpoint::BoxFuture,
    interrupt::read,
    journal::Slot,
    scope::{Ambient, Run, Within, within},
};

/// What a run records of an execution.
#[derive(Serialize, Deserialize)]
enum Ran<T> {
    Done(T),
    Failed { proof: String },
    Settled { reason: String },
}

/// What a run that waits for an uncertain action shows.
#[derive(Serialize)]
struct Uncertain<'a> {
    id: &'a RevisionId,
    digest: Digest,
    why: &'a str,
}

/// An execution in a run.
struct Execution<A> {
    permit: Permit<A>,
    /// The call that has claimed the action, and the one that executes it.
    claimed: Caller,
    executes: Caller,
}

impl<A> Permit<A> {
    /// Executes as a recorded step of the run in which this is called.
    #[track_caller]
    pub(super) fn execute_in_run<'a, T, F, Fut>(self, effect: F) -> BoxFuture<'a, Result<Done<T>, NotDone>>
    where
        A: DeserializeOwned + Send + Sync + 'a,
        F: FnOnce(Arc<A>, IdempotencyKey) -> Fut + Send + 'a,
        Fut: Future<Output = Effect<T>> + Send + 'a,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let Some(ambient) = Ambient::current() else {
            panic!("the permit of a run was executed outside of it: execute it in the entrypoint that requested it");
        };
        let claim = claim("execute", &self.id, self.digest, Location::caller());
        let key = self.key.clone();
        let ran = Claimed::new(&ambient, claim, read::<Ran<T>>, |run, slot| {
            let Held::Call(claimed) = &self.held else { return None };
            let (claimed, executes) = (claimed.clone(), caller(run, run.call_id(slot)?));
            let (run, execution) = (run.clone(), Execution { permit: self, claimed, executes });
            Some(Box::pin(async move {
                let attempt = run.begin_attempt(slot).await;
                match execution.outcome(&run, (slot, attempt), effect).await {
                    Ok(ran) => record(&run, slot, &ran),
                    Err(error) => run.fail(stops(error)),
                }
            }))
        });
        Box::pin(async move {
            let Some(ran) = ran else { return std::future::pending().await };
            match ran.await {
                Ran::Done(receipt) => Ok(Done { receipt, key }),
                Ran::Failed { proof } => Err(NotDone::Failed { proof }),
                Ran::Settled { reason } => Err(NotDone::Settled { reason }),
            }
        })
    }
}

impl<A: DeserializeOwned + Send + Sync> Execution<A> {
    async fn outcome<T, F, Fut>(&self, run: &Arc<Run>, body: (Slot, u32), effect: F) -> Result<Ran<T>, ApprovalError>
    where
        F: FnOnce(Arc<A>, IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Effect<T>> + Send,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let Permit { approvals, id, .. } = &self.permit;
        let mut effect = Some(effect);
        let mut wait = Waiting::new(run, body.0);
        loop {
            let desk = tries!(approvals.desk(&id.tenant, &id.action).await)?;
            let action = desk.id(id)?;
            let is_ours = is_claimed_by(action, &self.claimed);
            let is_begun = action.claim.as_ref().is_some_and(|claim| claim.begun);
            match action.state {
                State::Completed => {
                    return match approvals.rows.receipt(&desk, action).await? {
                        Some(bytes) => receipt_of(&bytes)?.decode().map(Ran::Done).map_err(ApprovalError::Value),
                        None => Ok(Ran::Settled { reason: action.reason.clone() }),
                    };
                }
                State::Failed => return Ok(Ran::Failed { proof: action.reason.clone() }),
                State::Executing if is_ours && !is_begun => {
                    let Some(token) = tries!(self.take_over().await)? else { continue };
                    let Some(effect) = effect.take() else {
                        return Err(ApprovalError::Corrupt { detail: "an execution is begun twice".to_owned() });
                    };
                    self.execute(run, body, &token, effect).await?;
                    continue;
                }
                State::Executing if is_ours => {
                    tries!(self.lose().await)?;
                    continue;
                }
                // Nothing was ever sent: then it may be now, by whoever may.
                State::Uncertain if action.sent_ms.is_none() && effect.is_some() && self.again().await? => continue,
                _ => {}
            }
            let uncertain = match action.state {
                State::Executing => "somebody else executes it",
                _ => action.reason.as_str(),
            };
            let shown = Uncertain { id, digest: self.permit.digest, why: uncertain };
            let why = "it is not settled yet; settle it by `Approvals::reconcile` or `Approvals::settle`";
            wait.until_told(&shown, why).await?;
        }
    }

    /// A new token for the claim of this run, if nothing was begun under it. An earlier one is void.
    async fn take_over(&self) -> Result<Option<AnswerToken>, ApprovalError> {
        let Permit { approvals, id, .. } = &self.permit;
        let desk = approvals.desk(&id.tenant, &id.action).await?;
        let action = desk.id(id)?;
        let claim = action.claim.clone().filter(|claim| !claim.begun);
        let (State::Executing, true, Some(claim)) = (action.state, is_claimed_by(action, &self.claimed), claim) else {
            return Ok(None);
        };
        let token = AnswerToken::new();
        let worker = claim.worker.clone();
        let next = Action { claim: Some(Claim { hash: token.hash(), ..claim }), ..action.clone() };
        let taken = Move::new(Event::Claim, Actor::new(Role::Executor, &worker, ""), id.revision).digest(action.digest);
        let mut taken = entry(&desk, &taken, Some(action.state), Some(action.state), action.fence);
        "take over".clone_into(&mut taken.event);
        approvals.rows.save(&desk, next, vec![taken], Vec::new()).await?;
        Ok(Some(token))
    }

    /// An earlier process may have begun it and said nothing: what became of it is not known.
    async fn lose(&self) -> Result<(), ApprovalError> {
        let Permit { approvals, id, .. } = &self.permit;
        let desk = approvals.desk(&id.tenant, &id.action).await?;
        let action = desk.id(id)?;
        let Some(claim) = &action.claim else { return Ok(()) };
        if action.state != State::Executing {
            return Ok(());
        }
        let lost = Move::new(Event::Lose, Actor::new(Role::Executor, &claim.worker, ""), id.revision)
            .digest(action.digest)
            .reason("the run was cut off while it was being executed");
        let is_ours = is_claimed_by(action, &self.claimed);
        let checks = Checks::default().check(Guard::Claim, is_ours, ApprovalError::Fenced);
        approvals.apply(&desk, lost, checks, |_| {}, Vec::new()).await.map(drop)
    }

    /// Claims it once more, since nothing was ever sent.
    async fn again(&self) -> Result<bool, ApprovalError> {
        let Permit { approvals, id, digest, .. } = &self.permit;
        let desk = tries!(approvals.desk(&id.tenant, &id.action).await)?;
        let action = desk.id(id)?;
        let Some(claim) = action.claim.as_ref().filter(|_| action.sent_ms.is_none()) else { return Ok(false) };
        let lease = std::time::Duration::from_millis(claim.lease_ms);
        let worker = Worker { call: Some(self.claimed.clone()), ..Worker::new(claim.worker.clone()).lease(lease) };
        let again = tries!(approvals.claim_once(&worker, id, digest, Checks::default(), Event::Again).await);
        match again {
            Ok(_) => Ok(true),
            Err(error @ (ApprovalError::Store(_) | ApprovalError::Corrupt { .. })) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// From the write that it may be begun to the write of what became of it.
    async fn execute<T, F, Fut>(
        &self,
        run: &Arc<Run>,
        body: (Slot, u32),
        token: &AnswerToken,
        effect: F,
    ) -> Result<(), ApprovalError>
    where
        F: FnOnce(Arc<A>, IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Effect<T>> + Send,
        T: Serialize + Send,
    {
        let Permit { approvals, id, key, secrets, .. } = &self.permit;
        let report = if let Some(proof) = self.permit.unseen() {
            Report::NotApplied(proof)
        } else {
            let document = match approvals.start(id, token, Some(&self.executes)).await {
                Ok(document) => document,
                // It is not as it was: what it is now is looked at next.
                Err(ApprovalError::Expired | ApprovalError::Fenced) => return Ok(()),
                Err(error) => return Err(error),
            };
            let args = Arc::new(document.args.to()?);
            let Some(scope) = run.body_scope(body.0) else { return std::future::pending().await };
            let ambient = Ambient { run: run.clone(), scope, body: Some(body), reconciles: None };
            let effect = within(ambient.clone(), || Box::pin(effect(args, key.clone())));
            match Report::of(&Within::new(ambient, effect).await) {
                Ok(report) => report,
                Err(error) => Report::Unknown(format!("it happened, but its receipt cannot be recorded: {error}")),
            }
        };
        match approvals.report(id, token, report, secrets).await {
            // Too late: the lease has ended, and it is uncertain.
            Ok(_) | Err(ApprovalError::Fenced) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
