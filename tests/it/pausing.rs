//! A pause is not swallowed: not by what stands around the question, nor by what stands beside it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use durably::{Outcome, Question, RunError, Runtime, Status, Thread, entrypoint, interrupt, resource, task};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use tests::{Ledger, in_every_mode};
use tokio::sync::Notify;

fn note(effect: impl Into<String>) {
    resource::<Ledger>().note(effect);
}

async fn pauses_once(thread: &Thread, paused: Result<Outcome<u32>, RunError>) {
    let paused = paused.unwrap();
    assert_eq!(paused.questions().iter().map(Question::key).collect::<Vec<_>>(), ["ask"], "{paused:?}");
    assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Interrupted);
}

/// Each way to swallow an error: in the entrypoint, and in a task, where it would be an outcome on record.
macro_rules! under {
    ($($way:ident { $body:expr })*) => {
        $(
            mod $way {
                use super::*;

                #[task]
                async fn asks_inside() -> u32 {
                    $body
                }

                #[entrypoint]
                async fn asks(inside: bool) -> u32 {
                    if inside { asks_inside().await } else { $body }
                }

                #[test]
                fn does_not_swallow_a_pause() {
                    in_every_mode(async |world| {
                        for inside in [false, true] {
                            let ledger = Ledger::default();
                            let runtime = world.open(|builder| builder.resource(ledger.clone()));
                            let thread = runtime.thread(format!("{inside}")).unwrap();
                            pauses_once(&thread, thread.invoke(asks(inside)).await).await;
                            pauses_once(&thread, thread.resume(asks).await).await;
                            thread.answer("ask", 42).await.unwrap();
                            assert_eq!(thread.resume(asks).await.unwrap(), Outcome::Completed(42));
                            assert_eq!(ledger.total(), 0, "no handler saw an error");
                        }
                    });
                }
            }
        )*
    };
}

under! {
    a_question_mark_into_anyhow {
        {
            let asked: anyhow::Result<u32> = async {
                let answer: u32 = async { anyhow::Ok(interrupt::<u32>("ask", &()).await) }.await?;
                Ok(answer)
            }
            .await;
            asked.unwrap_or(0)
        }
    }
    ok {
        async { anyhow::Ok(interrupt::<u32>("ask", &()).await) }.await.ok().unwrap_or_default()
    }
    a_match_on_err {
        match async { anyhow::Ok(interrupt::<u32>("ask", &()).await) }.await {
            Ok(answer) => answer,
            Err(error) => {
                note(format!("matched {error}"));
                0
            }
        }
    }
    an_error_handler {
        async { anyhow::Ok(interrupt::<u32>("ask", &()).await) }
            .then(async |asked| asked.unwrap_or_else(|error| { note(format!("handled {error}")); 0 }))
            .await
    }
    catching_panics {
        AssertUnwindSafe(interrupt::<u32>("ask", &())).catch_unwind().await.unwrap_or(0)
    }
    a_biased_select_with_a_sibling_that_waits {
        tokio::select! {
            biased;
            answer = interrupt::<u32>("ask", &()) => answer,
            never = std::future::pending::<u32>() => never,
        }
    }
}

#[task(retry(max_attempts = 5, initial_interval = "1ms", jitter = false))]
async fn asks_and_is_retried() -> anyhow::Result<u32> {
    note("attempt");
    Ok(interrupt("ask", &()).await)
}

#[entrypoint]
async fn retries() -> u32 {
    asks_and_is_retried().await.unwrap_or(0)
}

/// Line 65.
#[test]
fn a_retry_policy_does_not_swallow_a_pause() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let thread = world.open(|builder| builder.resource(ledger.clone())).thread("t").unwrap();
        pauses_once(&thread, thread.invoke(retries()).await).await;
        thread.answer("ask", 42).await.unwrap();
        assert_eq!(thread.resume(retries).await.unwrap(), Outcome::Completed(42));
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((ledger.count("attempt"), state.calls.iter().map(|call| call.attempts).max()), (2, Some(1)));
    });
}

#[task]
async fn ends_first() -> u32 {
    1
}

#[entrypoint]
async fn loses_a_race() -> (u32, u32) {
    let won = tokio::select! {
        biased;
        answer = interrupt::<u32>("ask", &()) => answer,
        first = ends_first() => first,
    };
    (won, interrupt("then", &()).await)
}

/// A sibling that ends is an outcome on record that came first: the question is withdrawn, and stays so on replay.
#[test]
fn a_question_that_loses_to_a_recorded_sibling_is_withdrawn_and_not_silently_skipped() {
    in_every_mode(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        let paused = thread.invoke(loses_a_race()).await.unwrap();
        assert_eq!(paused.questions().iter().map(Question::key).collect::<Vec<_>>(), ["then"]);
        assert!(thread.answer("ask", 5).await.is_err());
        thread.answer("then", 2).await.unwrap();
        assert_eq!(thread.resume(loses_a_race).await.unwrap(), Outcome::Completed((1, 2)));
    });
}

#[task]
async fn lives() -> u32 {
    let gate = resource::<[Arc<Notify>; 2]>();
    gate[0].notify_one();
    gate[1].notified().await;
    1
}

#[entrypoint(allow(timer))]
async fn under_a_timeout(beside: bool) -> Option<u32> {
    let asks = tokio::time::timeout(Duration::from_secs(5), interrupt::<u32>("ask", &()));
    if beside {
        let (lived, asked) = futures::join!(lives(), asks);
        asked.ok().map(|answer| answer + lived)
    } else {
        asks.await.ok()
    }
}

