//! The states of a revision and its moves, as a pure function. What is not allowed here cannot happen.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a revision stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It waits for its reviewers.
    Pending,
    /// It may be executed, by whoever claims it first.
    Approved,
    /// A reviewer said no.
    Rejected,
    /// Its time is over.
    Expired,
    /// A newer revision took its place.
    Superseded,
    /// It was approved, and that was taken back.
    Revoked,
    /// Somebody has claimed it and may be executing it.
    Executing,
    /// The effect happened.
    Completed,
    /// The effect did not happen, and never will.
    Failed,
    /// Whether the effect happened is not known.
    Uncertain,
}

/// What may happen to a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Event {
    /// t1: it is proposed.
    Propose,
    /// t2: a newer revision is proposed.
    Supersede,
    /// t3: a reviewer approves.
    Approve,
    /// t4: a reviewer rejects.
    Reject,
    /// t5: an approval is taken back.
    Revoke,
    /// t6: its time is over.
    Expire,
    /// t7: a worker claims it.
    Claim,
    /// t8: the effect happened.
    Complete,
    /// t9: the effect did not happen.
    Fail,
    /// t10: it is not known whether the effect happened.
    Lose,
    /// t11: the receiver says what became of it.
    Resolve,
    /// t12: it is sent again under the same key.
    Again,
    /// t13: a person says what became of it.
    Settle,
}

/// In which part somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Proposes.
    Requester,
    /// Decides.
    Reviewer,
    /// Settles what is uncertain, and takes approvals back.
    Operator,
    /// Executes.
    Executor,
    /// Asks the receiver.
    Reconciler,
    /// Lets time pass.
    Clock,
}

/// What has to hold for a move, checked in the same atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Guard {
    /// The revision is the current one; for a new one, the next.
    Current,
    /// The digest is that of the stored bytes.
    Digest,
    /// Its time is not over; for `Expire`, it is.
    Time,
    /// The policy is as it was, and lets them.
    Permission,
    /// Whoever decides is not whoever asked, where the policy wants two.
    Distinct,
    /// The claim is the one under which it executes.
    Claim,
    /// The claim's lease has not ended; for the clock, it has.
    Lease,
    /// The receiver's word can be relied on.
    Reliable,
    /// The receiver takes the same key once, and is still within the time for which it does.
    Idempotent,
    /// There is a reason.
    Reason,
}

/// The guards that do not hold; all others do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Broken(u16);

impl Guard {
    /// All of them, in the order in which a refusal names them.
    pub(crate) const ALL: [Self; 10] = [
        Self::Permission,
        Self::Current,
        Self::Digest,
        Self::Time,
        Self::Distinct,
        Self::Claim,
        Self::Lease,
        Self::Reliable,
        Self::Idempotent,
        Self::Reason,
    ];
}

impl Broken {
    /// And this one, unless it holds.
    pub(crate) fn unless(self, holds: bool, guard: Guard) -> Self {
        if holds { self } else { Self(self.0 | 1 << guard as u16) }
    }

    fn has(self, guard: Guard) -> bool {
        self.0 & 1 << guard as u16 != 0
    }
}

/// What is known when something is to happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// The guards that do not hold.
    pub(crate) broken: Broken,
    /// Whether enough distinct people have said so, this time included.
    pub(crate) enough: bool,
    /// For `Resolve` and `Settle`: whether the effect happened.
    pub(crate) happened: bool,
}

/// Why a move is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// This never happens from here, or not by them.
    NotAllowed,
    /// This does not hold.
    Guard(Guard),
}

