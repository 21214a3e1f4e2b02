//! Questions and answers, and where each line of the list of behaviours is shown.
//!
//! | line | test |
//! | --- | --- |
//! | 44, 49 | `a_question_in_the_body_is_asked_answered_and_used_once` |
//! | 45 | `a_question_in_a_task_is_answered_each_time_the_task_is_called` |
//! | 46 | `a_loop_that_asks_each_time_repeats_no_work` |
//! | 47 | with the cache of tasks |
//! | 50 | `falsy_answers_are_answers` |
//! | 51 | `two_equal_questions_in_one_body_have_two_ids_and_two_answers` |
//! | 52 | `a_new_input_drops_the_old_question_only_if_that_was_chosen` |
//! | 53 | `answering::one_map_of_ids_answers_five_parallel_questions_and_one_drive_takes_all`, `two_questions_answered_one_at_a_time_take_three_drives` |
//! | 54, B5 | `answering::a_bare_answer_with_two_open_questions_is_ambiguous_and_consumes_nothing`, `an_answer_that_could_mean_two_questions_changes_nothing` |
//! | 55 | `an_answer_to_an_unknown_question_is_told_which_are_known`, `answering::a_map_with_one_wrong_answer_stores_nothing` |
//! | 57 | `an_answer_that_nobody_waits_for_is_refused_and_answers_nothing_later` |
//! | 58, F15 | `answering::of_racing_answers_one_wins_for_each_question_and_is_used_once`, `answering::answers_in_every_order_with_every_set_of_duplicates_reach_their_questions_once` |
//! | 59 | `five_questions_are_shown_at_once_and_answered_in_any_order` |
//! | 61 | `pausing::a_loop_until_the_answer_is_valid_repeats_no_work` |
//! | 62 | `asking::an_answer_of_the_wrong_type_is_refused_when_it_arrives`, `asking::an_answer_that_does_not_fit_the_schema_is_refused_and_the_right_one_taken` |
//! | 63 | `pausing`, by the ways to swallow it |
//! | 65 | `a_pause_is_no_failed_attempt_and_a_retry_has_the_answer_already`, `pausing::a_retry_policy_does_not_swallow_a_pause` |
//! | 67 | `pausing::a_question_of_a_nested_entrypoint_is_shown_once_and_answered_at_the_parent` |
//! | 69 | with the streams |
//! | F16, B21 | `arrivals::an_answer_is_delivered_once_whenever_it_comes` |
//! | B4 | `answering::parallel_questions_have_ids_of_their_own_and_each_gets_its_answer_in_any_order` |
//! | B11 | `answering::an_answered_question_is_not_open_before_and_after_the_run_goes_on` |

use std::collections::{BTreeMap, BTreeSet};

use durably::{
    AnswerError, IfUnfinished, Outcome, Question, RunError, Runtime, Status, Thread, attempt, entrypoint, interrupt,
    resource, task,
};
use futures::future::join_all;
use tests::{Ledger, World, in_every_mode, on_every_checkpointer};

fn thread(world: &World, ledger: &Ledger) -> Thread {
    runtime(world, ledger).thread("t").unwrap()
}

fn runtime(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()))
}

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

fn keys(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(Question::key).collect()
}

#[task]
async fn foo(mut table: BTreeMap<String, String>) -> BTreeMap<String, String> {
    note("foo");
    if let Some(text) = table.get_mut("a") {
        text.push_str("foo");
    }
    table
}

#[task]
async fn append(table: &BTreeMap<String, String>, bar: &str) -> BTreeMap<String, String> {
    note("append");
    let a = format!("{}{bar}", table["a"]);
    BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), bar.to_owned())])
}

#[entrypoint]
async fn graph(table: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let table = foo(table).await;
    let bar: String = interrupt("bar", "Provide value for bar:").await;
    append(&table, &bar).await
}

/// Lines 44 and 49.
#[test]
fn a_question_in_the_body_is_asked_answered_and_used_once() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let empty = BTreeMap::from([("a".to_owned(), String::new())]);
        let first = thread(&world, &ledger).invoke(graph(empty)).await.unwrap();
        let [question] = first.questions() else { panic!("{first:?}") };
        assert_eq!(question.decode::<String>().unwrap(), "Provide value for bar:");
        // A resume without an answer: the same question, and nothing is run again.
        let again = thread(&world, &ledger).resume(graph).await.unwrap();
        assert_eq!(again.questions(), first.questions());
        let state = thread(&world, &ledger).state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.as_slice()), (Status::Interrupted, first.questions()));
        thread(&world, &ledger).answer(question.id(), "bar").await.unwrap();
        let table = thread(&world, &ledger).resume(graph).await.unwrap().completed().unwrap();
        assert_eq!((table["a"].as_str(), table["b"].as_str()), ("foobar", "bar"));
        assert_eq!((ledger.count("foo"), ledger.count("append")), (1, 1));
    });
}

