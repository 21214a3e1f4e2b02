//! The right to execute one revision, once.

use std::{fmt, sync::Arc};

use super::{
    AnswerToken, ApprovalError, Approvals, ContentRef, Digest, IdempotencyKey, RevisionId, claim::Claimed,
    proposal::Document, rows::Caller,
};
use crate::checkpoint::BoxFuture;

/// The right to execute one revision, once. It cannot be copied or written down; dropped, it is gone, and the action
/// becomes uncertain when its lease ends.
///
/// ```compile_fail
/// fn twice<A>(permit: durably::approval::Permit<A>) -> (durably::approval::Permit<A>, durably::approval::Permit<A>) {
///     (permit.clone(), permit)
/// }
/// ```
#[must_use = "a permit that is dropped leaves its action uncertain"]
pub struct Permit<A> {
    pub(super) approvals: Approvals,
    pub(super) id: RevisionId,
    pub(super) digest: Digest,
    pub(super) key: IdempotencyKey,
    pub(super) args: Arc<A>,
    /// Content that has to be shown, and whether it was.
    pub(super) content: Vec<(ContentRef, bool)>,
    pub(super) secrets: Vec<String>,
    pub(super) held: Held,
}

/// Under what a permit is held.
pub(super) enum Held {
    /// A claim of this process.
    Claim(AnswerToken),
    /// A claim that a call of a run made; whichever process drives the run executes it.
    Call(Caller),
}

impl<A> Permit<A> {
    pub(super) fn claimed(approvals: Approvals, claimed: Claimed, args: A) -> Self {
        let Claimed { action, document, token } = claimed;
        Self::held(approvals, action.id(), action.digest, &document, args, Held::Claim(token))
    }

    pub(super) fn held(
        approvals: Approvals,
        id: RevisionId,
        digest: Digest,
        document: &Document,
        args: A,
        held: Held,
    ) -> Self {
        Self {
            approvals,
            id,
            digest,
            key: IdempotencyKey::of(&digest),
            args: Arc::new(args),
            content: document.content.iter().map(|content| (content.clone(), false)).collect(),
            secrets: document.secrets(),
            held,
        }
    }

    /// The revision.
    #[must_use]
    pub fn id(&self) -> &RevisionId {
        &self.id
    }

    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The arguments, read from the bytes that were approved.
    #[must_use]
    pub fn args(&self) -> &A {
        &self.args
    }

    /// The key that the receiver knows it by: the same at every attempt.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// The content by reference that was approved.
    pub fn content(&self) -> impl Iterator<Item = &ContentRef> {
        self.content.iter().map(|(content, _)| content)
    }

    /// Shows content that was approved by reference, as it was fetched now. All of it has to be shown before the effect.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::ContentChanged`] if this is not (or no longer) what was approved.
    pub fn show(&mut self, content: &[u8]) -> Result<(), ApprovalError> {
        let mut shown = false;
        for (wanted, seen) in &mut self.content {
            if wanted.is(content) {
                (*seen, shown) = (true, true);
            }
        }
        let missing = self.content.iter().find(|(_, seen)| !seen).or(self.content.first());
        match missing {
            _ if shown => Ok(()),
            Some((wanted, _)) => Err(ApprovalError::ContentChanged { sha256: wanted.sha256().to_owned() }),
            None => Err(ApprovalError::ContentChanged { sha256: String::new() }),
        }
    }

    /// Executes it. `effect` gets the arguments and the key, and says what became of it; it is called at most once, after
    /// that is on disk. What it says is recorded; if it says nothing (it panics, is dropped, or the process dies) the action
    /// becomes uncertain when the lease ends.
    ///
    /// In a run (a permit of [`request`](super::request)) this is a recorded step, claimed where it is called: replay gives
    /// what it gave. After a crash in the middle the run waits, with an open question, until the action is settled by
    /// [`Approvals::reconcile`] or [`Approvals::settle`]; nothing is sent again by itself.
    #[track_caller]
    pub fn execute<'a, T, F, Fut>(self, effect: F) -> BoxFuture<'a, Result<Done<T>, NotDone>>
    where
        A: serde::de::DeserializeOwned + Send + Sync + 'a,
        F: FnOnce(Arc<A>, IdempotencyKey) -> Fut + Send + 'a,
        Fut: Future<Output = Effect<T>> + Send + 'a,
        T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
    {
        match self.held {
            Held::Claim(_) => Box::pin(self.execute_here(effect)),
            Held::Call(..) => self.execute_in_run(effect),
        }
    }
}

/// What became of an effect, as whoever did it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<T> {
    /// It happened.
    Applied {
        /// What the receiver gave back.
        receipt: T,
    },
    /// It did not happen, and never will: it was refused before anything was sent, or the receiver said that it did nothing.
    NotApplied {
        /// What shows that.
        proof: String,
    },
    /// Anything else: a timeout, a lost connection, an error of the receiver.
    Unknown {
        /// What is known.
        why: String,
    },
}

/// An error does not say that nothing happened: it counts as unknown.
impl<T, E: fmt::Display> From<Result<T, E>> for Effect<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(receipt) => Self::Applied { receipt },
            Err(error) => Self::Unknown { why: error.to_string() },
        }
    }
}

/// It happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done<T> {
    /// What the receiver gave back.
    pub receipt: T,
    /// The key under which it was sent.
    pub key: IdempotencyKey,
}

/// An execution that did not end with a receipt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NotDone {
    /// It was not begun: nothing was sent.
    NotBegun(ApprovalError),
    /// It did not happen, and never will.
    Failed {
        /// What shows that.
        proof: String,
    },
    /// Whether it happened is not known. It is listed by [`Approvals::uncertain`] until it is settled.
    Uncertain {
        /// What is known.
        why: String,
    },
    /// It happened, as a person says who settled it: there is no receipt.
    Settled {
        /// Their reason.
        reason: String,
    },
    /// It was done, but that could not be recorded; it is or becomes uncertain.
    Unrecorded(ApprovalError),
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun(error) => write!(f, "not begun: {error}"),
            Self::Failed { proof } => write!(f, "it did not happen: {proof}"),
            Self::Uncertain { why } => write!(f, "whether it happened is not known: {why}"),
            Self::Settled { reason } => write!(f, "it happened, as somebody says: {reason}"),
            Self::Unrecorded(error) => write!(f, "what became of it could not be recorded: {error}"),
        }
    }
}

impl std::error::Error for NotDone {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotBegun(error) | Self::Unrecorded(error) => Some(error),
            Self::Failed { .. } | Self::Uncertain { .. } | Self::Settled { .. } => None,
        }
    }
}

/// Not the arguments: they may hold secrets.
impl<A> fmt::Debug for Permit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("id", &self.id).field("digest", &self.digest).finish_non_exhaustive()
    }
}
