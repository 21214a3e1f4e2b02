//! Lists of actions, and what time does to them.

use std::time::SystemTime;

use super::{
    ApprovalError, Approvals, Authenticated, Digest, Pending, Principal, ReviewView, RevisionId, Role, State,
    desk::tries,
    rows::{self, Desk, Summary, class},
};
use crate::{checkpoint::ThreadQuery, environment::moment};

/// How many actions are looked at at a time.
const PAGE: usize = 256;

/// One action in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its current revision.
    pub id: RevisionId,
    /// The digest of that.
    pub digest: Digest,
    /// How it stands.
    pub state: State,
    /// The operation.
    pub op: String,
    /// What it is done to.
    pub target: String,
    /// Until when it may be approved and executed.
    pub expires_at: SystemTime,
    /// Since when it stands so.
    pub since: SystemTime,
    /// Why it stands so, or why it needs a reviewer again.
    pub note: String,
}

/// A revision as it stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Review {
    /// The revision.
    pub id: RevisionId,
    /// Its digest.
    pub digest: Digest,
    /// How it stands.
    pub state: State,
    /// The current revision of the action.
    pub current: u32,
    /// What it says.
    pub view: ReviewView,
    /// Who asked for it.
    pub requester: Principal,
    /// Who has approved it.
    pub approved_by: Vec<Principal>,
    /// Why it stands as it does.
    pub reason: String,
    /// Why it needs a reviewer again.
    pub attention: Option<String>,
    /// The thread of the run that waits for it.
    pub thread: Option<String>,
}

impl From<Summary> for Listed {
    fn from(summary: Summary) -> Self {
        Self {
            id: summary.id,
            digest: summary.digest,
            state: summary.state,
            op: summary.op,
            target: summary.target,
            expires_at: moment(summary.expires_ms),
            since: moment(summary.since_ms),
            note: summary.note,
        }
    }
}

impl Approvals {
    /// How a revision stands, with what time has done to it.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Forbidden`] if it is not there, or `who` has no part in it.
    pub async fn state(&self, who: &Principal, id: &RevisionId) -> Result<State, ApprovalError> {
        Ok(self.look(who, id).await?.state)
    }

    /// A revision as it stands.
    ///
    /// # Errors
    ///
    /// As [`state`](Self::state).
    pub async fn look(&self, who: &Principal, id: &RevisionId) -> Result<Review, ApprovalError> {
        tries!(self.look_once(who, id).await)
    }

    async fn look_once(&self, who: &Principal, id: &RevisionId) -> Result<Review, ApprovalError> {
        let desk = self.desk(&id.tenant, &id.action).await?;
        let action = desk.found()?;
        self.has_a_part(who, action).await?;
        if id.revision == 0 || id.revision > action.revision {
            return Err(ApprovalError::Stale { current: action.revision });
        }
        let is_current = id.revision == action.revision;
        let digest = if is_current { action.digest } else { self.digest_of(&desk, id.revision).await? };
        let view = self.view_of(&desk, id.revision, digest).await?;
        let approvers = action.votes.iter().filter(|vote| vote.approves && is_current);
        Ok(Review {
            id: id.clone(),
            digest,
            // Only a newer revision moves the pointer.
            state: if is_current { action.state } else { State::Superseded },
            current: action.revision,
            view,
            requester: action.requester.clone(),
            approved_by: approvers.map(|vote| vote.who.clone()).collect(),
            reason: action.reason.clone(),
            attention: action.attention.clone(),
            thread: action.waits.as_ref().map(|waits| waits.thread.clone()),
        })
    }

    /// The digest of a revision that is not the current one.
    async fn digest_of(&self, desk: &Desk, revision: u32) -> Result<Digest, ApprovalError> {
        let stored = self.rows.revision(desk, revision).await?.canonical;
        let text = String::from_utf8(stored).map_err(|error| ApprovalError::Corrupt { detail: error.to_string() })?;
        Ok(Digest::of(&text))
    }

