//! An action's rows: what is stored of it, read and written in one atomic step each.
//!
//! ```text
//! Head          summary, for lists; replaced by every step, so that it is what a step compares
//! Aside 0x40    the action as it stands
//! Aside 0x41    revisions, by number: the bytes that were proposed; never written again
//! Aside 0x42    audit, by number: each has the hash of the one before, and of the action after it
//! Aside 0x43    receipts, by revision
//! Aside 0x45    beside a tenant's refusals: how many there are
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Account, ActionId, ApprovalError, AuditEntry, Digest, PolicyRef, Principal, RevisionId, State, TenantId};
use crate::{
    CheckpointError, ThreadId,
    checkpoint::{Change, Checkpointer, Commit, Expect, Key, Listing, rows},
    id::{CallId, RunNo},
};

pub(super) const ACTION: Key = Key::Aside { space: 0x40, id: 0, chunk: 0 };
const REFUSALS: Key = Key::Aside { space: 0x45, id: 0, chunk: 0 };

/// Under which class an action is listed; stored, so never to be changed.
pub(super) mod class {
    pub(in crate::approval) const PENDING: u8 = 140;
    pub(in crate::approval) const APPROVED: u8 = 141;
    /// It was approved, and needs a reviewer again.
    pub(in crate::approval) const ATTENTION: u8 = 142;
    pub(in crate::approval) const EXECUTING: u8 = 143;
    pub(in crate::approval) const UNCERTAIN: u8 = 144;
    pub(in crate::approval) const OVER: u8 = 145;
}

/// An action as it stands, under its current revision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "an action's name is its action")]
pub(super) struct Action {
    /// Grows with each step.
    pub(super) step: u64,
    pub(super) tenant: TenantId,
    pub(super) action: ActionId,
    pub(super) revision: u32,
    pub(super) digest: Digest,
    pub(super) state: State,
    pub(super) op: String,
    pub(super) target: String,
    pub(super) policy: PolicyRef,
    pub(super) expires_ms: u64,
    /// The greatest time that was ever seen here: time does not go back.
    pub(super) seen_ms: u64,
    /// When the state was reached.
    pub(super) since_ms: u64,
    pub(super) requester: Principal,
    /// The run that waits for it.
    pub(super) waits: Option<Caller>,
    pub(super) tokens: Vec<Token>,
    pub(super) votes: Vec<Vote>,
    /// Grows with each claim.
    pub(super) fence: u64,
    /// How many claims there were of this revision.
    pub(super) attempt: u32,
    pub(super) claim: Option<Claim>,
    /// When the effect was first begun.
    pub(super) sent_ms: Option<u64>,
    /// Why it is as it is.
    pub(super) reason: String,
    pub(super) settlements: Vec<Settled>,
    /// Why it needs a reviewer again.
    pub(super) attention: Option<String>,
    /// SHA-256 of the receipt, if there is one.
    pub(super) receipt: Option<Digest>,
    /// How many audit entries there are, and the hash of the last.
    pub(super) audited: u64,
    pub(super) audit: Digest,
}

/// A token that lets somebody answer once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Token {
    /// SHA-256 of it.
    pub(super) hash: Digest,
    /// Whom it was given to; `None`: whoever may review.
    pub(super) holder: Option<Account>,
    /// Who has spent it, and on what.
    pub(super) spent: Option<(Account, bool)>,
}

/// A reviewer's word.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Vote {
    pub(super) who: Principal,
    pub(super) method: String,
    pub(super) person: String,
    pub(super) approves: bool,
    pub(super) at_ms: u64,
}

/// An operator's word.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settled {
    pub(super) person: String,
    pub(super) happened: bool,
}

/// Under what an action is executed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    /// SHA-256 of the token that the permit has.
    pub(super) hash: Digest,
    pub(super) worker: Principal,
    /// The call of a run that it was claimed in.
    pub(super) call: Option<Caller>,
    pub(super) lease_ms: u64,
    pub(super) until_ms: u64,
    /// Whether the effect may have been begun.
    pub(super) begun: bool,
}

/// A call of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Caller {
    pub(super) thread: String,
    pub(super) run: RunNo,
    pub(super) call: CallId,
}

/// What lists show of an action.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) step: u64,
    pub(super) id: RevisionId,
    pub(super) digest: Digest,
    pub(super) state: State,
    pub(super) op: String,
    pub(super) target: String,
    pub(super) expires_ms: u64,
    pub(super) since_ms: u64,
    pub(super) note: String,
}

