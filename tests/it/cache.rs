//! Values that equal calls share. Each test names its line in the list of behaviours.

use std::time::Duration;

use durably::{
    CachePolicy, CallStatus, Outcome, Runtime, Thread, branch, checkpoint::ThreadQuery, entrypoint, interrupt,
    resource, task,
};
use tests::{HandClock, Ledger, World, cut_after_every_record, in_every_mode, on_every_checkpointer};

use crate::watch::Watch;

/// The class under which shared values are listed; stored, so never to be changed.
const CLASS: u8 = 130;

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

fn open(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()))
}

/// The values in the store.
async fn kept(world: &World) -> usize {
    let query = ThreadQuery { class: Some(CLASS), limit: 1000, ..ThreadQuery::default() };
    world.checkpointer().threads(query).await.unwrap().threads.len()
}

async fn cached(thread: &Thread) -> Vec<bool> {
    thread.state().await.unwrap().unwrap().calls.iter().map(|call| call.cached).collect()
}

#[task(cache)]
async fn double(n: u32) -> u32 {
    note("double");
    n * 2
}

#[entrypoint]
async fn doubles(all: Vec<u32>) -> Vec<u32> {
    let mut doubled = Vec::new();
    for n in all {
        doubled.push(double(n).await);
    }
    doubled
}

/// Line 78.
#[test]
fn an_equal_call_is_given_the_value_in_its_run_on_another_thread_and_in_another_process() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()));
            let t = runtime.thread("t").unwrap();
            assert_eq!(t.invoke(doubles(vec![1, 1, 2])).await.unwrap(), Outcome::Completed(vec![2, 2, 4]));
            assert_eq!(cached(&t).await, [false, true, false]);
            let u = runtime.thread("u").unwrap();
            assert_eq!(u.invoke(doubles(vec![2, 3])).await.unwrap(), Outcome::Completed(vec![4, 6]));
            assert_eq!(cached(&u).await, [true, false]);
        }
        assert_eq!(ledger.count("double"), 3);
        let events = watch.take();
        assert_eq!(events.iter().filter(|line| *line == "cached double").count(), 2, "{events:?}");
        assert_eq!(events.iter().filter(|line| *line == "recorded double").count(), 5, "a hit is recorded too");
        let runtime = open(&world, &ledger);
        let v = runtime.thread("v").unwrap();
        assert_eq!(v.invoke(doubles(vec![3, 1, 5])).await.unwrap(), Outcome::Completed(vec![6, 2, 10]));
        assert_eq!(cached(&v).await, [true, true, false]);
        assert_eq!(ledger.count("double"), 4);
    });
}

#[task(cache(ttl = "1s"))]
async fn short_lived(n: u32) -> u32 {
    note("short-lived");
    n
}

#[entrypoint]
async fn uses_short_lived(n: u32) -> u32 {
    short_lived(n).await
}

/// Line 78: a value expires; and what has expired is removed from the store.
#[test]
fn a_value_expires_and_is_removed_then() {
    on_every_checkpointer(async |world| {
        let (ledger, clock) = (Ledger::default(), HandClock::default());
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).clock(clock.clone()));
            let run = async |thread: &str| {
                let outcome = runtime.thread(thread).unwrap().invoke(uses_short_lived(7)).await.unwrap();
                assert_eq!(outcome, Outcome::Completed(7));
                ledger.count("short-lived")
            };
            assert_eq!(run("a").await, 1);
            clock.forward(Duration::from_millis(999));
            assert_eq!((run("b").await, runtime.purge_cache().await.unwrap()), (1, 0));
            clock.forward(Duration::from_millis(1));
            assert_eq!(run("c").await, 2, "it has expired, and its place is taken");
            clock.forward(Duration::from_secs(1));
            assert!(runtime.run_due().await.unwrap().is_empty());
            assert_eq!(runtime.purge_cache().await.unwrap(), 0, "it was removed by the way");
        }
        assert_eq!(kept(&world).await, 0);
    });
}

