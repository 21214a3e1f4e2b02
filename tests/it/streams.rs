//! Streams: what happens in a run is told as it happens, in the journal's order, and nothing that is replayed.

use std::{sync::Arc, time::Duration};

use durably::{
    Outcome, RunError, RunStream, StreamEvent, StreamMode, StreamModes, Streamed, Thread, emit, entrypoint, interrupt,
    task,
};
use tests::{in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

/// An event as a line.
pub(crate) fn line(event: &StreamEvent) -> String {
    let path =
        |within: &[durably::Enclosing]| within.iter().fold(String::new(), |path, around| path + &around.name + "/");
    match &event.what {
        Streamed::Value { value } => format!("value {value}"),
        Streamed::Failed { error } => format!("failed: {error}"),
        Streamed::Interrupted { key, within, payload, .. } => format!("{}{key}? {payload}", path(within)),
        Streamed::Update { name, within, value, .. } => format!("{}{name} {value}", path(within)),
        Streamed::Custom { within, value } => format!("{}emit {value}", path(within)),
        Streamed::TaskStarted { task, attempt } => format!("start {}{} {attempt}", path(&task.within), task.name),
        Streamed::TaskRetried { task, attempt, .. } => format!("retry {}{} {attempt}", path(&task.within), task.name),
        Streamed::TaskEnded { task, outcome, .. } => {
            let outcome = outcome.as_ref().map_or_else(|error| format!("failed: {error}"), ToString::to_string);
            format!("end {}{} {outcome}", path(&task.within), task.name)
        }
        Streamed::Checkpoint { record, .. } => format!("{} {record}", event.number.seq()),
        Streamed::Missed { events } => format!("missed {events}"),
        Streamed::Stopped { how } => format!("stopped {how}"),
        other => format!("{other:?}"),
    }
}

/// Waits, but not for good: a stream that tells too late would hang its test.
pub(crate) async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future.into_future()).await.expect("it comes soon")
}

/// All that a run tells, and what it comes to.
pub(crate) async fn all<T>(mut run: RunStream<T>) -> (Vec<String>, Result<Outcome<T>, RunError>) {
    let mut told = Vec::new();
    while let Some(event) = soon(run.next()).await {
        told.push(line(&event));
    }
    (told, run.outcome().await)
}

/// All that the journal of a thread's last run tells.
pub(crate) async fn journal(thread: &Thread, modes: impl Into<StreamModes>) -> Vec<String> {
    let mut watch = thread.watch(modes, None).until_rest();
    let mut told = Vec::new();
    while let Some(event) = soon(watch.next()).await {
        told.push(line(&event.unwrap()));
    }
    told
}

#[task]
async fn foo() -> String {
    "foo".to_owned()
}

#[task]
async fn bar(before: &str) -> String {
    format!("{before} bar")
}

#[task]
async fn baz(before: &str) -> String {
    format!("{before} baz")
}

#[entrypoint]
async fn in_a_row() -> String {
    let first = foo().await;
    let second = bar(&first).await;
    baz(&second).await
}

#[test]
fn conformance_3_three_tasks_give_three_updates_in_their_order_and_then_the_entrypoints() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, outcome) = all(thread.invoke(in_a_row()).stream(StreamMode::Updates)).await;
        let expected = ["foo \"foo\"", "bar \"foo bar\"", "baz \"foo bar baz\"", "in_a_row \"foo bar baz\""];
        assert_eq!(told, expected);
        assert_eq!(outcome.unwrap().completed().as_deref(), Some("foo bar baz"));
        assert_eq!(journal(&thread, StreamMode::Updates).await, expected);
    });
}

#[task]
async fn odd_only(n: u32) -> anyhow::Result<u32> {
    anyhow::ensure!(n % 2 == 1, "{n} is even");
    Ok(n + 1)
}

#[entrypoint]
async fn my_workflow() -> anyhow::Result<String> {
    odd_only(1).await?;
    assert!(odd_only(2).await.is_err());
    odd_only(1).await?;
    Ok("done".to_owned())
}

