//! What is proposed: one concrete action, and the document that is approved.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::{
    Account, Digest, RevisionId,
    canonical::{CanonicalError, CanonicalFault, Json},
};
use crate::{
    environment::millis,
    hex::{hex, unhex},
};

/// A policy by its name and version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRef {
    /// Its name.
    pub id: String,
    /// Its version.
    pub version: u32,
}

impl PolicyRef {
    /// A version of a policy.
    pub fn new(id: impl Into<String>, version: u32) -> Self {
        Self { id: id.into(), version }
    }
}

/// Content that is approved by its digest: what is too large for a proposal, or is kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentRef {
    sha256: String,
    length: u64,
    media_type: String,
}

impl ContentRef {
    /// The reference of this content.
    #[must_use]
    pub fn of(content: &[u8], media_type: impl Into<String>) -> Self {
        let sha256 = hex(&Sha256::digest(content));
        Self { sha256, length: u64::try_from(content.len()).unwrap_or(u64::MAX), media_type: media_type.into() }
    }

    /// Whether this is the content.
    #[must_use]
    pub fn is(&self, content: &[u8]) -> bool {
        u64::try_from(content.len()) == Ok(self.length)
            && unhex(&self.sha256).is_some_and(|digest| digest[..] == Sha256::digest(content)[..])
    }

    /// Its SHA-256, as 64 hex digits.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What sort of content it is.
    #[must_use]
    pub fn media_type(&self) -> &str {
        &self.media_type
    }
}

/// What the receiver of an effect can do against doing it twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It takes the same idempotency key once.
    Keyed,
    /// It can be asked what became of a key.
    Asked,
    /// Neither: after a crash nobody can tell but a person, and the reviewer is told so.
    #[default]
    Blind,
}

impl Delivery {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Asked => "asked",
            Self::Blind => "blind",
        }
    }
}

/// A revision of an action that somebody is to approve.
///
/// All that changes the effect is in the digest: tenant, action, revision, operation, its schema's version, target,
/// arguments, options, content, expiry, policy, and which arguments are secret. A title is not.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use durably::approval::{PolicyRef, Proposal, RevisionId};
///
/// let id = RevisionId::new("acme", "A42", 1)?;
/// let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
/// let args = ("DE02".to_owned(), 4200);
/// let proposal = Proposal::new(id, "pay", "production", args, PolicyRef::new("payments", 3), expires).title("Rent");
/// assert_eq!(proposal.digest()?, proposal.clone().title("Another title").digest()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a proposal does nothing until it is proposed"]
pub struct Proposal<A> {
    pub(super) id: RevisionId,
    pub(super) op: String,
    pub(super) schema: u32,
    pub(super) target: String,
    pub(super) args: A,
    pub(super) options: BTreeMap<String, String>,
    pub(super) content: Vec<ContentRef>,
    pub(super) delivery: Delivery,
    pub(super) expires_at: SystemTime,
    pub(super) policy: PolicyRef,
    pub(super) secret: Vec<String>,
    pub(super) title: String,
    pub(super) requester: Option<Account>,
    pub(super) lease: Duration,
}

impl<A> Proposal<A> {
    /// Proposes to do `op` to `target` with `args`, under a policy, until a moment.
    pub fn new(
        id: RevisionId,
        op: impl Into<String>,
        target: impl Into<String>,
        args: A,
        policy: PolicyRef,
        expires_at: SystemTime,
    ) -> Self {
        Self {
            id,
            op: op.into(),
            schema: 1,
            target: target.into(),
            args,
            options: BTreeMap::new(),
            content: Vec::new(),
            delivery: Delivery::default(),
            expires_at,
            policy,
            secret: Vec::new(),
            title: String::new(),
            requester: None,
            lease: Duration::from_secs(60),
        }
    }

    /// The version of the operation's arguments. Default: 1.
    pub fn schema(mut self, version: u32) -> Self {
        self.schema = version;
        self
    }

    /// An option that changes the effect, such as `dry_run`. Default: none.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Content by reference; the permit wants to be shown it before the effect. Default: none.
    pub fn content(mut self, content: ContentRef) -> Self {
        self.content.push(content);
        self
    }

