//! Entrypoints in entrypoints and in tasks, which may be made again.

use super::*;

fn journal() -> Journal {
    Journal::load(Vec::new(), 1).unwrap()
}

fn made(journal: &mut Journal, scope: &Scope, name: &'static str) -> Slot {
    let slot = journal.claim(scope, task(name, 0)).unwrap();
    assert!(matches!(journal.call(slot).unwrap().stage, Stage::Ready), "{name} may start");
    journal.start(slot);
    slot
}

/// Everything appended is durable; the records.
fn settle(journal: &mut Journal) -> Vec<Record> {
    let mut records = Vec::new();
    for appended in journal.take_appended() {
        records.push(appended.record);
        journal.recorded(appended.then);
    }
    records
}

#[track_caller]
fn released(journal: &mut Journal, frame: Frame, slot: Slot, expected: &Recorded) {
    match journal.next(frame) {
        Next::Release { slot: given, .. } => assert_eq!(given, slot),
        other => panic!("{other:?}"),
    }
    assert_eq!(*journal.take(slot).unwrap(), *expected);
}

#[test]
fn a_nested_entrypoint_has_an_order_of_its_own() {
    let mut journal = journal();
    let nested = made(&mut journal, &Scope::ROOT, "nested");
    let (frame, scope) = journal.enter_nested(nested).unwrap();
    let (outer, inner) = (made(&mut journal, &Scope::ROOT, "a"), made(&mut journal, &scope, "a"));
    assert_ne!(journal.call(outer).unwrap().id, journal.call(inner).unwrap().id);
    journal.finish(outer, value(1), 0, 0);
    journal.finish(inner, value(2), 0, 0);
    settle(&mut journal);
    released(&mut journal, frame, inner, &value(2));
    assert!(matches!(journal.next(frame), Next::Nothing));
    released(&mut journal, Frame::ROOT, outer, &value(1));
    assert!(journal.leave(frame).is_ok());
}

/// A task with an entrypoint in it, of which two calls came back in the order b, a.
fn in_a_task() -> (Journal, Slot, Slot, Vec<Record>) {
    let mut journal = journal();
    let outer = made(&mut journal, &Scope::ROOT, "outer");
    let body = journal.body_scope(outer).unwrap();
    let nested = made(&mut journal, &body, "nested");
    let (frame, scope) = journal.enter_nested(nested).unwrap();
    let (a, b) = (made(&mut journal, &scope, "a"), made(&mut journal, &scope, "b"));
    journal.finish(b, value(2), 0, 0);
    journal.finish(a, failure(1), 0, 0);
    let mut records = settle(&mut journal);
    released(&mut journal, frame, b, &value(2));
    released(&mut journal, frame, a, &failure(1));
    journal.drop_call(a, false);
    journal.drop_call(b, false);
    assert!(journal.leave(frame).is_ok());
    journal.finish(nested, failure(3), 0, 0);
    records.extend(settle(&mut journal));
    assert_eq!(*journal.take(nested).unwrap(), failure(3));
    journal.drop_call(nested, false);
    (journal, outer, nested, records)
}

#[test]
fn the_next_attempt_of_a_task_replays_an_entrypoint_that_returned_in_the_last_one() {
    let (mut live, outer, _, mut records) = in_a_task();
    live.attempt_failed(outer, "not yet".to_owned(), 0, 0);
    records.extend(settle(&mut live));
    // In this process, and in one that finds the records.
    let loaded = records.into_iter().zip(1..).map(|(record, seq)| (Seq(seq), record)).collect::<Vec<_>>();
    let next = u32::try_from(loaded.len() + 1).unwrap();
    let mut loaded = Journal::load(loaded, next).unwrap();
    let again = loaded.claim(&Scope::ROOT, task("outer", 0)).unwrap();
    assert!(matches!(loaded.next(Frame::ROOT), Next::Live(_)));
    for (journal, outer) in [(&mut live, outer), (&mut loaded, again)] {
        assert_eq!(journal.start(outer), 2);
        let body = journal.body_scope(outer).unwrap();
        let nested = made(journal, &body, "nested");
        let (frame, scope) = journal.enter_nested(nested).unwrap();
        assert!(journal.is_replaying(frame));
        let a = journal.claim(&scope, task("a", 0)).unwrap();
        let b = journal.claim(&scope, task("b", 0)).unwrap();
        released(journal, frame, b, &value(2));
        // Its failure was not got past: it is made again.
        match journal.next(frame) {
            Next::Live(ready) => assert_eq!(ready, [a]),
            other => panic!("{other:?}"),
        }
        assert!(!journal.is_replaying(frame));
    }
}

