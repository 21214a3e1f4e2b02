//! Proposals and answers: each answer goes to what it names, and counts once.

use durably::approval::{
    Answer, ApprovalError, Authenticated, Policies, Policy, PolicyRef, Principal, RevisionId, Role, State,
};
use tests::on_every_checkpointer;

use super::{Office, approved, audit, claimed, digest, last_refused, no, session, state, who, worker, yes};

#[test]
fn a2_an_answer_for_an_older_revision_decides_nothing() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let first = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        let second = approvals.propose(&ada, office.payment(2, 8)).await.unwrap();
        let (answer, token) = yes(&first);
        let error = approvals.answer(&session("bob"), answer, token).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Stale { current: 2 }), "{error}");
        assert_eq!(state(&approvals, &second.id).await, State::Pending);
        last_refused(&audit(&approvals, &second).await, "approve");
    });
}

#[test]
fn a4_of_two_answers_at_once_one_decides() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approvals.propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        let other = approvals.review(&session("cleo"), &pending.id).await.unwrap();
        let ((answer, token), (against, its_token)) = (yes(&pending), no(&other));
        let (bob, cleo) = (session("bob"), session("cleo"));
        let (one, two) =
            tokio::join!(approvals.answer(&bob, answer, token), approvals.answer(&cleo, against, its_token));
        let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
        assert_eq!(state(&approvals, &pending.id).await, won.unwrap());
        assert!(matches!(lost, Err(ApprovalError::Conflict { .. })), "{lost:?}");
    });
}

/// A6, A7, B31 and B38.
#[test]
fn another_content_or_target_is_a_new_revision_and_the_old_approval_is_void() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let first = approved(&approvals, office.payment(1, 7)).await;
        let next = office.payment(2, 8);
        let second = approvals.propose(&ada, next).await.unwrap();
        assert_ne!(first.digest, second.digest);
        assert_eq!((state(&approvals, &first.id).await, second.state), (State::Superseded, State::Pending));
        let seen = approvals.look(&ada, &first.id).await.unwrap();
        assert_eq!((seen.state, seen.current, seen.digest), (State::Superseded, 2, first.digest));
        assert!(seen.view.to_string().contains("cents = 7"), "{}", seen.view);
        for digest in [first.digest, second.digest] {
            let error = approvals.claim::<super::Payment>(&worker("payer"), &first.id, &digest).await.unwrap_err();
            assert!(matches!(error, ApprovalError::Stale { current: 2 }), "{error}");
        }
        let error = claimed(&approvals, &second).await.unwrap_err();
        assert!(matches!(error, ApprovalError::NotAllowed { state: Some(State::Pending), .. }), "{error}");
        // The target alone is another content too.
        let (id, expires) = (second.id.at(2), office.clock.at());
        let same = durably::approval::Proposal::new(
            id,
            "pay",
            "staging",
            super::Payment { cents: 8, to: "DE02".to_owned() },
            PolicyRef::new("payments", 1),
            std::time::UNIX_EPOCH + std::time::Duration::from_millis(expires + 3_600_000),
        );
        let error = approvals.propose(&ada, same).await.unwrap_err();
        assert!(matches!(error, ApprovalError::DigestMismatch { current } if current == second.digest), "{error}");
        assert_eq!(office.ledger.total(), 0);
    });
}

#[test]
fn a8_the_same_proposal_again_is_the_same() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let one = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        let two = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        assert_eq!((&one.id, one.digest, one.state, &one.view), (&two.id, two.digest, two.state, &two.view));
        let proposed = audit(&approvals, &one).await.iter().filter(|entry| entry.event() == "propose").count();
        assert_eq!(proposed, 1);
        // The token of the first is as good as that of the second.
        let (answer, token) = yes(&one);
        assert_eq!(approvals.answer(&session("bob"), answer, token).await.unwrap(), State::Approved);
        let again = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        assert_eq!((again.state, again.token), (State::Approved, None));
    });
}

#[test]
fn a9_another_content_under_the_same_revision_is_refused_and_nothing_is_stored() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let one = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        let error = approvals.propose(&ada, office.payment(1, 8)).await.unwrap_err();
        assert!(matches!(error, ApprovalError::DigestMismatch { .. }), "{error}");
        let seen = approvals.look(&ada, &one.id).await.unwrap();
        assert_eq!((seen.digest, seen.view), (one.digest, one.view.clone()));
        last_refused(&audit(&approvals, &one).await, "propose");
        for revision in [0, 3, u32::MAX] {
            let error = approvals.propose(&ada, office.payment(revision, 9)).await.unwrap_err();
            assert!(matches!(error, ApprovalError::Stale { current: 1 }), "{error}");
        }
    });
}

