//! How many bodies of a run are live at a time: never more than it is said, and never so few that the run stands still.
//!
//! The clock of these tests is stopped: a pause of it is over when nothing else can go on.

use std::{
    future::{Future, IntoFuture},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use durably::{Outcome, Runtime, RuntimeBuilder, bounded, entrypoint, interrupt, resource, task};
use futures::{
    StreamExt,
    future::{join_all, select},
    stream::FuturesUnordered,
};
use tests::{Chance, Ledger, cut_after_every_record, on_every_checkpointer, pends, size};

/// How many bodies are live, and how many were at most.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicU32, AtomicU32)>);

struct Member(Crowd);

impl Crowd {
    fn enter(&self) -> Member {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        Member(self.clone())
    }

    fn most(&self) -> u32 {
        self.0.1.load(Ordering::SeqCst)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn enter() -> Member {
    resource::<Crowd>().enter()
}

fn build(builder: RuntimeBuilder, crowd: &Crowd) -> RuntimeBuilder {
    builder.resource(crowd.clone())
}

async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), future.into_future()).await.expect("it ends")
}

fn count<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap()
}

#[task]
async fn work(n: u32) -> u32 {
    let _member = enter();
    tokio::time::sleep(Duration::from_millis(u64::from(n % 5))).await;
    n
}

#[task(blocking)]
fn block(n: u32) -> u32 {
    let _member = enter();
    std::thread::yield_now();
    n
}

#[entrypoint]
async fn works(n: u32, how: u32) -> Vec<u32> {
    match how {
        0 => join_all((0..n).map(work)).await,
        1 => join_all((0..n).map(|n| work(n).spawn())).await,
        2 => join_all((0..n).map(block)).await,
        3 => bounded(7, (0..n).map(work)).await,
        _ => {
            let mut all: Vec<_> = futures::stream::iter(0..n).map(work).buffer_unordered(5).collect().await;
            all.sort_unstable();
            all
        }
    }
}

/// However the calls are made, as many bodies are live as is said, and no more.
#[test]
fn at_most_so_many_bodies_are_live_and_all_calls_end() {
    on_every_checkpointer(async |world| {
        for how in 0..5 {
            for limit in [1, 3, 100] {
                let crowd = Crowd::default();
                let runtime = world.open(|builder| build(builder, &crowd));
                let thread = runtime.thread(format!("{how} {limit}")).unwrap();
                let outcome = in_time(thread.invoke(works(20, how)).max_concurrency(limit)).await.unwrap();
                assert_eq!(outcome, Outcome::Completed((0..20).collect()));
                assert!(crowd.most() <= limit, "{how}: {} of {limit}", crowd.most());
                assert!(limit == 1 || how == 2 || crowd.most() > 1, "{how}: they ran one by one");
            }
        }
    });
}

#[entrypoint(max_concurrency = 2)]
async fn works_in_twos(n: u32) -> Vec<u32> {
    join_all((0..n).map(work)).await
}

#[entrypoint]
async fn works_nested(n: u32) -> Vec<u32> {
    join_all((0..n).map(|_| works_in_twos(4))).await.concat()
}

/// The attribute's limit is the run's own; whoever starts the run may say another.
#[tokio::test(start_paused = true)]
async fn the_attribute_limits_its_own_runs_and_calls_of_nested_entrypoints_count_in_the_outer_run() {
    for (limit, most) in [(None, 2), (Some(4), 4)] {
        let crowd = Crowd::default();
        let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
        let mut invoke = thread.invoke(works_in_twos(9));
        if let Some(limit) = limit {
            invoke = invoke.max_concurrency(limit);
        }
        assert_eq!(in_time(invoke).await.unwrap().completed().unwrap().len(), 9);
        assert_eq!(crowd.most(), most);
    }
    for limit in 1..4 {
        let crowd = Crowd::default();
        let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
        let outcome = in_time(thread.invoke(works_nested(3)).max_concurrency(limit)).await.unwrap();
        assert_eq!((outcome.completed().unwrap().len(), crowd.most()), (12, limit));
    }
}

#[task]
async fn outer(n: u32) -> u32 {
    let _member = enter();
    let inner: Vec<u32> = join_all((0..n).map(inner)).await;
    inner_entrypoint(n).await + count(&inner)
}

#[task]
async fn inner(n: u32) -> u32 {
    pends(2).await;
    n
}

#[entrypoint]
async fn inner_entrypoint(n: u32) -> u32 {
    count(&join_all((0..n).map(inner)).await)
}

#[entrypoint]
async fn outers(n: u32) -> u32 {
    join_all((0..n).map(outer)).await.into_iter().sum()
}

/// What a body calls is covered by the body's own permit.
#[tokio::test(start_paused = true)]
async fn a_body_does_not_wait_for_a_permit_of_its_own_for_what_it_calls() {
    let crowd = Crowd::default();
    let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
    let outcome = in_time(thread.invoke(outers(5)).max_concurrency(1)).await.unwrap();
    assert_eq!((outcome, crowd.most()), (Outcome::Completed(20), 1));
}

