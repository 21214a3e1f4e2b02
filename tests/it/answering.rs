//! Answers by the map and by command: all or none, in any order, repeated, and many at a time.

use std::{collections::BTreeSet, sync::Arc};

use durably::{
    AnswerError, AnswerKind, CallStatus, Command, Outcome, Question, RunError, Runtime, Status, Thread, Which,
    entrypoint, interrupt, resource, task,
};
use futures::future::join_all;
use tests::{Chance, Ledger, World, block_on, in_every_mode, on_every_checkpointer, size};
use tokio::sync::{Barrier, Notify};

fn open(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()))
}

fn keys(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(Question::key).collect()
}

async fn open_keys(thread: &Thread) -> Vec<String> {
    let state = thread.state().await.unwrap().unwrap();
    state.questions.iter().map(|question| question.key().to_owned()).collect()
}

#[task]
async fn ask(key: String) -> String {
    resource::<Ledger>().note(&key);
    interrupt(key.as_str(), "which?").await
}

#[entrypoint]
async fn five() -> Vec<String> {
    join_all(["a", "b", "c", "d", "e"].map(|key| ask(key.to_owned()))).await
}

/// Line 53.
#[test]
fn one_map_of_ids_answers_five_parallel_questions_and_one_drive_takes_all() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let paused = open(&world, &ledger).thread("t").unwrap().invoke(five()).await.unwrap();
        let ids: BTreeSet<_> = paused.questions().iter().map(Question::id).collect();
        assert_eq!((keys(paused.questions()).len(), ids.len()), (5, 5));
        let map = paused.questions().iter().rev().map(|asked| (asked.id(), format!("to {}", asked.key())));
        let map: Vec<_> = map.collect();
        open(&world, &ledger).thread("t").unwrap().answers(map).await.unwrap();
        let outcome = open(&world, &ledger).thread("t").unwrap().resume(five).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["to a", "to b", "to c", "to d", "to e"]);
        assert_eq!(ledger.total(), 10, "each body began to ask, and began with its answer");
    });
}

/// Line 53, in one call.
#[test]
fn a_command_with_a_map_answers_and_goes_on() {
    in_every_mode(async |world| {
        let thread = open(&world, &Ledger::default()).thread("t").unwrap();
        let _ = thread.invoke(five()).await.unwrap();
        let some = Command::answers([("b", "2"), ("d", "4")]).by("alice");
        let outcome = thread.resume(five).with(some).await.unwrap();
        assert_eq!(keys(outcome.questions()), ["a", "c", "e"]);
        let rest = Command::answer("e", "5").and("a", "1").and("c", "3");
        let outcome = thread.resume(five).with(rest).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["1", "2", "3", "4", "5"]);
    });
}