/// What was proposed under one revision; never written again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Revision {
    #[serde(with = "serde_bytes")]
    pub(super) canonical: Vec<u8>,
    pub(super) title: String,
    /// What the shown hashes of secrets are made with.
    pub(super) salt: [u8; 16],
}

impl Action {
    pub(super) fn id(&self) -> RevisionId {
        RevisionId { tenant: self.tenant.clone(), action: self.action.clone(), revision: self.revision }
    }

    fn listing(&self) -> Listing {
        let lease = self.claim.as_ref().map_or(self.since_ms, |claim| claim.until_ms);
        let (class, at_ms) = match self.state {
            State::Pending => (class::PENDING, self.expires_ms),
            State::Approved if self.attention.is_some() => (class::ATTENTION, self.expires_ms),
            State::Approved => (class::APPROVED, self.expires_ms),
            State::Executing => (class::EXECUTING, lease),
            State::Uncertain => (class::UNCERTAIN, self.since_ms),
            State::Rejected
            | State::Expired
            | State::Superseded
            | State::Revoked
            | State::Completed
            | State::Failed => (class::OVER, self.since_ms),
        };
        Listing { class, at_ms }
    }

    fn summary(&self) -> Summary {
        let mut note = self.attention.clone().unwrap_or_else(|| self.reason.clone());
        let cut = note.char_indices().nth(200).map_or(note.len(), |(at, _)| at);
        note.truncate(cut);
        Summary {
            step: self.step,
            id: self.id(),
            digest: self.digest,
            state: self.state,
            op: self.op.clone(),
            target: self.target.clone(),
            expires_ms: self.expires_ms,
            since_ms: self.since_ms,
            note,
        }
    }

    /// A hash of all of it but of what the audit itself adds.
    fn fingerprint(&self) -> Digest {
        let plain = Self { audited: 0, audit: Digest([0; 32]), ..self.clone() };
        sha256(b"durably.approval.action.v1\0", &pack(&plain))
    }
}

/// An action as it was read, and what the next step compares.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) thread: ThreadId,
    head: Option<Vec<u8>>,
    pub(super) action: Option<Action>,
    pub(super) now_ms: u64,
}

/// Where a tenant's action is kept.
pub(super) fn thread_of(tenant: &TenantId, action: &ActionId) -> ThreadId {
    ThreadId::reserved("approval", &joined(b'a', &[tenant.as_str(), action.as_str()]))
}

/// Where the refusals are kept that belong to no action of the tenant.
pub(super) fn refusals_of(tenant: &TenantId) -> ThreadId {
    ThreadId::reserved("approval", &joined(b'r', &[tenant.as_str()]))
}

/// Parts with their lengths: no two lists give the same bytes.
fn joined(kind: u8, parts: &[&str]) -> Vec<u8> {
    let mut bytes = vec![kind];
    for part in parts {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

pub(super) fn sha256(domain: &[u8], bytes: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update(domain).chain_update(bytes).finalize().into())
}

fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec(value).expect("our own rows have nothing that cannot be written")
}

fn unpack<'b, T: Deserialize<'b>>(bytes: &'b [u8], what: &str) -> Result<T, ApprovalError> {
    rmp_serde::from_slice(bytes).map_err(|error| ApprovalError::Corrupt { detail: format!("{what}: {error}") })
}

fn corrupt(detail: impl Into<String>) -> ApprovalError {
    ApprovalError::Corrupt { detail: detail.into() }
}

fn put<T: Serialize>(thread: &ThreadId, key: Key, value: &T, changes: &mut Vec<Change>) -> Result<(), CheckpointError> {
    rows::seal(thread, key, &pack(value), rows::PAYLOAD_LIMIT, changes)
}

fn revision_key(revision: u32) -> Key {
    Key::Aside { space: 0x41, id: revision.into(), chunk: 0 }
}

fn audit_key(seq: u64) -> Key {
    Key::Aside { space: 0x42, id: seq.into(), chunk: 0 }
}

fn receipt_key(revision: u32) -> Key {
    Key::Aside { space: 0x43, id: revision.into(), chunk: 0 }
}

/// Reads and writes actions.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    checkpointer: Arc<dyn Checkpointer>,
}

impl Rows {
    pub(super) fn new(checkpointer: Arc<dyn Checkpointer>) -> Self {
        Self { checkpointer }
    }

    pub(super) fn checkpointer(&self) -> &Arc<dyn Checkpointer> {
        &self.checkpointer
    }

