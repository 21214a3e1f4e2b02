//! Who may do what, and how many have to agree.

use std::{collections::HashMap, fmt, sync::Arc};

use super::{PolicyRef, Principal, RevisionId, Role};
use crate::checkpoint::BoxFuture;

/// What somebody asks to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Matter {
    /// The revision.
    pub id: RevisionId,
    /// The operation.
    pub op: String,
    /// What it is done to.
    pub target: String,
}

/// Says who may act in which part. It is asked when somebody acts, and again for everybody involved when an approval is
/// claimed; it says no when it does not know.
///
/// A closure is one, for rules that need no I/O: `|who: &Principal, role: Role, matter: &Matter| ..`.
pub trait Permissions: Send + Sync + 'static {
    /// Whether they may do this now.
    fn may<'a>(&'a self, who: &'a Principal, role: Role, matter: &'a Matter) -> BoxFuture<'a, bool>;

    /// The person behind an account, so that two accounts of one person count once. Default: the account's own name.
    fn person(&self, who: &Principal) -> String {
        who.account.as_str().to_owned()
    }
}

impl<F> Permissions for F
where
    F: Fn(&Principal, Role, &Matter) -> bool + Send + Sync + 'static,
{
    fn may<'a>(&'a self, who: &'a Principal, role: Role, matter: &'a Matter) -> BoxFuture<'a, bool> {
        let may = self(who, role, matter);
        Box::pin(std::future::ready(may))
    }
}

/// The rules for some operations.
#[derive(Clone)]
#[must_use = "a policy does nothing until it is registered"]
pub struct Policy {
    pub(super) reference: PolicyRef,
    pub(super) operations: Vec<String>,
    pub(super) quorum: usize,
    pub(super) four_eyes: bool,
    pub(super) carries_from: u32,
    pub(super) settled_by: usize,
    pub(super) permissions: Arc<dyn Permissions>,
}

impl Policy {
    /// A version of a policy. Whoever changes the rules, changes the version.
    pub fn new(id: impl Into<String>, version: u32, permissions: impl Permissions) -> Self {
        Self {
            reference: PolicyRef::new(id, version),
            operations: Vec::new(),
            quorum: 1,
            four_eyes: true,
            carries_from: version,
            settled_by: 1,
            permissions: Arc::new(permissions),
        }
    }

    /// An operation that it is for. Each operation has one policy.
    pub fn operation(mut self, op: impl Into<String>) -> Self {
        self.operations.push(op.into());
        self
    }

    /// How many people have to approve. Default: 1.
    pub fn quorum(mut self, people: usize) -> Self {
        self.quorum = people.max(1);
        self
    }

    /// Lets whoever asked decide too. Default: they may not.
    pub fn own_review(mut self) -> Self {
        self.four_eyes = false;
        self
    }

    /// Approvals that were given under this version and later ones stay good. Default: only those under its own version.
    pub fn carries_from(mut self, version: u32) -> Self {
        self.carries_from = version;
        self
    }

    /// How many people have to agree to settle what is uncertain. Default: 1.
    pub fn settled_by(mut self, people: usize) -> Self {
        self.settled_by = people.max(1);
        self
    }

    /// Whether it takes what was approved under that one.
    pub(super) fn takes(&self, other: &PolicyRef) -> bool {
        self.reference.id == other.id && (self.carries_from..=self.reference.version).contains(&other.version)
    }

    /// Whether they may, and who they are.
    pub(super) async fn admits(&self, who: &Principal, role: Role, matter: &Matter) -> bool {
        who.tenant == matter.id.tenant && self.permissions.may(who, role, matter).await
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("reference", &self.reference)
            .field("operations", &self.operations)
            .field("quorum", &self.quorum)
            .field("four_eyes", &self.four_eyes)
            .finish_non_exhaustive()
    }
}

/// The policies of a process, by operation. Cheap to clone; for runs, also a resource of the runtime.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<HashMap<String, Policy>>);

impl Policies {
    /// None yet: nothing can be proposed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a policy for its operations.
    ///
    /// # Panics
    ///
    /// If an operation has a policy already: which of the two counts would be chance.
    #[must_use]
    pub fn with(self, policy: Policy) -> Self {
        let mut by_operation = Arc::unwrap_or_clone(self.0);
        for op in &policy.operations {
            let other = by_operation.insert(op.clone(), policy.clone());
            assert!(other.is_none(), "operation {op:?} has two policies: give it one");
        }
        Self(Arc::new(by_operation))
    }

    /// The policy of an operation.
    pub(super) fn of(&self, op: &str) -> Option<&Policy> {
        self.0.get(op)
    }
}
