//! Code that no longer matches its journal: an interpreted flow, changed between processes in every way at every place,
//! against every prefix of its journal.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use durably::{Outcome, RunError, Runtime, Status, checkpoint::MemoryCheckpointer, entrypoint, interrupt, task};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use tests::{Ledger, block_on, commits_of};

/// An argument whose type can change while its task stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum Arg {
    Whole(i64),
    Text(String),
    Several(Vec<i64>),
    Maybe(Option<bool>),
}

macro_rules! tasks {
    ($($name:ident)*) => {
        $(#[task]
        async fn $name(arg: Arg) -> u64 {
            durably::resource::<Ledger>().note(stringify!($name));
            let _ = arg;
            7
        })*

        /// Calls a task by its name.
        async fn call(name: &str, arg: Arg) -> u64 {
            match name {
                $(stringify!($name) => $name(arg).await,)*
                other => unreachable!("there is no task {other}"),
            }
        }
    };
}

tasks!(alpha beta gamma delta poll pay renamed inserted);

/// One step of the 'code'.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Call(&'static str, Arg),
    /// Calls side by side: their order is not the code's.
    Fan(Vec<(&'static str, Arg)>),
    Loop(u32, &'static str, Arg),
    Ask(&'static str, i64),
    Now,
    Random,
}

#[derive(Clone, Debug, PartialEq)]
struct Code(Vec<Step>);

#[entrypoint]
async fn interpret() -> u64 {
    let code = durably::resource::<Code>();
    let mut sum = 0;
    for step in &code.0 {
        match step {
            Step::Call(name, arg) => sum += call(name, arg.clone()).await,
            Step::Fan(calls) => {
                sum += join_all(calls.iter().map(|(name, arg)| call(name, arg.clone()))).await.iter().sum::<u64>();
            }
            Step::Loop(times, name, arg) => {
                for _ in 0..*times {
                    sum += call(name, arg.clone()).await;
                }
            }
            Step::Ask(key, payload) => sum += interrupt::<u64>(*key, payload).await,
            Step::Now => sum += u64::from(durably::now().await > SystemTime::UNIX_EPOCH),
            Step::Random => sum += u64::from(durably::random().await > 0),
        }
    }
    sum
}

/// A call as the oracle sees it.
type Trace = Vec<Vec<(String, Arg)>>;

impl Code {
    fn reference() -> Self {
        Self(vec![
            Step::Call("alpha", Arg::Whole(1)),
            Step::Call("beta", Arg::Text("two".to_owned())),
            Step::Fan(vec![("gamma", Arg::Whole(3)), ("gamma", Arg::Whole(3)), ("delta", Arg::Whole(4))]),
            Step::Ask("first", 1),
            Step::Loop(3, "poll", Arg::Whole(5)),
            Step::Now,
            Step::Call("pay", Arg::Maybe(None)),
            Step::Random,
            Step::Ask("second", 2),
            Step::Call("alpha", Arg::Several(vec![1])),
        ])
    }

    /// The calls in the order of the code; those side by side are one entry.
    fn trace(&self) -> Trace {
        let mut trace = Vec::new();
        for step in &self.0 {
            let one = |kind: &str, name: &str, arg: &Arg| (format!("{kind} {name}"), arg.clone());
            match step {
                Step::Call(name, arg) => trace.push(vec![one("task", name, arg)]),
                Step::Fan(calls) => trace.push(calls.iter().map(|(name, arg)| one("task", name, arg)).collect()),
                Step::Loop(times, name, arg) => {
                    trace.extend((0..*times).map(|_| vec![one("task", name, arg)]));
                }
                Step::Ask(key, payload) => trace.push(vec![one("interrupt", key, &Arg::Whole(*payload))]),
                Step::Now => trace.push(vec![one("now", "", &Arg::Maybe(None))]),
                Step::Random => trace.push(vec![one("random", "", &Arg::Maybe(None))]),
            }
        }
        trace
    }

    /// This code changed at one place, in every way that applies to it.
    fn mutants(&self) -> Vec<(String, Self)> {
        let mut mutants = Vec::new();
        for place in 0..self.0.len() {
            let mut mutant = |what: &str, change: &dyn Fn(&mut Vec<Step>)| {
                let mut steps = self.0.clone();
                change(&mut steps);
                if steps != self.0 {
                    mutants.push((format!("{what} at {place}"), Self(steps)));
                }
            };
            mutant("remove", &|steps| drop(steps.remove(place)));
            mutant("insert a task", &|steps| steps.insert(place, Step::Call("inserted", Arg::Whole(0))));
            mutant("insert a question", &|steps| steps.insert(place, Step::Ask("inserted", 0)));
            mutant("insert a clock", &|steps| steps.insert(place, Step::Now));
            mutant("repeat", &|steps| steps.insert(place, steps[place].clone()));
            mutant("insert calls side by side", &|steps| {
                steps.insert(place, Step::Fan(vec![("alpha", Arg::Whole(1)); 2]));
            });
            for other in place + 1..self.0.len() {
                mutant("reorder", &|steps| steps.swap(place, other));
                mutant("remove several", &|steps| drop(steps.drain(place..=other)));
            }
            mutant("end early", &|steps| steps.truncate(place));
            for arg in [Arg::Whole(99), drawn_from_the_clock(), drawn_at_random()] {
                mutant("other arguments", &|steps| steps[place] = with_argument(&steps[place], &arg));
            }
            for arg in [Arg::Text("1".to_owned()), Arg::Several(vec![1]), Arg::Maybe(Some(true)), Arg::Maybe(None)] {
                mutant("retype", &|steps| steps[place] = with_argument(&steps[place], &arg));
            }
            mutant("rename", &|steps| {
                steps[place] = match &steps[place] {
                    Step::Call(_, arg) => Step::Call("renamed", arg.clone()),
                    Step::Fan(calls) => Step::Fan([&[("renamed", calls[0].1.clone())], &calls[1..]].concat()),
                    Step::Loop(times, _, arg) => Step::Loop(*times, "renamed", arg.clone()),
                    Step::Ask(_, payload) => Step::Ask("renamed", *payload),
                    Step::Now => Step::Random,
                    Step::Random => Step::Now,
                };
            });
            for times in [0, 1, 2, 4] {
                mutant("loop count", &|steps| {
                    if let Step::Loop(before, ..) = &mut steps[place] {
                        *before = times;
                    }
                });
            }
            mutant("one less side by side", &|steps| {
                if let Step::Fan(calls) = &mut steps[place] {
                    calls.pop();
                }
            });
            mutant("one more side by side", &|steps| {
                if let Step::Fan(calls) = &mut steps[place] {
                    calls.push(("inserted", Arg::Whole(0)));
                }
            });
            mutant("another order side by side", &|steps| {
                if let Step::Fan(calls) = &mut steps[place] {
                    calls.reverse();
                }
            });
        }
        mutants
    }
}

fn with_argument(step: &Step, arg: &Arg) -> Step {
    match step {
        Step::Call(name, _) => Step::Call(name, arg.clone()),
        Step::Loop(times, name, _) => Step::Loop(*times, name, arg.clone()),
        Step::Fan(calls) => Step::Fan([&[(calls[0].0, arg.clone())], &calls[1..]].concat()),
        Step::Ask(key, _) => Step::Ask(key, if let Arg::Whole(whole) = arg { *whole } else { -1 }),
        Step::Now | Step::Random => step.clone(),
    }
}

fn drawn_from_the_clock() -> Arg {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Arg::Whole(i64::try_from(since.as_nanos() % 1_000_000_000_000).unwrap() + 1_000)
}

fn drawn_at_random() -> Arg {
    use std::hash::{BuildHasher, RandomState};
    Arg::Whole(i64::try_from(RandomState::new().hash_one(0) >> 1).unwrap())
}

/// Whether code with this trace makes all the calls that are on record.
fn still_matches(reference: &Trace, recorded: usize, mutant: &Trace) -> bool {
    let mut left = recorded;
    let mut place = 0;
    while left > 0 {
        let (wanted, Some(made)) = (&reference[place], mutant.get(place)) else { return false };
        let all = count(made);
        let on_record = count(&wanted[..left.min(wanted.len())]);
        if on_record.iter().any(|(call, times)| all.get(call).is_none_or(|made| made < times)) {
            return false;
        }
        // A group that is over on record must be over in the code: nothing more is made in it.
        if left > wanted.len() && made.len() > wanted.len() {
            return false;
        }
        left -= left.min(wanted.len());
        place += 1;
    }
    true
}

fn count(calls: &[(String, Arg)]) -> BTreeMap<&(String, Arg), u32> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call).or_default() += 1;
    }
    counts
}