#[test]
fn conformance_13_a_failure_that_is_handled_gives_no_update() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, outcome) = all(thread.invoke(my_workflow()).stream(StreamMode::Updates)).await;
        assert_eq!(told, ["odd_only 2", "odd_only 2", "my_workflow \"done\""]);
        assert_eq!(outcome.unwrap().completed().as_deref(), Some("done"));
    });
}

/// Opened by a test; a task waits for it.
#[derive(Clone, Default)]
pub(crate) struct Gate(pub(crate) Arc<Notify>);

#[task(skip(gate))]
pub(crate) async fn through(gate: &Gate) -> u32 {
    gate.0.notified().await;
    7
}

#[entrypoint]
pub(crate) async fn gated() -> String {
    let first = foo().await;
    emit("between");
    let second = through(&durably::resource::<Gate>()).await;
    format!("{first} {second}")
}

#[test]
fn conformance_42_a_run_whose_stream_is_dropped_goes_on_and_its_state_is_saved() {
    in_every_mode(async |world| {
        let gate = Gate::default();
        let runtime = world.open(|builder| builder.resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let mut run = thread.invoke(gated()).stream(StreamMode::Updates);
        assert_eq!(line(&soon(run.next()).await.unwrap()), "foo \"foo\"");
        drop(run);
        gate.0.notify_one();
        // Given by the journal: the one entrypoint that could be run is not run again, or it would wait at the gate.
        let outcome = soon(thread.resume(gated).wait()).await.unwrap();
        assert_eq!(outcome.completed().as_deref(), Some("foo 7"));
        assert_eq!(journal(&thread, StreamMode::Values).await, ["value \"foo 7\""]);
    });
}

#[entrypoint]
async fn asking() -> u32 {
    let first: u32 = interrupt("first", "how many?").await;
    let second: u32 = interrupt("second", &first).await;
    first + second
}

#[test]
fn conformance_69_values_show_an_interrupt_once_however_often_the_run_is_resumed() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, outcome) = all(thread.invoke(asking()).stream(StreamMode::Values)).await;
        assert_eq!(told, ["first? \"how many?\""]);
        assert_eq!(outcome.unwrap().questions().len(), 1);
        let (told, _) = all(thread.resume(asking).stream(StreamMode::Values)).await;
        assert!(told.is_empty(), "asked again: {told:?}");
        thread.answer("first", 1).await.unwrap();
        let (told, _) = all(thread.resume(asking).stream(StreamMode::Values)).await;
        assert_eq!(told, ["second? 1"]);
        thread.answer("second", 2).await.unwrap();
        let (told, outcome) = all(thread.resume(asking).stream(StreamMode::Values)).await;
        assert_eq!(told, ["value 3"]);
        assert_eq!(outcome.unwrap().completed(), Some(3));
        assert_eq!(journal(&thread, StreamMode::Values).await, ["first? \"how many?\"", "second? 1", "value 3"]);
        assert_eq!(journal(&thread, StreamMode::Updates).await, ["first? \"how many?\"", "second? 1", "asking 3"]);
    });
}

#[test]
fn conformance_74_updates_arrive_as_they_are_produced() {
    in_every_mode(async |world| {
        let gate = Gate::default();
        let runtime = world.open(|builder| builder.resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let mut run = thread.invoke(gated()).stream([StreamMode::Updates, StreamMode::Custom]);
        assert_eq!(line(&soon(run.next()).await.unwrap()), "foo \"foo\"");
        assert_eq!(line(&soon(run.next()).await.unwrap()), "emit \"between\"");
        // The next task cannot end before this: what was told was not told at the end.
        gate.0.notify_one();
        let (rest, _) = all(run).await;
        assert_eq!(rest, ["through 7", "gated \"foo 7\""]);
    });
}

#[task]
async fn inc(n: u32) -> u32 {
    emit(&format!("progress{n}"));
    n + 1
}

#[entrypoint]
async fn counting() -> u32 {
    emit("from-ep");
    let n = inc(1).await;
    inc(n).await
}

#[test]
fn conformance_75_what_the_entrypoint_and_bodies_emit_comes_in_order_with_the_updates() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, _) = all(thread.invoke(counting()).stream([StreamMode::Custom, StreamMode::Updates])).await;
        let expected =
            ["emit \"from-ep\"", "inc/emit \"progress1\"", "inc 2", "inc/emit \"progress2\"", "inc 3", "counting 3"];
        assert_eq!(told, expected);
        // What bodies emit is live only.
        let recorded = journal(&thread, [StreamMode::Custom, StreamMode::Updates]).await;
        assert_eq!(recorded, ["emit \"from-ep\"", "inc 2", "inc 3", "counting 3"]);
    });
}