#[task]
async fn ask_in_task(text: String) -> String {
    note("ask_in_task");
    let bar: String = interrupt("bar", "Provide value for bar:").await;
    text + &bar
}

#[entrypoint]
async fn asks_once(text: String) -> String {
    ask_in_task(text).await
}

#[entrypoint]
async fn asks_twice(text: String) -> String {
    ask_in_task(ask_in_task(text).await).await
}

/// Line 45.
#[test]
fn a_question_in_a_task_is_answered_each_time_the_task_is_called() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let answer = async |name: &str, answer: &str| {
            let thread = runtime(&world, &ledger).thread(name).unwrap();
            thread.answer("bar", answer).await.unwrap();
        };
        let _ = runtime(&world, &ledger).thread("1").unwrap().invoke(asks_once("foo".to_owned())).await.unwrap();
        answer("1", "bar").await;
        let outcome = runtime(&world, &ledger).thread("1").unwrap().resume(asks_once).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "foobar");
        let _ = runtime(&world, &ledger).thread("2").unwrap().invoke(asks_twice("foo".to_owned())).await.unwrap();
        answer("2", "bar").await;
        let second = runtime(&world, &ledger).thread("2").unwrap().resume(asks_twice).await.unwrap();
        assert_eq!(second.questions().len(), 1);
        answer("2", "baz").await;
        let outcome = runtime(&world, &ledger).thread("2").unwrap().resume(asks_twice).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "foobarbaz");
        // Each body that asks begins twice: to ask, and with its answer.
        assert_eq!(ledger.count("ask_in_task"), 6);
    });
}

#[task]
async fn double(n: u32) -> u32 {
    note("double");
    n * 2
}

#[entrypoint]
async fn in_a_loop() -> Vec<(u32, String)> {
    let mut all = Vec::new();
    for n in 1..=3 {
        let doubled = double(n).await;
        all.push((doubled, interrupt("next", &doubled).await));
    }
    all
}

/// Line 46.
#[test]
fn a_loop_that_asks_each_time_repeats_no_work() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let mut paused = thread(&world, &ledger).invoke(in_a_loop()).await.unwrap();
        let mut ids = BTreeSet::new();
        for answer in ["a", "b", "c"] {
            let [question] = paused.questions() else { panic!("{paused:?}") };
            ids.insert(question.id());
            let thread = thread(&world, &ledger);
            thread.answer("next", answer).await.unwrap();
            paused = thread.resume(in_a_loop).await.unwrap();
        }
        let expected = [(2, "a".to_owned()), (4, "b".to_owned()), (6, "c".to_owned())];
        assert_eq!(paused.completed().unwrap(), expected);
        assert_eq!((ids.len(), ledger.count("double")), (3, 3));
    });
}

#[entrypoint]
async fn asks_for_nothing() -> (u32, String, bool, Option<u32>, ()) {
    (
        interrupt("0", &()).await,
        interrupt("empty", &()).await,
        interrupt("false", &()).await,
        interrupt("null", &()).await,
        interrupt("unit", &()).await,
    )
}

/// Line 50.
#[test]
fn falsy_answers_are_answers() {
    in_every_mode(async |world| {
        let thread = thread(&world, &Ledger::default());
        let _ = thread.invoke(asks_for_nothing()).await.unwrap();
        thread.answer("0", 0).await.unwrap();
        assert_eq!(keys(thread.resume(asks_for_nothing).await.unwrap().questions()), ["empty"]);
        thread.answer("empty", "").await.unwrap();
        let _ = thread.resume(asks_for_nothing).await.unwrap();
        thread.answer("false", false).await.unwrap();
        let _ = thread.resume(asks_for_nothing).await.unwrap();
        thread.answer("null", None::<u32>).await.unwrap();
        assert_eq!(keys(thread.resume(asks_for_nothing).await.unwrap().questions()), ["unit"]);
        thread.answer("unit", ()).await.unwrap();
        let outcome = thread.resume(asks_for_nothing).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), (0, String::new(), false, None, ()));
    });
}

#[entrypoint]
async fn two_questions() -> (u32, u32, String) {
    let ten = double(5).await;
    // The same key and the same payload: two questions all the same.
    let first: u32 = interrupt("how many?", &ten).await;
    let second: String = interrupt("how many?", &ten).await;
    (ten, first, second)
}

