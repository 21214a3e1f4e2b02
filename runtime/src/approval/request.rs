//! An approval within a run: what is proposed, decided and claimed are recorded steps, and the run pauses meanwhile.

use std::{fmt, panic::Location, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Account, ApprovalError, Approvals, Digest, Event, Permit, Policies, Principal, Proposal, RevisionId, State, Worker,
    desk::{Actor, Checks, Move, entry, tries},
    permit::Held,
    propose::Offer,
    rows::{Action, Caller},
    waiting::Waiting,
};
use crate::{
    CheckpointError, RunError,
    call::{Claim, Claimed},
    id::CallId,
    interrupt::read,
    journal::{CallKind, Slot},
    output::Recorded,
    scope::{Ambient, Run},
    value::{Arguments, Payload, ValueError},
};

/// Why a run gets no permit. It is recorded: replay gives the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refused {
    /// A reviewer said no.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Its time was over before it was claimed.
    Expired,
    /// A newer revision took its place.
    Superseded {
        /// The one that is current.
        current: u32,
    },
    /// The approval was taken back.
    Revoked {
        /// Why.
        reason: String,
    },
    /// Somebody else has claimed it.
    Taken {
        /// How it stood.
        state: State,
    },
    /// It could not be proposed.
    NotProposed {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { reason } => write!(f, "rejected: {reason}"),
            Self::Expired => f.write_str("its time was over before it was claimed"),
            Self::Superseded { current } => write!(f, "revision {current} took its place"),
            Self::Revoked { reason } => write!(f, "the approval was taken back: {reason}"),
            Self::Taken { state } => write!(f, "somebody else has claimed it, it is {state}"),
            Self::NotProposed { why } => write!(f, "it could not be proposed: {why}"),
        }
    }
}

impl std::error::Error for Refused {}

/// What a run that waits for an approval shows as its question's payload: whoever decides opens it by
/// [`Approvals::review`] and answers by [`Approvals::answer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Asked {
    /// The revision.
    pub id: RevisionId,
    /// Its digest.
    pub digest: Digest,
    /// What it says, without secrets.
    pub view: String,
}

/// Proposes an action from within a run, waits until it is decided, and claims it: a [`Permit`] to execute it, once.
///
/// The proposal is a recorded step, and so is what became of it; replay proposes nothing again. While nothing else in the run
/// is alive it pauses as at an [`interrupt`](crate::interrupt()), with an [`Asked`] as the question's payload. An answer to
/// that question itself decides nothing: decisions are given by [`Approvals::answer`], in whatever process, and the run goes
/// on when it is resumed. Code that proposes something else at this place than the journal has is a divergence.
///
/// An approval that cannot be claimed, since a reviewer has lost the permission or the policy has changed, keeps the run
/// waiting until it is decided anew, put right, superseded or expired.
///
/// The policies are a resource of the runtime, [`Policies`]. The run acts as the account `run:ENTRYPOINT` of the proposal's
/// tenant, unless the proposal names [another](Proposal::requested_by).
///
/// ```
/// use std::time::Duration;
/// use durably::{
///     Outcome, Runtime,
///     approval::{self, Effect, Matter, Policies, Policy, PolicyRef, Principal, Proposal, RevisionId, Role},
///     entrypoint,
/// };
///
/// #[entrypoint]
/// async fn pay(cents: u64) -> Result<String, String> {
///     let until = durably::now().await + Duration::from_secs(3600);
///     let id = RevisionId::new("acme", "A42", 1).map_err(|error| error.to_string())?;
///     let proposal = Proposal::new(id, "pay", "DE02", cents, PolicyRef::new("payments", 1), until);
///     let permit = approval::request(proposal).await.map_err(|refused| refused.to_string())?;
///     let done = permit.execute(async |cents, key| Effect::Applied { receipt: format!("paid {cents} as {key}") }).await;
///     done.map(|done| done.receipt).map_err(|error| error.to_string())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let everybody = |_: &Principal, _: Role, _: &Matter| true;
/// let policies = Policies::new().with(Policy::new("payments", 1, everybody).operation("pay"));
/// let runtime = Runtime::builder().resource(policies).memory();
/// let paused = runtime.thread("t")?.invoke(pay(4200)).await?;
/// let asked: approval::Asked = paused.questions()[0].decode()?;
/// assert_eq!(asked.id.revision, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Refused`] says why there is no permit.
///
/// # Panics
///
/// When called outside of a run, and in a runtime without [`Policies`] as a resource.
#[track_caller]
pub fn request<A>(proposal: Proposal<A>) -> impl Future<Output = Result<Permit<A>, Refused>> + Send
where
    A: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let location = Location::caller();
    let Some(ambient) = Ambient::current() else {
        panic!("`approval::request` was called outside of a run: call it in an #[entrypoint] or a #[task]");
    };
    let policies = crate::resource::<Policies>();
    let approvals = Approvals::within(ambient.run.environment.clone(), Policies::clone(&policies));
    let account = proposal.requester.clone().or_else(|| {
        let name: String = ambient.run.entrypoint.chars().take(60).collect();
        Account::new(format!("run:{name}")).ok()
    });
    let (offer, account) = match (Offer::of(&proposal), account) {
        (Ok(offer), Some(account)) => (Some(offer), account),
        (offer, _) => {
            let why = offer.err().map_or_else(|| "the entrypoint's name is no account".to_owned(), |e| e.to_string());
            let source = ValueError::unfit::<A>(why);
            ambient.run.fail(RunError::Value { what: format!("the proposal {}", proposal.id), source });
            (None, Account::new("-").expect("it is a name"))
        }
    };
    let principal = Principal { tenant: proposal.id.tenant.clone(), account };
    let worker = Worker::new(principal).lease(proposal.lease);
    let proposed = offer.clone().and_then(|offer| propose(&ambient, location, &approvals, worker.clone(), offer));
    async move {
        let (Some(offer), Some(proposed)) = (offer, proposed) else { return std::future::pending().await };
        proposed.await?;
        let Some(ambient) = Ambient::current() else { return std::future::pending().await };
        let granted = Grant::of(&ambient, location, &approvals, worker, offer.clone());
        let Some((granted, call)) = granted else { return std::future::pending().await };
        granted.await?;
        match offer.document.args.to() {
            Ok(args) => Ok(Permit::held(approvals, offer.id, offer.digest, &offer.document, args, call)),
            Err(error) => {
                let source = ValueError::unfit::<A>(error.to_string());
                ambient.run.fail(RunError::Value { what: format!("the proposal {}", offer.id), source });
                std::future::pending().await
            }
        }
    }
}

