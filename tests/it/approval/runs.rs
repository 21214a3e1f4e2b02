//! Approvals within runs: what is proposed, decided, claimed and executed are recorded steps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use durably::{
    Outcome, RunError, Runtime, Status,
    approval::{
        self, Approvals, Asked, Delivery, Effect, NotDone, Pending, PolicyRef, Proposal, Reconciled, Refused,
        RevisionId, Role, Settlement, State,
    },
    entrypoint, resource, task,
    testing::{Fault, FaultyCheckpointer},
};
use tests::{Ledger, World, in_every_mode, on_every_checkpointer};

use super::{HOUR, Office, Payment, effects::Bank, no, session, who, worker, yes};

/// What the code of a run is today.
#[derive(Clone, Debug, Default)]
struct Code(Arc<AtomicU64>);

#[task]
async fn quotes(cents: u64) -> u64 {
    resource::<Ledger>().note("quoted");
    cents
}

#[entrypoint]
async fn pays(cents: u64) -> Result<String, String> {
    let cents = quotes(cents).await + resource::<Code>().0.load(Ordering::SeqCst);
    let until = durably::now().await + HOUR;
    let id = RevisionId::new(super::TENANT, "A42", 1).unwrap();
    let payment = Payment { cents, to: "DE02".to_owned() };
    let proposal = Proposal::new(id, "pay", "production", payment, PolicyRef::new("payments", 1), until)
        .delivery(Delivery::Keyed)
        .secret("/to");
    let permit = approval::request(proposal).await.map_err(|refused| refused.to_string())?;
    let bank = resource::<Bank>();
    let paid = permit.execute(async move |payment: Arc<Payment>, key| {
        let receipt = bank.pay(payment.cents, &key);
        if resource::<Trap>().0.load(Ordering::SeqCst) == 1 {
            std::future::pending::<()>().await;
        }
        Effect::Applied { receipt }
    });
    match paid.await {
        Ok(done) => Ok(done.receipt),
        Err(NotDone::Settled { reason }) => Ok(format!("settled: {reason}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether an effect hangs after it has happened.
#[derive(Clone, Debug, Default)]
struct Trap(Arc<AtomicU64>);

/// The things of a run that outlive its processes.
struct Desk {
    office: Office,
    bank: Bank,
    code: Code,
    trap: Trap,
}

impl Desk {
    fn new() -> Self {
        let office = Office::new();
        let bank = Bank::new(&office.ledger);
        Self { office, bank, code: Code::default(), trap: Trap::default() }
    }

    fn open(&self, world: &World) -> (Runtime, Approvals) {
        self.on(world.open(|builder| self.build(builder)))
    }

    fn build(&self, builder: durably::RuntimeBuilder) -> durably::RuntimeBuilder {
        builder
            .clock(self.office.clock.clone())
            .resource(self.office.ledger.clone())
            .resource(self.office.rules())
            .resource(self.bank.clone())
            .resource(self.code.clone())
            .resource(self.trap.clone())
    }

    fn on(&self, runtime: Runtime) -> (Runtime, Approvals) {
        let approvals = Approvals::new(&runtime, self.office.rules());
        (runtime, approvals)
    }
}

async fn open(approvals: &Approvals) -> Pending {
    let listed = approvals.pending(&who("bob")).await.unwrap();
    let [one] = listed.as_slice() else { panic!("{listed:?}") };
    approvals.review(&session("bob"), &one.id).await.unwrap()
}

async fn decides(approvals: &Approvals, approves: bool) {
    let pending = open(approvals).await;
    let (answer, token) = if approves { yes(&pending) } else { no(&pending) };
    approvals.answer(&session("bob"), answer, token).await.unwrap();
}

/// B34: approved, and the process is another one when it goes on.
#[test]
fn a_run_waits_for_its_approval_and_executes_it_once_in_another_process() {
    in_every_mode(async |world| {
        let desk = Desk::new();
        {
            let (runtime, approvals) = desk.open(&world);
            let paused = runtime.thread("t").unwrap().invoke(pays(7)).await.unwrap();
            let [question] = paused.questions() else { panic!("{paused:?}") };
            assert_eq!(question.key(), "approval of acme/A42/1");
            let asked: Asked = question.decode().unwrap();
            assert!(asked.view.contains("cents = 7") && !asked.view.contains("DE02"), "{}", asked.view);
            let pending = open(&approvals).await;
            assert_eq!((&asked.id, asked.digest), (&pending.id, pending.digest));
            let seen = approvals.look(&who("bob"), &pending.id).await.unwrap();
            assert_eq!(seen.thread.as_deref(), Some("t"));
            let state = format!("{:?}", runtime.thread("t").unwrap().state().await.unwrap());
            assert!(!state.contains("DE02"), "{state}");
        }
        decides(&desk.open(&world).1, true).await;
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        let outcome = thread.resume(pays).await.unwrap();
        assert_eq!(outcome, Outcome::Completed("receipt for 7".to_owned()));
        assert_eq!(thread.resume(pays).await.unwrap(), outcome);
        let audit = approvals.audit(&who("bob"), &"A42".try_into().unwrap()).await.unwrap();
        let done = |event: &str| audit.iter().filter(|entry| entry.event() == event && !entry.is_refused()).count();
        assert_eq!((done("propose"), done("claim"), done("begin"), done("complete")), (1, 1, 1, 1));
        assert_eq!((desk.office.ledger.count("paid 7"), desk.office.ledger.count("quoted")), (1, 1));
    });
}

#[derive(Debug, Default)]
struct Gate(tokio::sync::Notify);

#[task]
async fn waits_at_a_gate() {
    resource::<Arc<Gate>>().0.notified().await;
}

#[entrypoint]
async fn pays_beside_a_gate(cents: u64) -> bool {
    let until = durably::now().await + HOUR;
    let id = RevisionId::new(super::TENANT, "A42", 1).unwrap();
    let payment = Payment { cents, to: "DE02".to_owned() };
    let proposal = Proposal::new(id, "pay", "production", payment, PolicyRef::new("payments", 1), until)
        .requested_by("run:pays".try_into().unwrap());
    let paid = async {
        let bank = resource::<Bank>();
        let permit = approval::request(proposal).await.unwrap();
        let paid = permit.execute(async move |payment: Arc<Payment>, key| Effect::Applied {
            receipt: bank.pay(payment.cents, &key),
        });
        paid.await.is_ok()
    };
    futures::join!(paid, waits_at_a_gate()).0
}

#[test]
fn a_run_that_is_driven_goes_on_by_itself_when_it_is_decided() {
    in_every_mode(async |world| {
        let desk = Desk::new();
        let gate = Arc::new(Gate::default());
        let (runtime, approvals) = desk.on(world.open(|builder| desk.build(builder).resource(gate.clone())));
        let started = runtime.thread("t").unwrap().invoke(pays_beside_a_gate(7)).start();
        while approvals.pending(&who("bob")).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        // The note of who waits comes after the proposal.
        let id = RevisionId::new(super::TENANT, "A42", 1).unwrap();
        while approvals.look(&who("bob"), &id).await.unwrap().thread.is_none() {
            tokio::task::yield_now().await;
        }
        decides(&approvals, true).await;
        // The gate is closed yet, so that the run has never paused.
        while desk.office.ledger.count("paid 7") == 0 {
            tokio::task::yield_now().await;
        }
        gate.0.notify_one();
        assert_eq!(started.await.unwrap(), Outcome::Completed(true));
    });
}

/// Another run that asks for the same revision gets no second permit, not on the same thread either.
#[test]
fn a_revision_gives_its_permit_to_one_run() {
    on_every_checkpointer(async |world| {
        let desk = Desk::new();
        let (runtime, approvals) = desk.open(&world);
        let [one, two] = ["one", "two"].map(|name| runtime.thread(name).unwrap());
        for thread in [&one, &two] {
            assert_eq!(thread.invoke(pays(7)).await.unwrap().questions().len(), 1);
        }
        decides(&approvals, true).await;
        let receipt = Outcome::Completed("receipt for 7".to_owned());
        assert_eq!(one.resume(pays).await.unwrap(), receipt);
        let error = two.resume(pays).await.unwrap_err();
        assert!(error.to_string().contains("somebody else has claimed it"), "{error}");
        let error = one.invoke(pays(7)).await.unwrap_err();
        assert!(error.to_string().contains("somebody else has claimed it"), "{error}");
        assert_eq!(desk.office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn an_answer_to_the_question_itself_decides_nothing() {
    on_every_checkpointer(async |world| {
        let desk = Desk::new();
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        let paused = thread.invoke(pays(7)).await.unwrap();
        for answer in ["approve", "true"] {
            thread.answer(paused.questions()[0].id(), answer).await.unwrap();
            let still = thread.resume(pays).await.unwrap();
            assert!(still.questions()[0].refused().is_some_and(|why| why.contains("Approvals::answer")), "{still:?}");
        }
        assert_eq!(desk.office.ledger.count("paid 7"), 0);
        decides(&approvals, true).await;
        assert_eq!(thread.resume(pays).await.unwrap(), Outcome::Completed("receipt for 7".to_owned()));
    });
}

#[test]
fn a_refusal_is_an_outcome_by_its_name_and_stays_it() {
    on_every_checkpointer(async |world| {
        for (way, expected) in [
            ("rejected", Refused::Rejected { reason: "too much".to_owned() }),
            ("expired", Refused::Expired),
            ("superseded", Refused::Superseded { current: 2 }),
        ] {
            let desk = Desk::new();
            let world = if world.folder().is_some() { World::sled() } else { World::memory() };
            let (runtime, approvals) = desk.open(&world);
            let thread = runtime.thread("t").unwrap();
            let paused = thread.invoke(pays(7)).await.unwrap();
            assert_eq!(paused.questions().len(), 1);
            match way {
                "rejected" => decides(&approvals, false).await,
                "expired" => desk.office.clock.forward(HOUR),
                _ => drop(approvals.propose(&who("ada"), desk.office.payment(2, 8)).await.unwrap()),
            }
            for _ in 0..2 {
                let error = thread.resume(pays).await.unwrap_err();
                let RunError::Failed(failure) = error else { panic!("{error}") };
                assert_eq!(failure.to_string(), expected.to_string());
            }
            assert_eq!(desk.office.ledger.count("paid 7"), 0);
        }
    });
}

/// A35 and B32: extra-org/extra#139.
#[test]
fn code_that_proposes_something_else_on_replay_is_nondeterminism_and_uses_no_approval() {
    in_every_mode(async |world| {
        let desk = Desk::new();
        {
            let (runtime, approvals) = desk.open(&world);
            let paused = runtime.thread("t").unwrap().invoke(pays(7)).await.unwrap();
            assert_eq!(paused.questions().len(), 1);
            decides(&approvals, true).await;
        }
        desk.code.0.store(1, Ordering::SeqCst);
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        let error = thread.resume(pays).await.unwrap_err();
        assert!(matches!(error, RunError::Nondeterminism(_)), "{error}");
        assert!(error.to_string().contains("propose acme/A42/1"), "{error}");
        let id = RevisionId::new(super::TENANT, "A42", 1).unwrap();
        assert_eq!(approvals.state(&who("bob"), &id).await.unwrap(), State::Approved);
        assert_eq!(desk.office.ledger.total(), 1);
        desk.code.0.store(0, Ordering::SeqCst);
        assert_eq!(thread.resume(pays).await.unwrap(), Outcome::Completed("receipt for 7".to_owned()));
    });
}

/// B35: the stored decision counts, and is not made again; the guards are looked at once, at the claim.
#[test]
fn a_decision_is_not_asked_for_again_on_replay() {
    on_every_checkpointer(async |world| {
        let desk = Desk::new();
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(pays(7)).await.unwrap();
        decides(&approvals, true).await;
        let _ = thread.resume(pays).await.unwrap();
        // Everybody is dismissed, and the run is replayed to its end from its journal.
        desk.office.staff.dismisses("bob", Role::Reviewer);
        desk.office.staff.dismisses("run:pays", Role::Requester);
        let asked = desk.office.staff.asked.load(Ordering::SeqCst);
        assert_eq!(thread.resume(pays).await.unwrap(), Outcome::Completed("receipt for 7".to_owned()));
        assert_eq!(desk.office.staff.asked.load(Ordering::SeqCst), asked);
    });
}

/// A22 in a run: it waits on, and goes on once that is put right.
#[test]
fn a_run_whose_reviewer_may_no_more_waits_until_that_is_put_right() {
    on_every_checkpointer(async |world| {
        let desk = Desk::new();
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(pays(7)).await.unwrap();
        decides(&approvals, true).await;
        desk.office.staff.dismisses("bob", Role::Reviewer);
        let paused = thread.resume(pays).await.unwrap();
        assert_eq!((paused.questions().len(), desk.office.ledger.count("paid 7")), (1, 0));
        assert_eq!(approvals.pending(&who("cleo")).await.unwrap().len(), 1);
        desk.office.staff.hires("bob", Role::Reviewer);
        assert_eq!(thread.resume(pays).await.unwrap(), Outcome::Completed("receipt for 7".to_owned()));
    });
}

async fn dies_in_the_effect(desk: &Desk, world: &World) {
    desk.trap.0.store(1, Ordering::SeqCst);
    let (runtime, approvals) = desk.open(world);
    let thread = runtime.thread("t").unwrap();
    let _ = thread.invoke(pays(7)).await.unwrap();
    decides(&approvals, true).await;
    let started = thread.resume(pays).start();
    while desk.office.ledger.count("paid 7") == 0 {
        tokio::task::yield_now().await;
    }
    started.abort();
    let _ = started.await;
    desk.trap.0.store(0, Ordering::SeqCst);
}

#[test]
fn a_run_that_died_in_the_effect_waits_until_the_receiver_has_said_what_became_of_it() {
    in_every_mode(async |world| {
        let desk = Desk::new();
        dies_in_the_effect(&desk, &world).await;
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        for _ in 0..2 {
            let paused = thread.resume(pays).await.unwrap();
            assert_eq!(paused.questions()[0].key(), "execute acme/A42/1", "{paused:?}");
        }
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Interrupted);
        let listed = approvals.uncertain(&who("olga")).await.unwrap();
        let settled = approvals.reconcile::<Payment, _>(&worker("rico"), &listed[0].id, &desk.bank).await.unwrap();
        assert!(matches!(settled, Reconciled::Settled(State::Completed)), "{settled:?}");
        assert_eq!(thread.resume(pays).await.unwrap(), Outcome::Completed("receipt for 7".to_owned()));
        assert_eq!(desk.office.ledger.count("paid 7"), 1);
    });
}

#[test]
fn a_run_that_died_in_the_effect_takes_a_person_s_word() {
    on_every_checkpointer(async |world| {
        let desk = Desk::new();
        dies_in_the_effect(&desk, &world).await;
        let (runtime, approvals) = desk.open(&world);
        let thread = runtime.thread("t").unwrap();
        let _ = thread.resume(pays).await.unwrap();
        let id = RevisionId::new(super::TENANT, "A42", 1).unwrap();
        approvals.settle(&session("olga"), &id, Settlement::Happened, "seen at the bank").await.unwrap();
        let outcome = thread.resume(pays).await.unwrap();
        assert_eq!(outcome, Outcome::Completed("settled: seen at the bank".to_owned()));
        assert_eq!(desk.office.ledger.count("paid 7"), 1);
    });
}

/// A crash before and after every commit of a run with an approval.
#[test]
fn a_run_that_was_cut_off_at_any_write_pays_once_or_is_uncertain() {
    tests::block_on(async {
        let mut commit = 1;
        let mut uncertain = 0;
        loop {
            let mut stopped = 0;
            for fault in [Fault::StopBefore, Fault::StopAfter] {
                println!("{fault:?} at commit {commit}");
                let desk = Desk::new();
                let memory = durably::checkpoint::MemoryCheckpointer::new();
                let faulty = Arc::new(FaultyCheckpointer::new(Arc::new(memory.clone())).at(commit, fault));
                {
                    let runtime = desk.build(Runtime::builder()).shared_checkpointer(faulty.clone());
                    let (runtime, approvals) = desk.on(runtime);
                    let life = async {
                        let thread = runtime.thread("t").unwrap();
                        let _ = thread.invoke(pays(7)).await.unwrap();
                        decides(&approvals, true).await;
                        let _ = thread.resume(pays).await.unwrap();
                    };
                    tokio::select! {
                        biased;
                        () = faulty.stopped() => stopped += 1,
                        () = life => {}
                    }
                }
                uncertain += goes_on(&desk, &memory).await;
            }
            if stopped == 0 {
                break;
            }
            commit += 1;
        }
        println!("{commit} commits, {uncertain} times uncertain");
        assert!(commit > 10 && uncertain > 0);
    });
}

/// Goes on after a crash; whether the action was uncertain.
async fn goes_on(desk: &Desk, memory: &durably::checkpoint::MemoryCheckpointer) -> u32 {
    let runtime = desk.build(Runtime::builder()).checkpointer(memory.reopen());
    let (runtime, approvals) = desk.on(runtime);
    let thread = runtime.thread("t").unwrap();
    let mut uncertain = 0;
    for _ in 0..4 {
        let outcome = match thread.state().await.unwrap() {
            None => thread.invoke(pays(7)).await.unwrap(),
            Some(_) => thread.resume(pays).await.unwrap(),
        };
        match outcome {
            Outcome::Completed(receipt) => {
                assert_eq!((receipt.as_str(), desk.office.ledger.count("paid 7")), ("receipt for 7", 1));
                assert!(desk.office.ledger.count("quoted") <= 2);
                return uncertain;
            }
            outcome => match outcome.questions()[0].key() {
                "execute acme/A42/1" => {
                    uncertain += 1;
                    let listed = approvals.uncertain(&who("olga")).await.unwrap();
                    // A receiver that has not got it says so, and the run is told: it does not happen by itself.
                    let id = &listed[0].id;
                    let settled = approvals.reconcile::<Payment, _>(&worker("rico"), id, &desk.bank).await.unwrap();
                    let Reconciled::Settled(state) = settled else { panic!("{settled:?}") };
                    if state == State::Failed {
                        assert_eq!(desk.office.ledger.count("paid 7"), 0);
                        assert!(matches!(thread.resume(pays).await, Err(RunError::Failed(_))));
                        return uncertain;
                    }
                }
                _ => decides(&approvals, true).await,
            },
        }
    }
    panic!("it comes to no end");
}

#[entrypoint]
async fn pays_twice(cents: u64) -> (u64, String) {
    let until = UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    let mut last = String::new();
    for action in ["one", "two"] {
        let id = RevisionId::new(super::TENANT, action, 1).unwrap();
        let payment = Payment { cents, to: "DE02".to_owned() };
        let proposal = Proposal::new(id, "pay", "production", payment, PolicyRef::new("payments", 1), until)
            .requested_by("ada".try_into().unwrap());
        last = match approval::request(proposal).await {
            Ok(permit) => permit.id().to_string(),
            Err(refused) => refused.to_string(),
        };
    }
    (cents, last)
}

#[test]
fn a_proposal_that_is_not_possible_is_told_to_the_run() {
    on_every_checkpointer(async |world| {
        let desk = Desk::new();
        let (runtime, approvals) = desk.open(&world);
        let taken = approvals.propose(&who("ada"), desk.office.payment_of("two", 1, 9)).await.unwrap();
        assert_eq!(taken.state, State::Pending);
        let one = RevisionId::new(super::TENANT, "one", 1).unwrap();
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(pays_twice(7)).await.unwrap();
        let pending = approvals.review(&session("bob"), &one).await.unwrap();
        let (answer, token) = no(&pending);
        approvals.answer(&session("bob"), answer, token).await.unwrap();
        let (_, last) = thread.resume(pays_twice).await.unwrap().completed().unwrap();
        assert!(last.contains("could not be proposed") && last.contains("digest"), "{last}");
    });
}