impl State {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Approved,
        Self::Rejected,
        Self::Expired,
        Self::Superseded,
        Self::Revoked,
        Self::Executing,
        Self::Completed,
        Self::Failed,
        Self::Uncertain,
    ];

    /// Whether nothing more happens to it but that a newer revision takes its place.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Pending | Self::Approved | Self::Executing | Self::Uncertain => false,
            Self::Rejected | Self::Expired | Self::Superseded | Self::Revoked | Self::Completed | Self::Failed => true,
        }
    }
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Propose,
        Self::Supersede,
        Self::Approve,
        Self::Reject,
        Self::Revoke,
        Self::Expire,
        Self::Claim,
        Self::Complete,
        Self::Fail,
        Self::Lose,
        Self::Resolve,
        Self::Again,
        Self::Settle,
    ];

    /// What has to hold for it.
    #[expect(clippy::match_same_arms, reason = "a line for each event")]
    fn guards(self, by: Role) -> &'static [Guard] {
        match (self, by) {
            (Self::Propose, _) => &[Guard::Permission, Guard::Current, Guard::Digest, Guard::Time],
            (Self::Supersede, _) => &[Guard::Permission, Guard::Current],
            (Self::Approve | Self::Reject, _) => {
                &[Guard::Permission, Guard::Current, Guard::Digest, Guard::Time, Guard::Distinct]
            }
            (Self::Revoke, _) => &[Guard::Permission, Guard::Current],
            (Self::Expire, _) => &[Guard::Time],
            (Self::Claim, _) => &[Guard::Current, Guard::Digest, Guard::Time, Guard::Permission],
            (Self::Complete | Self::Fail, _) => &[Guard::Claim, Guard::Lease],
            (Self::Lose, Role::Clock) => &[Guard::Lease],
            (Self::Lose, _) => &[Guard::Claim],
            (Self::Resolve, _) => &[Guard::Current, Guard::Permission, Guard::Reliable],
            (Self::Again, _) => &[Guard::Current, Guard::Digest, Guard::Time, Guard::Permission, Guard::Idempotent],
            (Self::Settle, _) => &[Guard::Permission, Guard::Current, Guard::Reason],
        }
    }
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Requester, Self::Reviewer, Self::Operator, Self::Executor, Self::Reconciler, Self::Clock];
}

/// One move. `from` is `None` for a revision that is not there yet.
#[expect(clippy::match_same_arms, reason = "a line for each move of the document's table")]
pub(crate) fn step(from: Option<State>, event: Event, by: Role, facts: Facts) -> Result<State, Refusal> {
    let ending = if facts.happened { State::Completed } else { State::Failed };
    let to = match (from, event, by) {
        (None, Event::Propose, Role::Requester) => State::Pending,
        (
            Some(State::Pending | State::Approved | State::Rejected | State::Expired),
            Event::Supersede,
            Role::Requester,
        ) => State::Superseded,
        // A vote that is not the last one leaves it as it is.
        (Some(State::Pending), Event::Approve, Role::Reviewer) if facts.enough => State::Approved,
        (Some(State::Pending), Event::Approve, Role::Reviewer) => State::Pending,
        (Some(State::Pending), Event::Reject, Role::Reviewer) => State::Rejected,
        (Some(State::Approved), Event::Revoke, Role::Reviewer | Role::Operator) => State::Revoked,
        (Some(State::Pending | State::Approved), Event::Expire, Role::Clock) => State::Expired,
        (Some(State::Approved), Event::Claim, Role::Executor) => State::Executing,
        (Some(State::Executing), Event::Complete, Role::Executor) => State::Completed,
        (Some(State::Executing), Event::Fail, Role::Executor) => State::Failed,
        (Some(State::Executing), Event::Lose, Role::Executor | Role::Clock) => State::Uncertain,
        (Some(State::Uncertain), Event::Resolve, Role::Reconciler) => ending,
        (Some(State::Uncertain), Event::Again, Role::Reconciler) => State::Executing,
        (Some(State::Uncertain), Event::Settle, Role::Operator) if facts.enough => ending,
        (Some(State::Uncertain), Event::Settle, Role::Operator) => State::Uncertain,
        _ => return Err(Refusal::NotAllowed),
    };
    let needed = event.guards(by);
    match Guard::ALL.into_iter().find(|guard| needed.contains(guard) && facts.broken.has(*guard)) {
        Some(guard) => Err(Refusal::Guard(guard)),
        None => Ok(to),
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Revoked => "revoked",
            Self::Executing => "executing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Uncertain => "uncertain",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Propose => "propose",
            Self::Supersede => "supersede",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Revoke => "revoke",
            Self::Expire => "expire",
            Self::Claim => "claim",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Lose => "lose",
            Self::Resolve => "resolve",
            Self::Again => "send again",
            Self::Settle => "settle",
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requester => "requester",
            Self::Reviewer => "reviewer",
            Self::Operator => "operator",
            Self::Executor => "executor",
            Self::Reconciler => "reconciler",
            Self::Clock => "clock",
        })
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "another revision is the current one",
            Self::Digest => "the digest is another one",
            Self::Time => "the time is over",
            Self::Permission => "the policy does not let them",
            Self::Distinct => "whoever asked cannot decide",
            Self::Claim => "another claim is the one that counts",
            Self::Lease => "the claim's lease has ended",
            Self::Reliable => "the receiver cannot tell",
            Self::Idempotent => "the receiver may take the key twice",
            Self::Reason => "a reason is wanted",
        })
    }
}