    /// What the receiver can do against doing it twice. Default: nothing, which the reviewer is warned of.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Marks a part of the arguments as secret, by its JSON pointer (RFC 6901) such as `/card/number`. It is shown as a
    /// hash to reviewers and in all messages, and is bound by the digest all the same. Default: nothing is.
    ///
    /// The digest is public: a secret that can be guessed, such as a PIN, can be found out from it.
    pub fn secret(mut self, pointer: impl Into<String>) -> Self {
        self.secret.push(pointer.into());
        self
    }

    /// A title for lists. It is not in the digest. Default: none.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// For whom a run proposes this: the account that four eyes are counted from. Default: the run's entrypoint.
    pub fn requested_by(mut self, account: Account) -> Self {
        self.requester = Some(account);
        self
    }

    /// How long a run may take over the effect before it counts as uncertain. It is not in the digest. Default: 60 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same proposal with other arguments.
    pub(super) fn with_args<B>(self, args: B) -> Proposal<B> {
        let Self {
            id,
            op,
            schema,
            target,
            args: _,
            options,
            content,
            delivery,
            expires_at,
            policy,
            secret,
            title,
            requester,
            lease,
        } = self;
        Proposal {
            id,
            op,
            schema,
            target,
            args,
            options,
            content,
            delivery,
            expires_at,
            policy,
            secret,
            title,
            requester,
            lease,
        }
    }
}

impl<A: Serialize + DeserializeOwned> Proposal<A> {
    /// The digest under which it is approved.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] if it has no canonical form.
    pub fn digest(&self) -> Result<Digest, CanonicalError> {
        self.document()?.canonical().map(|canonical| Digest::of(&canonical))
    }

    /// What is approved.
    pub(super) fn document(&self) -> Result<Document, CanonicalError> {
        let within_args = |error: CanonicalError| error.within(".args");
        let args = Json::of(&self.args).map_err(within_args)?;
        // What is executed is read from the document: a type that does not come back from it would be another action.
        let back: A = args.to().map_err(within_args)?;
        if Json::of(&back).map_err(within_args)? != args {
            let why = format!("{} does not come back from its own canonical form", std::any::type_name::<A>());
            return Err(within_args(CanonicalFault::Unfit { why }.into()));
        }
        let document = Document {
            action: self.id.action.as_str().to_owned(),
            args,
            content: self.content.clone(),
            delivery: self.delivery,
            expires_at_ms: millis(self.expires_at),
            op: self.op.clone(),
            options: self.options.clone(),
            policy: self.policy.clone(),
            revision: self.id.revision,
            schema: self.schema,
            secret: self.secret.clone(),
            target: self.target.clone(),
            tenant: self.id.tenant.as_str().to_owned(),
        };
        Ok(document)
    }
}

/// Not the arguments: they may hold secrets.
impl<A> fmt::Debug for Proposal<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal")
            .field("id", &self.id)
            .field("op", &self.op)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

/// What is approved: all that changes the effect, and nothing else.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) action: String,
    pub(super) args: Json,
    pub(super) content: Vec<ContentRef>,
    pub(super) delivery: Delivery,
    pub(super) expires_at_ms: u64,
    pub(super) op: String,
    pub(super) options: BTreeMap<String, String>,
    pub(super) policy: PolicyRef,
    pub(super) revision: u32,
    pub(super) schema: u32,
    pub(super) secret: Vec<String>,
    pub(super) target: String,
    pub(super) tenant: String,
}

impl Document {
    /// The text that is hashed and stored.
    pub(super) fn canonical(&self) -> Result<String, CanonicalError> {
        Json::of(self).map(|json| json.canonical())
    }

    /// Reads a stored text, if it is the one of this digest.
    pub(super) fn read(stored: &[u8], digest: &Digest) -> Result<Self, String> {
        let text = std::str::from_utf8(stored).map_err(|error| error.to_string())?;
        let actual = Digest::of(text);
        if actual != *digest {
            return Err(format!("the stored proposal has digest {actual}, but {digest} was proposed"));
        }
        Json::parse_canonical(text).and_then(|json| json.to()).map_err(|error| error.to_string())
    }
}