/// Line 51.
#[test]
fn two_equal_questions_in_one_body_have_two_ids_and_two_answers() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let first = thread(&world, &ledger).invoke(two_questions()).await.unwrap();
        thread(&world, &ledger).answer("how many?", 0).await.unwrap();
        let second = thread(&world, &ledger).resume(two_questions).await.unwrap();
        assert_ne!(first.questions()[0].id(), second.questions()[0].id());
        assert_eq!((first.questions().len(), second.questions().len()), (1, 1));
        thread(&world, &ledger).answer("how many?", "").await.unwrap();
        let outcome = thread(&world, &ledger).resume(two_questions).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), (10, 0, String::new()));
        assert_eq!(ledger.count("double"), 1);
    });
}

#[entrypoint]
async fn approve(what: String) -> bool {
    interrupt("approve", &what).await
}

/// Line 52.
#[test]
fn a_new_input_drops_the_old_question_only_if_that_was_chosen() {
    in_every_mode(async |world| {
        let thread = thread(&world, &Ledger::default());
        let old = thread.invoke(approve("old".to_owned())).await.unwrap().questions()[0].id();
        let refused = thread.invoke(approve("new".to_owned())).await.unwrap_err();
        assert!(matches!(refused, RunError::Unfinished { status: Status::Interrupted, .. }), "{refused}");
        assert_eq!(thread.resume(approve).await.unwrap().questions()[0].id(), old);
        // An answer that has arrived and was not used goes with its question.
        thread.answer(old, true).await.unwrap();
        let invoke = thread.invoke(approve("new".to_owned())).if_unfinished(IfUnfinished::Discard);
        let new = invoke.await.unwrap().questions()[0].id();
        assert_ne!(old, new);
        let unknown = thread.answer(old, true).await.unwrap_err();
        assert!(matches!(unknown, AnswerError::UnknownInterrupt { .. }), "{unknown}");
        assert_eq!(thread.resume(approve).await.unwrap().questions().len(), 1);
        thread.answer(new, false).await.unwrap();
        assert_eq!(thread.resume(approve).await.unwrap(), Outcome::Completed(false));
    });
}

/// Line 52, with equal input: the question of the discarded run has the same id, and its answer is gone all the same.
#[test]
fn an_answer_to_a_discarded_run_does_not_answer_the_next_one() {
    in_every_mode(async |world| {
        let thread = thread(&world, &Ledger::default());
        let _ = thread.invoke(approve("it".to_owned())).await.unwrap();
        thread.answer("approve", true).await.unwrap();
        let invoke = thread.invoke(approve("it".to_owned())).if_unfinished(IfUnfinished::Discard);
        assert_eq!(invoke.await.unwrap().questions().len(), 1);
        assert_eq!(thread.resume(approve).await.unwrap().questions().len(), 1);
    });
}

#[task]
async fn ask(key: String) -> String {
    note(&key);
    interrupt(key.as_str(), "which?").await
}

#[entrypoint]
async fn five_at_once() -> Vec<String> {
    join_all(["a", "b", "c", "d", "e"].map(|key| ask(key.to_owned()))).await
}

/// Lines 53 and 59.
#[test]
fn five_questions_are_shown_at_once_and_answered_in_any_order() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let paused = thread(&world, &ledger).invoke(five_at_once()).await.unwrap();
        assert_eq!(keys(paused.questions()), ["a", "b", "c", "d", "e"]);
        let thread = thread(&world, &ledger);
        for question in paused.questions().iter().rev() {
            thread.answer(question.id(), format!("to {}", question.key())).await.unwrap();
        }
        let outcome = thread.resume(five_at_once).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["to a", "to b", "to c", "to d", "to e"]);
        assert_eq!(ledger.total(), 10, "each body began to ask, and began with its answer");
    });
}

#[entrypoint]
async fn two_at_once() -> Vec<String> {
    join_all(["a", "b"].map(|key| ask(key.to_owned()))).await
}

/// Line 53: one at a time.
#[test]
fn two_questions_answered_one_at_a_time_take_three_drives() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let _ = thread(&world, &ledger).invoke(two_at_once()).await.unwrap();
        thread(&world, &ledger).answer("b", "2").await.unwrap();
        let paused = thread(&world, &ledger).resume(two_at_once).await.unwrap();
        assert_eq!(keys(paused.questions()), ["a"]);
        thread(&world, &ledger).answer("a", "1").await.unwrap();
        let outcome = thread(&world, &ledger).resume(two_at_once).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["1", "2"]);
        assert_eq!(ledger.count("b"), 2, "with its answer it ended");
    });
}