/// Lines 54, 55 and 58: whatever is wrong with one answer of a map, none of it is stored, and a right map still works.
#[test]
fn a_map_with_one_wrong_answer_stores_nothing() {
    on_every_checkpointer(async |world| {
        let thread = open(&world, &Ledger::default()).thread("t").unwrap();
        let paused = thread.invoke(five()).await.unwrap();
        thread.answer("a", "first").await.unwrap();
        let left = ["b", "c", "d", "e"].map(str::to_owned);
        let unchanged = async |error: AnswerError| {
            assert_eq!(open_keys(&thread).await, left, "{error}");
            error
        };
        let refused = async |map: Vec<(&str, &str)>| unchanged(thread.answers(map).await.unwrap_err()).await;

        let error = refused(vec![("b", "2"), ("nobody", "?"), ("c", "3")]).await;
        let AnswerError::UnknownInterrupt { known, .. } = error else { panic!("{error}") };
        assert_eq!(known.len(), 4);
        let error = refused(vec![("b", "2"), ("a", "second")]).await;
        assert!(matches!(&error, AnswerError::Conflict { answered, .. } if answered == "\"first\""), "{error}");
        let error = refused(vec![("b", "2"), ("c", "3"), ("b", "two")]).await;
        assert!(
            matches!(&error, AnswerError::Twice { question } if *question == paused.questions()[1].id()),
            "{error}"
        );
        let error = unchanged(thread.answer("b", "2").and("c", 3).await.unwrap_err()).await;
        assert!(matches!(&error, AnswerError::WrongType { key, .. } if key == "c"), "{error}");
        let error = unchanged(thread.answer("b", "2").and(Which::Only, "3").await.unwrap_err()).await;
        assert!(matches!(error, AnswerError::Ambiguous { key: None, .. }), "{error}");
        let error = unchanged(thread.cancel_question("b").await.unwrap_err()).await;
        assert!(matches!(error, AnswerError::NotCancellable { .. }), "{error}");

        // One that repeats what counts already is no mistake.
        thread.answers([("a", "first"), ("b", "2"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")]).await.unwrap();
        let outcome = thread.resume(five).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["first", "2", "3", "4", "5"]);
    });
}

/// B5, line 54.
#[test]
fn a_bare_answer_with_two_open_questions_is_ambiguous_and_consumes_nothing() {
    in_every_mode(async |world| {
        let thread = open(&world, &Ledger::default()).thread("t").unwrap();
        let paused = thread.invoke(five()).await.unwrap();
        let error = thread.resume(five).with(Command::resume("?")).await.unwrap_err();
        let RunError::Answer(error) = error else { panic!("{error}") };
        let AnswerError::Ambiguous { key: None, open } = *error else { panic!("{error}") };
        let shown: Vec<_> = open.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(shown, keys(paused.questions()));
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len(), state.answered.len()), (Status::Interrupted, 5, 0));
        let map = ["a", "b", "c", "d"].map(|key| (key, key));
        let _ = thread.resume(five).with(Command::answers(map)).await.unwrap();
        // One is left: now it is clear.
        let outcome = thread.resume(five).with(Command::resume("e")).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["a", "b", "c", "d", "e"]);
    });
}

#[entrypoint]
async fn in_sequence(n: u32) -> Vec<String> {
    let mut all = Vec::new();
    for n in 0..n {
        all.push(interrupt(format!("q{n}"), &n).await);
    }
    all
}

#[test]
fn bare_commands_answer_one_question_after_the_other() {
    in_every_mode(async |world| {
        let thread = open(&world, &Ledger::default()).thread("t").unwrap();
        let mut outcome = thread.invoke(in_sequence(3)).await.unwrap();
        for answer in ["x", "y", "z"] {
            assert_eq!(outcome.questions().len(), 1);
            outcome = thread.resume(in_sequence).with(Command::resume(answer)).await.unwrap();
        }
        assert_eq!(outcome.completed().unwrap(), ["x", "y", "z"]);
        let error = thread.resume(in_sequence).with(Command::resume("late")).await.unwrap_err();
        assert!(
            matches!(&error, RunError::Answer(error)
            if matches!(**error, AnswerError::NoPendingInterrupt { status: Some(Status::Completed), .. })),
            "{error}"
        );
    });
}

#[task]
async fn holds_on() {
    let (begun, go_on) = resource::<(Arc<Notify>, Arc<Notify>)>().as_ref().clone();
    begun.notify_one();
    go_on.notified().await;
}

#[entrypoint]
async fn asks_beside_a_body() -> String {
    let (answer, ()) = futures::join!(interrupt("q", &()), holds_on());
    answer
}

#[test]
fn a_command_to_a_thread_that_is_driven_elsewhere_answers_nothing() {
    block_on(async {
        let gate = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let thread = Runtime::builder().resource(gate.clone()).memory().thread("t").unwrap();
        let run = thread.invoke(asks_beside_a_body()).start();
        gate.0.notified().await;
        while thread.state().await.unwrap().unwrap().questions.is_empty() {
            tokio::task::yield_now().await;
        }
        let error = thread.resume(asks_beside_a_body).with(Command::resume("mine")).await.unwrap_err();
        assert!(matches!(error, RunError::Busy { .. }), "{error}");
        thread.answer("q", "theirs").await.unwrap();
        gate.1.notify_one();
        assert_eq!(run.await.unwrap(), Outcome::Completed("theirs".to_owned()));
    });
}