#[entrypoint]
async fn two_halves() -> u32 {
    emit("one");
    let n = inc(1).await;
    emit("two");
    let more: u32 = interrupt("more", &n).await;
    emit("three");
    emit("one");
    inc(more).await
}

#[test]
fn conformance_76_a_resumed_run_tells_nothing_again() {
    in_every_mode(async |world| {
        let modes = [StreamMode::Custom, StreamMode::Updates, StreamMode::Tasks];
        {
            let thread = world.runtime().thread("t").unwrap();
            let (told, _) = all(thread.invoke(two_halves()).stream(modes)).await;
            let expected = [
                "emit \"one\"",
                "start inc 1",
                "inc/emit \"progress1\"",
                "end inc 2",
                "inc 2",
                "emit \"two\"",
                "more? 2",
            ];
            assert_eq!(told, expected);
            let (told, _) = all(thread.resume(two_halves).stream(modes)).await;
            assert!(told.is_empty(), "told again: {told:?}");
        }
        let thread = world.runtime().thread("t").unwrap();
        thread.answer("more", 5).await.unwrap();
        let (told, _) = all(thread.resume(two_halves).stream(modes)).await;
        let expected = [
            "emit \"three\"",
            "emit \"one\"",
            "start inc 1",
            "inc/emit \"progress5\"",
            "end inc 6",
            "inc 6",
            "two_halves 6",
        ];
        assert_eq!(told, expected);
    });
}

#[task]
async fn asks_within(n: u32) -> u32 {
    let more: u32 = interrupt("more", &n).await;
    n + more
}

#[entrypoint]
async fn with_a_question_in_a_body() -> u32 {
    let n = odd_only(1).await.unwrap_or_default();
    asks_within(n).await
}

#[test]
fn conformance_77_a_tasks_start_and_end_have_one_id_and_an_interrupted_one_has_a_start_only() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let ids = async |mut run: RunStream<u32>| {
            let mut told = Vec::new();
            while let Some(event) = soon(run.next()).await {
                match event.what {
                    Streamed::TaskStarted { task, .. } => told.push(("start", task.name, task.id)),
                    Streamed::TaskEnded { task, .. } => told.push(("end", task.name, task.id)),
                    other => panic!("{other:?}"),
                }
            }
            told
        };
        let told = ids(thread.invoke(with_a_question_in_a_body()).stream(StreamMode::Tasks)).await;
        let [start, end, open] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((start.0, end.0, start.2), ("start", "end", end.2));
        assert_eq!((open.0, open.1.as_str()), ("start", "asks_within"));
        thread.answer("more", 1).await.unwrap();
        let told = ids(thread.resume(with_a_question_in_a_body).stream(StreamMode::Tasks)).await;
        let [again, end] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((again.0, end.0, again.2, end.2), ("start", "end", open.2, open.2));
    });
}

#[entrypoint]
async fn child(n: u32) -> u32 {
    emit(&n);
    let n = inc(n).await;
    let more: u32 = interrupt("how many?", &n).await;
    n + more
}

#[entrypoint]
async fn parent() -> u32 {
    let (one, two) = futures::join!(child(1), child(10));
    one + two
}

