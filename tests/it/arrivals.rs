//! Answers that come before, during and after the wait starts: each is delivered once, or refused and told so.

use std::sync::Arc;

use durably::{AnswerError, Outcome, Question, RunError, Runtime, Thread, entrypoint, interrupt, resource, task};
use futures::future::join_all;
use tests::{Chance, Ledger, World, block_on, cut_after_every_record, on_every_checkpointer, pends, size};
use tokio::sync::Notify;

fn note(effect: impl Into<String>) {
    resource::<Ledger>().note(effect);
}

#[task]
async fn works(times: usize) {
    pends(times).await;
}

#[task]
async fn pays(answer: u32) -> u32 {
    note(format!("paid {answer}"));
    answer
}

#[task]
async fn asks_after(times: usize) -> u32 {
    pends(times).await;
    interrupt("q", &times).await
}

/// Asks after a while, in its own code or in a task on the pool, beside a body that ends some time.
#[entrypoint]
async fn asks_some_time(before: usize, beside: usize, how: usize) -> u32 {
    works(before).await;
    let asks = async {
        match how {
            0 => interrupt("q", &before).await,
            1 => asks_after(before).await,
            _ => asks_after(before).spawn().await,
        }
    };
    let (answer, ()) = futures::join!(asks, works(beside));
    pays(answer).await
}

/// Answers until it is taken, as a queue that delivers again would.
async fn sends(thread: &Thread, pause: usize, answer: u32) -> u32 {
    let mut refused = 0;
    loop {
        pends(pause).await;
        match thread.answer("q", answer).await {
            Ok(()) => return refused,
            Err(AnswerError::NoPendingInterrupt { .. } | AnswerError::UnknownInterrupt { .. }) => refused += 1,
            Err(AnswerError::Run(RunError::Busy { .. })) => {}
            Err(other) => panic!("{other}"),
        }
        tokio::task::yield_now().await;
    }
}

/// Drives until the run has ended; a pause that was answered meanwhile is gone on with.
async fn drives(thread: &Thread, (before, beside, how): (usize, usize, usize)) -> u32 {
    let mut outcome = thread.invoke(asks_some_time(before, beside, how)).await.unwrap();
    loop {
        match outcome {
            Outcome::Completed(answer) => return answer,
            _ => tokio::task::yield_now().await,
        }
        outcome = thread.resume(asks_some_time).await.unwrap();
    }
}

/// F16, B21: the sender begins before, while and after the question opens, and while the run is being parked. None of its
/// answers is lost, none counts twice, and one that came too early was refused.
#[test]
fn an_answer_is_delivered_once_whenever_it_comes() {
    let seed = 16;
    println!("seed {seed}");
    for (world, cases) in [(World::memory(), size(300)), (World::sled(), size(20))] {
        println!("on {}", world.name());
        block_on(async {
            let (ledger, mut chance) = (Ledger::default(), Chance::new(seed));
            let runtime = world.open(|builder| builder.resource(ledger.clone()));
            let mut refused = 0;
            for case in 0..cases {
                ledger.clear();
                let thread = runtime.thread(format!("{case}")).unwrap();
                let shape = (chance.below(5), chance.below(8), chance.below(3));
                let (pause, answer) = (chance.below(12), u32::try_from(case).unwrap());
                let sender = tokio::spawn({
                    let thread = thread.clone();
                    async move { sends(&thread, pause, answer).await }
                });
                let got = drives(&thread, shape).await;
                refused += sender.await.unwrap();
                assert_eq!(got, answer, "case {case}: {shape:?}, {pause}");
                assert_eq!((ledger.count(&format!("paid {answer}")), ledger.total()), (1, 1), "case {case}");
                let error = thread.answer("q", answer).await.unwrap_err();
                assert!(matches!(error, AnswerError::NoPendingInterrupt { .. }), "{error}");
            }
            println!("{refused} answers came too early");
            assert!(refused > 0, "some begin before the question is there");
        });
    }
}

