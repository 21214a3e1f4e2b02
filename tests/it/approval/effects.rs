//! Effects and what is not known of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use durably::approval::{
    ApprovalError, ContentRef, Effect, IdempotencyKey, Lookup, NotDone, Policies, Policy, Receiver, Reconciled,
    Settlement, State,
};
use tests::{Ledger, on_every_checkpointer};

use super::{Office, Payment, approved, audit, claimed, last_refused, session, state, who, worker};

/// A receiver that takes a key once, and counts what it did.
#[derive(Clone, Debug)]
pub(super) struct Bank {
    ledger: Ledger,
    done: Arc<Mutex<BTreeMap<String, String>>>,
    /// For how long it takes a key once.
    pub(super) window: Option<Duration>,
    /// Whether it can be asked.
    pub(super) answers: bool,
}

impl Bank {
    pub(super) fn new(ledger: &Ledger) -> Self {
        let window = Some(Duration::from_secs(24 * 3600));
        Self { ledger: ledger.clone(), done: Arc::default(), window, answers: true }
    }

    pub(super) fn pay(&self, cents: u64, key: &IdempotencyKey) -> String {
        let mut done = self.done.lock().unwrap();
        done.entry(key.as_str().to_owned())
            .or_insert_with(|| {
                self.ledger.note(format!("paid {cents}"));
                format!("receipt for {cents}")
            })
            .clone()
    }
}

impl Receiver for Bank {
    type Receipt = String;

    fn idempotent_for(&self) -> Option<Duration> {
        self.window
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Lookup<String> {
        if !self.answers {
            return Lookup::CannotTell { why: "no answer".to_owned() };
        }
        match self.done.lock().unwrap().get(key.as_str()) {
            Some(receipt) => Lookup::Applied { receipt: receipt.clone() },
            None => Lookup::NotApplied { proof: "this key never came".to_owned() },
        }
    }
}

/// Approves, claims and pays, and loses the answer.
async fn left_uncertain(
    office: &Office,
    approvals: &durably::approval::Approvals,
    bank: &Bank,
) -> durably::approval::Pending {
    let pending = approved(approvals, office.payment(1, 7)).await;
    let permit = claimed(approvals, &pending).await.unwrap();
    let bank = bank.clone();
    let lost = permit.execute(async move |payment, key| {
        bank.pay(payment.cents, &key);
        Effect::<String>::from(Err("the connection was lost"))
    });
    assert!(matches!(lost.await, Err(NotDone::Uncertain { .. })));
    assert_eq!(state(approvals, &pending.id).await, State::Uncertain);
    pending
}

/// A5.
#[test]
fn what_the_receiver_has_done_is_found_by_asking_it() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let bank = Bank::new(&office.ledger);
        let pending = {
            let approvals = office.open(&world);
            let pending = approved(&approvals, office.payment(1, 7)).await;
            let permit = claimed(&approvals, &pending).await.unwrap();
            let bank = bank.clone();
            // The process dies after the receiver has accepted.
            let mut dies = permit.execute(async move |payment, key| {
                bank.pay(payment.cents, &key);
                std::future::pending::<Effect<String>>().await
            });
            while office.ledger.total() == 0 {
                assert!(futures::poll!(&mut dies).is_pending());
                tokio::task::yield_now().await;
            }
            pending
        };
        let approvals = office.open(&world);
        assert!(matches!(claimed(&approvals, &pending).await, Err(ApprovalError::AlreadyClaimed { .. })));
        let early = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await;
        assert!(matches!(early, Err(ApprovalError::NotAllowed { state: Some(State::Executing), .. })), "{early:?}");
        office.clock.forward(Duration::from_secs(60));
        let listed = approvals.uncertain(&who("olga")).await.unwrap();
        assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&pending.id]);
        let settled = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await.unwrap();
        assert!(matches!(settled, Reconciled::Settled(State::Completed)), "{settled:?}");
        assert!(approvals.uncertain(&who("olga")).await.unwrap().is_empty());
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn what_the_receiver_never_got_is_failed() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let permit = claimed(&approvals, &pending).await.unwrap();
        let lost = permit.execute(async |_, _| Effect::<()>::Unknown { why: "a timeout".to_owned() }).await;
        assert!(matches!(lost, Err(NotDone::Uncertain { .. })));
        let bank = Bank::new(&office.ledger);
        let settled = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await.unwrap();
        assert!(matches!(settled, Reconciled::Settled(State::Failed)), "{settled:?}");
        let again = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await;
        assert!(matches!(again, Err(ApprovalError::NotAllowed { state: Some(State::Failed), .. })), "{again:?}");
    });
}

