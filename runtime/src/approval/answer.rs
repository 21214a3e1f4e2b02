//! Somebody decides: an answer names the revision and the digest that were seen, and says yes or no.

use serde::{Deserialize, Serialize};

use super::{
    ActionId, AnswerToken, ApprovalError, Approvals, Authenticated, Digest, Event, Guard, Json, Pending, Role, State,
    desk::{Actor, Checks, Move, tries},
    rows::{Action, Desk, Vote},
    view::scrubbed,
};

/// What a reviewer decides. To change something is to reject it and to propose the next revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// It may be executed, exactly as it was seen.
    Approve,
    /// It may not.
    Reject {
        /// Why.
        reason: String,
    },
}

/// A reviewer's answer, as a client sends it. It says what was decided on, and not by whom: that is the session's to say.
///
/// ```
/// use durably::approval::{Answer, Decision};
///
/// let digest = "44".repeat(32);
/// let answer = Answer::from_json(format!(r#"{{"action":"A42","revision":7,"digest":"{digest}","decision":"approve"}}"#))?;
/// assert_eq!((answer.revision, answer.decision), (7, Decision::Approve));
/// assert!(Answer::from_json("true").is_err());
/// # Ok::<(), durably::approval::CanonicalError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The action.
    pub action: ActionId,
    /// The revision that was seen.
    pub revision: u32,
    /// The digest that was seen.
    pub digest: Digest,
    /// What was decided.
    pub decision: Decision,
}

impl Answer {
    /// The answer to what was shown.
    #[must_use]
    pub fn to(pending: &Pending, decision: Decision) -> Self {
        let (action, revision) = (pending.id.action.clone(), pending.id.revision);
        Self { action, revision, digest: pending.digest, decision }
    }

    /// Reads an answer from JSON text, strictly: no unknown field, no key twice, no number that two readers take for two.
    ///
    /// # Errors
    ///
    /// [`super::CanonicalError`] says what is wrong, and where.
    pub fn from_json(text: impl AsRef<[u8]>) -> Result<Self, super::CanonicalError> {
        Json::parse(text)?.to()
    }
}

impl Decision {
    fn approves(&self) -> bool {
        match self {
            Self::Approve => true,
            Self::Reject { .. } => false,
        }
    }

    fn event(&self) -> Event {
        if self.approves() { Event::Approve } else { Event::Reject }
    }
}

impl Approvals {
    /// Takes a reviewer's decision. It counts if it names the current revision and its digest, is given in time by
    /// somebody who may and who did not ask for it, and with a token that is not spent. With the policy's quorum of
    /// distinct people it is approved; the first rejection rejects it.
    ///
    /// The same answer with the same token again is the same answer. A run that waits goes on when it is resumed, or by
    /// itself if it is driven in this process.
    ///
    /// # Errors
    ///
    /// [`ApprovalError`] says why it does not count. Nothing is changed then, and the attempt is in the audit.
    pub async fn answer(
        &self,
        who: &Authenticated,
        answer: Answer,
        token: AnswerToken,
    ) -> Result<State, ApprovalError> {
        tries!(self.answer_once(who, &answer, &token).await)
    }

    /// As [`answer`](Self::answer), with what a client sent: a text that is no answer is refused, and is in the audit too.
    ///
    /// # Errors
    ///
    /// As [`answer`](Self::answer); [`ApprovalError::Canonical`] for a text that is no answer, and
    /// [`ApprovalError::BadToken`] for one that is no token.
    pub async fn answer_text(&self, who: &Authenticated, answer: &str, token: &str) -> Result<State, ApprovalError> {
        let asked = Move::new(Event::Approve, Actor::new(Role::Reviewer, &who.principal, &who.method), 0);
        let tenant = &who.principal.tenant;
        let answer = match Answer::from_json(answer) {
            Ok(answer) => answer,
            Err(error) => return Err(self.refuse_plainly(&asked, tenant, error.into()).await),
        };
        match token.parse() {
            Ok(token) => self.answer(who, answer, token).await,
            Err(_) => Err(self.refuse_plainly(&asked, tenant, ApprovalError::BadToken).await),
        }
    }