#[task]
async fn asks(n: u32) -> u32 {
    let answer: u32 = interrupt(n.to_string(), &()).await;
    let _member = enter();
    pends(3).await;
    n + answer
}

#[entrypoint]
async fn asks_and_works(n: u32) -> u32 {
    let asked = join_all((0..n).map(asks));
    let worked = join_all((0..n).map(work));
    let (asked, worked) = futures::join!(asked, worked);
    asked.into_iter().chain(worked).sum()
}

/// With one permit all questions are open at once, and the work beside them is done.
#[test]
fn a_body_that_waits_for_an_answer_holds_no_permit() {
    on_every_checkpointer(async |world| {
        let crowd = Crowd::default();
        let runtime = world.open(|builder| build(builder, &crowd));
        let thread = runtime.thread("t").unwrap();
        let paused = in_time(thread.invoke(asks_and_works(4)).max_concurrency(1)).await.unwrap();
        assert_eq!(paused.questions().len(), 4);
        assert_eq!(thread.state().await.unwrap().unwrap().calls.len(), 8, "four questions and four works");
        for n in 0..4 {
            thread.answer(n.to_string().as_str(), 10_u32).await.unwrap();
        }
        let outcome = in_time(thread.resume(asks_and_works)).await.unwrap();
        assert_eq!((outcome, crowd.most()), (Outcome::Completed(52), 1), "the limit is kept with the run");
    });
}

/// Answers that come while other bodies are live: what asked goes on when it has a permit again.
#[tokio::test(start_paused = true)]
async fn a_body_that_was_answered_waits_for_a_permit_to_go_on() {
    for limit in 1..3 {
        let crowd = Crowd::default();
        let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
        let run = thread.invoke(asks_and_works(9)).max_concurrency(limit).start();
        while thread.state().await.unwrap().is_none_or(|state| state.questions.len() < 9) {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        for n in 0..9 {
            thread.answer(n.to_string().as_str(), 10_u32).await.unwrap();
        }
        let outcome = match in_time(run).await.unwrap() {
            Outcome::Interrupted(_) => in_time(thread.resume(asks_and_works)).await.unwrap(),
            outcome => outcome,
        };
        assert_eq!(outcome, Outcome::Completed(162));
        assert!(crowd.most() <= limit, "{} of {limit}", crowd.most());
    }
}

#[entrypoint]
async fn works_where_nobody_reads(n: u32) -> u32 {
    let mut all = 0;
    let mut unread: FuturesUnordered<_> = (0..n).map(work).collect();
    // Read once, so that as many bodies begin as may: then other calls are awaited while nobody reads these.
    let _ = select(unread.next(), std::future::ready(())).await;
    for n in 0..n {
        all += work(100 + n).await - 100;
        if let Some(one) = unread.next().await {
            all += one;
        }
    }
    all
}

/// Bodies in a stream that is not being read hold up nobody, and take a permit again to go on.
#[tokio::test(start_paused = true)]
async fn bodies_that_nobody_reads_hold_no_permits() {
    for limit in 1..4 {
        let crowd = Crowd::default();
        let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
        let outcome = in_time(thread.invoke(works_where_nobody_reads(6)).max_concurrency(limit)).await.unwrap();
        assert_eq!(outcome, Outcome::Completed(30));
    }
}

#[entrypoint]
async fn nested_works(n: u32) -> u32 {
    join_all((0..n).map(work)).await.into_iter().sum()
}

#[entrypoint]
async fn nested_where_nobody_reads(n: u32) -> u32 {
    let mut unread: FuturesUnordered<_> = (0..n).map(|_| nested_works(3)).collect();
    let _ = select(unread.next(), std::future::ready(())).await;
    let mut all = 0;
    for n in 0..n {
        all += work(100 + n).await - 100 + work(200 + n).await - 200;
    }
    while let Some(one) = unread.next().await {
        all += one;
    }
    all
}

/// Calls of nested entrypoints that nobody reads do not keep permits that others wait for.
#[tokio::test(start_paused = true)]
async fn calls_of_entrypoints_that_nobody_reads_let_others_pass() {
    for limit in 1..4 {
        let crowd = Crowd::default();
        let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
        let outcome = in_time(thread.invoke(nested_where_nobody_reads(4)).max_concurrency(limit)).await.unwrap();
        assert_eq!(outcome, Outcome::Completed(24));
    }
}

#[entrypoint]
async fn drops_those_that_wait(n: u32) -> u32 {
    let calls = join_all((0..n).map(work));
    let (won, ()) = match select(work(3), calls).await {
        futures::future::Either::Left((won, lost)) => (won, drop(lost)),
        futures::future::Either::Right((_, lost)) => (0, drop(lost)),
    };
    won + count(&join_all((10..10 + n).map(work)).await)
}

/// A call that is dropped while it waits for its turn takes no permit with it.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_its_turn_keeps_no_permit() {
    let crowd = Crowd::default();
    let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
    let outcome = in_time(thread.invoke(drops_those_that_wait(8)).max_concurrency(2)).await.unwrap();
    assert_eq!((outcome, crowd.most()), (Outcome::Completed(11), 2));
}