/// Line 57, B21: before the question there is nothing to answer, and whoever answers is told; it answers no later one.
#[test]
fn an_answer_before_the_question_is_asked_is_refused_and_not_kept() {
    on_every_checkpointer(async |world| {
        let gate = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runtime = world.open(|builder| builder.resource(Ledger::default()).resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(asks_when_let()).start();
        gate.0.notified().await;
        let error = thread.answer("q", 1).await.unwrap_err();
        assert!(matches!(error, AnswerError::NoPendingInterrupt { status: Some(_), .. }), "{error}");
        gate.1.notify_one();
        let paused = run.await.unwrap();
        assert_eq!(paused.questions().len(), 1, "it was not answered before it was asked");
        thread.answer("q", 2).await.unwrap();
        assert_eq!(thread.resume(asks_when_let).await.unwrap(), Outcome::Completed(2));
    });
}

#[task]
async fn is_let() {
    let gate = resource::<(Arc<Notify>, Arc<Notify>)>();
    gate.0.notify_one();
    gate.1.notified().await;
}

#[entrypoint]
async fn asks_when_let() -> u32 {
    is_let().await;
    interrupt("q", &()).await
}

#[entrypoint]
async fn asks_three() -> Vec<u32> {
    let answers = join_all((0..3_u32).map(|n| interrupt::<u32>(format!("q{n}"), &n))).await;
    let mut paid = Vec::new();
    for answer in answers {
        paid.push(pays(answer).await);
    }
    paid
}

/// A crash between an answer and its record, and anywhere else: what was acknowledged is used, once.
#[test]
fn answers_survive_a_crash_at_any_record_and_are_used_once() {
    let ledger = Ledger::default();
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()),
        async |runtime| {
            let thread = runtime.thread("t").unwrap();
            let _ = thread.invoke(asks_three()).await.unwrap();
            thread.answers([("q2", 2), ("q0", 0)]).by("alice").await.unwrap();
            let _ = thread.resume(asks_three).await.unwrap();
            thread.answer("q1", 1).await.unwrap();
            let _ = thread.resume(asks_three).await.unwrap();
            ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let mut outcome =
                if cut == 0 { thread.invoke(asks_three()).await } else { thread.resume(asks_three).await }.unwrap();
            // A map is there as a whole or not at all.
            let left: Vec<&str> = outcome.questions().iter().map(Question::key).collect();
            assert!([&["q0", "q1", "q2"][..], &["q1"], &[]].contains(&&left[..]), "{left:?}");
            while let Outcome::Interrupted(open) = outcome {
                for question in open {
                    let n: u32 = question.decode().unwrap();
                    thread.answer(question.id(), n).await.unwrap();
                }
                outcome = thread.resume(asks_three).await.unwrap();
            }
            assert_eq!(outcome, Outcome::Completed(vec![0, 1, 2]));
            assert!(ledger.all().into_values().all(|times| times == 1), "{:?}", ledger.all());
            ledger.clear();
        },
    );
}

/// Races a question that may be dropped at any time against an answer to it.
#[entrypoint]
async fn asks_or_goes_on(times: usize) -> Vec<Option<u32>> {
    let mut all = Vec::new();
    for round in 0..3 {
        let answer = durably::select! {
            answer = interrupt::<u32>("q", &()) => Some(answer),
            () = works(times + round) => None,
        };
        all.push(answer);
    }
    all
}

/// A question that is dropped and asked again, with one id, does not take an answer that was for the one before; each
/// answer that was taken in is used at most once.
#[test]
fn an_answer_to_a_question_that_was_dropped_is_not_taken_for_the_same_question_asked_again() {
    block_on(async {
        let mut chance = Chance::new(7);
        let runtime = Runtime::builder().resource(Ledger::default()).memory();
        for case in 0..size(400) {
            let thread = runtime.thread(format!("{case}")).unwrap();
            let times = chance.below(6);
            let run = thread.invoke(asks_or_goes_on(times)).start();
            let mut accepted = Vec::new();
            for answer in 0..20 {
                pends(chance.below(4)).await;
                if thread.answer("q", answer).await.is_ok() {
                    accepted.push(answer);
                }
                tokio::task::yield_now().await;
            }
            let Outcome::Completed(all) = run.await.unwrap() else { panic!("nothing waits for good") };
            let mut used: Vec<u32> = all.iter().flatten().copied().collect();
            assert!(used.iter().all(|answer| accepted.contains(answer)), "case {case}: {all:?} of {accepted:?}");
            let count = used.len();
            used.dedup();
            assert_eq!(used.len(), count, "case {case}: {all:?}");
        }
    });
}
