//! Flows that other libraries replay wrongly: branches that race, follow each other up, talk to each other. Each is cut
//! after every record, with its bodies ending in several seeded orders.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use durably::{
    CallKind, CallStatus, Definition, EntrypointCall, EntrypointFn, Event, Observer, Runtime, bounded, entrypoint, task,
};
use futures::{
    SinkExt, StreamExt,
    future::join_all,
    join,
    stream::{self, FuturesUnordered},
};
use tests::{Chance, Ledger, block_on, cut_after_every_record, pends, size};

/// What the bodies of this file share over the processes of a test.
#[derive(Clone, Default)]
pub(crate) struct Lab {
    /// What ran.
    pub(crate) ledger: Ledger,
    seed: u64,
}

impl Lab {
    /// A body: takes as long as the seed says for this very call, has its effect, gives what no other call gives.
    pub(crate) async fn body(&self, name: &str, n: u32) -> String {
        let key = durably::idempotency_key().expect("a body stands in a task");
        let key = &key[..8];
        let mixed = self.seed ^ u64::from_str_radix(key, 16).unwrap();
        pends(Chance::new(mixed).below(9)).await;
        self.ledger.note(format!("{name} n={n}"));
        format!("{name}{n}:{key}")
    }
}

#[task]
async fn work(n: u32) -> String {
    durably::resource::<Lab>().body("work", n).await
}

/// The order in which outcomes are handed on.
#[derive(Clone, Default)]
struct Releases(Arc<Mutex<Vec<String>>>);

impl Observer for Releases {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Released { call, .. } = event {
            self.0.lock().unwrap().push(call.id.to_string());
        }
    }
}

/// How the outcome after a crash compares with the one without.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Same {
    /// It is equal after every cut.
    Exactly,
    /// Until the race is decided in the journal, others may win it: it is made of the same pieces.
    Pieces,
    /// Until the race is decided in the journal, another branch may win it.
    AnyWinner,
}

/// Runs a flow whole, then from every cut, in several orders of its bodies' ends; how many orders of outcomes came up.
pub(crate) fn check<A, F>(entrypoint: F, call: impl Fn() -> EntrypointCall<F::Definition>, same: Same) -> usize
where
    F: EntrypointFn<A> + Copy,
    F::Definition: Definition<Value = Vec<String>>,
{
    let orders = Mutex::new(BTreeSet::new());
    for seed in 0..size(8) as u64 {
        println!("seed {seed}");
        let lab = Lab { ledger: Ledger::default(), seed };
        let releases = Releases::default();
        let (whole, all) = (Mutex::new(Vec::new()), Mutex::new((BTreeMap::new(), 0)));
        cut_after_every_record(
            |builder| builder.resource(lab.clone()).observer(releases.clone()),
            async |runtime| {
                let outcome = runtime.thread("t").unwrap().invoke(call()).await.unwrap();
                *whole.lock().unwrap() = outcome.completed().unwrap();
                orders.lock().unwrap().insert(std::mem::take(&mut *releases.0.lock().unwrap()));
                *all.lock().unwrap() = (lab.ledger.all(), recorded(&runtime).await.1);
                lab.ledger.clear();
            },
            async |runtime, cut| {
                let thread = runtime.thread("t").unwrap();
                let (whole, (all, outcomes)) = (whole.lock().unwrap().clone(), all.lock().unwrap().clone());
                let (kept, kept_outcomes) = recorded(&runtime).await;
                let outcome =
                    if cut == 0 { thread.invoke(call()).await } else { thread.resume(entrypoint).await }.unwrap();
                let output = outcome.completed().unwrap();
                if same == Same::Exactly || kept_outcomes == outcomes {
                    assert_eq!(output, whole);
                } else if same == Same::Pieces {
                    assert_eq!(sorted(&output), sorted(&whole));
                }
                let ran = lab.ledger.all();
                for (effect, times) in &kept {
                    let again = ran.get(effect).copied().unwrap_or_default();
                    let once = all.get(effect).copied().unwrap_or_default();
                    assert!(again + times <= once, "{effect} is on record {times} times and ran {again} times again");
                }
                if same != Same::AnyWinner {
                    for (effect, once) in &all {
                        let times = kept.get(effect).copied().unwrap_or_default();
                        assert_eq!(ran.get(effect).copied().unwrap_or_default() + times, *once, "{effect}");
                    }
                }
                lab.ledger.clear();
            },
        );
    }
    orders.into_inner().unwrap().len()
}

/// The effects whose outcomes are on record, and how many outcomes are on record in all.
async fn recorded(runtime: &Runtime) -> (BTreeMap<String, u32>, usize) {
    let mut effects = BTreeMap::new();
    let Some(state) = runtime.thread("t").unwrap().state().await.unwrap() else { return (effects, 0) };
    let done: Vec<_> = state.calls.iter().filter(|call| matches!(call.status, CallStatus::Value(_))).collect();
    for call in done.iter().filter(|call| call.kind == CallKind::Task) {
        *effects.entry(format!("{} {}", call.name, call.arguments)).or_default() += 1;
    }
    (effects, done.len())
}

