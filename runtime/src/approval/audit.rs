//! What was done and what was refused, each entry chained to the one before.

use std::{fmt, time::SystemTime};

use serde::{Deserialize, Serialize};

use super::{ActionId, ApprovalError, Approvals, Digest, Principal, Role, State, rows};
use crate::environment::moment;

/// One entry of an audit. Entries are never changed and never removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub(super) seq: u64,
    /// The hash of the entry before.
    pub(super) previous: Digest,
    /// The hash of the action after this.
    pub(super) after: Digest,
    pub(super) revision: u32,
    pub(super) event: String,
    pub(super) refused: bool,
    pub(super) role: Role,
    pub(super) who: Option<Principal>,
    pub(super) method: String,
    pub(super) from: Option<State>,
    pub(super) to: Option<State>,
    pub(super) digest: Option<Digest>,
    pub(super) fence: u64,
    pub(super) at_ms: u64,
    pub(super) reason: String,
}

impl AuditEntry {
    /// Its place: the first is 0.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// What was asked: `approve`, `claim`, `begin`.
    #[must_use]
    pub fn event(&self) -> &str {
        &self.event
    }

    /// Whether it was refused, so that nothing else was changed.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// The revision that was meant.
    #[must_use]
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// In which part they acted.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Who acted; `None`: the clock.
    #[must_use]
    pub fn who(&self) -> Option<&Principal> {
        self.who.as_ref()
    }

    /// How they were authenticated; empty for programs.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The state before; `None`: it was not there.
    #[must_use]
    pub fn from(&self) -> Option<State> {
        self.from
    }

    /// The state after.
    #[must_use]
    pub fn to(&self) -> Option<State> {
        self.to
    }

    /// The digest that was named.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The fence of the claim that counts.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// When, by the store's clock, which never goes back.
    #[must_use]
    pub fn at(&self) -> SystemTime {
        moment(self.at_ms)
    }

    /// Why, without secrets.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A line for people: place, time, who, what, and what became of it.
impl fmt::Display for AuditEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = self.who.as_ref().map_or("-", |who| who.account.as_str());
        write!(f, "{} revision {}: {} {} by {} {who}", self.seq, self.revision, self.role, self.event, self.at_ms)?;
        match (self.refused, self.to) {
            (true, _) => write!(f, ": refused")?,
            (false, Some(to)) => write!(f, ": {to}")?,
            (false, None) => {}
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({:?})", self.reason) }
    }
}

impl Approvals {
    /// All that was done and refused on an action, in order, with every link of the chain looked at.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Forbidden`] for whoever has no part in it, [`ApprovalError::Corrupt`] if an entry, or the action
    /// itself, is not as it was left.
    pub async fn audit(&self, who: &Principal, action: &ActionId) -> Result<Vec<AuditEntry>, ApprovalError> {
        let mut desk = self.rows.load_unchecked(&who.tenant, action, self.clock_ms()).await?;
        let entries = loop {
            self.has_a_part(who, desk.action.as_ref().ok_or(ApprovalError::Forbidden)?).await?;
            let entries = self.rows.audit(&desk.thread).await?;
            // The action and its entries are two reads: a step between them is no damage.
            let now = self.rows.load_unchecked(&who.tenant, action, self.clock_ms()).await?;
            let end = |desk: &rows::Desk| desk.action.as_ref().map(|action| action.audit);
            if end(&now) == end(&desk) {
                break entries;
            }
            desk = now;
        };
        let found = desk.action.as_ref().ok_or(ApprovalError::Forbidden)?;
        chained(&entries)?;
        let (entry, hash) = entries.last().ok_or_else(|| broken(0, "it is empty"))?;
        rows::fits(found, entries.len(), *hash, entry.after)?;
        Ok(entries.into_iter().map(|(entry, _)| entry).collect())
    }

    /// What was refused in a tenant and belongs to none of its actions: answers for what is not there, proposals that have
    /// no canonical form.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Corrupt`] if an entry is not as it was left.
    pub async fn refusals(&self, who: &Principal) -> Result<Vec<AuditEntry>, ApprovalError> {
        let thread = rows::refusals_of(&who.tenant);
        let (count, last) = self.rows.refused(&thread).await?;
        let mut entries = self.rows.audit(&thread).await?;
        // Others may have been added since.
        entries.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        chained(&entries)?;
        if u64::try_from(entries.len()) != Ok(count) || entries.last().is_some_and(|(_, hash)| *hash != last) {
            return Err(broken(count, "its end is missing"));
        }
        Ok(entries.into_iter().map(|(entry, _)| entry).collect())
    }
}

/// Whether each entry follows the one before.
fn chained(entries: &[(AuditEntry, Digest)]) -> Result<(), ApprovalError> {
    let mut previous = Digest([0; 32]);
    for (seq, (entry, hash)) in (0..).zip(entries) {
        if entry.seq != seq {
            return Err(broken(seq, "it is missing"));
        }
        if entry.previous != previous {
            return Err(broken(seq, "it does not follow the one before"));
        }
        previous = *hash;
    }
    Ok(())
}

fn broken(seq: u64, detail: &str) -> ApprovalError {
    ApprovalError::Corrupt { detail: format!("the audit is broken at entry {seq}: {detail}") }
}