#[task(cache)]
async fn unlucky(n: u32) -> anyhow::Result<u32> {
    note("unlucky");
    anyhow::ensure!(resource::<Ledger>().count("unlucky") > 2, "no luck");
    Ok(n)
}

#[entrypoint]
async fn tries_its_luck() -> bool {
    unlucky(1).await.is_ok()
}

/// Line 78.
#[test]
fn an_error_is_not_shared() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger);
        let mut lucky = Vec::new();
        for n in 1..=4 {
            let thread = runtime.thread(n.to_string()).unwrap();
            lucky.push(thread.invoke(tries_its_luck()).await.unwrap().completed().unwrap());
        }
        assert_eq!((lucky, ledger.count("unlucky")), (vec![false, false, true, true], 3));
    });
}

#[entrypoint]
async fn doubles_and_asks() -> Vec<String> {
    let mut all = Vec::new();
    for n in 1..=3 {
        all.push(double(n).await.to_string());
        all.push(double(n).await.to_string());
        all.push(interrupt("next?", &n).await);
    }
    all
}

/// Line 47: and a replay never looks at what is shared.
#[test]
fn a_loop_of_pairs_and_questions_makes_each_value_once_for_all_threads() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let run = async |thread: &str| {
            for answer in ["a", "b", "c"] {
                let thread = open(&world, &ledger).thread(thread).unwrap();
                let paused = match thread.state().await.unwrap() {
                    None => thread.invoke(doubles_and_asks()).await.unwrap(),
                    Some(_) => thread.resume(doubles_and_asks).await.unwrap(),
                };
                assert_eq!(paused.questions().len(), 1);
                thread.answer("next?", answer).await.unwrap();
            }
            let outcome = open(&world, &ledger).thread(thread).unwrap().resume(doubles_and_asks).await.unwrap();
            assert_eq!(outcome.completed().unwrap(), ["2", "2", "a", "4", "4", "b", "6", "6", "c"]);
        };
        run("first").await;
        assert_eq!(ledger.count("double"), 3);
        run("second").await;
        assert_eq!(ledger.count("double"), 3);
        assert_eq!(open(&world, &ledger).clear_cache(Some("another")).await.unwrap(), 0);
        assert_eq!(open(&world, &ledger).clear_cache(Some("double")).await.unwrap(), 3);
        run("third").await;
        assert_eq!(ledger.count("double"), 6);
        assert_eq!(open(&world, &ledger).clear_cache(None).await.unwrap(), 3);
        assert_eq!(kept(&world).await, 0);
    });
}

#[entrypoint]
async fn doubles_then_asks(n: u32) -> (u32, bool) {
    (double(n).await, interrupt("well?", &()).await)
}

/// What was recorded counts, whatever became of the shared value.
#[test]
fn a_replay_answers_from_the_journal_when_the_value_is_cleared() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger);
        let (t, u) = (runtime.thread("t").unwrap(), runtime.thread("u").unwrap());
        for thread in [&t, &u] {
            let _ = thread.invoke(doubles_then_asks(4)).await.unwrap();
            thread.answer("well?", true).await.unwrap();
        }
        assert_eq!(runtime.clear_cache(None).await.unwrap(), 1);
        for thread in [&t, &u] {
            assert_eq!(thread.resume(doubles_then_asks).await.unwrap(), Outcome::Completed((8, true)));
        }
        assert_eq!((cached(&t).await, cached(&u).await), (vec![false, false], vec![true, false]));
        assert_eq!(ledger.count("double"), 1);
    });
}

#[task(cache)]
async fn asks_itself() -> bool {
    note("asks itself");
    interrupt("q", &()).await
}

#[task(cache)]
async fn asks_in_a_branch() -> bool {
    note("asks in a branch");
    branch("b", async || interrupt("q", &()).await).await
}

#[task]
async fn inner() -> bool {
    interrupt("q", &()).await
}

#[task(cache)]
async fn asks_beneath() -> bool {
    note("asks beneath");
    inner().await
}