    async fn answer_once(
        &self,
        who: &Authenticated,
        answer: &Answer,
        token: &AnswerToken,
    ) -> Result<State, ApprovalError> {
        let Authenticated { principal, method } = who;
        let desk = self.desk(&principal.tenant, &answer.action).await?;
        let actor = Actor::new(Role::Reviewer, principal, method);
        let approves = answer.decision.approves();
        let mut asked = Move::new(answer.decision.event(), actor, answer.revision).digest(answer.digest);
        let permission = self.permits(principal, Role::Reviewer, &desk).await;
        if let Decision::Reject { reason } = &answer.decision
            && permission.is_ok()
        {
            asked = asked.reason(scrubbed(reason, &self.secrets(&desk).await?));
        }
        let Some(action) = desk.action.as_ref().filter(|_| permission.is_ok()) else {
            return Err(self.refuse(&desk, &asked, ApprovalError::Forbidden).await);
        };
        if answer.revision != action.revision {
            return Err(self.refuse(&desk, &asked, ApprovalError::Stale { current: action.revision }).await);
        }
        if answer.digest != action.digest {
            let error = ApprovalError::DigestMismatch { current: action.digest };
            return Err(self.refuse(&desk, &asked, error).await);
        }
        let person = self.person(principal, &action.op);
        let hash = token.hash();
        let place = action.tokens.iter().position(|token| token.hash == hash);
        let held = |place: &usize| action.tokens[*place].holder.as_ref().is_none_or(|of| *of == principal.account);
        let Some(place) = place.filter(held) else {
            return Err(self.refuse(&desk, &asked, ApprovalError::BadToken).await);
        };
        match &action.tokens[place].spent {
            Some((by, _)) if *by != principal.account => {
                return Err(self.refuse(&desk, &asked, ApprovalError::BadToken).await);
            }
            Some((_, before)) if *before == approves => return Ok(action.state),
            Some(_) => {
                let error = ApprovalError::Conflict { state: action.state };
                return Err(self.refuse(&desk, &asked, error).await);
            }
            None => {}
        }
        if action.state == State::Pending
            && let Some(vote) = action.votes.iter().find(|vote| vote.person == person)
        {
            let error = if vote.approves == approves {
                ApprovalError::AlreadyVoted
            } else {
                ApprovalError::Conflict { state: action.state }
            };
            return Err(self.refuse(&desk, &asked, error).await);
        }
        asked.enough = self.is_enough(action, &person);
        let checks = self.answer_checks(action, &desk, &person);
        let vote = Vote { who: principal.clone(), method: method.clone(), person, approves, at_ms: desk.now_ms };
        let spend = |next: &mut Action| {
            next.tokens[place].spent = Some((principal.account.clone(), approves));
            next.votes.push(vote);
        };
        Ok(self.apply(&desk, asked, checks, spend, Vec::new()).await?.state)
    }

    fn answer_checks(&self, action: &Action, desk: &Desk, person: &str) -> Checks {
        let policy = self.policies.of(&action.op);
        let is_other = self.person(&action.requester, &action.op) != person;
        Checks::default().check(Guard::Time, desk.now_ms < action.expires_ms, ApprovalError::Expired).check(
            Guard::Distinct,
            policy.is_some_and(|policy| !policy.four_eyes) || is_other,
            ApprovalError::OwnRequest,
        )
    }

    /// Whether this person is the last who is wanted.
    fn is_enough(&self, action: &Action, person: &str) -> bool {
        let Some(policy) = self.policies.of(&action.op) else { return false };
        let mut people: Vec<&str> =
            action.votes.iter().filter(|vote| vote.approves).map(|vote| vote.person.as_str()).collect();
        people.push(person);
        people.sort_unstable();
        people.dedup();
        people.len() >= policy.quorum
    }
}