    async fn item(&self, thread: &ThreadId, key: Key) -> Result<Option<Vec<u8>>, ApprovalError> {
        let stored = self.checkpointer.scan(thread, key, key.with_chunk(u16::MAX)).await?;
        Ok(rows::unseal(thread, stored)?.into_iter().next().map(|(_, bytes)| bytes))
    }

    /// Reads an action, if what is stored fits together: the summary, the action, and the last entry of its audit.
    pub(super) async fn load(
        &self,
        tenant: &TenantId,
        action: &ActionId,
        clock_ms: u64,
    ) -> Result<Desk, ApprovalError> {
        let desk = self.load_unchecked(tenant, action, clock_ms).await?;
        if let Some(action) = &desk.action {
            let last = action.audited.checked_sub(1).ok_or_else(|| corrupt("the action has no audit"))?;
            let bytes = self.item(&desk.thread, audit_key(last)).await?;
            let bytes = bytes.ok_or_else(|| corrupt(format!("audit entry {last} is missing")))?;
            check_last(action, &bytes)?;
        }
        Ok(desk)
    }

    /// Reads an action without a look at its audit.
    pub(super) async fn load_unchecked(
        &self,
        tenant: &TenantId,
        action: &ActionId,
        clock_ms: u64,
    ) -> Result<Desk, ApprovalError> {
        let thread = thread_of(tenant, action);
        // As of one moment: the head is written in every step.
        let mut stored = self.checkpointer.scan(&thread, Key::Head, ACTION.with_chunk(u16::MAX)).await?;
        if stored.first().is_none_or(|(key, _)| *key != Key::Head) {
            return match stored.is_empty() {
                true => Ok(Desk { thread, head: None, action: None, now_ms: clock_ms }),
                false => Err(corrupt("the action's head is missing")),
            };
        }
        let (_, head) = stored.remove(0);
        let summary: Summary = unpack(&rows::unseal_one(&thread, Key::Head, head.clone())?, "the action's head")?;
        let bytes = rows::unseal(&thread, stored)?.into_iter().next();
        let (_, bytes) = bytes.ok_or_else(|| corrupt("the action's row is missing"))?;
        let found: Action = unpack(&bytes, "the action's row")?;
        if found.step != summary.step || found.tenant != *tenant || found.action != *action {
            return Err(corrupt("the action's head and row do not fit together"));
        }
        let now_ms = clock_ms.max(found.seen_ms);
        Ok(Desk { thread, head: Some(head), action: Some(found), now_ms })
    }

    /// Makes a step: the action as it is from now on, and the audit of what was done. Refused with
    /// [`CheckpointError::Conflict`] if somebody else was first.
    pub(super) async fn save(
        &self,
        desk: &Desk,
        mut action: Action,
        entries: Vec<AuditEntry>,
        mut changes: Vec<Change>,
    ) -> Result<Action, ApprovalError> {
        action.step += 1;
        action.seen_ms = desk.now_ms;
        let after = action.fingerprint();
        for mut entry in entries {
            (entry.seq, entry.previous, entry.after) = (action.audited, action.audit, after);
            let bytes = pack(&entry);
            rows::seal(&desk.thread, audit_key(entry.seq), &bytes, rows::PAYLOAD_LIMIT, &mut changes)?;
            action.audited += 1;
            action.audit = entry_hash(&bytes);
        }
        put(&desk.thread, Key::Head, &action.summary(), &mut changes)?;
        changes.push(rows::remove(ACTION));
        put(&desk.thread, ACTION, &action, &mut changes)?;
        changes.push(Change::List(action.listing()));
        let expect = match &desk.head {
            Some(head) => Expect::Equals(Key::Head, head.clone()),
            None => Expect::Absent(Key::Head),
        };
        self.checkpointer.commit(Commit { thread: desk.thread.clone(), expect: vec![expect], changes }).await?;
        Ok(action)
    }

    /// The bytes of a new revision.
    pub(super) fn put_revision(desk: &Desk, number: u32, revision: &Revision) -> Result<Vec<Change>, ApprovalError> {
        let mut changes = Vec::new();
        put(&desk.thread, revision_key(number), revision, &mut changes)?;
        Ok(changes)
    }

    pub(super) async fn revision(&self, desk: &Desk, number: u32) -> Result<Revision, ApprovalError> {
        let bytes = self.item(&desk.thread, revision_key(number)).await?;
        unpack(&bytes.ok_or_else(|| corrupt(format!("revision {number} is missing")))?, "a revision")
    }

