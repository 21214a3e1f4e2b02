//! Approvals: what was authorised is what is executed, once, and what is uncertain stays visible.
//!
//! | line | where | line | where |
//! | --- | --- | --- | --- |
//! | A1 A3 A16 A17 A22 A23 | `claims` | A2 A4 A6 to A15, A19 to A21, A36 to A38 | `decisions` |
//! | A5 A25 A26 A28 A29 A44 | `effects` | A30 A32 A46 | `content` |
//! | A33 A34 A43 | `damage` | A35, and permits in runs | `runs` |
//! | A24 A42, crashes, races, F14 F24 | `races` | A45 | `runtime/src/approval/tests.rs` |
//! | B28 B29 B30 B31 B38 | `decisions` | B32 B34 B35 | `runs` |

mod claims;
mod content;
mod damage;
mod decisions;
mod effects;
mod races;
mod runs;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use durably::{
    Clock, Runtime,
    approval::{
        Answer, AnswerToken, ApprovalError, Approvals, Authenticated, Decision, Delivery, Digest, Effect, Matter,
        Pending, Permissions, Permit, Policies, Policy, PolicyRef, Principal, Proposal, RevisionId, Role, State,
        Worker,
    },
    checkpoint::BoxFuture,
};
use serde::{Deserialize, Serialize};
use tests::{Ledger, World};

/// What is paid in these tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Payment {
    pub(super) cents: u64,
    pub(super) to: String,
}

/// A clock that stands still unless it is set.
#[derive(Clone, Debug)]
pub(super) struct Hand(Arc<AtomicU64>);

impl Hand {
    pub(super) fn at(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(super) fn set(&self, at_ms: u64) {
        self.0.store(at_ms, Ordering::SeqCst);
    }

    pub(super) fn forward(&self, by: Duration) {
        self.set(self.at() + u64::try_from(by.as_millis()).unwrap());
    }

    pub(super) fn back(&self, by: Duration) {
        self.set(self.at().saturating_sub(u64::try_from(by.as_millis()).unwrap()));
    }
}

impl Clock for Hand {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.at())
    }

    fn sleep_until(&self, _: SystemTime) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Who may do what, as it can be changed while a test goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Staff {
    parts: Arc<Mutex<BTreeSet<(String, Role)>>>,
    people: Arc<Mutex<BTreeMap<String, String>>>,
    /// How often it was asked.
    pub(super) asked: Arc<AtomicU64>,
}

impl Staff {
    pub(super) fn hires(&self, account: &str, role: Role) {
        self.parts.lock().unwrap().insert((account.to_owned(), role));
    }

    pub(super) fn dismisses(&self, account: &str, role: Role) {
        assert!(self.parts.lock().unwrap().remove(&(account.to_owned(), role)));
    }

    /// Two accounts of one person.
    pub(super) fn is_also(&self, person: &str, account: &str) {
        self.people.lock().unwrap().insert(account.to_owned(), person.to_owned());
    }
}

impl Permissions for Staff {
    fn may<'a>(&'a self, who: &'a Principal, role: Role, _: &'a Matter) -> BoxFuture<'a, bool> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let may = self.parts.lock().unwrap().contains(&(who.account.as_str().to_owned(), role));
        Box::pin(std::future::ready(may))
    }

    fn person(&self, who: &Principal) -> String {
        let account = who.account.as_str().to_owned();
        self.people.lock().unwrap().get(&account).cloned().unwrap_or(account)
    }
}

/// The people, the clock and the rules of a test; they outlive its processes.
#[derive(Clone, Debug)]
pub(super) struct Office {
    pub(super) clock: Hand,
    pub(super) staff: Staff,
    pub(super) ledger: Ledger,
}

pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const TENANT: &str = "acme";

impl Office {
    pub(super) fn new() -> Self {
        let staff = Staff::default();
        for (account, role) in [
            ("ada", Role::Requester),
            ("run:pays", Role::Requester),
            ("run:pays", Role::Executor),
            ("run:pays", Role::Reconciler),
            ("bob", Role::Reviewer),
            ("cleo", Role::Reviewer),
            ("olga", Role::Operator),
            ("otto", Role::Operator),
            ("payer", Role::Executor),
            ("second", Role::Executor),
            ("rico", Role::Reconciler),
            ("rico", Role::Executor),
        ] {
            staff.hires(account, role);
        }
        Self { clock: Hand(Arc::new(AtomicU64::new(1_800_000_000_000))), staff, ledger: Ledger::default() }
    }

