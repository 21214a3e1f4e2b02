//! Records as bytes, and journals that are none.

use super::*;
use crate::id::RunNo;

fn info(dice: &mut Dice) -> CallInfo {
    let kinds = [
        CallKind::Task,
        CallKind::Entrypoint,
        CallKind::Interrupt,
        CallKind::Timer,
        CallKind::Now,
        CallKind::Random,
        CallKind::Patch,
        CallKind::Approval,
    ];
    CallInfo {
        id: id(dice),
        kind: dice.pick(&kinds).unwrap(),
        scope: ScopeId(wide(dice)),
        frame: dice.one_in(2).then(|| ScopeId(wide(dice))),
        name: text(dice).into(),
        digest: [dice.next().to_be_bytes()[0]; 32],
        length: u32::try_from(dice.below(1 << 32)).unwrap(),
        preview: text(dice),
        file: text(dice).into(),
        line: u32::try_from(dice.below(1 << 20)).unwrap(),
        within: around(dice),
    }
}

fn wide(dice: &mut Dice) -> u128 {
    if dice.one_in(5) { u128::from(dice.next() % 200) } else { u128::from(dice.next()) << 64 | u128::from(dice.next()) }
}

fn id(dice: &mut Dice) -> CallId {
    CallId { base: wide(dice), ordinal: u32::try_from(dice.below(1 << dice.clone().below(33))).unwrap() }
}

fn ids(dice: &mut Dice) -> Vec<CallId> {
    (0..dice.below(4)).map(|_| id(dice)).collect()
}

fn around(dice: &mut Dice) -> Vec<Around> {
    (0..dice.below(3)).map(|_| Around { id: id(dice), name: text(dice).into() }).collect()
}

fn text(dice: &mut Dice) -> String {
    (0..dice.below(40)).filter_map(|_| char::from_u32(u32::try_from(dice.below(0x3000)).unwrap())).collect()
}

fn payload(dice: &mut Dice) -> Payload {
    Payload::encode(&(text(dice), dice.next(), Some(dice.one_in(2)))).unwrap()
}

fn recorded(dice: &mut Dice) -> Recorded {
    if dice.one_in(2) {
        return Recorded::Value(payload(dice));
    }
    let kind = match dice.below(3) {
        0 => TaskErrorKind::Failed,
        1 => TaskErrorKind::TimedOut { limit_ms: dice.next(), elapsed_ms: dice.next() },
        _ => TaskErrorKind::Silent { limit_ms: dice.next(), elapsed_ms: dice.next() },
    };
    let typed = dice.one_in(2).then(|| payload(dice));
    Recorded::Failure(Failure { typed, kind, chain: (0..dice.below(3)).map(|_| text(dice)).collect() })
}

fn origin(dice: &mut Dice) -> Origin {
    Origin { thread: dice.one_in(2).then(|| text(dice)), run: RunNo(3), seq: Seq(4) }
}

/// A record of any kind.
fn answered(dice: &mut Dice) -> Answered {
    let kind = [AnswerKind::Given, AnswerKind::Deadline, AnswerKind::Cancelled][dice.below(3)];
    Answered { kind, by: dice.one_in(2).then(|| text(dice)), at_ms: dice.next() }
}

fn asked(dice: &mut Dice) -> Asked {
    let deadline = dice.one_in(2).then(|| Deadline { due_ms: dice.next(), default: payload(dice) });
    Asked {
        payload: payload(dice),
        expects: text(dice),
        schema: dice.one_in(2).then(|| payload(dice)),
        deadline,
        cancellable: dice.one_in(2),
    }
}

