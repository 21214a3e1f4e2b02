//! What a question says of itself: its type, its schema, its deadline, whether it may be cancelled.

use std::time::{Duration, UNIX_EPOCH};

use durably::{
    AnswerError, AnswerKind, CallStatus, Command, Outcome, RunError, Runtime, RuntimeBuilder, Status, Thread,
    entrypoint, interrupt, resource, task,
};
use serde::{Deserialize, Serialize};
use tests::{HandClock, Ledger, World, block_on, cut_after_every_record, in_every_mode, on_every_checkpointer};
use tokio::sync::watch;

fn open(world: &World, hands: &HandClock, ledger: &Ledger) -> Runtime {
    world.open(|builder| build(builder, hands, ledger))
}

fn build(builder: RuntimeBuilder, hands: &HandClock, ledger: &Ledger) -> RuntimeBuilder {
    let builder = builder.clock(hands.clone()).resource(ledger.clone());
    builder.entrypoint(publish).entrypoint(in_a_task).entrypoint(two_deadlines)
}

#[task]
async fn acts(answer: bool) -> bool {
    resource::<Ledger>().note(format!("{answer}"));
    answer
}

#[entrypoint]
async fn publish(text: String) -> bool {
    let answer = interrupt("publish?", &text).or_after(Duration::from_secs(60), false).await;
    acts(answer).await
}

fn due_is(paused: &Outcome<bool>, at_ms: u64) {
    let [question] = paused.questions() else { panic!("{paused:?}") };
    assert_eq!(question.due(), Some(UNIX_EPOCH + Duration::from_millis(at_ms)));
    assert_eq!(question.default_answer().as_deref(), Some("false"));
}

#[test]
fn a_question_answers_itself_after_its_deadline_which_stands_over_restarts() {
    in_every_mode(async |world| {
        let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
        due_is(
            &open(&world, &hands, &ledger).thread("t").unwrap().invoke(publish("it".to_owned())).await.unwrap(),
            60_001,
        );
        // Each process finds the moment that was recorded; a resume does not move it.
        hands.set(Duration::from_secs(59));
        let runtime = open(&world, &hands, &ledger);
        assert!(runtime.run_due().await.unwrap().is_empty());
        due_is(&runtime.thread("t").unwrap().resume(publish).await.unwrap(), 60_001);
        drop(runtime);
        hands.set(Duration::from_millis(60_001));
        let runtime = open(&world, &hands, &ledger);
        let [due] = <[_; 1]>::try_from(runtime.run_due().await.unwrap()).unwrap();
        assert_eq!(due.outcome_as::<bool>().await.unwrap(), Outcome::Completed(false));
        assert_eq!((ledger.count("false"), ledger.total()), (1, 1));
        let thread = runtime.thread("t").unwrap();
        let state = thread.state().await.unwrap().unwrap();
        let asked = state.calls.iter().find(|call| call.name == "publish?").unwrap();
        assert_eq!((asked.how, &asked.status), (Some(AnswerKind::Deadline), &CallStatus::Value("false".to_owned())));
        assert_eq!(asked.took, Some(Duration::from_millis(60_001)));
    });
}

#[test]
fn an_answer_before_the_deadline_counts_and_the_deadline_does_nothing() {
    in_every_mode(async |world| {
        let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
        let thread = open(&world, &hands, &ledger).thread("t").unwrap();
        let _ = thread.invoke(publish("it".to_owned())).await.unwrap();
        thread.answer("publish?", true).await.unwrap();
        hands.set(Duration::from_secs(70));
        assert_eq!(thread.resume(publish).await.unwrap(), Outcome::Completed(true));
        assert_eq!(ledger.total(), 1);
    });
}

/// Whichever is stored first counts: after the deadline that may still be an answer.
#[test]
fn of_an_answer_and_a_default_exactly_one_counts() {
    in_every_mode(async |world| {
        let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
        let runtime = open(&world, &hands, &ledger);
        let late = runtime.thread("late").unwrap();
        let _ = late.invoke(publish("it".to_owned())).await.unwrap();
        let later = runtime.thread("later").unwrap();
        let _ = later.invoke(asks_twice()).await.unwrap();
        hands.set(Duration::from_millis(60_001));
        late.answer("publish?", true).await.unwrap();
        assert_eq!(late.resume(publish).await.unwrap(), Outcome::Completed(true));
        assert_eq!(later.resume(asks_twice).await.unwrap().questions()[0].key(), "then?");
        let error = later.answer("publish?", true).await.unwrap_err();
        assert!(matches!(error, AnswerError::Conflict { how: AnswerKind::Deadline, .. }), "{error}");
        assert!(error.to_string().contains("deadline"), "{error}");
        later.answer("publish?", false).await.unwrap();
    });
}