#[test]
fn a10_an_answer_with_another_digest_is_refused() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approvals.propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        let (answer, token) = yes(&pending);
        let other = Answer { digest: digest("ab"), ..answer.clone() };
        let error = approvals.answer(&session("bob"), other, token.clone()).await.unwrap_err();
        assert!(matches!(error, ApprovalError::DigestMismatch { .. }), "{error}");
        last_refused(&audit(&approvals, &pending).await, "approve");
        // The token is not spent by it.
        assert_eq!(approvals.answer(&session("bob"), answer, token).await.unwrap(), State::Approved);
    });
}

/// A11 and A21, and what else a client may send.
#[test]
fn a_text_that_is_no_answer_is_refused_by_name_and_audited() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approvals.propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        let token = pending.token.clone().unwrap().reveal();
        let good = format!(r#"{{"action":"A42","revision":1,"digest":"{}","decision":"approve"}}"#, pending.digest);
        for (place, bad) in [
            "true".to_owned(),
            good.replace('}', r#","reviewer":"bob"}"#),
            good.replace('}', r#","revision":1}"#),
            good.replace(":1,", ":1.0,"),
            good.replace(":1,", ":4294967296,"),
            good.replace(":1,", ":9007199254740993,"),
            good.replace("A42", r"\ud800"),
            good.replace("A42", ""),
            good.replace("approve", "Approve"),
            good.replace(r#""approve""#, r#"{"reject":{}}"#),
            good.replace(r#""decision":"approve""#, r#""decision":null"#),
            format!("{}{}", "[".repeat(40), "]".repeat(40)),
            format!("[\"{}\"]", "x".repeat(1 << 20)),
            good.replace(r#""digest":""#, r#""digest":"0"#),
        ]
        .iter()
        .enumerate()
        {
            let error = approvals.answer_text(&session("bob"), bad, &token).await.unwrap_err();
            assert!(matches!(error, ApprovalError::Canonical(_)), "{place}: {error}");
            assert_eq!(approvals.refusals(&who("bob")).await.unwrap().len(), place + 1);
        }
        let error = approvals.answer_text(&session("bob"), &good, "no token").await.unwrap_err();
        assert!(matches!(error, ApprovalError::BadToken), "{error}");
        assert_eq!(state(&approvals, &pending.id).await, State::Pending);
        assert_eq!(approvals.answer_text(&session("bob"), &good, &token).await.unwrap(), State::Approved);
    });
}

#[test]
fn a12_another_tenant_s_action_is_not_told_from_one_that_is_not_there() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approvals.propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        let foreign = Authenticated::by(Principal::new("other", "bob").unwrap(), "passkey");
        let (answer, token) = yes(&pending);
        let there = approvals.answer(&foreign, answer.clone(), token.clone()).await.unwrap_err();
        let nowhere = Answer { action: "A43".try_into().unwrap(), ..answer.clone() };
        let not_there = approvals.answer(&foreign, nowhere.clone(), token.clone()).await.unwrap_err();
        let at_home = approvals.answer(&session("bob"), nowhere, token.clone()).await.unwrap_err();
        let not_a_reviewer = approvals.answer(&session("ada"), answer, token).await.unwrap_err();
        for error in [&there, &not_there, &at_home, &not_a_reviewer] {
            assert!(matches!(error, ApprovalError::Forbidden), "{error}");
        }
        assert_eq!(there.to_string(), not_there.to_string());
        assert_eq!(approvals.refusals(foreign.principal()).await.unwrap().len(), 2);
        for verb in [
            approvals.look(foreign.principal(), &pending.id).await.map(drop),
            approvals.review(&foreign, &pending.id).await.map(drop),
            approvals.audit(foreign.principal(), &pending.id.action).await.map(drop),
            approvals.revoke(&foreign, &pending.id, "why not").await.map(drop),
            approvals.propose(foreign.principal(), office.payment(1, 7)).await.map(drop),
        ] {
            assert!(matches!(verb, Err(ApprovalError::Forbidden)), "{verb:?}");
        }
        assert!(approvals.pending(foreign.principal()).await.unwrap().is_empty());
        assert_eq!(state(&approvals, &pending.id).await, State::Pending);
    });
}

#[test]
fn a13_the_same_answer_again_is_the_same_and_no_event() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let before = audit(&approvals, &pending).await.len();
        let (answer, token) = yes(&pending);
        assert_eq!(approvals.answer(&session("bob"), answer.clone(), token.clone()).await.unwrap(), State::Approved);
        assert_eq!(audit(&approvals, &pending).await.len(), before);
        // The spent token is nobody else's.
        let error = approvals.answer(&session("cleo"), answer, token).await.unwrap_err();
        assert!(matches!(error, ApprovalError::BadToken), "{error}");
    });
}