#[test]
fn an_entrypoint_in_a_task_that_was_abandoned_goes_on_where_it_was() {
    let mut journal = journal();
    let outer = made(&mut journal, &Scope::ROOT, "outer");
    let body = journal.body_scope(outer).unwrap();
    let nested = made(&mut journal, &body, "nested");
    let (frame, scope) = journal.enter_nested(nested).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| made(&mut journal, &scope, name));
    // One was given, one is in line, one is on its way, when all of it is dropped.
    journal.finish(c, value(3), 0, 0);
    settle(&mut journal);
    released(&mut journal, frame, c, &value(3));
    journal.finish(b, value(2), 0, 0);
    settle(&mut journal);
    journal.finish(a, value(1), 0, 0);
    for slot in [a, b, c] {
        journal.drop_call(slot, false);
    }
    journal.abandon(frame);
    journal.drop_call(nested, false);
    settle(&mut journal);
    journal.attempt_failed(outer, "not yet".to_owned(), 0, 0);
    settle(&mut journal);
    journal.start(outer);
    let body = journal.body_scope(outer).unwrap();
    let nested = made(&mut journal, &body, "nested");
    let (frame, scope) = journal.enter_nested(nested).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| journal.claim(&scope, task(name, 0)).unwrap());
    released(&mut journal, frame, c, &value(3));
    released(&mut journal, frame, b, &value(2));
    released(&mut journal, frame, a, &value(1));
    assert!(!journal.is_replaying(frame));
}

#[test]
fn a_call_of_an_earlier_attempt_is_refused() {
    let mut journal = journal();
    let outer = made(&mut journal, &Scope::ROOT, "outer");
    let body = journal.body_scope(outer).unwrap();
    journal.attempt_failed(outer, "not yet".to_owned(), 0, 0);
    assert!(matches!(journal.claim(&body, task("a", 0)), Err(ClaimError::Stale)));
    settle(&mut journal);
    journal.start(outer);
    assert!(matches!(journal.claim(&body, task("a", 0)), Err(ClaimError::Stale)));
    let body = journal.body_scope(outer).unwrap();
    assert!(journal.claim(&body, task("a", 0)).is_ok());
}

/// The failure was on its way to the store when the attempt failed for another reason. In this process it was answered
/// with, in the next one it was opened again.
#[test]
fn a_failure_on_its_way_is_opened_again_by_the_next_attempt_too() {
    let mut journal = journal();
    let outer = made(&mut journal, &Scope::ROOT, "outer");
    let body = journal.body_scope(outer).unwrap();
    let inner = made(&mut journal, &body, "a");
    journal.finish(inner, failure(1), 0, 0);
    journal.drop_call(inner, false);
    journal.attempt_failed(outer, "not yet".to_owned(), 0, 0);
    settle(&mut journal);
    journal.start(outer);
    let body = journal.body_scope(outer).unwrap();
    made(&mut journal, &body, "a");
}

/// A second record of it showed the question twice to whoever asked for the thread's questions.
#[test]
fn a_question_that_an_earlier_attempt_asked_is_not_asked_again() {
    let mut journal = journal();
    let outer = made(&mut journal, &Scope::ROOT, "outer");
    let body = journal.body_scope(outer).unwrap();
    let question = made(&mut journal, &body, "a");
    assert!(journal.loaded_wait(question).is_none());
    let (payload, expects) = (Payload::encode(&1).unwrap(), "bool".to_owned());
    let asked = Asked { payload, expects, schema: None, deadline: None, cancellable: false };
    let asked = Waited::Answer(Arc::new(asked));
    journal.wait(question, asked.clone(), 0);
    journal.drop_call(question, false);
    journal.attempt_failed(outer, "not yet".to_owned(), 0, 0);
    settle(&mut journal);
    journal.start(outer);
    let body = journal.body_scope(outer).unwrap();
    let question = made(&mut journal, &body, "a");
    assert_eq!(journal.loaded_wait(question), Some(&asked));
}