#[entrypoint]
async fn asks_twice() -> (bool, bool) {
    let first = interrupt("publish?", &()).or_after(Duration::from_secs(60), false).await;
    (first, interrupt("then?", &()).await)
}

#[task]
async fn waits_beside() {
    resource::<Ledger>().note("beside");
    resource::<watch::Sender<bool>>().subscribe().wait_for(|go_on| *go_on).await.unwrap();
}

#[entrypoint]
async fn beside_a_body() -> bool {
    let (answer, ()) = futures::join!(
        async {
            let answer = interrupt("q", &()).or_after(Duration::from_secs(60), false).await;
            acts(answer).await
        },
        waits_beside()
    );
    answer
}

/// While the run is driven: the timer and an answer race, in both orders, and the run is not paused by either.
#[test]
fn a_deadline_that_passes_while_the_run_is_driven_is_noticed_at_once() {
    on_every_checkpointer(async |world| {
        for answered in [false, true] {
            let (hands, ledger, go_on) = (HandClock::at(Duration::ZERO), Ledger::default(), watch::Sender::new(false));
            let runtime = world.open(|builder| build(builder, &hands, &ledger).resource(go_on.clone()));
            let thread = runtime.thread(format!("{answered}")).unwrap();
            let run = thread.invoke(beside_a_body()).start();
            while ledger.count("beside") == 0
                || thread.state().await.unwrap().is_none_or(|state| state.questions.is_empty())
            {
                tokio::task::yield_now().await;
            }
            if answered {
                thread.answer("q", true).await.unwrap();
            }
            hands.set(Duration::from_millis(60_001));
            while ledger.count(&format!("{answered}")) == 0 {
                tokio::task::yield_now().await;
            }
            go_on.send_replace(true);
            assert_eq!(run.await.unwrap(), Outcome::Completed(answered));
            assert_eq!(ledger.total(), 2);
        }
    });
}

#[entrypoint]
async fn no_time_at_all() -> bool {
    acts(interrupt("q", &()).or_after(Duration::ZERO, true).await).await
}

#[tokio::test]
async fn a_deadline_of_no_time_is_a_pause_or_the_default_and_never_a_hang() {
    let runtime = Runtime::builder().resource(Ledger::default()).memory();
    for number in 0..50 {
        let thread = runtime.thread(format!("{number}")).unwrap();
        let mut outcome = thread.invoke(no_time_at_all()).await.unwrap();
        while let Outcome::Interrupted(_) = outcome {
            tokio::task::yield_now().await;
            outcome = thread.resume(no_time_at_all).await.unwrap();
        }
        assert_eq!(outcome, Outcome::Completed(true));
    }
}

#[task]
async fn asks_inside(n: u32) -> bool {
    resource::<Ledger>().note("inside");
    interrupt(format!("q{n}"), &()).or_after(Duration::from_secs(n.into()), n == 1).await
}

#[entrypoint]
async fn in_a_task() -> bool {
    asks_inside(1).await
}

#[test]
fn a_question_in_a_task_answers_itself_too() {
    in_every_mode(async |world| {
        let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
        let runtime = open(&world, &hands, &ledger);
        let _ = runtime.thread("t").unwrap().invoke(in_a_task()).await.unwrap();
        hands.set(Duration::from_millis(1_001));
        let [due] = <[_; 1]>::try_from(runtime.run_due().await.unwrap()).unwrap();
        assert_eq!(due.outcome_as::<bool>().await.unwrap(), Outcome::Completed(true));
        assert_eq!(ledger.count("inside"), 2);
    });
}

#[entrypoint]
async fn two_deadlines() -> (bool, bool, bool) {
    futures::join!(asks_inside(5), asks_inside(1), interrupt("q", &()))
}

/// The head has the nearest of all moments, and what is due later is woken for later.
#[test]
fn each_of_several_deadlines_has_its_time() {
    in_every_mode(async |world| {
        let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
        let runtime = open(&world, &hands, &ledger);
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(two_deadlines()).await.unwrap();
        for (at_ms, left) in [(1_001, 2), (5_001, 1)] {
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!(
                (state.status, state.due),
                (Status::Interrupted, Some(UNIX_EPOCH + Duration::from_millis(at_ms)))
            );
            hands.set(Duration::from_millis(at_ms));
            let [due] = <[_; 1]>::try_from(runtime.run_due().await.unwrap()).unwrap();
            assert_eq!(due.outcome().await.unwrap().questions().len(), left);
        }
        assert_eq!(thread.state().await.unwrap().unwrap().due, None);
        let outcome = thread.resume(two_deadlines).with(Command::resume(true)).await.unwrap();
        assert_eq!(outcome, Outcome::Completed((false, true, true)));
    });
}