type Step = Claimed<'static, Result<(), Refused>>;

/// What a call of ours is claimed as: by the digest, so that no argument and no secret comes into the journal.
pub(super) fn claim(
    what: &str,
    id: &RevisionId,
    digest: Digest,
    location: &'static Location<'static>,
) -> Claim<'static> {
    let mut arguments = Arguments::new();
    // A text can always be recorded.
    let _ = arguments.push("digest", &digest);
    Claim { kind: CallKind::Approval, name: format!("{what} {id}").into(), definition: None, arguments, location }
}

/// The step that proposes.
fn propose(
    ambient: &Ambient,
    location: &'static Location<'static>,
    approvals: &Approvals,
    worker: Worker,
    offer: Offer,
) -> Option<Step> {
    let claim = claim("propose", &offer.id, offer.digest, location);
    let approvals = approvals.clone();
    Claimed::new(ambient, claim, read, |run, slot| {
        let run = run.clone();
        Some(Box::pin(async move {
            run.begin_attempt(slot).await;
            let proposed = tries!(approvals.offer(&worker.principal, &offer).await);
            match proposed.map(drop).or_else(refused) {
                Ok(()) => record(&run, slot, &Ok::<(), Refused>(())),
                Err(Ok(refused)) => record(&run, slot, &Err::<(), Refused>(refused)),
                Err(Err(error)) => run.fail(error),
            }
        }))
    })
}

/// What stops a run, or is handed to it.
type Stops = Result<Refused, RunError>;

/// What a refused proposal is for the run.
fn refused(error: ApprovalError) -> Result<(), Stops> {
    match error {
        ApprovalError::Store(_) | ApprovalError::Corrupt { .. } => Err(Err(stops(error))),
        ApprovalError::Expired => Err(Ok(Refused::Expired)),
        error => Err(Ok(Refused::NotProposed { why: error.to_string() })),
    }
}

/// What only other code, another store or an operator can mend.
pub(super) fn stops(error: ApprovalError) -> RunError {
    RunError::Checkpoint(match error {
        ApprovalError::Store(error) => error,
        ApprovalError::Corrupt { detail } => CheckpointError::Corrupt { thread: None, key: None, detail },
        error => CheckpointError::Other { doing: "an approval".to_owned(), source: Arc::new(error) },
    })
}

pub(super) fn record<T: Serialize>(run: &Arc<Run>, slot: Slot, value: &T) {
    match Payload::encode(value) {
        Ok(payload) => run.finish(slot, Recorded::Value(payload), 0),
        Err(source) => run.fail(RunError::Value { what: "the outcome of an approval".to_owned(), source }),
    }
}

/// The step that waits for the decision and claims.
struct Grant {
    approvals: Approvals,
    worker: Worker,
    offer: Offer,
    /// The call that waits.
    call: Caller,
}

/// What becomes of a request, by how its action stands.
enum Judged {
    Granted,
    Refused(Refused),
    /// It may be claimed.
    Approved,
    /// Nothing yet; why not, if it was approved.
    Waits(Option<String>),
}