#[entrypoint]
async fn same_key_twice() -> Vec<String> {
    join_all([ask("a".to_owned()), ask("a".to_owned())]).await
}

/// Line 54.
#[test]
fn an_answer_that_could_mean_two_questions_changes_nothing() {
    on_every_checkpointer(async |world| {
        let thread = thread(&world, &Ledger::default());
        let paused = thread.invoke(same_key_twice()).await.unwrap();
        let ids: Vec<_> = paused.questions().iter().map(Question::id).collect();
        match thread.answer("a", "1").await.unwrap_err() {
            AnswerError::Ambiguous { key, open } => {
                let shown: Vec<_> = open.into_iter().map(|(_, id)| id).collect();
                assert_eq!((key.as_deref(), shown), (Some("a"), ids.clone()));
            }
            other => panic!("{other}"),
        }
        assert_eq!(thread.resume(same_key_twice).await.unwrap().questions(), paused.questions());
        thread.answer(ids[0], "1").await.unwrap();
        thread.answer(ids[1], "2").await.unwrap();
        assert_eq!(thread.resume(same_key_twice).await.unwrap().completed().unwrap(), ["1", "2"]);
    });
}

/// Line 55.
#[test]
fn an_answer_to_an_unknown_question_is_told_which_are_known() {
    on_every_checkpointer(async |world| {
        let thread = thread(&world, &Ledger::default());
        let paused = thread.invoke(approve("it".to_owned())).await.unwrap();
        let id = paused.questions()[0].id();
        match thread.answer("aprove", true).await.unwrap_err() {
            AnswerError::UnknownInterrupt { asked, known } => {
                assert_eq!((asked.as_str(), known), ("\"aprove\"", vec![("approve".to_owned(), id)]));
            }
            other => panic!("{other}"),
        }
        assert_eq!(thread.resume(approve).await.unwrap().questions(), paused.questions());
    });
}

#[entrypoint]
async fn asks_again(what: String) -> (bool, bool) {
    (approve(what.clone()).await, interrupt("approve", &what).await)
}

/// Lines 55 and 58: the same answer again is the same answer, another one is a conflict.
#[test]
fn a_question_is_answered_once() {
    on_every_checkpointer(async |world| {
        let thread = thread(&world, &Ledger::default());
        let id = thread.invoke(asks_again("it".to_owned())).await.unwrap().questions()[0].id();
        thread.answer(id, true).await.unwrap();
        let conflict = |error| match error {
            AnswerError::Conflict { question, answered, .. } => assert_eq!((question, answered.as_str()), (id, "true")),
            other => panic!("{other}"),
        };
        for _ in 0..2 {
            thread.answer(id, true).await.unwrap();
            conflict(thread.answer(id, false).await.unwrap_err());
            // Before and after the run has taken it.
            assert_eq!(thread.resume(asks_again).await.unwrap().questions().len(), 1);
        }
        thread.answer("approve", false).await.unwrap();
        assert_eq!(thread.resume(asks_again).await.unwrap(), Outcome::Completed((true, false)));
    });
}

#[task]
async fn breaks(what: &str) -> anyhow::Result<bool> {
    anyhow::bail!("{what} is broken")
}

#[entrypoint]
async fn fails(what: String) -> anyhow::Result<bool> {
    breaks(&what).await
}

/// Line 57.
#[test]
fn an_answer_that_nobody_waits_for_is_refused_and_answers_nothing_later() {
    on_every_checkpointer(async |world| {
        let runtime = runtime(&world, &Ledger::default());
        let refused =
            async |thread: &Thread, expected: Option<Status>| match thread.answer("approve", true).await.unwrap_err() {
                AnswerError::NoPendingInterrupt { status, .. } => assert_eq!(status, expected),
                other => panic!("{other}"),
            };
        let fresh = runtime.thread("fresh").unwrap();
        refused(&fresh, None).await;
        assert!(fresh.state().await.unwrap().is_none());
        assert_eq!(fresh.invoke(approve("it".to_owned())).await.unwrap().questions().len(), 1);
        fresh.answer("approve", true).await.unwrap();
        let _ = fresh.resume(approve).await.unwrap();
        refused(&fresh, Some(Status::Completed)).await;
        assert_eq!(fresh.invoke(approve("it".to_owned())).await.unwrap().questions().len(), 1, "not answered before");
        let failed = runtime.thread("failed").unwrap();
        failed.invoke(fails("it".to_owned())).await.unwrap_err();
        refused(&failed, Some(Status::Failed)).await;
    });
}

#[entrypoint]
async fn asks_for_a_number() -> u32 {
    interrupt("number", "how many?").await
}