/// Its inner task has ended and is recorded when it asks again, so that its body runs once more without that question.
#[task(cache)]
async fn asks_and_stops() -> bool {
    note("asks and stops");
    let answer = branch("b", async || inner().await).await;
    // A store that takes nothing more after this stops the run here: the next process finds the inner task recorded.
    double(1).await;
    answer
}

#[entrypoint]
async fn nested_question() -> bool {
    branch("c", async || interrupt("q", &()).await).await
}

#[task(cache)]
async fn asks_in_a_nested_entrypoint() -> bool {
    note("asks nested");
    nested_question().await
}

#[entrypoint]
async fn one_that_asks(which: u32) -> bool {
    match which {
        0 => asks_itself().await,
        1 => asks_in_a_branch().await,
        2 => asks_beneath().await,
        3 => asks_and_stops().await,
        _ => asks_in_a_nested_entrypoint().await,
    }
}

/// Line 79, with a crash after every record.
#[test]
fn a_value_whose_body_asked_a_question_is_not_shared() {
    let ledger = Ledger::default();
    for which in 0..5 {
        cut_after_every_record(
            |builder| builder.resource(ledger.clone()),
            async |runtime| {
                let thread = runtime.thread("t").unwrap();
                let _ = thread.invoke(one_that_asks(which)).await.unwrap();
                thread.answer("q", true).await.unwrap();
                assert_eq!(thread.resume(one_that_asks).await.unwrap(), Outcome::Completed(true));
            },
            async |runtime, _| {
                // Another answer on another thread: it must be its own.
                for (thread, answer) in [("t", true), ("u", false)] {
                    let thread = runtime.thread(thread).unwrap();
                    let mut outcome = match thread.state().await.unwrap() {
                        None => thread.invoke(one_that_asks(which)).await.unwrap(),
                        Some(_) => thread.resume(one_that_asks).await.unwrap(),
                    };
                    if outcome.questions().len() == 1 {
                        thread.answer("q", answer).await.unwrap();
                        outcome = thread.resume(one_that_asks).await.unwrap();
                    }
                    assert_eq!(outcome, Outcome::Completed(answer), "{which}");
                }
            },
        );
    }
}

/// A crash anywhere leaves each value right, and each body run at most once more than without it.
#[test]
fn shared_values_are_right_after_a_crash_at_any_record() {
    let ledger = Ledger::default();
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()),
        async |runtime| {
            let outcome = runtime.thread("t").unwrap().invoke(doubles(vec![1, 2, 1])).await.unwrap();
            assert_eq!(outcome, Outcome::Completed(vec![2, 4, 2]));
            ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let outcome =
                if cut == 0 { thread.invoke(doubles(vec![1, 2, 1])).await } else { thread.resume(doubles).await };
            assert_eq!(outcome.unwrap(), Outcome::Completed(vec![2, 4, 2]));
            let outcome = runtime.thread("u").unwrap().invoke(doubles(vec![2, 1])).await.unwrap();
            assert_eq!(outcome, Outcome::Completed(vec![4, 2]));
            assert!(ledger.count("double") <= 2, "{:?}", ledger.all());
            ledger.clear();
        },
    );
}

#[task(name = "changed", cache(key = "k"))]
async fn before_the_change() -> String {
    note("before");
    "text".to_owned()
}

#[task(name = "changed", cache(key = "k"))]
async fn after_the_change() -> u32 {
    note("after");
    7
}

#[task(name = "changed", cache(key = "k", version = 2))]
async fn of_another_version() -> u32 {
    note("another version");
    8
}

#[entrypoint]
async fn old_type() -> String {
    before_the_change().await
}

#[entrypoint]
async fn new_type() -> u32 {
    after_the_change().await
}

#[entrypoint]
async fn new_version() -> u32 {
    of_another_version().await
}

