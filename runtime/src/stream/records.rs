//! From a record to the events that readers are told of it, live and later from the journal alike.

use std::time::Duration;

use super::{EventNo, EventValue, StreamEvent, StreamMode, StreamModes, Streamed, StreamedTask, enclosing};
use crate::{
    CallId, CallKind,
    id::{RunNo, Seq},
    journal::{CallInfo, Emitted, End, Ended, Outcome, Record, Wait, Waited},
    output::Recorded,
};

/// The events of one record in these modes, in their order.
pub(crate) fn events_of(
    modes: StreamModes,
    (run, seq, entrypoint): (RunNo, Seq, &str),
    record: &Record,
    mut tell: impl FnMut(StreamEvent),
) {
    // A part is the same for a kind of event whatever the reader asked for.
    let mut event = |part: u32, what: Streamed| {
        if modes.has_any(what.modes()) {
            tell(StreamEvent { number: EventNo::of(run, seq, part), recorded: true, what });
        }
    };
    let wants = |mode: StreamMode| modes.has_any(mode.into());
    match record {
        Record::Outcome(Outcome { call, recorded, attempts, .. }) if is_task(call.kind) => {
            if wants(StreamMode::Tasks) {
                let outcome = match (EventValue::recorded(recorded), &**recorded) {
                    (None, Recorded::Failure(failure)) => Err(failure.clone()),
                    (Some(value), _) => Ok(value),
                    (None, Recorded::Value(_)) => unreachable!("a value is no failure"),
                };
                event(0, Streamed::TaskEnded { task: task(call), attempt: *attempts, outcome });
            }
            if wants(StreamMode::Updates)
                && let Some(value) = EventValue::recorded(recorded)
            {
                let (name, within) = (call.name.clone().into_owned(), enclosing(&call.within));
                event(1, Streamed::Update { name, id: Some(call.id), within, value });
            }
        }
        Record::Attempt(attempt) if is_task(attempt.call.kind) && wants(StreamMode::Tasks) => {
            let (number, error) = (attempt.number, attempt.error.clone());
            event(0, Streamed::TaskRetried { task: task(&attempt.call), attempt: number, error });
        }
        Record::Wait(Wait { call, what: Waited::Answer(asked), .. }) => {
            let (key, within) = (call.name.clone().into_owned(), enclosing(&call.within));
            event(
                0,
                Streamed::Interrupted { id: call.id, key, within, payload: EventValue::alone(asked.payload.clone()) },
            );
        }
        Record::Emitted(Emitted { within, value, .. }) if wants(StreamMode::Custom) => {
            event(0, Streamed::Custom { within: enclosing(within), value: EventValue::alone(value.clone()) });
        }
        Record::End(End { how, .. }) => match how {
            Ended::Completed { output, .. } => {
                let value = EventValue::alone(output.clone());
                let name = entrypoint.to_owned();
                event(1, Streamed::Update { name, id: None, within: Vec::new(), value: value.clone() });
                event(2, Streamed::Value { value });
            }
            Ended::Failed { failure: Recorded::Failure(failure), .. } => {
                event(2, Streamed::Failed { error: failure.to_string() });
            }
            Ended::Panicked { message, .. } | Ended::Unclean { message, .. } => {
                event(2, Streamed::Failed { error: message.clone() });
            }
            Ended::TimedOut { limit_ms, .. } => {
                let limit = Duration::from_millis(*limit_ms);
                event(2, Streamed::Failed { error: format!("the run took longer than its deadline of {limit:?}") });
            }
            Ended::Cancelled { reason } => event(2, Streamed::Cancelled { reason: reason.clone() }),
            Ended::Failed { failure: Recorded::Value(_), .. } | Ended::Discarded | Ended::Continued => {}
        },
        Record::Start(_)
        | Record::Outcome(_)
        | Record::Attempt(_)
        | Record::Begin(_)
        | Record::Wait(_)
        | Record::Resume(_)
        | Record::Again(_)
        | Record::Unread(_)
        | Record::Cancel(_)
        | Record::Update(_)
        | Record::Emitted(_) => {}
    }
    let (word, id) = checkpoint(record);
    event(3, Streamed::Checkpoint { record: word, id });
}

/// What sort of record it is, and of which call.
fn checkpoint(record: &Record) -> (&'static str, Option<CallId>) {
    match record {
        Record::Start(_) => ("start", None),
        Record::Outcome(record) => ("outcome", Some(record.call.id)),
        Record::Attempt(record) => ("attempt", Some(record.call.id)),
        Record::Begin(record) => ("begin", Some(record.call.id)),
        Record::Wait(record) => ("wait", Some(record.call.id)),
        Record::Resume(_) => ("resume", None),
        Record::Again(_) => ("again", None),
        Record::Unread(record) => ("unread", Some(record.call.id)),
        Record::Emitted(_) => ("emitted", None),
        Record::End(_) => ("end", None),
        Record::Cancel(_) => ("cancel", None),
        Record::Update(_) => ("update", None),
    }
}

/// Whether readers are told of a call of this kind: not of clocks, sleeps and the like.
pub(crate) fn is_task(kind: CallKind) -> bool {
    matches!(kind, CallKind::Task | CallKind::Entrypoint)
}

/// A call, as readers are told.
pub(crate) fn task(call: &CallInfo) -> StreamedTask {
    StreamedTask {
        id: call.id,
        kind: call.kind,
        name: call.name.clone().into_owned(),
        within: enclosing(&call.within),
        arguments: call.preview.clone(),
    }
}