/// Runs the code to its end on the thread, answering what it asks.
async fn to_the_end(runtime: &Runtime, fresh: bool) -> u64 {
    let thread = runtime.thread("t").unwrap();
    let mut outcome = if fresh { thread.invoke(interpret()).await } else { thread.resume(interpret).await }.unwrap();
    loop {
        match outcome {
            Outcome::Completed(sum) => return sum,
            other => {
                for question in other.questions() {
                    thread.answer(question.id(), 1000).await.unwrap();
                }
                outcome = thread.resume(interpret).await.unwrap();
            }
        }
    }
}

#[test]
fn every_change_of_code_before_the_end_of_the_journal_is_caught_and_no_other_is() {
    let reference = Code::reference();
    let ledger = Ledger::default();
    let with = |code: &Code| Runtime::builder().resource(code.clone()).resource(ledger.clone());
    let commits = commits_of(
        |_| with(&reference),
        async |runtime| {
            assert_eq!(to_the_end(&runtime, true).await, 7 * 10 + 2 + 2000);
        },
    );
    let mutants = reference.mutants();
    let (mut caught, mut harmless, mut skipped) = (0, 0, 0);
    // Every place of the journal, up to the run's end, with every change.
    for cut in 1..commits.len() {
        let store = || MemoryCheckpointer::replay(&commits[..cut]).reopen();
        let recorded = block_on(async {
            let state = with(&reference).checkpointer(store()).thread("t").unwrap().state().await.unwrap().unwrap();
            state.calls.len()
        });
        for (name, mutant) in &mutants {
            ledger.clear();
            let matches = still_matches(&reference.trace(), recorded, &mutant.trace());
            let store = store();
            let outcome = block_on(async {
                let runtime = with(mutant).checkpointer(store.clone());
                let thread = runtime.thread("t").unwrap();
                let outcome = thread.resume(interpret).await;
                if !matches {
                    let error = outcome.as_ref().expect_err("the change is seen");
                    assert!(matches!(error, RunError::Nondeterminism(_)), "{name}, {recorded} on record: {error}");
                    assert_eq!(ledger.total(), 0, "{name}, {recorded} on record: something ran");
                    let state = thread.state().await.unwrap().unwrap();
                    assert_eq!(state.status, Status::Stuck);
                    assert_eq!(state.reason, Some(error.to_string()));
                }
                outcome
            });
            if matches {
                harmless += 1;
                assert!(outcome.is_ok(), "{name}, {recorded} on record: a false alarm: {outcome:?}");
                continue;
            }
            caught += 1;
            // Mended code goes on. One in eight is enough, and all at the last place.
            if caught % 8 != 0 && cut + 1 < commits.len() {
                skipped += 1;
                continue;
            }
            let runtime = with(&reference).checkpointer(store.reopen());
            assert_eq!(block_on(to_the_end(&runtime, false)), 7 * 10 + 2 + 2000, "{name}, {recorded} on record");
        }
    }
    println!(
        "{} mutants at {} places: {caught} caught ({} mended), {harmless} harmless",
        mutants.len(),
        commits.len() - 1,
        caught - skipped
    );
    assert!(mutants.len() >= 200 && caught >= 2000 && harmless >= 1000, "{caught} {harmless}");
}

