//! Crashes at every write, races, and many at once.

use std::{sync::Arc, time::Duration};

use durably::{
    Runtime,
    approval::{ApprovalError, Approvals, Effect, Reconciled, State},
    checkpoint::{Checkpointer, MemoryCheckpointer},
    testing::{Fault, FaultyCheckpointer},
};
use tests::{Chance, on_every_checkpointer, size};

use super::{HOUR, Office, Payment, approved, claimed, effects::Bank, no, session, state, who, worker, yes};

fn process(office: &Office, store: Arc<dyn Checkpointer>) -> Approvals {
    let runtime = Runtime::builder().clock(office.clock.clone()).shared_checkpointer(store);
    Approvals::new(&runtime, office.rules())
}

/// A crash before and after every commit of a whole life: nothing is paid twice, and what began to be executed ends
/// completed, failed or uncertain.
#[test]
fn after_a_crash_at_any_write_nothing_is_paid_twice_and_nothing_is_approved_again() {
    for is_lost in [false, true] {
        tests::block_on(every_crash(is_lost));
    }
}

/// Every crash of a life; in one in which the first answer of the receiver is lost, it is sent again under its key.
async fn every_crash(is_lost: bool) {
    let mut commit = 1;
    loop {
        let mut stopped = 0;
        for fault in [Fault::StopBefore, Fault::StopAfter] {
            println!("{fault:?} at commit {commit}");
            let office = Office::new();
            let bank = Bank::new(&office.ledger);
            let memory = MemoryCheckpointer::new();
            let faulty = Arc::new(FaultyCheckpointer::new(Arc::new(memory.clone())).at(commit, fault));
            {
                let approvals = process(&office, faulty.clone());
                let its = bank.clone();
                let life = async {
                    let pending = approved(&approvals, office.payment(1, 7)).await;
                    let permit = claimed(&approvals, &pending).await.unwrap();
                    let first = its.clone();
                    let pays = permit.execute(async move |payment, key| {
                        let receipt = first.pay(payment.cents, &key);
                        if is_lost { Err("the connection was lost") } else { Ok(receipt) }.into()
                    });
                    assert_eq!(pays.await.is_ok(), !is_lost);
                    if is_lost {
                        let mut silent = its.clone();
                        silent.answers = false;
                        let again = approvals.reconcile(&worker("rico"), &pending.id, &silent).await.unwrap();
                        let Reconciled::Again(permit) = again else { panic!("{again:?}") };
                        let pays = permit.execute(async move |payment: Arc<Payment>, key| Effect::Applied {
                            receipt: its.pay(payment.cents, &key),
                        });
                        pays.await.unwrap();
                    }
                };
                tokio::select! {
                    biased;
                    () = faulty.stopped() => stopped += 1,
                    () = life => {}
                }
            }
            check_after_a_crash(&office, &bank, &memory).await;
        }
        if stopped == 0 {
            break;
        }
        commit += 1;
    }
    assert!(commit > 5, "a life has {commit} commits");
}

async fn check_after_a_crash(office: &Office, bank: &Bank, memory: &MemoryCheckpointer) {
    let approvals = process(office, Arc::new(memory.reopen()));
    let proposal = office.payment(1, 7);
    let pending = match approvals.propose(&who("ada"), proposal).await {
        Ok(pending) => pending,
        Err(error) => panic!("{error}"),
    };
    let paid = office.ledger.count("paid 7");
    let before = state(&approvals, &pending.id).await;
    assert!(
        paid == 0 || matches!(before, State::Executing | State::Uncertain | State::Completed),
        "paid, and {before}"
    );
    office.clock.forward(Duration::from_secs(60));
    approvals.run_due().await.unwrap();
    match state(&approvals, &pending.id).await {
        State::Pending => {
            let hers = approvals.review(&session("cleo"), &pending.id).await.unwrap();
            let (answer, token) = yes(&hers);
            approvals.answer(&session("cleo"), answer, token).await.unwrap();
        }
        State::Uncertain => {
            assert_eq!(approvals.uncertain(&who("olga")).await.unwrap().len(), 1);
            let settled = approvals.reconcile::<Payment, _>(&worker("rico"), &pending.id, bank).await.unwrap();
            let Reconciled::Settled(state) = settled else { panic!("{settled:?}") };
            assert_eq!(state == State::Completed, paid == 1, "{state}");
        }
        State::Approved => {
            let permit = claimed(&approvals, &pending).await.unwrap();
            permit.execute(office.pays()).await.unwrap();
        }
        State::Completed => assert_eq!(paid, 1),
        other => panic!("{other} after a crash"),
    }
    assert!(office.ledger.count("paid 7") <= 1);
    approvals.audit(&who("ada"), &pending.id.action).await.unwrap();
}

