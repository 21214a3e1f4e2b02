//! Approvals bound to exact content: somebody proposes one concrete action, others see exactly that and decide, and only
//! that is executed, once.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use durably::{
//!     Runtime,
//!     approval::{
//!         Answer, Approvals, Authenticated, Decision, Effect, Matter, Policies, Policy, PolicyRef, Principal, Proposal,
//!         RevisionId, Role, State, Worker,
//!     },
//! };
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let everybody = |_: &Principal, _: Role, _: &Matter| true;
//! let policies = Policies::new().with(Policy::new("payments", 1, everybody).operation("pay"));
//! let approvals = Approvals::new(&Runtime::builder().memory(), policies);
//!
//! // Somebody proposes.
//! let (id, in_an_hour) = (RevisionId::new("acme", "A42", 1)?, SystemTime::now() + Duration::from_secs(3600));
//! let proposal = Proposal::new(id, "pay", "DE02", 4200, PolicyRef::new("payments", 1), in_an_hour);
//! let pending = approvals.propose(&Principal::new("acme", "ada")?, proposal).await?;
//! println!("{}", pending.view);
//!
//! // Somebody else decides; the answer names what was seen.
//! let reviewer = Authenticated::by(Principal::new("acme", "bob")?, "passkey");
//! let answer = Answer::to(&pending, Decision::Approve);
//! assert_eq!(approvals.answer(&reviewer, answer, pending.token.unwrap()).await?, State::Approved);
//!
//! // A worker claims it: only one does, and only if all of it still holds.
//! let worker = Worker::new(Principal::new("acme", "payer")?);
//! let permit = approvals.claim::<u32>(&worker, &pending.id, &pending.digest).await?;
//! let done = permit.execute(async |cents, key| {
//!     // .. send it, with the key, so that the receiver takes it once
//!     Effect::Applied { receipt: format!("paid {cents} as {key}") }
//! });
//! assert!(done.await?.receipt.starts_with("paid 4200"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! * What is executed is read from the bytes whose digest the answer named. A changed target, text, option or expiry is
//!   another revision, and approves nothing.
//! * Every step is one atomic write that compares what was read: one decision, one claim, whoever races.
//! * When an approval is claimed, its time, its policy and the permissions of requester, reviewers and worker are looked at
//!   again.
//! * A crash, a timeout or a lost lease after the claim leaves the action [`State::Uncertain`], which
//!   [`Approvals::uncertain`] lists until the receiver or a person says what became of it. It is never sent again but under
//!   the same key, to a receiver that takes a key once.
//! * Every attempt is in a hash-chained audit, refused ones too. The chain shows a changed row; who can write to the store
//!   can also write a new chain, so keep its last hash elsewhere if that matters.
//!
//! In a run, [`request`] does all of this as recorded steps.

mod answer;
mod audit;
mod canonical;
mod claim;
mod desk;
mod digest;
mod error;
mod execute;
mod execution;
mod listing;
mod machine;
mod names;
mod permit;
mod policy;
mod proposal;
mod propose;
mod request;
mod rows;
mod settle;
mod text;
mod token;
mod view;
mod waiting;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Decision};
pub use audit::AuditEntry;
pub use canonical::{CanonicalError, CanonicalFault, Json, MAX_BYTES, MAX_DEPTH, MAX_INTEGER};
pub use claim::Worker;
pub use desk::Approvals;
pub use digest::{Digest, DigestError, IdempotencyKey};
pub use error::ApprovalError;
pub use listing::{Listed, Review};
pub use machine::{Event, Guard, Role, State};
pub use names::{Account, ActionId, Authenticated, NameError, Principal, RevisionId, TenantId};
pub use permit::{Done, Effect, NotDone, Permit};
pub use policy::{Matter, Permissions, Policies, Policy};
pub use proposal::{ContentRef, Delivery, PolicyRef, Proposal};
pub use propose::Pending;
pub use request::{Asked, Refused, request};
pub use settle::{Lookup, Receiver, Reconciled, Settlement};
pub use text::Deceit;
pub use token::{AnswerToken, AnswerTokenError};
pub use view::{ReviewView, ViewField};