#[test]
fn what_happens_in_nested_entrypoints_has_its_path_and_their_questions_come_once() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let modes = [StreamMode::Values, StreamMode::Updates, StreamMode::Custom];
        let (mut told, outcome) = all(thread.invoke(parent()).stream(modes)).await;
        told.sort_unstable();
        let expected = [
            "child/emit 1",
            "child/emit 10",
            "child/how many?? 11",
            "child/how many?? 2",
            "child/inc 11",
            "child/inc 2",
            "child/inc/emit \"progress1\"",
            "child/inc/emit \"progress10\"",
        ];
        assert_eq!(told, expected);
        for question in outcome.unwrap().questions() {
            thread.answer(question.id(), 100).await.unwrap();
        }
        let (mut told, outcome) = all(thread.resume(parent).stream(modes)).await;
        assert_eq!(outcome.unwrap().completed(), Some(213));
        assert_eq!(told.split_off(2), ["parent 213", "value 213"]);
        told.sort_unstable();
        assert_eq!(told, ["child 102", "child 111"]);
    });
}

#[task(retry(max_attempts = 3, initial_interval = "1ms", jitter = false))]
async fn flaky() -> anyhow::Result<u32> {
    emit(&durably::attempt());
    anyhow::ensure!(durably::attempt() == 3, "not yet");
    Ok(1)
}

#[task]
async fn broken() -> anyhow::Result<u32> {
    anyhow::bail!("no luck")
}

#[entrypoint]
async fn unlucky() -> anyhow::Result<u32> {
    flaky().await?;
    broken().await
}

#[test]
fn each_attempt_is_told_and_tells_again_what_its_body_emits() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let modes = [StreamMode::Tasks, StreamMode::Custom, StreamMode::Values];
        let (told, outcome) = all(thread.invoke(unlucky()).stream(modes)).await;
        let expected = [
            "start flaky 1",
            "flaky/emit 1",
            "retry flaky 1",
            "start flaky 2",
            "flaky/emit 2",
            "retry flaky 2",
            "start flaky 3",
            "flaky/emit 3",
            "end flaky 1",
            "start broken 1",
            "end broken failed: no luck",
            "failed: no luck",
        ];
        assert_eq!(told, expected);
        assert!(matches!(outcome, Err(RunError::Failed(_))));
        // A retry is in the journal; the beginning of an attempt is not.
        let recorded = journal(&thread, modes).await;
        let expected =
            ["retry flaky 1", "retry flaky 2", "end flaky 1", "end broken failed: no luck", "failed: no luck"];
        assert_eq!(recorded, expected);
    });
}

#[test]
fn checkpoints_are_the_records_of_the_journal_when_they_are_written() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, _) = all(thread.invoke(two_halves()).stream(StreamMode::Checkpoints)).await;
        assert_eq!(told, ["0 start", "1 emitted", "2 outcome", "3 emitted", "4 wait"]);
        thread.answer("more", 1).await.unwrap();
        let (told, _) = all(thread.resume(two_halves).stream(StreamMode::Checkpoints)).await;
        assert_eq!(told, ["5 outcome", "6 emitted", "7 emitted", "8 outcome", "9 end"]);
        assert_eq!(journal(&thread, StreamMode::Checkpoints).await.len(), 10);
    });
}

#[test]
fn a_drive_that_is_refused_has_an_outcome_and_no_events() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, outcome) = all(thread.resume(in_a_row).stream(StreamMode::ALL)).await;
        assert!(told.is_empty() && matches!(outcome, Err(RunError::NothingToResume { .. })), "{told:?} {outcome:?}");
        let _ = thread.invoke(in_a_row()).await.unwrap();
        // The last output again, and nothing runs.
        let (told, outcome) = all(thread.resume(in_a_row).stream(StreamMode::ALL)).await;
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(outcome.unwrap().completed().as_deref(), Some("foo bar baz"));
    });
}

/// What no format holds.
struct Unrecordable;

impl serde::Serialize for Unrecordable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not to be written down"))
    }
}

#[entrypoint]
async fn tells_what_cannot_be_told() -> u32 {
    emit(&Unrecordable);
    inc(1).await
}

#[test]
fn what_cannot_be_recorded_stops_the_run_that_emits_it() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let (told, outcome) = all(thread.invoke(tells_what_cannot_be_told()).stream(StreamMode::ALL)).await;
        assert_eq!(told, ["0 start"]);
        let error = outcome.unwrap_err();
        assert!(matches!(error, RunError::Value { .. }) && error.to_string().contains("emit"), "{error}");
    });
    // Outside of every run there is nobody to tell.
    emit(&Unrecordable);
}