/// A4 and F24: two workers and two reviewers at once, again and again.
#[test]
fn of_many_who_race_one_wins() {
    on_every_checkpointer(async |world| {
        let rounds = size(60);
        let office = Office::new();
        let approvals = office.open(&world);
        for seed in 0..u64::try_from(rounds).unwrap() {
            let mut chance = Chance::new(seed);
            let action = format!("round {seed}");
            let pending = approvals.propose(&who("ada"), office.payment_of(&action, 1, seed)).await.unwrap();
            let hers = approvals.review(&session("cleo"), &pending.id).await.unwrap();
            let agree = chance.below(2) == 0;
            let mut people = Vec::new();
            for (account, (answer, token)) in
                [("bob", yes(&pending)), ("cleo", if agree { yes(&hers) } else { no(&hers) })]
            {
                let (approvals, pauses) = (approvals.clone(), chance.below(4));
                people.push(tokio::spawn(async move {
                    tests::pends(pauses).await;
                    approvals.answer(&session(account), answer, token).await
                }));
            }
            let mut decisions = 0;
            for person in people {
                match person.await.unwrap() {
                    Ok(_) => decisions += 1,
                    Err(ApprovalError::AlreadyDecided { .. } | ApprovalError::Conflict { .. }) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            assert_eq!(decisions, 1, "seed {seed}");
            let decided = state(&approvals, &pending.id).await;
            let mut workers = Vec::new();
            for account in ["payer", "second"] {
                let (approvals, pending, office) = (approvals.clone(), pending.clone(), office.clone());
                let pauses = chance.below(4);
                workers.push(tokio::spawn(async move {
                    tests::pends(pauses).await;
                    let permit = approvals.claim::<Payment>(&worker(account), &pending.id, &pending.digest).await?;
                    permit.execute(office.pays()).await.unwrap();
                    Ok::<_, ApprovalError>(())
                }));
            }
            let mut claims = 0;
            for worker in workers {
                match worker.await.unwrap() {
                    Ok(()) => claims += 1,
                    Err(ApprovalError::AlreadyClaimed { .. } | ApprovalError::NotAllowed { .. }) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            assert_eq!(claims, u32::from(decided == State::Approved), "seed {seed}: {decided}");
            assert_eq!(office.ledger.count(&format!("paid {seed}")), claims, "seed {seed}");
        }
    });
}

/// B31 as a race: an edit against a claim.
#[test]
fn an_edit_and_a_claim_at_once_leave_the_claim_or_the_edit() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        for seed in 0..u64::try_from(size(30)).unwrap() {
            let action = format!("round {seed}");
            let pending = approved(&approvals, office.payment_of(&action, 1, 7)).await;
            let (its, next) = (approvals.clone(), office.payment_of(&action, 2, 8));
            let edit = tokio::spawn(async move { its.propose(&who("ada"), next).await });
            let permit = claimed(&approvals, &pending).await;
            match (permit, edit.await.unwrap()) {
                (Ok(permit), Err(ApprovalError::NotAllowed { state: Some(State::Executing), .. })) => drop(permit),
                (Err(ApprovalError::Stale { current: 2 }), Ok(_)) => {}
                (permit, edit) => panic!("seed {seed}: {permit:?}, {edit:?}"),
            }
        }
    });
}

/// A42.
#[test]
fn a_thousand_that_expire_while_the_process_is_down_are_expired_when_it_starts() {
    on_every_checkpointer(async |world| {
        let many = size(1000);
        let office = Office::new();
        let mut some = Vec::new();
        {
            let approvals = office.open(&world);
            let proposals = (0..many).map(|n| {
                let (approvals, proposal) = (approvals.clone(), office.payment_of(&format!("A{n}"), 1, 7));
                async move { approvals.propose(&who("ada"), proposal).await.unwrap() }
            });
            some.extend(futures::future::join_all(proposals).await);
            let (answer, token) = yes(&some[0]);
            approvals.answer(&session("bob"), answer, token).await.unwrap();
        }
        office.clock.forward(HOUR);
        let approvals = office.open(&world);
        // None is claimable in between.
        assert!(matches!(claimed(&approvals, &some[0]).await, Err(ApprovalError::Expired)));
        let (answer, token) = yes(&some[1]);
        let late = approvals.answer(&session("bob"), answer, token).await;
        assert!(matches!(late, Err(ApprovalError::Expired)), "{late:?}");
        assert_eq!(approvals.run_due().await.unwrap(), many - 2);
        assert!(approvals.pending(&who("bob")).await.unwrap().is_empty());
        assert_eq!(approvals.run_due().await.unwrap(), 0);
        for pending in some.iter().step_by(97) {
            assert_eq!(state(&approvals, &pending.id).await, State::Expired);
        }
    });
}