    /// Opens a review: what the reviewer is shown, and a token that is theirs alone. An earlier token of theirs for this
    /// revision is void.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Forbidden`] if it is not there, or they may not review it; [`ApprovalError::Stale`] if another
    /// revision is the current one.
    pub async fn review(&self, who: &Authenticated, id: &RevisionId) -> Result<Pending, ApprovalError> {
        tries!(
            async {
                let desk = self.desk(&who.principal.tenant, &id.action).await?;
                self.permits(&who.principal, Role::Reviewer, &desk).await?;
                self.pending_of(
                    &RevisionId { tenant: who.principal.tenant.clone(), ..id.clone() },
                    Some(&who.principal.account),
                )
                .await
            }
            .await
        )
    }

    /// What waits for reviewers and may be reviewed by `who`: pending ones, and approved ones whose claim was refused since
    /// a reviewer or the policy is no longer what it was. Those whose time ends first come first.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Store`] if the store cannot be read.
    pub async fn pending(&self, who: &Principal) -> Result<Vec<Listed>, ApprovalError> {
        self.due(&[class::PENDING, class::ATTENTION], self.clock_ms()).await?;
        let mut listed = self.list(class::PENDING, who, Role::Reviewer).await?;
        listed.extend(self.list(class::ATTENTION, who, Role::Reviewer).await?);
        Ok(listed)
    }

    /// What is uncertain and may be settled or reconciled by `who`, the oldest first: all of it, until it is settled.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Store`] if the store cannot be read.
    pub async fn uncertain(&self, who: &Principal) -> Result<Vec<Listed>, ApprovalError> {
        self.due(&[class::EXECUTING], self.clock_ms()).await?;
        let mut listed = self.list(class::UNCERTAIN, who, Role::Operator).await?;
        let more = self.list(class::UNCERTAIN, who, Role::Reconciler).await?;
        listed.extend(more.into_iter().filter(|more| !listed.contains(more)).collect::<Vec<_>>());
        Ok(listed)
    }

    /// Lets time pass: expires what is over, and makes uncertain whatever executes under a lease that has ended. How many
    /// there were. For the start of a process, and now and then; each verb does it for the action that it is about.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Store`] if the store cannot be read or written.
    pub async fn run_due(&self) -> Result<usize, ApprovalError> {
        let classes = [class::PENDING, class::APPROVED, class::ATTENTION, class::EXECUTING];
        self.due(&classes, self.clock_ms()).await
    }

    async fn due(&self, classes: &[u8], until_ms: u64) -> Result<usize, ApprovalError> {
        let mut count = 0;
        for class in classes {
            for summary in self.scan(*class, Some(until_ms)).await? {
                let desk = tries!(self.desk(&summary.id.tenant, &summary.id.action).await)?;
                count += usize::from(desk.found()?.state != summary.state);
            }
        }
        Ok(count)
    }

    async fn list(&self, class: u8, who: &Principal, role: Role) -> Result<Vec<Listed>, ApprovalError> {
        let mut listed = Vec::new();
        for summary in self.scan(class, None).await? {
            let matter =
                super::Matter { id: summary.id.clone(), op: summary.op.clone(), target: summary.target.clone() };
            if let Some(policy) = self.policies.of(&summary.op)
                && policy.admits(who, role, &matter).await
            {
                listed.push(summary.into());
            }
        }
        Ok(listed)
    }

    /// The actions of a class, by one scan of the list.
    async fn scan(&self, class: u8, until_ms: Option<u64>) -> Result<Vec<Summary>, ApprovalError> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let query = ThreadQuery { class: Some(class), until_ms, after, limit: PAGE };
            let page = self.rows.checkpointer().threads(query).await?;
            for listed in page.threads {
                found.push(rows::summary(&listed.thread, &listed.head)?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }
}