    /// The rows of a receipt, and what its bytes hash to.
    pub(super) fn put_receipt(
        desk: &Desk,
        number: u32,
        receipt: &[u8],
    ) -> Result<(Vec<Change>, Digest), ApprovalError> {
        let mut changes = Vec::new();
        rows::seal(&desk.thread, receipt_key(number), receipt, rows::PAYLOAD_LIMIT, &mut changes)?;
        Ok((changes, sha256(b"durably.approval.receipt.v1\0", receipt)))
    }

    /// The receipt of the current revision.
    pub(super) async fn receipt(&self, desk: &Desk, action: &Action) -> Result<Option<Vec<u8>>, ApprovalError> {
        let Some(digest) = action.receipt else { return Ok(None) };
        let bytes = self.item(&desk.thread, receipt_key(action.revision)).await?;
        match bytes.filter(|bytes| sha256(b"durably.approval.receipt.v1\0", bytes) == digest) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(corrupt("the receipt is not the one that was stored")),
        }
    }

    /// The audit of a thread, in order, each entry with its hash.
    pub(super) async fn audit(&self, thread: &ThreadId) -> Result<Vec<(AuditEntry, Digest)>, ApprovalError> {
        let last = Key::Aside { space: 0x42, id: u128::MAX, chunk: u16::MAX };
        let stored = self.checkpointer.scan(thread, audit_key(0), last).await?;
        let items = rows::unseal(thread, stored)?;
        items.into_iter().map(|(_, bytes)| Ok((unpack(&bytes, "an audit entry")?, entry_hash(&bytes)))).collect()
    }

    /// Appends to the refusals of a tenant that belong to none of its actions.
    pub(super) async fn refuse(&self, tenant: &TenantId, mut entry: AuditEntry) -> Result<(), ApprovalError> {
        let thread = refusals_of(tenant);
        let row = self.checkpointer.get(&thread, REFUSALS).await?;
        let (count, previous) = match &row {
            Some(row) => unpack(&rows::unseal_one(&thread, REFUSALS, row.clone())?, "the count of refusals")?,
            None => (0_u64, Digest([0; 32])),
        };
        (entry.seq, entry.previous) = (count, previous);
        let bytes = pack(&entry);
        let mut changes = Vec::new();
        rows::seal(&thread, audit_key(count), &bytes, rows::PAYLOAD_LIMIT, &mut changes)?;
        put(&thread, REFUSALS, &(count + 1, entry_hash(&bytes)), &mut changes)?;
        let expect = vec![row.map_or(Expect::Absent(REFUSALS), |row| Expect::Equals(REFUSALS, row))];
        Ok(self.checkpointer.commit(Commit { thread, expect, changes }).await?)
    }

    /// How many refusals there are, and the hash of the last.
    pub(super) async fn refused(&self, thread: &ThreadId) -> Result<(u64, Digest), ApprovalError> {
        match self.item(thread, REFUSALS).await? {
            Some(bytes) => unpack(&bytes, "the count of refusals"),
            None => Ok((0, Digest([0; 32]))),
        }
    }
}

fn entry_hash(bytes: &[u8]) -> Digest {
    sha256(b"durably.approval.audit.v1\0", bytes)
}

/// Whether an action is the one that the last entry of its audit says it is.
pub(super) fn check_last(action: &Action, last: &[u8]) -> Result<(), ApprovalError> {
    let entry: AuditEntry = unpack(last, "an audit entry")?;
    if entry_hash(last) != action.audit {
        return Err(corrupt(format!("the audit is broken: entry {} is not the one that was stored", entry.seq)));
    }
    if entry.after != action.fingerprint() {
        return Err(corrupt("the audit is broken: the action is not as its last entry left it"));
    }
    Ok(())
}

/// Reads a summary from a list.
pub(super) fn summary(thread: &ThreadId, head: &[u8]) -> Result<Summary, ApprovalError> {
    unpack(&rows::unseal_one(thread, Key::Head, head.to_vec())?, "the action's head")
}

/// Whether an action fits to the whole of its audit.
pub(super) fn fits(action: &Action, count: usize, last: Digest, after: Digest) -> Result<(), ApprovalError> {
    if u64::try_from(count) != Ok(action.audited) {
        return Err(corrupt(format!("the audit is broken: {count} entries are left of {}", action.audited)));
    }
    if last != action.audit || after != action.fingerprint() {
        return Err(corrupt("the audit is broken: the action is not as its last entry left it"));
    }
    Ok(())
}