#[test]
fn an_effect_that_shows_that_nothing_happened_is_failed() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let permit = claimed(&approvals, &pending).await.unwrap();
        let refused = permit.execute(async |_, _| Effect::<()>::NotApplied { proof: "422".to_owned() }).await;
        assert!(matches!(refused, Err(NotDone::Failed { .. })), "{refused:?}");
        let seen = approvals.look(&who("ada"), &pending.id).await.unwrap();
        assert_eq!((seen.state, seen.reason.as_str()), (State::Failed, "422"));
        assert!(matches!(claimed(&approvals, &pending).await, Err(ApprovalError::AlreadyClaimed { .. })));
    });
}

#[test]
fn a25_a_permit_that_is_dropped_or_panics_leaves_its_action_uncertain_after_the_lease() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let dropped = approved(&approvals, office.payment_of("dropped", 1, 1)).await;
        let panics = approved(&approvals, office.payment_of("panics", 1, 2)).await;
        let cancelled = approved(&approvals, office.payment_of("cancelled", 1, 3)).await;
        drop(claimed(&approvals, &dropped).await.unwrap());
        let permit = claimed(&approvals, &panics).await.unwrap();
        let ended = tokio::spawn(permit.execute(async |_, _| -> Effect<()> { panic!("the effect panics") })).await;
        assert!(ended.unwrap_err().is_panic());
        let permit = claimed(&approvals, &cancelled).await.unwrap();
        let task = tokio::spawn(permit.execute(async |_, _| std::future::pending::<Effect<()>>().await));
        while !audit(&approvals, &cancelled).await.iter().any(|entry| entry.event() == "begin") {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let all = [&dropped, &panics, &cancelled];
        for pending in all {
            assert_eq!(state(&approvals, &pending.id).await, State::Executing);
        }
        office.clock.forward(Duration::from_secs(60));
        assert_eq!(approvals.run_due().await.unwrap(), 3);
        assert_eq!(approvals.uncertain(&who("olga")).await.unwrap().len(), 3);
        for pending in all {
            assert_eq!(state(&approvals, &pending.id).await, State::Uncertain);
            assert!(matches!(claimed(&approvals, pending).await, Err(ApprovalError::AlreadyClaimed { .. })));
        }
    });
}

#[test]
fn a26_a_worker_that_wakes_after_its_lease_is_fenced_and_its_report_is_kept() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let permit = claimed(&approvals, &pending).await.unwrap();
        let clock = office.clock.clone();
        let late = permit.execute(async move |payment, _| {
            clock.forward(Duration::from_secs(61));
            Effect::Applied { receipt: format!("receipt for {}", payment.cents) }
        });
        let error = late.await.unwrap_err();
        assert!(matches!(error, NotDone::Unrecorded(ApprovalError::Fenced)), "{error}");
        assert_eq!(state(&approvals, &pending.id).await, State::Uncertain);
        let audit = audit(&approvals, &pending).await;
        last_refused(&audit, "complete");
        assert!(audit.last().unwrap().reason().contains("receipt for 7"), "{}", audit.last().unwrap());
        // It stays until somebody settles it.
        let settled = approvals.settle(&session("olga"), &pending.id, Settlement::Happened, "the bank says so").await;
        assert_eq!(settled.unwrap(), State::Completed);
    });
}

#[test]
fn a28_an_idempotent_receiver_is_sent_the_same_key_again_and_pays_once() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let mut bank = Bank::new(&office.ledger);
        let approvals = office.open(&world);
        let pending = left_uncertain(&office, &approvals, &bank).await;
        bank.answers = false;
        let again = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await.unwrap();
        let Reconciled::Again(permit) = again else { panic!("{again:?}") };
        let (key, its) = (permit.key().clone(), bank.clone());
        let done = permit.execute(async move |payment, key| Effect::Applied { receipt: its.pay(payment.cents, &key) });
        assert_eq!(done.await.unwrap().key, key);
        assert_eq!((office.ledger.count("paid 7"), state(&approvals, &pending.id).await), (1, State::Completed));
        assert_eq!(audit(&approvals, &pending).await.last().unwrap().fence(), 2);
    });
}