/// A14 and A15.
#[test]
fn the_first_decision_stands() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let (answer, token) = no(&pending);
        let error = approvals.answer(&session("bob"), answer.clone(), token).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Conflict { state: State::Approved }), "{error}");
        let rejected = approvals.propose(&ada, office.payment(2, 8)).await.unwrap();
        let hers = approvals.review(&session("cleo"), &rejected.id).await.unwrap();
        let (answer, token) = no(&rejected);
        assert_eq!(approvals.answer(&session("bob"), answer, token.clone()).await.unwrap(), State::Rejected);
        let (answer, _) = yes(&rejected);
        let error = approvals.answer(&session("bob"), answer.clone(), token).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Conflict { state: State::Rejected }), "{error}");
        let error = approvals.answer(&session("cleo"), answer, hers.token.unwrap()).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Conflict { state: State::Rejected }), "{error}");
        assert_eq!(approvals.look(&ada, &rejected.id).await.unwrap().reason, "too much");
        assert!(matches!(claimed(&approvals, &rejected).await, Err(ApprovalError::NotAllowed { .. })));
    });
}

#[test]
fn a19_whoever_asked_cannot_decide() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        for account in ["ada", "ada-at-home"] {
            office.staff.hires(account, Role::Reviewer);
        }
        office.staff.is_also("ada", "ada-at-home");
        let approvals = office.open(&world);
        let pending = approvals.propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        for account in ["ada", "ada-at-home"] {
            let mine = approvals.review(&session(account), &pending.id).await.unwrap();
            let (answer, token) = yes(&mine);
            let error = approvals.answer(&session(account), answer, token).await.unwrap_err();
            assert!(matches!(error, ApprovalError::OwnRequest), "{error}");
        }
        assert_eq!(state(&approvals, &pending.id).await, State::Pending);
        // Where the policy lets them, they can.
        let lenient = Policy::new("payments", 1, office.staff.clone()).operation("pay").own_review();
        drop(approvals);
        let approvals = office.open_with(&world, Policies::new().with(lenient));
        let mine = approvals.review(&session("ada"), &pending.id).await.unwrap();
        let (answer, token) = yes(&mine);
        assert_eq!(approvals.answer(&session("ada"), answer, token).await.unwrap(), State::Approved);
    });
}

#[test]
fn a20_a_quorum_counts_people_and_not_answers() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        office.staff.hires("bob-at-home", Role::Reviewer);
        office.staff.is_also("bob", "bob-at-home");
        let two = Policy::new("payments", 1, office.staff.clone()).operation("pay").quorum(2);
        let approvals = office.open_with(&world, Policies::new().with(two));
        let pending = approvals.propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        let vote = async |account: &str| {
            let shown = approvals.review(&session(account), &pending.id).await.unwrap();
            let (answer, token) = yes(&shown);
            approvals.answer(&session(account), answer, token).await
        };
        assert_eq!(vote("bob").await.unwrap(), State::Pending);
        for account in ["bob", "bob-at-home"] {
            let error = vote(account).await.unwrap_err();
            assert!(matches!(error, ApprovalError::AlreadyVoted), "{error}");
        }
        assert_eq!(state(&approvals, &pending.id).await, State::Pending);
        assert_eq!(vote("cleo").await.unwrap(), State::Approved);
        let seen = approvals.look(&who("ada"), &pending.id).await.unwrap();
        assert_eq!(seen.approved_by, [who("bob"), who("cleo")]);
    });
}

/// A36 and B28: langchain#40172.
#[test]
fn answers_in_another_order_go_each_to_its_own_action() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let one = approvals.propose(&ada, office.payment_of("one", 1, 1)).await.unwrap();
        let two = approvals.propose(&ada, office.payment_of("two", 1, 2)).await.unwrap();
        let listed = approvals.pending(&who("bob")).await.unwrap();
        assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&one.id, &two.id]);
        // A page that mixes up what belongs together is refused.
        let (answer, _) = yes(&one);
        let error = approvals.answer(&session("bob"), answer, two.token.clone().unwrap()).await.unwrap_err();
        assert!(matches!(error, ApprovalError::BadToken), "{error}");
        let crossed = Answer { digest: two.digest, ..yes(&one).0 };
        let error = approvals.answer(&session("bob"), crossed, one.token.clone().unwrap()).await.unwrap_err();
        assert!(matches!(error, ApprovalError::DigestMismatch { .. }), "{error}");
        for pending in [&two, &one] {
            let (answer, token) = if pending.id == two.id { yes(pending) } else { no(pending) };
            approvals.answer(&session("bob"), answer, token).await.unwrap();
        }
        assert_eq!(state(&approvals, &one.id).await, State::Rejected);
        assert_eq!(state(&approvals, &two.id).await, State::Approved);
        assert!(approvals.pending(&who("bob")).await.unwrap().is_empty());
    });
}