#[entrypoint]
async fn over_a_map(keys: u32) {
    // A map of std orders its keys differently each time.
    let map: HashMap<u32, ()> = (0..keys).map(|key| (key, ())).collect();
    for key in map.keys() {
        alpha(Arg::Whole(i64::from(*key))).await;
    }
    interrupt::<()>("done?", &()).await;
}

#[entrypoint(allow(clock))]
async fn from_the_clock() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    beta(Arg::Text(format!("{now:?}"))).await;
    interrupt::<()>("done?", &()).await;
}

#[entrypoint]
async fn from_a_counter() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    if RUNS.fetch_add(1, Ordering::Relaxed) == 0 {
        alpha(Arg::Whole(0)).await;
    }
    interrupt::<()>("done?", &()).await;
}

#[test]
fn code_that_is_not_deterministic_is_caught_at_its_first_resume() {
    let caught = |outcome: Result<Outcome<()>, RunError>| {
        assert!(matches!(outcome, Err(RunError::Nondeterminism(_))), "{outcome:?}");
    };
    block_on(async {
        let runtime = Runtime::builder().resource(Ledger::default()).memory();
        let thread = runtime.thread("map").unwrap();
        let _ = thread.invoke(over_a_map(50)).await.unwrap();
        caught(thread.resume(over_a_map).await);
        let thread = runtime.thread("clock").unwrap();
        let _ = thread.invoke(from_the_clock()).await.unwrap();
        caught(thread.resume(from_the_clock).await);
        let thread = runtime.thread("counter").unwrap();
        let _ = thread.invoke(from_a_counter()).await.unwrap();
        caught(thread.resume(from_a_counter).await);
    });
}