fn sorted(pieces: &[String]) -> Vec<String> {
    let mut pieces = pieces.to_vec();
    pieces.sort();
    pieces
}

#[entrypoint]
async fn two_branches() -> Vec<String> {
    let branch = async || [work(1).await, work(1).await];
    let (left, right) = join!(branch(), branch());
    [left, right].concat()
}

#[test]
fn equal_calls_in_two_branches_keep_their_values_in_every_order() {
    let orders = check(two_branches, two_branches, Same::Exactly);
    assert!(orders > 1, "the seeds give only one order");
}

#[entrypoint]
async fn named_branches() -> Vec<String> {
    let branch = |name| durably::branch(name, async || [work(1).await, work(1).await]);
    let (left, right) = join!(branch("eu"), branch("us"));
    [left, right].concat()
}

#[test]
fn equal_calls_in_named_branches_keep_their_values_in_every_order() {
    let orders = check(named_branches, named_branches, Same::Exactly);
    assert!(orders > 1, "the seeds give only one order");
}

#[entrypoint]
async fn follow_ups() -> Vec<String> {
    let mut first: FuturesUnordered<_> = (0..4).map(work).collect();
    let mut log = Vec::new();
    while let Some(done) = first.next().await {
        log.push(done);
        log.push(work(9).await);
    }
    log
}

#[test]
fn a_follow_up_after_each_completion_belongs_to_it() {
    let orders = check(follow_ups, follow_ups, Same::Pieces);
    assert!(orders > 1, "the seeds give only one order");
}

#[entrypoint]
async fn growing() -> Vec<String> {
    let mut live: FuturesUnordered<_> = (0..3).map(work).collect();
    let mut log = Vec::new();
    while let Some(done) = live.next().await {
        log.push(done);
        if log.len() <= 4 {
            live.push(work(7));
        }
    }
    log
}

#[test]
fn follow_ups_that_join_the_race_replay_in_their_order() {
    assert!(check(growing, growing, Same::Pieces) > 1, "the seeds give only one order");
}

#[entrypoint]
async fn continued_race() -> Vec<String> {
    let mut log = Vec::new();
    for _ in 0..3 {
        tokio::select! {
            biased;
            left = work(1) => {
                log.push(left);
                log.push(work(3).await);
            }
            right = work(2) => {
                log.push(right);
                log.push(work(3).await);
                log.push(work(4).await);
            }
        }
    }
    log
}

#[test]
fn the_branch_that_won_a_biased_select_wins_on_replay_and_is_gone_on_with() {
    assert!(check(continued_race, continued_race, Same::AnyWinner) > 1, "the seeds give only one order");
}

#[entrypoint]
async fn race_of_equals() -> Vec<String> {
    let chain = async |n| vec![work(n).await, work(9).await, work(9).await];
    let mut log = durably::select! {
        left = chain(1) => left,
        right = chain(2) => right,
    };
    log.push(work(9).await);
    log
}

#[test]
fn equal_calls_inside_the_branches_of_a_race_are_not_taken_for_each_others() {
    assert!(check(race_of_equals, race_of_equals, Same::AnyWinner) > 1, "the seeds give only one order");
}

#[entrypoint]
async fn talking_branches() -> Vec<String> {
    let (to_relay, mut from_source) = tokio::sync::mpsc::channel(1);
    let (mut to_end, mut from_relay) = futures::channel::mpsc::channel(0);
    let source = async move {
        for n in 0..3 {
            to_relay.send(work(n).await).await.unwrap();
        }
    };
    let relay = async move {
        while let Some(value) = from_source.recv().await {
            to_end.send(value).await.unwrap();
        }
    };
    let end = async move {
        let mut log = Vec::new();
        while let Some(value) = from_relay.next().await {
            log.push(value);
            log.push(work(9).await);
        }
        log
    };
    let beside = async { vec![work(9).await, work(9).await, work(9).await] };
    let ((), (), mut log, beside) = join!(source, relay, end, beside);
    log.extend(beside);
    log
}

#[test]
fn branches_that_talk_through_channels_replay_alike() {
    assert!(check(talking_branches, talking_branches, Same::Pieces) > 1, "the seeds give only one order");
}

#[entrypoint]
async fn busy_channels() -> Vec<String> {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(3);
    let (mut other_sender, mut other_receiver) = futures::channel::mpsc::channel(3);
    let one = async move {
        for n in 0..1000_u32 {
            sender.send(n).await.unwrap();
        }
    };
    let two = async move {
        while let Some(n) = receiver.recv().await {
            other_sender.send(n).await.unwrap();
        }
    };
    let three = async move {
        let mut sum = 0;
        while let Some(n) = other_receiver.next().await {
            sum += n;
        }
        sum
    };
    let first = work(1).await;
    let ((), (), sum) = join!(one, two, three);
    vec![first, work(sum).await]
}

