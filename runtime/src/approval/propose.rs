//! Somebody proposes: a first revision, the same one again, or the next one.

use serde::{Serialize, de::DeserializeOwned};

use super::{
    AnswerToken, ApprovalError, Approvals, Digest, Event, Guard, Json, Principal, Proposal, ReviewView, RevisionId,
    Role, State,
    desk::{Actor, Move, entry, tries},
    machine::{self, Facts},
    proposal::Document,
    rows::{Action, Caller, Desk, Revision, Rows, Token},
};

/// The most tokens that an action keeps; the oldest that is not spent goes first.
const TOKENS: usize = 256;

/// A revision that waits for its reviewers, as somebody is shown it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pending {
    /// The revision.
    pub id: RevisionId,
    /// Its digest, which the answer names.
    pub digest: Digest,
    /// How it stands: no longer pending if it was proposed again after it was decided.
    pub state: State,
    /// What the reviewer is shown.
    pub view: ReviewView,
    /// Lets one reviewer answer once; `None` if it is not pending any more. Others open it by
    /// [`review`](Approvals::review).
    pub token: Option<AnswerToken>,
}

/// A proposal that has its canonical form.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) id: RevisionId,
    pub(super) document: Document,
    pub(super) canonical: String,
    pub(super) digest: Digest,
    pub(super) title: String,
    /// The call of a run that waits for it.
    pub(super) waits: Option<Caller>,
}

impl Offer {
    pub(super) fn of<A: Serialize + DeserializeOwned>(proposal: &Proposal<A>) -> Result<Self, ApprovalError> {
        let document = proposal.document()?;
        let canonical = document.canonical()?;
        if let Some(pointer) = document.misses_secret() {
            return Err(ApprovalError::NoSuchSecret { pointer: pointer.to_owned() });
        }
        let digest = Digest::of(&canonical);
        Ok(Self { id: proposal.id.clone(), document, canonical, digest, title: proposal.title.clone(), waits: None })
    }
}

impl Approvals {
    /// Proposes a revision of an action. The first is 1; another one takes the place of the one before, whose approval is
    /// then void. The same one again is the same one; its earlier tokens stay good.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Canonical`] and [`NoSuchSecret`](ApprovalError::NoSuchSecret) for what cannot be proposed;
    /// [`DigestMismatch`](ApprovalError::DigestMismatch) if the revision is there with other content;
    /// [`Stale`](ApprovalError::Stale) if it is not the next one; [`NoPolicy`](ApprovalError::NoPolicy),
    /// [`OtherPolicy`](ApprovalError::OtherPolicy), [`Forbidden`](ApprovalError::Forbidden),
    /// [`Expired`](ApprovalError::Expired); [`NotAllowed`](ApprovalError::NotAllowed) if the one before is executing or
    /// uncertain, or was executed or revoked: then it takes another action.
    pub async fn propose<A: Serialize + DeserializeOwned>(
        &self,
        who: &Principal,
        proposal: Proposal<A>,
    ) -> Result<Pending, ApprovalError> {
        match Offer::of(&proposal) {
            Ok(offer) => self.propose_offer(who, &offer).await,
            Err(error) => {
                let asked = Move::new(Event::Propose, Actor::new(Role::Requester, who, ""), proposal.id.revision);
                Err(self.refuse_plainly(&asked, &who.tenant, error).await)
            }
        }
    }

    /// As [`propose`](Self::propose), with arguments that are JSON text from outside, in any order and with any spaces.
    ///
    /// # Errors
    ///
    /// As [`propose`](Self::propose); a text that has no canonical form is [`ApprovalError::Canonical`].
    pub async fn propose_text(&self, who: &Principal, proposal: Proposal<&str>) -> Result<Pending, ApprovalError> {
        match Json::parse(proposal.args) {
            Ok(args) => self.propose(who, proposal.with_args(args)).await,
            Err(error) => {
                let asked = Move::new(Event::Propose, Actor::new(Role::Requester, who, ""), proposal.id.revision);
                Err(self.refuse_plainly(&asked, &who.tenant, error.within(".args").into()).await)
            }
        }
    }

