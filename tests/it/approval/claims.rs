//! Claims: everything is looked at again, and one worker gets it.

use std::time::Duration;

use durably::approval::{ApprovalError, NotDone, Policies, Policy, Role, State};
use tests::on_every_checkpointer;

use super::{HOUR, Office, Payment, approved, audit, claimed, last_refused, session, state, who, worker, yes};

#[test]
fn a1_what_is_approved_and_unchanged_is_executed_once() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let permit = claimed(&approvals, &pending).await.unwrap();
        assert_eq!((permit.args(), permit.digest()), (&Payment { cents: 7, to: "DE02".to_owned() }, pending.digest));
        assert_eq!(state(&approvals, &pending.id).await, State::Executing);
        let done = permit.execute(office.pays()).await.unwrap();
        assert_eq!((done.receipt.as_str(), done.key.as_str().len()), ("receipt for 7", 43));
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::AlreadyClaimed { state: State::Completed }), "{error}");
        assert_eq!((office.ledger.count("paid 7"), state(&approvals, &pending.id).await), (1, State::Completed));
        let audit = audit(&approvals, &pending).await;
        let events: Vec<&str> = audit.iter().map(durably::approval::AuditEntry::event).collect();
        assert_eq!(events, ["propose", "show", "approve", "claim", "begin", "complete", "claim"]);
        assert_eq!((audit[2].who(), audit[2].method()), (Some(&who("bob")), "passkey"));
        assert!(audit[..6].iter().all(|entry| !entry.is_refused()) && audit[6].is_refused());
        assert_eq!((audit[3].fence(), audit[3].digest()), (1, Some(pending.digest)));
    });
}

/// A3 and A16.
#[test]
fn what_expires_between_answer_and_claim_is_not_claimed() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        office.clock.forward(HOUR.checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(state(&approvals, &pending.id).await, State::Approved);
        office.clock.forward(Duration::from_millis(1));
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Expired), "{error}");
        assert_eq!((state(&approvals, &pending.id).await, office.ledger.total()), (State::Expired, 0));
        last_refused(&audit(&approvals, &pending).await, "claim");
        // An answer comes too late as well, and so does a proposal.
        let late = approvals.propose(&who("ada"), office.payment_of("B", 1, 7)).await.unwrap();
        office.clock.forward(HOUR);
        let (answer, token) = yes(&late);
        let error = approvals.answer(&session("bob"), answer, token).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Expired), "{error}");
        let proposal = office.payment_of("C", 1, 7);
        office.clock.forward(HOUR);
        assert!(matches!(approvals.propose(&who("ada"), proposal).await, Err(ApprovalError::Expired)));
    });
}

#[test]
fn what_expires_between_claim_and_effect_is_not_begun() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        office.clock.forward(HOUR.checked_sub(Duration::from_secs(1)).unwrap());
        let permit = claimed(&approvals, &pending).await.unwrap();
        office.clock.forward(Duration::from_secs(2));
        let error = permit.execute(office.pays()).await.unwrap_err();
        assert!(matches!(error, NotDone::NotBegun(ApprovalError::Expired)), "{error}");
        assert_eq!((state(&approvals, &pending.id).await, office.ledger.total()), (State::Failed, 0));
    });
}

#[test]
fn a3_a_requester_or_worker_without_permission_gets_no_claim() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        office.staff.dismisses("ada", Role::Requester);
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::PermissionLost { role: Role::Requester }), "{error}");
        office.staff.hires("ada", Role::Requester);
        office.staff.dismisses("payer", Role::Executor);
        assert!(matches!(claimed(&approvals, &pending).await, Err(ApprovalError::Forbidden)));
        last_refused(&audit(&approvals, &pending).await, "claim");
        office.staff.hires("payer", Role::Executor);
        claimed(&approvals, &pending).await.unwrap().execute(office.pays()).await.unwrap();
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}