/// An answer of another type is refused where the type is known, and the question stays open.
#[test]
fn an_answer_of_the_wrong_type_leaves_the_question_open_for_the_right_one() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let paused = thread(&world, &ledger).invoke(asks_for_a_number()).await.unwrap();
        thread(&world, &ledger).answer("number", "many").await.unwrap();
        let again = thread(&world, &ledger).resume(asks_for_a_number).await.unwrap();
        assert_eq!(again.questions(), paused.questions());
        // Why it is asked again is told, in this drive and in every later one.
        let why = again.questions()[0].refused().expect("it was refused").to_owned();
        assert!(why.contains("the answer is not the `u32`") && why.contains("answer again"), "{why}");
        let thread = thread(&world, &ledger);
        let later = thread.resume(asks_for_a_number).await.unwrap();
        assert_eq!(later.questions(), paused.questions());
        assert_eq!(later.questions()[0].refused(), Some(&*why));
        assert_eq!(thread.state().await.unwrap().unwrap().questions[0].refused(), Some(&*why));
        thread.answer("number", 7).await.unwrap();
        assert_eq!(thread.resume(asks_for_a_number).await.unwrap(), Outcome::Completed(7));
    });
}

#[entrypoint]
async fn swallows_everything() -> String {
    let asks = async {
        let answer: String = interrupt("careful", &()).await;
        anyhow::Ok(answer)
    };
    let caught = asks.await.unwrap_or_else(|error| format!("swallowed: {error}"));
    ask_carelessly().await.ok().unwrap_or_default() + &caught
}

#[task]
async fn ask_carelessly() -> anyhow::Result<String> {
    Ok(interrupt("careless", &()).await)
}

/// Line 63.
#[test]
fn error_handling_cannot_swallow_a_pause() {
    in_every_mode(async |world| {
        let thread = thread(&world, &Ledger::default());
        assert_eq!(keys(thread.invoke(swallows_everything()).await.unwrap().questions()), ["careful"]);
        thread.answer("careful", "!").await.unwrap();
        assert_eq!(keys(thread.resume(swallows_everything).await.unwrap().questions()), ["careless"]);
        thread.answer("careless", "?").await.unwrap();
        assert_eq!(thread.resume(swallows_everything).await.unwrap().completed().unwrap(), "?!");
    });
}

#[task(retry(max_attempts = 3, initial_interval = "1ms", jitter = false))]
async fn asks_then_fails() -> anyhow::Result<String> {
    note(&format!("attempt {}", attempt()));
    let answer: String = interrupt("retried?", &()).await;
    note(&format!("answered at attempt {}", attempt()));
    anyhow::ensure!(attempt() == 2, "not at attempt {}", attempt());
    Ok(answer)
}

#[entrypoint]
async fn retries_with_a_question() -> anyhow::Result<String> {
    asks_then_fails().await
}

/// Line 65.
#[test]
fn a_pause_is_no_failed_attempt_and_a_retry_has_the_answer_already() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let paused = thread(&world, &ledger).invoke(retries_with_a_question()).await.unwrap();
        assert_eq!(paused.questions().len(), 1);
        assert_eq!(thread(&world, &ledger).resume(retries_with_a_question).await.unwrap(), paused);
        let seen: Vec<String> = ledger.all().into_keys().collect();
        assert_eq!(seen, ["attempt 1"], "no pause counts as an attempt");
        thread(&world, &ledger).answer("retried?", "yes").await.unwrap();
        let outcome = thread(&world, &ledger).resume(retries_with_a_question).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "yes");
        assert_eq!((ledger.count("answered at attempt 1"), ledger.count("answered at attempt 2")), (1, 1));
    });
}

#[task(timeout = "1s")]
async fn asks_within_a_second() -> anyhow::Result<String> {
    Ok(interrupt("slow?", &()).await)
}

#[task]
async fn takes_ten_seconds() {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
}

#[entrypoint]
async fn asks_beside_slow_work() -> anyhow::Result<String> {
    let (answer, ()) = tokio::join!(asks_within_a_second(), takes_ten_seconds());
    answer
}

/// The time in which a question is open is not the task's.
#[tokio::test(start_paused = true)]
async fn a_timeout_stands_still_while_its_task_waits_for_an_answer() {
    let thread = Runtime::builder().memory().thread("t").unwrap();
    let paused = thread.invoke(asks_beside_slow_work()).await.unwrap();
    assert_eq!(keys(paused.questions()), ["slow?"]);
    thread.answer("slow?", "yes").await.unwrap();
    assert_eq!(thread.resume(asks_beside_slow_work).await.unwrap().completed().unwrap(), "yes");
}