    /// Proposes, and issues a token if it is pending.
    async fn propose_offer(&self, who: &Principal, offer: &Offer) -> Result<Pending, ApprovalError> {
        tries!(
            async {
                let action = self.offer(who, offer).await?;
                self.pending_of(&action.id(), None).await
            }
            .await
        )
    }

    /// Proposes; the action as it then stands.
    pub(super) async fn offer(&self, who: &Principal, offer: &Offer) -> Result<Action, ApprovalError> {
        let Offer { id, digest, .. } = offer;
        let asked = Move::new(Event::Propose, Actor::new(Role::Requester, who, ""), id.revision).digest(*digest);
        if who.tenant != id.tenant {
            return Err(self.refuse_plainly(&asked, &who.tenant, ApprovalError::Forbidden).await);
        }
        let desk = self.desk(&id.tenant, &id.action).await?;
        if let Err(error) = self.may_propose(who, offer).await {
            return Err(self.refuse(&desk, &asked, error).await);
        }
        let Some(action) = &desk.action else {
            let checks = (id.revision == 1, ApprovalError::Stale { current: 0 });
            return self.begin(&desk, who, offer, asked, checks).await;
        };
        if id.revision == action.revision {
            return if action.digest == *digest {
                Ok(action.clone())
            } else {
                Err(self.refuse(&desk, &asked, ApprovalError::DigestMismatch { current: action.digest }).await)
            };
        }
        let is_next = Some(id.revision) == action.revision.checked_add(1);
        self.begin(&desk, who, offer, asked, (is_next, ApprovalError::Stale { current: action.revision })).await
    }

    async fn may_propose(&self, who: &Principal, offer: &Offer) -> Result<(), ApprovalError> {
        let document = &offer.document;
        let policy = self.policies.of(&document.op);
        let policy = policy.ok_or_else(|| ApprovalError::NoPolicy { op: document.op.clone() })?;
        let matter = super::Matter { id: offer.id.clone(), op: document.op.clone(), target: document.target.clone() };
        if !policy.admits(who, Role::Requester, &matter).await {
            return Err(ApprovalError::Forbidden);
        }
        Ok(())
    }

