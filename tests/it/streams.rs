//! Streams: what happens in a run is told as it happens, in the journal's order.

use std::sync::Arc;

use durably::{
    Durability, Outcome, RunError, RunStream, StreamEvent, StreamMode, StreamModes, Streamed, Thread, emit, entrypoint,
    interrupt, task,
};
use tests::{World, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

/// An event as a line.
pub(crate) fn line(event: &StreamEvent) -> String {
    let path = |within: &[durably::Enclosing]| -> String {
        within.iter().map(|around| format!("{}/", around.name)).collect()
    };
    match &event.what {
        Streamed::Value { value } => format!("value {value}"),
        Streamed::Failed { error } => format!("failed {error}"),
        Streamed::Interrupted { key, within, payload, .. } => format!("interrupt {}{key} {payload}", path(within)),
        Streamed::Update { name, within, value, .. } => format!("{}{name} {value}", path(within)),
        Streamed::Custom { within, value } => format!("{}emit {value}", path(within)),
        Streamed::TaskStarted { task, attempt } => format!("start {}{} {attempt}", path(&task.within), task.name),
        Streamed::TaskRetried { task, attempt, .. } => format!("retry {}{} {attempt}", path(&task.within), task.name),
        Streamed::TaskEnded { task, outcome: Ok(value), .. } => format!("end {}{} {value}", path(&task.within), task.name),
        Streamed::TaskEnded { task, outcome: Err(error), .. } => {
            format!("end {}{} failed: {error}", path(&task.within), task.name)
        }
        Streamed::Checkpoint { record, .. } => format!("{} {record}", event.number.seq()),
        Streamed::Missed { events } => format!("missed {events}"),
        Streamed::Stopped { how } => format!("stopped {how}"),
        other => format!("{other:?}"),
    }
}

/// All that a run tells, and what it comes to.
pub(crate) async fn all<T>(mut run: RunStream<T>) -> (Vec<String>, Result<Outcome<T>, RunError>) {
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        told.push(line(&event));
    }
    (told, run.outcome().await)
}

/// All that is recorded of a thread.
pub(crate) async fn journal(thread: &Thread, modes: impl Into<StreamModes>) -> Vec<String> {
    let mut watch = thread.watch(modes, None).until_rest();
    let mut told = Vec::new();
    while let Some(event) = watch.next().await {
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
fn three_tasks_give_three_updates_in_their_order_and_then_the_entrypoints() {
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