impl Grant {
    fn of(
        ambient: &Ambient,
        location: &'static Location<'static>,
        approvals: &Approvals,
        worker: Worker,
        offer: Offer,
    ) -> Option<(Step, Held)> {
        let claim = claim("approval of", &offer.id, offer.digest, location);
        let approvals = approvals.clone();
        let step = Claimed::new(ambient, claim, read, |run, slot| {
            let call = caller(run, run.call_id(slot)?);
            let grant = Self { approvals, worker: Worker { call: Some(call.clone()), ..worker }, offer, call };
            let run = run.clone();
            Some(Box::pin(async move {
                run.begin_attempt(slot).await;
                match grant.outcome(&run, slot).await {
                    Ok(outcome) => record(&run, slot, &outcome),
                    Err(error) => run.fail(stops(error)),
                }
            }))
        })?;
        let held = Held::Call(caller(&ambient.run, step.id()?));
        Some((step, held))
    }

    async fn outcome(&self, run: &Arc<Run>, slot: Slot) -> Result<Result<(), Refused>, ApprovalError> {
        let mut wait = Waiting::new(run, slot);
        loop {
            let mut judged = tries!(self.judge().await)?;
            if let Judged::Approved = judged {
                let Offer { id, digest, .. } = &self.offer;
                let claimed =
                    tries!(self.approvals.claim_once(&self.worker, id, digest, Checks::default(), Event::Claim).await);
                judged = match claimed {
                    Ok(_) => Judged::Granted,
                    Err(
                        error @ (ApprovalError::PermissionLost { .. }
                        | ApprovalError::PolicyChanged { .. }
                        | ApprovalError::NoPolicy { .. }
                        | ApprovalError::Forbidden),
                    ) => Judged::Waits(Some(error.to_string())),
                    Err(error @ (ApprovalError::Store(_) | ApprovalError::Corrupt { .. })) => return Err(error),
                    // It changed meanwhile.
                    Err(_) => continue,
                };
            }
            match judged {
                Judged::Granted => return Ok(Ok(())),
                Judged::Refused(refused) => return Ok(Err(refused)),
                Judged::Approved => {}
                Judged::Waits(why) => {
                    let why = why.unwrap_or_else(|| "it is not decided yet; decide by `Approvals::answer`".to_owned());
                    let asked = self.asked().await?;
                    wait.until_told(&asked, &why).await?;
                }
            }
        }
    }

    async fn asked(&self) -> Result<Asked, ApprovalError> {
        let Offer { id, digest, .. } = &self.offer;
        let desk = self.approvals.rows.load(&id.tenant, &id.action, self.approvals.clock_ms()).await?;
        let view = self.approvals.view_of(&desk, id.revision, *digest).await?.to_string();
        Ok(Asked { id: id.clone(), digest: *digest, view })
    }

    /// How the action stands, for this call.
    async fn judge(&self) -> Result<Judged, ApprovalError> {
        let Offer { id, digest, .. } = &self.offer;
        let desk = self.approvals.desk(&id.tenant, &id.action).await?;
        let action = desk.found()?;
        if action.revision > id.revision {
            return Ok(Judged::Refused(Refused::Superseded { current: action.revision }));
        }
        if action.revision != id.revision || action.digest != *digest {
            let detail = format!("the journal has proposed {id} as {digest}, which is not there");
            return Err(ApprovalError::Corrupt { detail });
        }
        Ok(match action.state {
            State::Pending => {
                if action.waits.as_ref().is_none_or(|waits| waits.thread == self.call.thread)
                    && action.waits.as_ref() != Some(&self.call)
                {
                    self.say_who_waits(&desk, action).await?;
                }
                Judged::Waits(None)
            }
            State::Approved => Judged::Approved,
            State::Rejected => Judged::Refused(Refused::Rejected { reason: action.reason.clone() }),
            State::Expired => Judged::Refused(Refused::Expired),
            State::Superseded => Judged::Refused(Refused::Superseded { current: action.revision }),
            State::Revoked => Judged::Refused(Refused::Revoked { reason: action.reason.clone() }),
            // Claimed by this call in an earlier process, which did not come to record it.
            _ if is_claimed_by(action, &self.call) => Judged::Granted,
            state @ (State::Executing | State::Completed | State::Failed | State::Uncertain) => {
                Judged::Refused(Refused::Taken { state })
            }
        })
    }

    /// Notes which run is to be told of the decision.
    async fn say_who_waits(&self, desk: &super::rows::Desk, action: &Action) -> Result<(), ApprovalError> {
        let actor = Actor::new(super::Role::Requester, &self.worker.principal, "");
        let waits = Move::new(Event::Propose, actor, action.revision).digest(action.digest);
        let mut waiting = entry(desk, &waits, Some(action.state), Some(action.state), action.fence);
        "wait".clone_into(&mut waiting.event);
        let next = Action { waits: Some(self.call.clone()), ..action.clone() };
        self.approvals.rows.save(desk, next, vec![waiting], Vec::new()).await.map(drop)
    }
}

/// A call of this run.
pub(super) fn caller(run: &Run, call: CallId) -> Caller {
    Caller { thread: run.thread.as_str().to_owned(), run: run.no, call }
}

pub(super) fn is_claimed_by(action: &Action, call: &Caller) -> bool {
    action.claim.as_ref().is_some_and(|claim| claim.call.as_ref() == Some(call))
}