    /// The rules at first: `pay` and `refund`, one reviewer, version 1.
    pub(super) fn rules(&self) -> Policies {
        Policies::new()
            .with(Policy::new("payments", 1, self.staff.clone()).operation("pay"))
            .with(Policy::new("refunds", 1, self.staff.clone()).operation("refund").quorum(2))
    }

    /// A process.
    pub(super) fn runtime(&self, world: &World) -> Runtime {
        self.runtime_with(world, self.rules())
    }

    pub(super) fn runtime_with(&self, world: &World, rules: Policies) -> Runtime {
        let (clock, ledger) = (self.clock.clone(), self.ledger.clone());
        world.open(|builder| builder.clock(clock).resource(ledger).resource(rules))
    }

    pub(super) fn open(&self, world: &World) -> Approvals {
        Approvals::new(&self.runtime(world), self.rules())
    }

    pub(super) fn open_with(&self, world: &World, rules: Policies) -> Approvals {
        Approvals::new(&self.runtime_with(world, rules.clone()), rules)
    }

    /// A payment of these cents, as this revision of action A42, good for an hour.
    pub(super) fn payment(&self, revision: u32, cents: u64) -> Proposal<Payment> {
        self.payment_of("A42", revision, cents)
    }

    pub(super) fn payment_of(&self, action: &str, revision: u32, cents: u64) -> Proposal<Payment> {
        let (id, expires) = (RevisionId::new(TENANT, action, revision).unwrap(), self.clock.now() + HOUR);
        let payment = Payment { cents, to: "DE02".to_owned() };
        Proposal::new(id, "pay", "production", payment, PolicyRef::new("payments", 1), expires)
            .delivery(Delivery::Keyed)
    }

    /// An effect that counts.
    pub(super) fn pays(&self) -> impl FnOnce(Arc<Payment>, durably::approval::IdempotencyKey) -> Paid + Send + use<> {
        let ledger = self.ledger.clone();
        move |payment: Arc<Payment>, _| {
            Box::pin(async move {
                ledger.note(format!("paid {}", payment.cents));
                Effect::Applied { receipt: format!("receipt for {}", payment.cents) }
            })
        }
    }
}

pub(super) type Paid = std::pin::Pin<Box<dyn Future<Output = Effect<String>> + Send>>;

pub(super) fn who(account: &str) -> Principal {
    Principal::new(TENANT, account).unwrap()
}

pub(super) fn session(account: &str) -> Authenticated {
    Authenticated::by(who(account), "passkey")
}

pub(super) fn worker(account: &str) -> Worker {
    Worker::new(who(account)).lease(Duration::from_secs(60))
}

pub(super) fn yes(pending: &Pending) -> (Answer, AnswerToken) {
    (Answer::to(pending, Decision::Approve), pending.token.clone().unwrap())
}

pub(super) fn no(pending: &Pending) -> (Answer, AnswerToken) {
    let decision = Decision::Reject { reason: "too much".to_owned() };
    (Answer::to(pending, decision), pending.token.clone().unwrap())
}

/// Proposes and has it approved by bob.
pub(super) async fn approved(approvals: &Approvals, proposal: Proposal<Payment>) -> Pending {
    let pending = approvals.propose(&who("ada"), proposal).await.unwrap();
    let (answer, token) = yes(&pending);
    assert_eq!(approvals.answer(&session("bob"), answer, token).await.unwrap(), State::Approved);
    pending
}

pub(super) async fn claimed(approvals: &Approvals, pending: &Pending) -> Result<Permit<Payment>, ApprovalError> {
    approvals.claim(&worker("payer"), &pending.id, &pending.digest).await
}

pub(super) async fn state(approvals: &Approvals, id: &RevisionId) -> State {
    approvals.state(&who("ada"), id).await.unwrap()
}

/// The newest entry of an action's audit, which says that something was refused.
#[track_caller]
pub(super) fn last_refused(audit: &[durably::approval::AuditEntry], event: &str) {
    let last = audit.last().unwrap();
    assert!(last.is_refused() && last.event() == event, "{last}");
}

pub(super) async fn audit(approvals: &Approvals, pending: &Pending) -> Vec<durably::approval::AuditEntry> {
    approvals.audit(&who("ada"), &pending.id.action).await.unwrap()
}

pub(super) fn digest(text: &str) -> Digest {
    text.repeat(32).parse().unwrap()
}