#[test]
fn a29_after_the_key_s_time_nothing_is_sent_again_and_it_stays_uncertain() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let mut bank = Bank::new(&office.ledger);
        bank.answers = false;
        let approvals = office.open(&world);
        let pending = left_uncertain(&office, &approvals, &bank).await;
        // The approval is good for an hour: a shorter time of the key is over first, and a margin is kept.
        for (window, forward, is_sent) in [(100, 91, false), (0, 0, false), (1000, 0, true)] {
            bank.window = (window > 0).then(|| Duration::from_secs(window));
            office.clock.forward(Duration::from_secs(forward));
            let again = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await;
            if is_sent {
                assert!(matches!(again, Ok(Reconciled::Again(_))), "{again:?}");
            } else {
                assert!(matches!(again, Err(ApprovalError::CannotTell { .. })), "{again:?}");
                assert_eq!(approvals.uncertain(&who("olga")).await.unwrap()[0].id, pending.id);
                last_refused(&audit(&approvals, &pending).await, "send again");
            }
        }
        // The time of the approval is over while the key's is not: nothing is sent either.
        office.clock.forward(Duration::from_secs(3600));
        bank.window = Some(Duration::from_secs(25 * 3600));
        let again = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, &bank).await;
        assert!(matches!(again, Err(ApprovalError::Expired)), "{again:?}");
        assert_eq!(state(&approvals, &pending.id).await, State::Uncertain);
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn a_person_settles_what_nobody_can_tell_with_a_reason_and_two_where_the_policy_says_so() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let bank = Bank::new(&office.ledger);
        let two = Policy::new("payments", 1, office.staff.clone()).operation("pay").settled_by(2);
        let approvals = office.open_with(&world, Policies::new().with(two));
        let pending = left_uncertain(&office, &approvals, &bank).await;
        let settle = async |account: &str, settlement, reason: &str| {
            approvals.settle(&session(account), &pending.id, settlement, reason).await
        };
        assert!(matches!(settle("olga", Settlement::Happened, " ").await, Err(ApprovalError::ReasonMissing)));
        assert!(matches!(settle("bob", Settlement::Happened, "why").await, Err(ApprovalError::Forbidden)));
        assert_eq!(settle("olga", Settlement::Happened, "the bank says so").await.unwrap(), State::Uncertain);
        assert!(matches!(settle("olga", Settlement::Happened, "again").await, Err(ApprovalError::AlreadyVoted)));
        assert!(matches!(settle("otto", Settlement::DidNot, "no").await, Err(ApprovalError::Conflict { .. })));
        assert_eq!(settle("otto", Settlement::Happened, "I asked too").await.unwrap(), State::Completed);
        assert!(matches!(settle("otto", Settlement::DidNot, "no").await, Err(ApprovalError::NotAllowed { .. })));
    });
}

#[test]
fn a44_content_that_has_changed_at_its_place_is_not_used() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let text = ContentRef::of(b"the text", "text/plain");
        let other = ContentRef::of(b"an image", "image/png");
        let proposal = |action| office.payment_of(action, 1, 7).content(text.clone()).content(other.clone());
        // Not shown at all, shown in part, changed: nothing is sent.
        for (action, shown) in [("A", vec![]), ("B", vec!["the text"]), ("C", vec!["the text", "another image"])] {
            let pending = approved(&approvals, proposal(action)).await;
            let mut permit = claimed(&approvals, &pending).await.unwrap();
            for content in shown {
                let is_good = content == "the text";
                let result = permit.show(content.as_bytes());
                assert_eq!(result.is_ok(), is_good, "{result:?}");
            }
            let error = permit.execute(office.pays()).await.unwrap_err();
            assert!(matches!(error, NotDone::Failed { .. }), "{error}");
            assert_eq!((state(&approvals, &pending.id).await, office.ledger.total()), (State::Failed, 0));
        }
        let pending = approved(&approvals, proposal("D")).await;
        assert!(pending.view.to_string().contains(text.sha256()), "{}", pending.view);
        let mut permit = claimed(&approvals, &pending).await.unwrap();
        permit.show(b"an image").unwrap();
        permit.show(b"the text").unwrap();
        permit.execute(office.pays()).await.unwrap();
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}