/// A fork has its own question at once, with the same deadline: to be answered, or to answer itself.
#[test]
fn a_fork_at_a_question_has_it_open_with_its_deadline() {
    on_every_checkpointer(async |world| {
        let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
        let runtime = open(&world, &hands, &ledger);
        let thread = runtime.thread("t").unwrap();
        let paused = thread.invoke(publish("it".to_owned())).await.unwrap();
        let asked = thread.state().await.unwrap().unwrap().checkpoint;
        thread.answer("publish?", true).by("alice").await.unwrap();
        assert_eq!(thread.resume(publish).await.unwrap(), Outcome::Completed(true));
        let answered = thread.fork(asked).to("answered").await.unwrap();
        answered.answer(paused.questions()[0].id(), false).await.unwrap();
        assert_eq!(answered.resume(publish).await.unwrap(), Outcome::Completed(false));
        let fork = thread.fork(asked).to("due").await.unwrap();
        let state = fork.state().await.unwrap().unwrap();
        assert_eq!(state.due, Some(UNIX_EPOCH + Duration::from_millis(60_001)));
        assert_eq!((state.questions.as_slice(), state.answered.len()), (paused.questions(), 0));
        hands.set(Duration::from_millis(60_001));
        let [due] = <[_; 1]>::try_from(runtime.run_due().await.unwrap()).unwrap();
        assert_eq!(due.thread(), fork.id());
        assert_eq!(due.outcome_as::<bool>().await.unwrap(), Outcome::Completed(false));
    });
}

#[test]
fn a_deadline_and_its_default_survive_a_crash_at_any_record() {
    let (hands, ledger) = (HandClock::at(Duration::ZERO), Ledger::default());
    let drive = async |thread: &Thread, fresh: bool| {
        let call =
            async || if fresh { thread.invoke(publish("it".to_owned())).await } else { thread.resume(publish).await };
        let mut outcome = call().await.unwrap();
        while let Outcome::Interrupted(open) = outcome {
            assert_eq!(open.len(), 1);
            hands.set(Duration::from_millis(60_001));
            outcome = thread.resume(publish).await.unwrap();
        }
        assert_eq!(outcome, Outcome::Completed(false));
    };
    cut_after_every_record(
        |builder| build(builder, &hands, &ledger),
        async |runtime| {
            hands.set(Duration::from_millis(0));
            drive(&runtime.thread("t").unwrap(), true).await;
        },
        async |runtime, cut| {
            hands.set(Duration::from_millis(0));
            drive(&runtime.thread("t").unwrap(), cut == 0).await;
        },
    );
}

// ---- cancelling ----

#[entrypoint]
async fn may_be_cancelled(what: String) -> Option<Option<u32>> {
    interrupt::<Option<u32>>("q", &what).cancellable().await
}

#[test]
fn a_cancelled_question_gives_none_and_an_answered_one_some() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("cancelled").unwrap();
        let paused = thread.invoke(may_be_cancelled("it".to_owned())).await.unwrap();
        assert!(paused.questions()[0].is_cancellable());
        thread.cancel_question("q").by("alice").await.unwrap();
        // It is over: the same again is the same, an answer is too late.
        thread.cancel_question("q").await.unwrap();
        let error = thread.answer("q", 1).await.unwrap_err();
        assert!(matches!(error, AnswerError::Conflict { how: AnswerKind::Cancelled, .. }), "{error}");
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.questions.len(), state.answered[0].value.as_deref()), (0, None));
        assert_eq!(thread.resume(may_be_cancelled).await.unwrap(), Outcome::Completed(None));
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.calls[0].how, state.calls[0].by.as_deref()), (Some(AnswerKind::Cancelled), Some("alice")));
        // What is hard to tell from a cancel in other forms is an answer here.
        for (number, answer) in [None, Some(7)].into_iter().enumerate() {
            let thread = runtime.thread(format!("{number}")).unwrap();
            let _ = thread.invoke(may_be_cancelled("it".to_owned())).await.unwrap();
            thread.answer("q", answer).await.unwrap();
            let error = thread.cancel_question("q").await.unwrap_err();
            assert!(matches!(error, AnswerError::Conflict { how: AnswerKind::Given, .. }), "{error}");
            assert_eq!(thread.resume(may_be_cancelled).await.unwrap(), Outcome::Completed(Some(answer)));
        }
    });
}