/// A type that was changed is told to observers, and no error of the run.
#[test]
fn a_value_of_another_type_is_made_anew() {
    on_every_checkpointer(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        let runtime = world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()));
        let thread = |name: &str| runtime.thread(name).unwrap();
        assert_eq!(thread("a").invoke(old_type()).await.unwrap().completed().unwrap(), "text");
        watch.take();
        assert_eq!(thread("b").invoke(new_type()).await.unwrap(), Outcome::Completed(7));
        let events = watch.take();
        assert!(events.iter().any(|line| line.starts_with("cache failed changed")), "{events:?}");
        assert_eq!(thread("c").invoke(new_type()).await.unwrap(), Outcome::Completed(7));
        assert_eq!(thread("d").invoke(new_version()).await.unwrap(), Outcome::Completed(8));
        assert_eq!(["before", "after", "another version"].map(|name| ledger.count(name)), [1, 1, 1]);
    });
}

/// A damaged entry is as good as none.
#[test]
fn a_damaged_value_is_made_anew_and_told() {
    on_every_checkpointer(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let _ = open(&world, &ledger).thread("t").unwrap().invoke(doubles(vec![1])).await.unwrap();
        }
        {
            let checkpointer = world.checkpointer();
            let query = ThreadQuery { class: Some(CLASS), limit: 10, ..ThreadQuery::default() };
            let page = checkpointer.threads(query).await.unwrap();
            let [entry] = &page.threads[..] else { panic!("{page:?}") };
            let key = durably::checkpoint::Key::Aside { space: 3, id: 0, chunk: 0 };
            let mut row = checkpointer.get(&entry.thread, key).await.unwrap().expect("the value stands there");
            *row.last_mut().unwrap() ^= 1;
            let changes = vec![durably::checkpoint::Change::Put(key, row)];
            let commit = durably::checkpoint::Commit { thread: entry.thread.clone(), expect: Vec::new(), changes };
            checkpointer.commit(commit).await.unwrap();
        }
        let runtime = world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()));
        for (thread, body) in [("u", 2), ("v", 2)] {
            let outcome = runtime.thread(thread).unwrap().invoke(doubles(vec![1])).await.unwrap();
            assert_eq!((outcome, ledger.count("double")), (Outcome::Completed(vec![2]), body));
        }
        let told = watch.take().into_iter().filter(|line| line.starts_with("cache failed double")).count();
        assert_eq!(told, 1);
    });
}

struct Order {
    id: u32,
}

#[task(skip_all, cache(key = "order {order.id}"))]
async fn price(order: &Order, _hurry: bool) -> u32 {
    note("price");
    order.id * 100
}

#[task]
async fn plain(n: u32) -> u32 {
    note("plain");
    n
}

#[entrypoint]
async fn prices() -> (u32, u32, u32, u32) {
    let policy = CachePolicy::new().key("one of all");
    let first = price(&Order { id: 1 }, true).await + price(&Order { id: 1 }, false).await;
    let second = price(&Order { id: 2 }, true).await;
    (first, second, plain(1).cache(policy.clone()).await, plain(2).cache(policy).await)
}

#[test]
fn a_key_says_which_calls_are_equal_in_the_attribute_and_in_code() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let thread = open(&world, &ledger).thread("t").unwrap();
        let outcome = thread.invoke(prices()).await.unwrap();
        assert_eq!(outcome, Outcome::Completed((200, 200, 1, 1)));
        assert_eq!((ledger.count("price"), ledger.count("plain")), (2, 1));
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.calls[1].status, CallStatus::Value("100".to_owned()));
        assert_eq!((state.calls[1].cached, state.calls[1].attempts), (true, 0));
    });
}

/// Values take their place beside threads, and are none.
#[test]
fn shared_values_are_not_listed_as_threads() {
    on_every_checkpointer(async |world| {
        let runtime = open(&world, &Ledger::default());
        let _ = runtime.thread("t").unwrap().invoke(doubles(vec![1, 2, 3])).await.unwrap();
        let list = runtime.threads().await.unwrap();
        assert_eq!(runtime.threads().count().await.unwrap(), 1);
        assert_eq!((list.threads.len(), list.next.is_none()), (1, true));
    });
}