/// A17 and F14: moved back, the clock revives nothing; moved on, it gives nothing to two.
#[test]
fn what_is_expired_stays_so_whatever_the_clock_does() {
    on_every_checkpointer(async |world| {
        let jumps = [1, 3600, 3600 * 24 * 365 * 10].map(Duration::from_secs);
        for jump in jumps {
            let office = Office::new();
            let approvals = office.open(&world);
            let action = format!("jump of {jump:?}");
            let pending = approved(&approvals, office.payment_of(&action, 1, 7)).await;
            let good = office.clock.at();
            office.clock.forward(HOUR);
            assert_eq!(approvals.run_due().await.unwrap(), 1);
            office.clock.set(good);
            office.clock.back(jump);
            assert_eq!(state(&approvals, &pending.id).await, State::Expired);
            let error = claimed(&approvals, &pending).await.unwrap_err();
            assert!(matches!(error, ApprovalError::Expired), "{error}");
            // What was seen counts also where nothing had come of it: a refusal at the end of the hour.
            let seen = approved(&approvals, office.payment_of(&format!("{action}, seen"), 1, 7)).await;
            office.clock.forward(HOUR.checked_sub(Duration::from_millis(1)).unwrap());
            let wrong = approvals.claim::<Payment>(&worker("payer"), &seen.id, &super::digest("ab")).await;
            assert!(matches!(wrong, Err(ApprovalError::DigestMismatch { .. })), "{wrong:?}");
            office.clock.back(jump);
            let last = audit(&approvals, &seen).await.last().unwrap().at();
            let permit = claimed(&approvals, &seen).await.unwrap();
            assert!(audit(&approvals, &seen).await.last().unwrap().at() >= last, "the audit's time went back");
            // The lease too is counted from what was seen: the clock, moved on, gives no second claim.
            office.clock.forward(jump + HOUR);
            let error = claimed(&approvals, &seen).await.unwrap_err();
            assert!(matches!(error, ApprovalError::AlreadyClaimed { state: State::Uncertain }), "{error}");
            let error = permit.execute(office.pays()).await.unwrap_err();
            assert!(matches!(error, NotDone::NotBegun(ApprovalError::Fenced)), "{error}");
            assert_eq!(office.ledger.total(), 0);
        }
    });
}

#[test]
fn a22_an_approval_of_somebody_who_may_no_more_is_not_claimed_and_is_listed_for_reviewers() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        assert!(approvals.pending(&who("cleo")).await.unwrap().is_empty());
        office.staff.dismisses("bob", Role::Reviewer);
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::PermissionLost { role: Role::Reviewer }), "{error}");
        let listed = approvals.pending(&who("cleo")).await.unwrap();
        assert_eq!((&listed[0].id, listed[0].state), (&pending.id, State::Approved));
        assert!(listed[0].note.contains("no permission any more"), "{}", listed[0].note);
        last_refused(&audit(&approvals, &pending).await, "claim");
        assert_eq!(office.ledger.total(), 0);
        // A new revision is the way on.
        let next = approvals.propose(&who("ada"), office.payment(2, 7)).await.unwrap();
        let hers = approvals.review(&session("cleo"), &next.id).await.unwrap();
        let (answer, token) = yes(&hers);
        approvals.answer(&session("cleo"), answer, token).await.unwrap();
        claimed(&approvals, &next).await.unwrap().execute(office.pays()).await.unwrap();
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn a23_an_approval_under_another_version_of_the_policy_counts_only_if_that_one_carries() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let pending = approved(&office.open(&world), office.payment(1, 7)).await;
        let version = |version| Policy::new("payments", version, office.staff.clone()).operation("pay");
        let approvals = office.open_with(&world, Policies::new().with(version(2)));
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::PolicyChanged { current: 2 }), "{error}");
        assert_eq!(approvals.pending(&who("bob")).await.unwrap()[0].id, pending.id);
        drop(approvals);
        // One that carries, but wants two people now.
        let stricter = Policies::new().with(version(3).carries_from(1).quorum(2));
        let approvals = office.open_with(&world, stricter);
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::PermissionLost { role: Role::Reviewer }), "{error}");
        drop(approvals);
        let approvals = office.open_with(&world, Policies::new());
        assert!(matches!(claimed(&approvals, &pending).await, Err(ApprovalError::Forbidden)));
        drop(approvals);
        let approvals = office.open_with(&world, Policies::new().with(version(3).carries_from(1)));
        claimed(&approvals, &pending).await.unwrap().execute(office.pays()).await.unwrap();
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn a_claim_names_the_digest_that_is_meant() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let other = office.payment(1, 8).digest().unwrap();
        let error = approvals.claim::<Payment>(&worker("payer"), &pending.id, &other).await.unwrap_err();
        assert!(matches!(error, ApprovalError::DigestMismatch { current } if current == pending.digest), "{error}");
        // Nor is it read as another type than was approved.
        let error = approvals.claim::<u32>(&worker("payer"), &pending.id, &pending.digest).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Canonical(_)), "{error}");
        assert_eq!(office.ledger.total(), 0);
    });
}
