//! What a verb of approvals can answer instead of doing what it was asked.

use std::fmt;

use super::{CanonicalError, Digest, Event, Guard, Role, State};
use crate::CheckpointError;

/// Why a verb did not do what it was asked. Nothing was changed but the audit, which has the attempt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ApprovalError {
    /// What was given has no canonical form, or is not of the type that is wanted.
    Canonical(CanonicalError),
    /// Whoever asks may not do this, or there is no such action; which of the two is not told.
    Forbidden,
    /// No policy is registered for the operation.
    NoPolicy {
        /// The operation.
        op: String,
    },
    /// The proposal names another policy than the one that its operation has now.
    OtherPolicy {
        /// The one that it has.
        current: super::PolicyRef,
    },
    /// A secret's pointer leads nowhere, so that the secret would be shown.
    NoSuchSecret {
        /// The pointer.
        pointer: String,
    },
    /// Another revision is the current one.
    Stale {
        /// The current one.
        current: u32,
    },
    /// The digest is another one: the content is not what was proposed, or not what is approved.
    DigestMismatch {
        /// The digest that counts.
        current: Digest,
    },
    /// Its time is over.
    Expired,
    /// The token is none, was given to somebody else, or is spent.
    BadToken,
    /// The decision was made already, and was the same.
    AlreadyDecided {
        /// How it stands.
        state: State,
    },
    /// The person has said so already; each counts once.
    AlreadyVoted,
    /// The decision was made already, and was another; it stands.
    Conflict {
        /// How it stands.
        state: State,
    },
    /// Whoever asked cannot decide.
    OwnRequest,
    /// Somebody has claimed it already.
    AlreadyClaimed {
        /// How it stands.
        state: State,
    },
    /// It cannot happen from this state, or not by them.
    NotAllowed {
        /// How it stands; `None`: it is not there.
        state: Option<State>,
        /// What was asked.
        event: Event,
    },
    /// Somebody whose word the approval rests on has no permission any more.
    PermissionLost {
        /// In which part.
        role: Role,
    },
    /// The policy has another version than the one that it was approved under, and does not carry.
    PolicyChanged {
        /// The version that it has.
        current: u32,
    },
    /// Another claim is the one that counts, or the claim's lease has ended.
    Fenced,
    /// Content is not what was approved.
    ContentChanged {
        /// The content that was approved, by its SHA-256.
        sha256: String,
    },
    /// What is given has no reason with it.
    ReasonMissing,
    /// The receiver cannot tell what became of it, and it cannot be sent again.
    CannotTell {
        /// What does not hold.
        guard: Guard,
    },
    /// What is stored is not what was stored: nothing is done with it.
    Corrupt {
        /// What is wrong.
        detail: String,
    },
    /// A recorded receipt cannot be written or read.
    Value(crate::ValueError),
    /// The store failed.
    Store(CheckpointError),
}

impl From<CheckpointError> for ApprovalError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Corrupt { detail, .. } => Self::Corrupt { detail },
            error => Self::Store(error),
        }
    }
}

impl From<CanonicalError> for ApprovalError {
    fn from(error: CanonicalError) -> Self {
        Self::Canonical(error)
    }
}

impl fmt::Display for ApprovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Canonical(error) => write!(f, "no canonical form: {error}"),
            Self::Forbidden => f.write_str("there is no such action, or you may not do this"),
            Self::NoPolicy { op } => write!(f, "operation {op:?} has no policy: register one for it"),
            Self::OtherPolicy { current } => write!(
                f,
                "the operation's policy is {:?} version {}: propose under that one",
                current.id, current.version
            ),
            Self::NoSuchSecret { pointer } => {
                write!(f, "the secret {pointer:?} is not in the arguments: mend the pointer, or it would be shown")
            }
            Self::Stale { current } => write!(f, "revision {current} is the current one: look at that one"),
            Self::DigestMismatch { current } => {
                write!(f, "the digest is another one, {} is the one that counts: look again", current.short())
            }
            Self::Expired => f.write_str("its time is over: propose a new revision"),
            Self::BadToken => f.write_str("the token is none, is spent, or is somebody else's: open the review again"),
            Self::AlreadyDecided { state } => write!(f, "it is {state} already"),
            Self::AlreadyVoted => f.write_str("the same person has said so already, and counts once"),
            Self::Conflict { state } => write!(f, "it was decided otherwise and is {state}; that stands"),
            Self::OwnRequest => f.write_str("whoever asked cannot decide: somebody else has to"),
            Self::AlreadyClaimed { state } => write!(f, "it was claimed already and is {state}"),
            Self::NotAllowed { state: Some(state), event } => write!(f, "{event} is not possible: it is {state}"),
            Self::NotAllowed { state: None, event } => write!(f, "{event} is not possible: it is not there"),
            Self::PermissionLost { role } => {
                write!(f, "a {role} of it has no permission any more: somebody else has to look at it")
            }
            Self::PolicyChanged { current } => {
                write!(f, "the policy has version {current} now: propose a new revision under it")
            }
            Self::Fenced => f.write_str("another claim is the one that counts, or its lease has ended"),
            Self::ContentChanged { sha256 } => {
                write!(f, "the content is not the one that was approved, which has SHA-256 {sha256}")
            }
            Self::ReasonMissing => f.write_str("a reason is wanted"),
            Self::CannotTell { guard } => {
                write!(
                    f,
                    "what became of it cannot be told, and it is not sent again: {guard}; a person has to settle it"
                )
            }
            Self::Corrupt { detail } => write!(f, "what is stored is not what was stored: {detail}"),
            Self::Value(error) => write!(f, "the receipt cannot be recorded or read: {error}"),
            Self::Store(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for ApprovalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Canonical(error) => Some(error),
            Self::Value(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}