/// With nothing else alive the run pauses before the timer; beside a live body the timer is a foreign wake. The code never
/// sees `Elapsed`, which would be another branch than on replay.
#[tokio::test(start_paused = true)]
async fn a_timer_around_a_question_pauses_or_is_refused_and_never_elapses_silently() {
    let gate: [Arc<Notify>; 2] = Default::default();
    let runtime = Runtime::builder().resource(gate.clone()).memory();
    let thread = runtime.thread("alone").unwrap();
    let paused = thread.invoke(under_a_timeout(false)).await.unwrap();
    assert_eq!(paused.questions().len(), 1);
    thread.answer("ask", 42).await.unwrap();
    assert_eq!(thread.resume(under_a_timeout).await.unwrap(), Outcome::Completed(Some(42)));

    let thread = runtime.thread("beside").unwrap();
    // Time is paused: it moves on to the timer as soon as nothing else moves.
    let error = thread.invoke(under_a_timeout(true)).await.unwrap_err();
    assert!(matches!(error, RunError::ForeignWake { .. }), "{error}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.status, state.calls.len()), (Status::Stuck, 1), "only the question is on record");
}

#[task]
async fn fetches(n: u32) -> u32 {
    note(format!("begins {n}"));
    tests::pends(n as usize * 3).await;
    note(format!("ends {n}"));
    n
}

#[entrypoint]
async fn asks_between_reads() -> Vec<(u32, bool)> {
    let mut calls: FuturesUnordered<_> = (0..4).map(fetches).collect();
    let mut all = Vec::new();
    while let Some(n) = calls.next().await {
        all.push((n, interrupt(format!("keep {n}?"), &n).await));
    }
    all
}

/// The bodies that were started and are not read while the code asks do not keep the run from pausing; each is recorded
/// once in the end.
#[test]
fn a_stream_that_is_not_read_while_its_bodies_wait_pauses_at_once() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        let within = Duration::from_secs(30);
        let mut outcome =
            tokio::time::timeout(within, thread.invoke(asks_between_reads()).start()).await.expect("no hang");
        let mut asked = 0;
        let all = loop {
            match outcome.unwrap() {
                Outcome::Completed(all) => break all,
                paused => {
                    assert_eq!(paused.questions().len(), 1, "{paused:?}");
                    asked += 1;
                    thread.answer(paused.questions()[0].id(), true).await.unwrap();
                }
            }
            let resumed = thread.resume(asks_between_reads).start();
            outcome = tokio::time::timeout(within, resumed).await.expect("no hang");
        };
        assert_eq!((all.len(), asked), (4, 4));
        let state = thread.state().await.unwrap().unwrap();
        let mut recorded: Vec<_> =
            state.calls.iter().filter(|call| call.name == "fetches").map(|call| call.id).collect();
        recorded.sort_unstable();
        recorded.dedup();
        assert_eq!(recorded.len(), 4, "each is one record");
    });
}

// ---- the lines that stand nowhere else ----

#[task]
async fn parses(answer: String) -> Option<u32> {
    note(format!("parses {answer}"));
    answer.parse().ok()
}

#[entrypoint]
async fn until_it_is_a_number() -> u32 {
    for attempt in 0_u32.. {
        let answer: String = interrupt(format!("number, attempt {attempt}"), &attempt).await;
        if let Some(number) = parses(answer).await {
            return number;
        }
    }
    unreachable!("it goes on until it returns")
}

/// Line 61.
#[test]
fn a_loop_until_the_answer_is_valid_repeats_no_work() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let thread = world.open(|builder| builder.resource(ledger.clone())).thread("t").unwrap();
        let mut outcome = thread.invoke(until_it_is_a_number()).await.unwrap();
        for (attempt, answer) in ["a", "b", "7"].into_iter().enumerate() {
            assert_eq!(outcome.questions()[0].key(), format!("number, attempt {attempt}"));
            thread.answer(outcome.questions()[0].id(), answer).await.unwrap();
            outcome = thread.resume(until_it_is_a_number).await.unwrap();
        }
        assert_eq!(outcome, Outcome::Completed(7));
        assert_eq!(ledger.total(), 3);
    });
}

#[task]
async fn prepares() -> u32 {
    note("prepares");
    1
}

#[entrypoint]
async fn child(n: u32) -> u32 {
    let prepared = prepares().await;
    prepared + interrupt::<u32>("child asks", &n).await
}

#[entrypoint]
async fn parent() -> u32 {
    let first = prepares().await;
    first + child(10).await
}

/// Line 67.
#[test]
fn a_question_of_a_nested_entrypoint_is_shown_once_and_answered_at_the_parent() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let thread = world.open(|builder| builder.resource(ledger.clone())).thread("t").unwrap();
        let paused = thread.invoke(parent()).await.unwrap();
        assert_eq!(paused.questions().iter().map(Question::key).collect::<Vec<_>>(), ["child asks"]);
        assert_eq!(thread.state().await.unwrap().unwrap().questions, paused.questions());
        thread.answer("child asks", 100).await.unwrap();
        assert_eq!(thread.resume(parent).await.unwrap(), Outcome::Completed(102));
        assert_eq!(ledger.count("prepares"), 2);
    });
}