/// Who answered is kept with the answer before the run takes it, and after.
#[test]
fn who_answered_and_when_is_on_record() {
    in_every_mode(async |world| {
        {
            let thread = open(&world, &Ledger::default()).thread("t").unwrap();
            let _ = thread.invoke(five()).await.unwrap();
            thread.answer("a", "1").by("alice").await.unwrap();
            thread.answer("b", "2").await.unwrap();
        }
        let thread = open(&world, &Ledger::default()).thread("t").unwrap();
        let state = thread.state().await.unwrap().unwrap();
        let asking = state.calls.iter().find(|call| call.name == "a").unwrap();
        assert_eq!((&asking.status, asking.by.as_deref()), (&CallStatus::Answered("\"1\"".to_owned()), Some("alice")));
        assert_eq!((state.questions.len(), state.answered.len()), (3, 2));
        let [alice, nobody] = state.answered.as_slice() else { panic!("{:?}", state.answered) };
        assert_eq!((alice.question.key(), alice.value.as_deref()), ("a", Some("\"1\"")));
        assert_eq!((alice.by.as_deref(), nobody.by.as_deref()), (Some("alice"), None));
        assert!(alice.at <= nobody.at && state.started <= alice.at);
        // The same answer by somebody else is the same answer, and it stays the first one's.
        thread.answer("a", "1").by("bob").await.unwrap();
        let _ = thread.resume(five).await.unwrap();
        let state = thread.state().await.unwrap().unwrap();
        let answered = state.calls.iter().find(|call| call.name == "a").unwrap();
        assert_eq!(answered.status, CallStatus::Value("\"1\"".to_owned()));
        assert_eq!((answered.how, answered.by.as_deref()), (Some(AnswerKind::Given), Some("alice")));
        assert!(answered.started.unwrap() <= alice.at && alice.at <= answered.at);
        assert!(state.answered.is_empty());
    });
}

/// B11: the other question stays, under its id; the answered one is not asked again, also not by another process.
#[test]
fn an_answered_question_is_not_open_before_and_after_the_run_goes_on() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let paused = open(&world, &ledger).thread("t").unwrap().invoke(five()).await.unwrap();
        let thread = open(&world, &ledger).thread("t").unwrap();
        thread.answer(paused.questions()[1].id(), "2").await.unwrap();
        assert_eq!(open_keys(&thread).await, ["a", "c", "d", "e"]);
        let again = thread.resume(five).await.unwrap();
        assert_eq!(keys(again.questions()), ["a", "c", "d", "e"]);
        let ids = |of: &[Question]| of.iter().map(Question::id).collect::<BTreeSet<_>>();
        assert!(ids(again.questions()).is_subset(&ids(paused.questions())));
        assert_eq!(thread.resume(five).await.unwrap(), again);
    });
}

#[entrypoint]
async fn three_of_a_kind() -> Vec<u32> {
    join_all((0..3).map(|_| interrupt::<u32>("same", "payload"))).await
}

/// B4: equal in key and payload, and yet three questions with three ids.
#[test]
fn parallel_questions_have_ids_of_their_own_and_each_gets_its_answer_in_any_order() {
    on_every_checkpointer(async |world| {
        let runtime = open(&world, &Ledger::default());
        for (number, order) in permutations(3).into_iter().enumerate() {
            let thread = runtime.thread(format!("{number}")).unwrap();
            let paused = thread.invoke(three_of_a_kind()).await.unwrap();
            let ids: Vec<_> = paused.questions().iter().map(Question::id).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 3);
            for place in order {
                thread.answer(ids[place], place).await.unwrap();
            }
            assert_eq!(thread.resume(three_of_a_kind).await.unwrap().completed().unwrap(), [0, 1, 2]);
        }
    });
}

/// All orders of the numbers below `n`.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    let Some(last) = n.checked_sub(1) else { return vec![Vec::new()] };
    let shorter = permutations(last);
    let with_last = shorter.iter().flat_map(|order| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last);
            order
        })
    });
    with_last.collect()
}