#[test]
fn a_thousand_messages_between_branches_are_no_foreign_wakes() {
    check(busy_channels, busy_channels, Same::Exactly);
}

#[entrypoint]
async fn in_a_window() -> Vec<String> {
    let mut log: Vec<String> = stream::iter(0..7).map(work).buffer_unordered(3).collect().await;
    log.extend(bounded(2, (0..5).map(work)).await);
    log
}

#[test]
fn a_window_over_many_calls_replays_alike() {
    assert!(check(in_a_window, in_a_window, Same::Pieces) > 1, "the seeds give only one order");
}

#[entrypoint]
async fn bounded_only(limit: usize) -> Vec<String> {
    bounded(limit, [4, 4, 5, 5, 6].map(work)).await
}

#[test]
fn bounded_gives_the_outputs_in_the_order_of_the_calls() {
    for limit in [0, 1, 2, 100] {
        check(bounded_only, || bounded_only(limit), Same::Exactly);
    }
}

#[task]
async fn look_up(table: HashMap<String, u32>) -> u32 {
    durably::resource::<Lab>().ledger.note("look_up");
    table.values().sum()
}

#[entrypoint]
async fn tables(n: u32) -> u32 {
    // Built anew each time: std's maps order their keys differently in each.
    let table = || (0..n).map(|n| (format!("key {n}"), n)).collect();
    look_up(table()).await + look_up(table()).await
}

#[test]
fn equal_maps_that_are_built_anew_are_equal_arguments() {
    let lab = Lab::default();
    cut_after_every_record(
        |builder| builder.resource(lab.clone()),
        async |runtime| {
            let _ = runtime.thread("t").unwrap().invoke(tables(40)).await.unwrap();
            lab.ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let (kept, _) = recorded(&runtime).await;
            let outcome = if cut == 0 { thread.invoke(tables(40)).await } else { thread.resume(tables).await };
            assert_eq!(outcome.unwrap().completed(), Some(1560));
            assert_eq!(lab.ledger.total() + kept.values().sum::<u32>(), 2);
            lab.ledger.clear();
        },
    );
}

#[task(blocking)]
fn crunch(n: u32) -> String {
    let key = durably::idempotency_key().expect("a blocking body stands in a task too");
    durably::resource::<Lab>().ledger.note(format!("crunch n={n}"));
    format!("crunch{n}, attempt {}, {key}", durably::attempt())
}

#[entrypoint]
async fn on_the_pool() -> Vec<String> {
    let spawned = join_all((0..4).map(|n| work(n).spawn()));
    let blocking = join_all((0..3).map(crunch));
    let detached = work(8).detached();
    let (mut log, more, last) = join!(spawned, blocking, detached);
    log.extend(more);
    log.push(last);
    log
}

#[test]
fn bodies_on_the_pool_give_their_values_to_their_calls() {
    check(on_the_pool, on_the_pool, Same::Exactly);
}

/// Counts how often a call is polled.
struct Counted<F>(F, Arc<AtomicUsize>);

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll(cx)
    }
}

#[entrypoint]
async fn wide(calls: u32) -> usize {
    let polls = durably::resource::<Arc<AtomicUsize>>();
    join_all((0..calls).map(|n| Counted(work(n), (*polls).clone()))).await.len()
}

#[test]
fn a_live_fan_out_of_ten_thousand_polls_each_call_a_few_times() {
    let polls = Arc::new(AtomicUsize::new(0));
    let lab = Lab::default();
    let commits = tests::commits_of(
        |builder| builder.resource(polls.clone()).resource(lab.clone()),
        async |runtime| {
            let outcome = runtime.thread("t").unwrap().invoke(wide(10_000)).await.unwrap();
            assert_eq!(outcome.completed(), Some(10_000));
        },
    );
    // Each body pends up to eight times; then there is the poll that hands its outcome on.
    let live = polls.swap(0, Ordering::Relaxed);
    assert!(live <= 10_000 * 10, "{live} polls");
    assert_eq!(lab.ledger.total(), 10_000);
    let store = durably::checkpoint::MemoryCheckpointer::replay(&commits[..commits.len() - 1]).reopen();
    let runtime = Runtime::builder().resource(polls.clone()).resource(lab.clone()).checkpointer(store);
    let outcome = block_on(async { runtime.thread("t").unwrap().resume(wide).await.unwrap() });
    assert_eq!(outcome.completed(), Some(10_000));
    let replay = polls.load(Ordering::Relaxed);
    assert!(replay <= 10_000 * 2, "{replay} polls");
    assert_eq!(lab.ledger.total(), 10_000);
}