fn record(dice: &mut Dice) -> Record {
    let at_ms = dice.next();
    match dice.below(12) {
        0 => Record::Start(Start {
            entrypoint: text(dice),
            version: 1,
            input: payload(dice),
            digest: [7; 32],
            previous: dice.one_in(2).then(|| (RunNo(dice.clone().next().to_be_bytes()[0].into()), Seq(3))),
            at_ms,
            max_concurrency: dice.one_in(2).then_some(8),
            limit_ms: dice.one_in(2).then(|| dice.next()),
            tags: [(text(dice), text(dice))].into(),
            forked: dice.one_in(2).then(|| origin(dice)),
        }),
        7 => Record::Update(Update {
            entrypoint: text(dice),
            version: 2,
            value: payload(dice),
            output: dice.one_in(2).then(|| payload(dice)),
            input: dice.one_in(2).then(|| (payload(dice), [9; 32])),
            taken: dice.one_in(2).then(|| origin(dice)),
            at_ms,
            tags: [].into(),
        }),
        1 => Record::Outcome(Outcome {
            call: info(dice),
            recorded: Arc::new(recorded(dice)),
            attempts: 3,
            at_ms,
            took_ms: u32::MAX,
            cached: dice.one_in(2),
            asked: dice.one_in(2),
            answered: dice.one_in(2).then(|| answered(dice)),
        }),
        2 => Record::Attempt(Attempt {
            call: info(dice),
            number: 2,
            error: text(dice),
            reopened: ids(dice),
            at_ms,
            next_ms: dice.next(),
        }),
        3 => {
            let what = match dice.below(4) {
                0 => Waited::Answer(Arc::new(asked(dice))),
                1 => Waited::Until { due_ms: dice.next() },
                2 => {
                    Waited::InDoubt(Arc::new(Doubted { expects: text(dice), why: dice.one_in(2).then(|| text(dice)) }))
                }
                _ => Waited::Refused { reason: text(dice) },
            };
            Record::Wait(Wait { call: info(dice), what, at_ms })
        }
        4 => Record::Resume(Resume { reopened: ids(dice), at_ms }),
        5 => Record::Unread(Unread { call: info(dice), ahead: u32::try_from(dice.below(300)).unwrap() }),
        10 => Record::Begin(Begin { call: info(dice), number: 3, at_ms }),
        9 => Record::Emitted(Emitted { id: id(dice), within: around(dice), value: payload(dice), at_ms }),
        8 => Record::Again(Again { number: 1, error: text(dice), reopened: ids(dice), at_ms, next_ms: dice.next() }),
        6 => {
            let why = match dice.one_in(2) {
                true => Why::Asked { reason: dice.one_in(2).then(|| text(dice)) },
                false => Why::TimedOut { limit_ms: dice.next() },
            };
            Record::Cancel(Cancel { why, at_ms })
        }
        _ => {
            let how = match dice.below(8) {
                0 => Ended::Completed { output: payload(dice), save: dice.one_in(2).then(|| payload(dice)) },
                1 => Ended::Failed { failure: recorded(dice), open: ids(dice) },
                2 => Ended::Panicked { message: text(dice), open: ids(dice) },
                3 => Ended::Discarded,
                4 => Ended::Unclean { message: text(dice), open: ids(dice) },
                5 => Ended::TimedOut { limit_ms: dice.next(), open: ids(dice) },
                6 => Ended::Cancelled { reason: dice.one_in(2).then(|| text(dice)) },
                _ => Ended::Continued,
            };
            Record::End(End { how, at_ms })
        }
    }
}

#[test]
fn a_record_comes_back_from_its_bytes() {
    cases(|dice| {
        let record = record(dice);
        assert_eq!(Record::from_bytes(&record.to_bytes(), &mut Names::default()).unwrap(), record);
    });
}

#[test]
fn a_record_with_less_or_more_bytes_is_refused() {
    cases(|dice| {
        let mut bytes = record(dice).to_bytes();
        let cut = dice.below(bytes.len());
        assert!(Record::from_bytes(&bytes[..cut], &mut Names::default()).is_err());
        bytes.push(dice.next().to_be_bytes()[0]);
        assert!(Record::from_bytes(&bytes, &mut Names::default()).is_err());
    });
}

#[test]
fn any_bytes_are_a_record_or_an_error() {
    cases(|dice| {
        let bytes = if dice.one_in(2) {
            let mut bytes: Vec<u8> = (0..dice.below(60)).map(|_| dice.next().to_be_bytes()[0]).collect();
            // Most of them past the first checks.
            if bytes.len() > 1 && !dice.one_in(4) {
                (bytes[0], bytes[1]) = (1, u8::try_from(dice.below(10)).unwrap());
            }
            bytes
        } else {
            let mut bytes = record(dice).to_bytes();
            for _ in 0..=dice.below(4) {
                let place = dice.below(bytes.len());
                match dice.below(3) {
                    0 => bytes[place] = dice.next().to_be_bytes()[0],
                    1 => bytes[place] ^= 1 << dice.below(8),
                    _ => bytes.insert(place, dice.next().to_be_bytes()[0]),
                }
            }
            bytes
        };
        if let Ok(record) = Record::from_bytes(&bytes, &mut Names::default()) {
            // What it was taken for can be kept, and a journal made of it is one or is refused.
            assert_eq!(Record::from_bytes(&record.to_bytes(), &mut Names::default()).unwrap(), record);
            if let Ok(mut journal) = Journal::load(vec![(Seq(1), record)], 2) {
                while matches!(journal.next(Frame::ROOT), Next::Release { .. } | Next::Live(_)) {}
            }
        }
    });
}