#[entrypoint]
async fn bare_five() -> Vec<u32> {
    join_all((0..5_u32).map(|n| interrupt::<u32>(format!("q{n}"), &n))).await
}

async fn answer_in_order(thread: &Thread, order: &[usize], repeated: usize) {
    let _ = thread.invoke(bare_five()).await.unwrap();
    for (place, n) in order.iter().enumerate() {
        thread.answer(format!("q{n}"), n * 10).await.unwrap();
        // The same again is the same, another is a conflict; of this one, and of the one before.
        for earlier in [place, place.saturating_sub(1)].map(|place| order[place]) {
            if repeated & (1 << earlier) != 0 {
                thread.answer(format!("q{earlier}"), earlier * 10).await.unwrap();
                let error = thread.answer(format!("q{earlier}"), earlier * 10 + 1).await.unwrap_err();
                assert!(matches!(error, AnswerError::Conflict { .. }), "{error}");
            }
        }
    }
    assert_eq!(thread.resume(bare_five).await.unwrap().completed().unwrap(), [0, 10, 20, 30, 40]);
}

/// F15: all 5! orders of five answers, with each of the 2^5 sets of them repeated: 3,840 in all.
#[test]
fn answers_in_every_order_with_every_set_of_duplicates_reach_their_questions_once() {
    let orders = permutations(5);
    assert_eq!(orders.len() * 32, 3840);
    block_on(async {
        for order in &orders {
            let runtime = Runtime::builder().memory();
            for repeated in 0..32 {
                answer_in_order(&runtime.thread(format!("{repeated}")).unwrap(), order, repeated).await;
            }
        }
    });
    // On disk, as many as there is time for.
    let world = World::sled();
    block_on(async {
        let (runtime, mut chance) = (world.runtime(), Chance::new(15));
        for case in 0..size(20) {
            let thread = runtime.thread(format!("{case}")).unwrap();
            answer_in_order(&thread, &orders[chance.below(120)], chance.below(32)).await;
        }
    });
}

#[task]
async fn pays(n: u32, answer: u32) {
    resource::<Ledger>().note(format!("{n}: {answer}"));
}

#[entrypoint]
async fn asks_four_and_pays() -> Vec<u32> {
    let asks = async |n: u32| {
        let answer: u32 = interrupt(format!("q{n}"), &n).await;
        pays(n, answer).await;
        answer
    };
    let (a, b, c, d) = futures::join!(asks(0), asks(1), asks(2), asks(3));
    vec![a, b, c, d]
}

/// F15 and line 58: of 64 answers at once to four questions, one to each wins, and the others are told which.
#[test]
fn of_racing_answers_one_wins_for_each_question_and_is_used_once() {
    for world in [World::memory(), World::sled()] {
        println!("on {}", world.name());
        block_on(async {
            let ledger = Ledger::default();
            let runtime = open(&world, &ledger);
            for round in 0..size(6) {
                ledger.clear();
                let thread = runtime.thread(format!("{round}")).unwrap();
                let _ = thread.invoke(asks_four_and_pays()).await.unwrap();
                let start = Arc::new(Barrier::new(64));
                let racers = (0..64_u32).map(|racer| {
                    let (thread, start) = (thread.clone(), start.clone());
                    tokio::spawn(async move {
                        start.wait().await;
                        (racer, thread.answer(format!("q{}", racer % 4), racer).await)
                    })
                });
                let mut won = Vec::new();
                for answered in join_all(racers).await {
                    match answered.unwrap() {
                        (racer, Ok(())) => won.push(racer),
                        (_, Err(AnswerError::Conflict { .. })) => {}
                        (_, Err(other)) => panic!("{other}"),
                    }
                }
                won.sort_by_key(|racer| racer % 4);
                let outcome = thread.resume(asks_four_and_pays).await.unwrap().completed().unwrap();
                assert_eq!(outcome, won, "round {round}");
                let paid: Vec<_> = won.iter().map(|racer| format!("{}: {racer}", racer % 4)).collect();
                assert_eq!(ledger.all().into_keys().collect::<Vec<_>>(), paid);
                assert_eq!(ledger.total(), 4);
            }
        });
    }
}