#[test]
fn a_question_that_does_not_say_so_is_not_cancelled() {
    on_every_checkpointer(async |world| {
        let thread = open(&world, &HandClock::at(Duration::ZERO), &Ledger::default()).thread("t").unwrap();
        let paused = thread.invoke(publish("it".to_owned())).await.unwrap();
        let error = thread.cancel_question("publish?").await.unwrap_err();
        assert!(matches!(error, AnswerError::NotCancellable { .. }), "{error}");
        assert_eq!(thread.resume(publish).await.unwrap(), paused);
    });
}

// ---- types and schemas ----

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Verdict {
    publish: bool,
    price: f64,
    note: Option<String>,
}

#[entrypoint]
async fn wants_a_verdict() -> Verdict {
    interrupt("verdict", &()).await
}

/// Line 62: where this process has come by the code, a wrong type is refused on arrival, driven or not.
#[test]
fn an_answer_of_the_wrong_type_is_refused_when_it_arrives() {
    on_every_checkpointer(async |world| {
        {
            let thread = world.runtime().thread("t").unwrap();
            let paused = thread.invoke(wants_a_verdict()).await.unwrap();
            assert!(paused.questions()[0].expects().ends_with("Verdict"), "{paused:?}");
            let error = thread.answer("verdict", "yes").await.unwrap_err();
            assert!(matches!(&error, AnswerError::WrongType { key, .. } if key == "verdict"), "{error}");
            assert!(error.to_string().contains("Verdict"), "{error}");
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!((state.questions.len(), state.answered.len()), (1, 0));
        }
        // Another process does not know the type yet: there it shows when the run goes on.
        let thread = world.runtime().thread("t").unwrap();
        thread.answer("verdict", "yes").await.unwrap();
        let paused = thread.resume(wants_a_verdict).await.unwrap();
        assert!(paused.questions()[0].refused().is_some());
        assert!(thread.answer("verdict", "yes").await.is_err(), "by now it does");
        let right = Verdict { publish: true, price: 1.5, note: None };
        thread.answer("verdict", &right).await.unwrap();
        assert_eq!(thread.resume(wants_a_verdict).await.unwrap(), Outcome::Completed(right));
    });
}

#[derive(Serialize)]
struct Json {
    publish: bool,
    price: u32,
    note: (),
}

/// What comes from a browser has no floats that are whole and no `None`.
#[test]
fn an_answer_that_was_json_on_its_way_is_read_as_json() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("t").unwrap();
        let _ = thread.invoke(wants_a_verdict()).await.unwrap();
        thread.answer("verdict", Json { publish: true, price: 3, note: () }).await.unwrap();
        let expected = Verdict { publish: true, price: 3.0, note: None };
        assert_eq!(thread.resume(wants_a_verdict).await.unwrap(), Outcome::Completed(expected));
    });
}

/// A schema as `serde_json::json!` would give it.
#[derive(Serialize)]
struct Schema {
    r#type: &'static str,
    minimum: u32,
    maximum: u32,
}

#[entrypoint]
async fn between_one_and_ten() -> u32 {
    let schema = Schema { r#type: "integer", minimum: 1, maximum: 10 };
    interrupt("how many?", "tea").schema(&schema).await
}

/// Line 62: a schema is kept with its question, so that a process without the code refuses what does not fit too.
#[test]
fn an_answer_that_does_not_fit_the_schema_is_refused_and_the_right_one_taken() {
    in_every_mode(async |world| {
        let _ = world.runtime().thread("t").unwrap().invoke(between_one_and_ten()).await.unwrap();
        let thread = world.runtime().thread("t").unwrap();
        let question = thread.state().await.unwrap().unwrap().questions.remove(0);
        assert_eq!(question.schema().as_deref(), Some(r#"{"type":"integer","minimum":1,"maximum":10}"#));
        for wrong in [0, 11] {
            let error = thread.answer("how many?", wrong).await.unwrap_err();
            assert!(matches!(&error, AnswerError::Schema { path, .. } if path == "."), "{error}");
        }
        let error = thread.answer("how many?", "ten").await.unwrap_err();
        assert!(matches!(error, AnswerError::Schema { .. }), "{error}");
        assert!(thread.state().await.unwrap().unwrap().answered.is_empty());
        thread.answer("how many?", 10).await.unwrap();
        assert_eq!(thread.resume(between_one_and_ten).await.unwrap(), Outcome::Completed(10));
    });
}

#[entrypoint]
async fn no_schema_at_all() -> u32 {
    interrupt("q", &()).schema("{\"type\": \"integer\"}").await
}

#[test]
fn a_text_is_no_schema_and_the_run_is_told_so() {
    block_on(async {
        let thread = Runtime::builder().memory().thread("t").unwrap();
        let error = thread.invoke(no_schema_at_all()).await.unwrap_err();
        assert!(matches!(error, RunError::Value { .. }) && error.to_string().contains("parse"), "{error}");
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Stuck);
    });
}