#[entrypoint]
async fn detaches(n: u32) -> u32 {
    for n in 0..n {
        let mut call = Box::pin(work(n).detached());
        // Asked to start, and left to itself.
        std::future::poll_fn(|cx| {
            let _ = call.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
    }
    n
}

/// Detached calls wait for their turn too, and the run for them.
#[tokio::test(start_paused = true)]
async fn detached_calls_take_their_turns() {
    let crowd = Crowd::default();
    let thread = build(Runtime::builder(), &crowd).memory().thread("t").unwrap();
    let outcome = in_time(thread.invoke(detaches(7)).max_concurrency(2)).await.unwrap();
    assert_eq!(outcome, Outcome::Completed(7));
    assert_eq!(thread.state().await.unwrap().unwrap().calls.len(), 7);
    assert!(crowd.most() <= 2, "{}", crowd.most());
}

/// A drain holds back those that wait for their turn, and lets the others end.
#[tokio::test(start_paused = true)]
async fn a_drain_holds_back_those_that_wait_for_their_turn() {
    let crowd = Crowd::default();
    let runtime = build(Runtime::builder(), &crowd).memory();
    let thread = runtime.thread("t").unwrap();
    let run = thread.invoke(works(10, 0)).max_concurrency(2).start();
    tokio::time::sleep(Duration::from_micros(100)).await;
    runtime.drain();
    assert_eq!(in_time(run).await.unwrap(), Outcome::Drained);
    let recorded = thread.state().await.unwrap().unwrap().calls.len();
    assert!((2..10).contains(&recorded), "{recorded}");
    runtime.undrain();
    let outcome = in_time(thread.resume(works)).await.unwrap();
    assert_eq!((outcome, crowd.most()), (Outcome::Completed((0..10).collect()), 2));
}

/// A crash anywhere: the run goes on under the same limit, and its outcome is the same.
#[test]
fn a_limited_run_goes_on_after_a_crash_at_any_record() {
    let (crowd, ledger) = (Crowd::default(), Ledger::default());
    let expected = Outcome::Completed((0..6).collect::<Vec<_>>());
    cut_after_every_record(
        |builder| build(builder, &crowd).resource(ledger.clone()),
        async |runtime| {
            let thread = runtime.thread("t").unwrap();
            assert_eq!(in_time(thread.invoke(works(6, 0)).max_concurrency(2)).await.unwrap(), expected);
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let outcome = match cut {
                0 => in_time(thread.invoke(works(6, 0)).max_concurrency(2)).await,
                _ => in_time(thread.resume(works)).await,
            };
            assert_eq!(outcome.unwrap(), expected);
        },
    );
    assert_eq!(crowd.most(), 2);
}

#[task]
async fn some(n: u32, pauses: u8, fails: bool) -> anyhow::Result<u32> {
    let _member = enter();
    pends(pauses.into()).await;
    if pauses % 3 == 1 {
        tokio::time::sleep(Duration::from_millis(pauses.into())).await;
    }
    anyhow::ensure!(!fails, "made to fail");
    Ok(n)
}

#[entrypoint]
async fn somehow(calls: Vec<(u32, u8, bool)>, window: usize) -> Vec<u32> {
    let mut all = Vec::new();
    let mut stream =
        futures::stream::iter(calls).map(|(n, pauses, fails)| some(n, pauses, fails)).buffer_unordered(window);
    while let Some(one) = stream.next().await {
        // While this is awaited nobody reads the stream.
        let one = one.unwrap_or(0);
        all.push(some(one + 1000, 1, false).await.unwrap_or(0));
    }
    drop(stream);
    all.sort_unstable();
    all
}

/// Random flows under every limit come to the same as without one, and so does their replay.
#[test]
fn a_limit_changes_no_outcome() {
    for seed in 0..size(60) as u64 {
        println!("seed {seed}");
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        tokio.block_on(async {
            let mut chance = Chance::new(seed);
            let calls: Vec<_> = (0..u32::try_from(1 + chance.below(9)).unwrap())
                .map(|n| (n, u8::try_from(chance.below(6)).unwrap(), chance.below(4) == 0))
                .collect();
            let window = 1 + chance.below(5);
            let mut expected = None;
            for limit in [100, 1, 2, 3] {
                let crowd = Crowd::default();
                let runtime = build(Runtime::builder(), &crowd).memory();
                let thread = runtime.thread("t").unwrap();
                let outcome = in_time(thread.invoke(somehow(calls.clone(), window)).max_concurrency(limit)).await;
                let outcome = outcome.unwrap().completed().unwrap();
                assert_eq!(expected.get_or_insert_with(|| outcome.clone()), &outcome);
            }
        });
    }
}