#[test]
fn any_records_are_a_journal_or_broken() {
    cases(|dice| {
        let count = u32::try_from(dice.below(12)).unwrap();
        let mut records: Vec<(Seq, Record)> = Vec::new();
        for seq in 1..=count {
            let mut record = record(dice);
            // Some of them of the same calls, and in the run's own order.
            if let Record::Outcome(Outcome { call, .. })
            | Record::Attempt(Attempt { call, .. })
            | Record::Begin(Begin { call, .. })
            | Record::Wait(Wait { call, .. })
            | Record::Unread(Unread { call, .. }) = &mut record
                && dice.one_in(2)
            {
                (call.id, call.frame) =
                    (CallId { base: 1, ordinal: u32::try_from(dice.below(3)).unwrap() }, Some(ScopeId(0)));
            }
            records.push((Seq(seq), record));
        }
        let _ = Journal::load(records, count + 1);
    });
}

/// What the records of two calls look like, the second one's once more.
fn two_calls() -> Vec<(Seq, Record)> {
    let mut journal = Journal::load(Vec::new(), 1).unwrap();
    for name in ["a", "b"] {
        let slot = journal.claim(&Scope::ROOT, task(name, 0)).unwrap();
        journal.start(slot);
        journal.finish(slot, value(1), 0, 0);
    }
    journal.take_appended().into_iter().map(|appended| (appended.seq, appended.record)).collect()
}

#[test]
fn two_outcomes_of_one_call_are_no_journal() {
    let mut records = two_calls();
    assert!(Journal::load(records.clone(), 3).is_ok());
    records.push((Seq(3), records[1].1.clone()));
    let broken = Journal::load(records, 4).unwrap_err();
    assert_eq!(broken.seq, Seq(3));
    assert!(broken.to_string().contains("two outcomes"), "{broken}");
}

#[test]
fn a_second_start_is_no_journal() {
    let start = Start {
        entrypoint: "flow".to_owned(),
        version: 1,
        input: Payload::encode(&()).unwrap(),
        digest: [0; 32],
        previous: None,
        at_ms: 0,
        max_concurrency: None,
        limit_ms: None,
        tags: [].into(),
        forked: None,
    };
    assert_eq!(Journal::load(vec![(Seq(1), Record::Start(start))], 2).unwrap_err().seq, Seq(1));
}

#[test]
fn a_wake_before_outcomes_that_are_not_there_is_no_journal() {
    let mut records = two_calls();
    let Record::Outcome(Outcome { call, .. }) = records[0].1.clone() else { panic!("two outcomes") };
    records.push((Seq(3), Record::Unread(Unread { call: call.clone(), ahead: 2 })));
    assert!(Journal::load(records.clone(), 4).is_ok());
    records.push((Seq(4), Record::Unread(Unread { call, ahead: 3 })));
    assert_eq!(Journal::load(records, 5).unwrap_err().seq, Seq(4));
}

#[test]
fn a_call_that_is_not_what_its_record_says_is_a_collision() {
    let mut records = two_calls();
    let Record::Outcome(Outcome { call, .. }) = &mut records[0].1 else { panic!("two outcomes") };
    call.name = "another".into();
    let mut journal = Journal::load(records, 3).unwrap();
    let refused = journal.claim(&Scope::ROOT, task("a", 0)).unwrap_err();
    assert!(matches!(refused, ClaimError::Collision(_)), "{refused:?}");
}

#[test]
fn two_definitions_of_one_name_are_refused_and_one_that_is_made_twice_is_not() {
    let mut journal = Journal::load(Vec::new(), 1).unwrap();
    let mut claim = |line| {
        let definition = Some(Definition { module: "m", file: "f.rs", line });
        journal.claim(&Scope::ROOT, NewCall { definition, ..task("a", 0) })
    };
    assert!(claim(1).is_ok() && claim(1).is_ok());
    assert!(matches!(claim(2), Err(ClaimError::TwoDefinitions { .. })));
}