/// A37 and B29: langchain#40166.
#[test]
fn an_edit_into_another_operation_comes_under_that_one_s_policy() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let first = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        let refund = |policy| {
            let until = std::time::UNIX_EPOCH + std::time::Duration::from_millis(office.clock.at() + 1000);
            durably::approval::Proposal::new(first.id.at(2), "refund", "production", 7, policy, until)
        };
        let error = approvals.propose(&ada, refund(PolicyRef::new("payments", 1))).await.unwrap_err();
        assert!(matches!(&error, ApprovalError::OtherPolicy { current } if current.id == "refunds"), "{error}");
        assert_eq!(state(&approvals, &first.id).await, State::Pending);
        let second = approvals.propose(&ada, refund(PolicyRef::new("refunds", 1))).await.unwrap();
        let (answer, token) = yes(&second);
        assert_eq!(approvals.answer(&session("bob"), answer, token).await.unwrap(), State::Pending);
        let hers = approvals.review(&session("cleo"), &second.id).await.unwrap();
        let (answer, token) = yes(&hers);
        assert_eq!(approvals.answer(&session("cleo"), answer, token).await.unwrap(), State::Approved);
        assert_eq!(state(&approvals, &first.id).await, State::Superseded);
    });
}

/// A38 and B30: langchain#40491.
#[test]
fn what_was_rejected_gives_no_permit_by_any_way() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let pending = approvals.propose(&ada, office.payment(1, 7)).await.unwrap();
        let (answer, token) = no(&pending);
        assert_eq!(approvals.answer(&session("bob"), answer, token).await.unwrap(), State::Rejected);
        for account in ["payer", "second", "rico"] {
            let error = approvals.claim::<super::Payment>(&worker(account), &pending.id, &pending.digest).await;
            assert!(matches!(error, Err(ApprovalError::NotAllowed { .. })), "{error:?}");
        }
        let knows = super::effects::Bank::new(&office.ledger);
        let error = approvals.reconcile::<super::Payment, _>(&worker("rico"), &pending.id, &knows).await;
        assert!(matches!(error, Err(ApprovalError::NotAllowed { .. })), "{error:?}");
        let settled = durably::approval::Settlement::Happened;
        let error = approvals.settle(&session("olga"), &pending.id, settled, "because").await;
        assert!(matches!(error, Err(ApprovalError::NotAllowed { .. })), "{error:?}");
        // Not even the same proposal again.
        assert_eq!(approvals.propose(&ada, office.payment(1, 7)).await.unwrap().state, State::Rejected);
        assert_eq!((state(&approvals, &pending.id).await, office.ledger.total()), (State::Rejected, 0));
        last_refused(&audit(&approvals, &pending).await, "settle");
    });
}

#[test]
fn an_approval_is_taken_back_before_it_is_claimed_and_not_after() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        assert!(matches!(approvals.revoke(&session("payer"), &pending.id, "no").await, Err(ApprovalError::Forbidden)));
        assert_eq!(approvals.revoke(&session("olga"), &pending.id, "on hold").await.unwrap(), State::Revoked);
        assert!(matches!(claimed(&approvals, &pending).await, Err(ApprovalError::NotAllowed { .. })));
        let other = approved(&approvals, office.payment_of("B", 1, 7)).await;
        let permit = claimed(&approvals, &other).await.unwrap();
        let error = approvals.revoke(&session("bob"), &other.id, "on hold").await.unwrap_err();
        assert!(matches!(error, ApprovalError::NotAllowed { state: Some(State::Executing), .. }), "{error}");
        let error = approvals.propose(&who("ada"), office.payment_of("B", 2, 8)).await.unwrap_err();
        assert!(matches!(error, ApprovalError::NotAllowed { state: Some(State::Executing), .. }), "{error}");
        permit.execute(office.pays()).await.unwrap();
        assert_eq!(office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn names_that_run_into_each_other_are_different_actions() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let id = |tenant: &str, action: &str| RevisionId::new(tenant, action, 1).unwrap();
        for (tenant, action) in [("ab", "c"), ("a", "bc"), ("a/b", "c"), ("a", "b/c")] {
            let proposal = durably::approval::Proposal::new(
                id(tenant, action),
                "pay",
                "production",
                format!("{tenant} {action}"),
                PolicyRef::new("payments", 1),
                std::time::UNIX_EPOCH + std::time::Duration::from_millis(office.clock.at() + 1000),
            );
            let pending = approvals.propose(&Principal::new(tenant, "ada").unwrap(), proposal).await.unwrap();
            assert_eq!(pending.state, State::Pending);
        }
    });
}