#[test]
fn the_message_shows_both_sides_and_the_remedy() {
    let code =
        |arg: &str, times| Code(vec![Step::Loop(times, "poll", Arg::Text(arg.to_owned())), Step::Ask("done?", 1)]);
    let ledger = Ledger::default();
    let store = MemoryCheckpointer::new();
    let error = |code: Code| {
        block_on(async {
            let runtime = Runtime::builder().resource(code).resource(ledger.clone()).checkpointer(store.reopen());
            runtime.thread("t").unwrap().resume(interpret).await.unwrap_err().to_string()
        })
    };
    block_on(async {
        let runtime =
            Runtime::builder().resource(code("order 7", 2)).resource(ledger.clone()).checkpointer(store.clone());
        let _ = runtime.thread("t").unwrap().invoke(interpret()).await.unwrap();
    });
    let place = |needle: &str| {
        let line = include_str!("nondeterminism.rs").lines().position(|line| line.contains(needle)).unwrap() + 1;
        format!("{}:{line}", file!())
    };
    let call = place("tasks!(alpha");
    let ask = place("Step::Ask(key, payload) => sum += interrupt");
    let remedy = "nothing was run: bring the call back, put the new code behind `durably::patched(\"..\")`, or discard \
                  the run";
    assert_eq!(
        error(code("order 8", 2)),
        format!(
            "the code no longer matches the journal: record 1 is the outcome of task \"poll\" (arg=\"order 7\"), at \
             {call}, but the code called instead: task \"poll\" (arg=\"order 8\"), at {call}; {remedy}"
        )
    );
    assert_eq!(
        error(code("order 7", 1)),
        format!(
            "the code no longer matches the journal: record 2 is the outcome of task \"poll\" (arg=\"order 7\"), equal \
             call number 2, at {call}, but the code called instead: interrupt \"done?\" (payload=1), at {ask}; {remedy}"
        )
    );
    assert_eq!(
        error(Code(vec![])),
        format!(
            "the code no longer matches the journal: record 1 is the outcome of task \"poll\" (arg=\"order 7\"), at \
             {call}, but the code ended without making that call; {remedy}"
        )
    );
}
