//! A stop in its place of the order, and the scopes of clean-ups.

use super::*;

fn journal() -> Journal {
    Journal::load(Vec::new(), 1).unwrap()
}

/// A call that has begun.
fn begun(journal: &mut Journal, scope: &Scope, name: &'static str) -> Slot {
    let slot = journal.claim(scope, task(name, 0)).unwrap();
    journal.start(slot);
    slot
}

/// Everything that was appended becomes durable, and is given back.
fn settle(journal: &mut Journal) -> Vec<Record> {
    let appended = journal.take_appended();
    let mut records = Vec::with_capacity(appended.len());
    for appended in appended {
        records.push(appended.record);
        journal.recorded(appended.then);
    }
    records
}

fn loaded(records: &[Record]) -> Journal {
    let records: Vec<(Seq, Record)> = (1..).map(Seq).zip(records.iter().cloned()).collect();
    let next = u32::try_from(records.len() + 1).unwrap();
    Journal::load(records, next).unwrap()
}

fn asked() -> Why {
    Why::Asked { reason: None }
}

#[test]
fn a_stop_comes_after_what_was_recorded_before_it_and_nothing_is_recorded_after_it() {
    let mut live = journal();
    let [a, b] = ["a", "b"].map(|name| begun(&mut live, &Scope::ROOT, name));
    live.finish(a, value(1), 0, 0);
    assert!(live.cancel(asked(), 0));
    assert!(!live.cancel(asked(), 0), "once");
    live.finish(b, value(2), 0, 0);
    live.append_plain(Record::End(End { how: Ended::Discarded, at_ms: 0 }));
    let records = settle(&mut live);
    assert!(matches!(records.as_slice(), [Record::Outcome(_), Record::Cancel(_), Record::End(_)]), "{records:?}");

    let mut again = loaded(&records[..2]);
    let [c, d] = ["a", "b"].map(|name| again.claim(&Scope::ROOT, task(name, 0)).unwrap());
    for (journal, first, woken) in [(&mut live, a, Vec::new()), (&mut again, c, vec![d])] {
        match journal.next(Frame::ROOT) {
            Next::Release { slot, .. } => assert_eq!(slot, first),
            other => panic!("{other:?}"),
        }
        assert!(!journal.is_cancel_released());
        match journal.next(Frame::ROOT) {
            Next::Cancel(ready) => assert_eq!(ready, woken),
            other => panic!("{other:?}"),
        }
        assert!(journal.is_cancel_released() && journal.is_cut());
        assert!(matches!(journal.next(Frame::ROOT), Next::Nothing));
        journal.begin_ending();
        assert!(!journal.is_cut(), "it cleans up");
    }
}

#[test]
fn a_resume_after_a_deadline_undoes_the_stop_and_one_after_a_clean_up_that_failed_does_not() {
    let cancel = Record::Cancel(Cancel { why: Why::TimedOut { limit_ms: 1 }, at_ms: 0 });
    let resume = Record::Resume(Resume { reopened: Vec::new(), at_ms: 0 });
    let timed_out = Record::End(End { how: Ended::TimedOut { limit_ms: 1, open: Vec::new() }, at_ms: 0 });
    let unclean = Record::End(End { how: Ended::Unclean { message: String::new(), open: Vec::new() }, at_ms: 0 });
    let mut undone = loaded(&[cancel.clone(), timed_out.clone(), resume.clone()]);
    assert!(undone.cancelled().is_none() && matches!(undone.next(Frame::ROOT), Next::Nothing));
    let mut stands = loaded(&[cancel.clone(), unclean.clone(), resume.clone()]);
    assert!(matches!(stands.next(Frame::ROOT), Next::Cancel(_)));
    // The one cleans up anew, the other goes on where it was.
    let scope = |journal: &mut Journal| journal.enter_clean_up(&Scope::ROOT, 0).1.id;
    let first = scope(&mut loaded(std::slice::from_ref(&cancel)));
    assert_eq!(scope(&mut stands), first);
    assert_ne!(scope(&mut undone), first);
    assert_ne!(scope(&mut loaded(&[cancel, timed_out, resume, unclean])), first);
}

#[test]
fn a_nested_entrypoint_whose_failure_is_opened_again_has_another_end_live_as_loaded() {
    let mut live = journal();
    let outer = begun(&mut live, &Scope::ROOT, "outer");
    let body = live.body_scope(outer).unwrap();
    let nested = begun(&mut live, &body, "nested");
    let (frame, scope) = live.enter_nested(nested).unwrap();
    let entrypoint = live.entrypoint_scope(frame, &scope);
    let before = live.enter_clean_up(&entrypoint, 0).1.id;
    let a = begun(&mut live, &scope, "a");
    live.finish(a, failure(1), 0, 0);
    // Its failure is on its way when the attempt around it fails.
    live.attempt_failed(outer, "not yet".to_owned(), 0, 0);
    let records = settle(&mut live);
    let after = |journal: &mut Journal, outer: Slot| {
        journal.start(outer);
        let body = journal.body_scope(outer).unwrap();
        let nested = begun(journal, &body, "nested");
        let (frame, scope) = journal.enter_nested(nested).unwrap();
        let entrypoint = journal.entrypoint_scope(frame, &scope);
        journal.enter_clean_up(&entrypoint, 0).1.id
    };
    let live_after = after(&mut live, outer);
    let mut loaded = loaded(&records);
    let outer = loaded.claim(&Scope::ROOT, task("outer", 0)).unwrap();
    assert!(matches!(loaded.next(Frame::ROOT), Next::Live(_)));
    let loaded_after = after(&mut loaded, outer);
    assert_ne!(live_after, before);
    assert_eq!(live_after, loaded_after);
}