    /// Writes a new revision, and the one before as superseded, in one step.
    async fn begin(
        &self,
        desk: &Desk,
        who: &Principal,
        offer: &Offer,
        asked: Move<'_>,
        (is_next, stale): (bool, ApprovalError),
    ) -> Result<Action, ApprovalError> {
        let Offer { id, document, canonical, digest, title, waits } = offer;
        let policy = self.policies.of(&document.op).map(|policy| policy.reference.clone());
        let checks = [
            (is_next, Guard::Current, stale),
            (
                policy.as_ref() == Some(&document.policy),
                Guard::Permission,
                ApprovalError::OtherPolicy { current: policy.clone().unwrap_or_else(|| document.policy.clone()) },
            ),
            (desk.now_ms < document.expires_at_ms, Guard::Time, ApprovalError::Expired),
        ];
        if let Some((_, _, error)) = checks.iter().find(|(holds, ..)| !holds) {
            return Err(self.refuse(desk, &asked, error.clone()).await);
        }
        let (mut entries, mut fence) = (Vec::new(), 0);
        if let Some(before) = &desk.action {
            let over = Move::new(Event::Supersede, asked.actor, before.revision).digest(before.digest);
            let Ok(to) = machine::step(Some(before.state), Event::Supersede, Role::Requester, Facts::default()) else {
                let error = ApprovalError::NotAllowed { state: Some(before.state), event: Event::Supersede };
                return Err(self.refuse(desk, &asked, error).await);
            };
            entries.push(entry(desk, &over, Some(before.state), Some(to), before.fence));
            fence = before.fence;
        }
        let Ok(state) = machine::step(None, Event::Propose, Role::Requester, Facts::default()) else {
            return Err(ApprovalError::NotAllowed { state: None, event: Event::Propose });
        };
        entries.push(entry(desk, &asked, None, Some(state), fence));
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).expect("the system's random source works");
        let revision = Revision { canonical: canonical.clone().into_bytes(), title: title.clone(), salt };
        let changes = Rows::put_revision(desk, id.revision, &revision)?;
        let (step, audited, audit) = match &desk.action {
            Some(before) => (before.step, before.audited, before.audit),
            None => (0, 0, Digest([0; 32])),
        };
        let action = Action {
            step,
            tenant: id.tenant.clone(),
            action: id.action.clone(),
            revision: id.revision,
            digest: *digest,
            state,
            op: document.op.clone(),
            target: document.target.clone(),
            policy: document.policy.clone(),
            expires_ms: document.expires_at_ms,
            seen_ms: desk.now_ms,
            since_ms: desk.now_ms,
            requester: who.clone(),
            waits: waits.clone(),
            tokens: Vec::new(),
            votes: Vec::new(),
            fence,
            attempt: 0,
            claim: None,
            sent_ms: None,
            reason: String::new(),
            settlements: Vec::new(),
            attention: None,
            receipt: None,
            audited,
            audit,
        };
        let saved = self.rows.save(desk, action, entries, changes).await?;
        if let Some(before) = &desk.action {
            self.tell(before).await;
        }
        Ok(saved)
    }

    /// What somebody is shown of a revision, with a token if it is pending.
    pub(super) async fn pending_of(
        &self,
        id: &RevisionId,
        holder: Option<&super::Account>,
    ) -> Result<Pending, ApprovalError> {
        let desk = self.desk(&id.tenant, &id.action).await?;
        let action = desk.id(id)?;
        let view = self.view_of(&desk, id.revision, action.digest).await?;
        let mut token = None;
        if action.state == State::Pending {
            let fresh = AnswerToken::new();
            let mut next = action.clone();
            if holder.is_some() {
                next.tokens.retain(|token| token.spent.is_some() || token.holder.as_ref() != holder);
            }
            if next.tokens.len() >= TOKENS
                && let Some(oldest) = next.tokens.iter().position(|token| token.spent.is_none())
            {
                next.tokens.remove(oldest);
            }
            next.tokens.push(Token { hash: fresh.hash(), holder: holder.cloned(), spent: None });
            self.rows.save(&desk, next, vec![Self::issued(&desk, action, holder)], Vec::new()).await?;
            token = Some(fresh);
        }
        Ok(Pending { id: id.clone(), digest: action.digest, state: action.state, view, token })
    }

    fn issued(desk: &Desk, action: &Action, holder: Option<&super::Account>) -> super::AuditEntry {
        let who = Principal {
            tenant: action.tenant.clone(),
            account: holder.cloned().unwrap_or_else(|| action.requester.account.clone()),
        };
        let role = if holder.is_some() { Role::Reviewer } else { Role::Requester };
        let shown = Move::new(Event::Propose, Actor::new(role, &who, ""), action.revision).digest(action.digest);
        let mut entry = entry(desk, &shown, Some(action.state), Some(action.state), action.fence);
        "show".clone_into(&mut entry.event);
        entry
    }

    /// The view of a stored revision, whose bytes are hashed again.
    pub(super) async fn view_of(&self, desk: &Desk, number: u32, digest: Digest) -> Result<ReviewView, ApprovalError> {
        let action = desk.found()?;
        let revision = self.rows.revision(desk, number).await?;
        let document =
            Document::read(&revision.canonical, &digest).map_err(|detail| ApprovalError::Corrupt { detail })?;
        Ok(ReviewView::of(&action.id().at(number), digest, &revision.title, &document, &revision.salt))
    }
}
