//! What a thread takes in the store, and the lists of threads: by status, entrypoint, tag and age.
//!
//! | line | test |
//! | --- | --- |
//! | 99 | `a_fresh_thread_has_nothing_and_deleting_it_is_no_error`; the checkpointer's side is its conformance suite |
//! | 100 | `a_copy_has_everything_and_the_source_is_untouched` |
//! | 108 | `a_chat_of_200_turns_is_kept_once_and_small_once_pruned` |

use std::time::Duration;

use durably::{Final, Keep, Outcome, RunError, Runtime, Status, Thread, ThreadList, entrypoint, interrupt, task};
use tests::{HandClock, on_every_checkpointer, size};

#[task]
async fn reply(turn: usize) -> String {
    format!("{turn:01000}")
}

#[entrypoint]
async fn chat(message: String, #[previous] before: Option<Vec<String>>) -> Final<usize, Vec<String>> {
    let mut all = before.unwrap_or_default();
    let reply = reply(all.len()).await;
    all.push(reply + &message);
    Final { value: all.len(), save: all }
}

#[entrypoint]
async fn ask(n: u32, #[previous] before: Option<u32>) -> u32 {
    let more: u32 = interrupt("more?", &n).await;
    n + more + before.unwrap_or(0)
}

#[test]
fn a_chat_of_200_turns_is_kept_once_and_small_once_pruned() {
    on_every_checkpointer(async |world| {
        let thread = world.runtime().thread("chat").unwrap();
        for turn in 1..=200 {
            assert_eq!(thread.invoke(chat("a word".to_owned())).await.unwrap(), Outcome::Completed(turn));
        }
        let whole = thread.size().await.unwrap();
        println!("{} bytes in {} rows, {} pruned", whole.bytes(), whole.rows(), thread.runs().await.unwrap().len());
        assert_eq!(whole.runs.len(), 200);
        assert!(whole.bytes() <= 21 << 20, "{} bytes", whole.bytes());
        assert!(whole.runs[199].bytes < 300_000, "{:?}", whole.runs[199]);
        assert_eq!(thread.prune(Keep::runs(1)).await.unwrap().runs, 199);
        let left = thread.size().await.unwrap();
        assert!(left.bytes() < 300_000, "{} bytes", left.bytes());
        assert_eq!((left.runs.len(), left.kept.rows), (1, 0));
        assert_eq!(thread.invoke(chat("more".to_owned())).await.unwrap(), Outcome::Completed(201));
    });
}

#[test]
fn a_fresh_thread_has_nothing_and_deleting_it_is_no_error() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        assert!(thread.state().await.unwrap().is_none());
        assert_eq!((thread.size().await.unwrap().rows(), thread.prune(Keep::runs(1)).await.unwrap().runs), (0, 0));
        assert!(!runtime.delete_thread("t").await.unwrap());
        assert_eq!(runtime.stats().await.unwrap().threads(), 0);
        assert!(matches!(runtime.copy_thread("t", "u").await, Err(RunError::NothingToResume { .. })));
        assert!(matches!(runtime.delete_thread("").await, Err(RunError::ThreadId(_))));
    });
}

async fn shown(thread: &Thread) -> Vec<String> {
    let mut shown = Vec::new();
    for at in thread.history().limit(1000).await.unwrap() {
        shown.push(format!("{} {:?} {:?} {:?}", at.id, at.parent, at.at, at.what));
    }
    let state = thread.state().await.unwrap().unwrap();
    shown.push(format!("{:?} {:?} {:?} {:?}", state.status, state.tags, state.questions, state.saved()));
    shown
}

#[test]
fn a_copy_has_everything_and_the_source_is_untouched() {
    on_every_checkpointer(async |world| {
        {
            let runtime = world.runtime();
            let thread = runtime.thread("from").unwrap();
            for n in 1..=3 {
                assert_eq!(thread.invoke(ask(n)).tag("customer", "42").await.unwrap().questions().len(), 1);
                thread.answer("more?", 10_u32).await.unwrap();
                thread.resume(ask).await.unwrap().completed().unwrap();
            }
            thread.invoke(ask(4)).await.unwrap().completed();
            // An answer that is on its way goes too.
            thread.answer("more?", 1_u32).await.unwrap();
            let before = shown(&thread).await;
            let copy = runtime.copy_thread("from", "to").await.unwrap();
            assert_eq!(shown(&copy).await, before);
            assert_eq!(shown(&thread).await, before);
            assert_eq!(copy.size().await.unwrap().bytes(), thread.size().await.unwrap().bytes());
            match runtime.copy_thread("from", "to").await {
                Err(RunError::ThreadExists { thread }) => assert_eq!(thread.as_str(), "to"),
                other => panic!("{other:?}"),
            }
            assert_eq!(runtime.threads().tag("customer", "42").status(Status::Interrupted).count().await.unwrap(), 2);
        }
        let runtime = world.runtime();
        assert_eq!(runtime.thread("to").unwrap().resume(ask).await.unwrap(), Outcome::Completed(41));
        assert_eq!(runtime.thread("from").unwrap().state().await.unwrap().unwrap().status, Status::Interrupted);
        assert!(runtime.delete_thread("to").await.unwrap());
        assert_eq!(runtime.thread("from").unwrap().resume(ask).await.unwrap(), Outcome::Completed(41));
    });
}

#[entrypoint]
async fn doze(n: u64) {
    durably::sleep(Duration::from_secs(1000 * n)).await;
}

async fn names(list: durably::Threads) -> Vec<String> {
    list.await.unwrap().threads.into_iter().map(|thread| thread.thread.as_str().to_owned()).collect()
}

#[test]
fn threads_are_found_by_status_entrypoint_tag_and_age() {
    on_every_checkpointer(async |world| {
        let clock = HandClock::at(Duration::ZERO);
        let runtime = world.open(|builder| builder.clock(clock.clone()).park_after(Duration::ZERO));
        for n in 0..6_u32 {
            clock.set(Duration::from_secs(u64::from(n) * 10));
            let thread = runtime.thread(format!("t{n}")).unwrap();
            let invoked = thread.invoke(ask(n)).tag("even", (n % 2 == 0).to_string()).tag("n", n.to_string());
            assert_eq!(invoked.await.unwrap().questions().len(), 1);
        }
        for n in [2, 1] {
            let thread = runtime.thread(format!("sleeps {n}")).unwrap();
            assert!(matches!(thread.invoke(doze(n)).await.unwrap(), Outcome::Sleeping { .. }));
        }
        let threads = || runtime.threads();
        assert_eq!(names(threads().status(Status::Interrupted)).await, ["t0", "t1", "t2", "t3", "t4", "t5"]);
        assert_eq!(names(threads().status(Status::Sleeping)).await, ["sleeps 1", "sleeps 2"]);
        assert_eq!(names(threads().entrypoint("doze")).await, ["sleeps 1", "sleeps 2"]);
        assert_eq!(names(threads().tag("even", "true")).await, ["t0", "t2", "t4"]);
        assert_eq!(names(threads().tag("even", "true").limit(2)).await, ["t0", "t2"]);
        assert_eq!(names(threads().tag("even", "true").tag("n", "4")).await, ["t4"]);
        assert_eq!(names(threads().entrypoint("doze").tag("n", "4")).await, [""; 0]);
        let older = threads().status(Status::Interrupted).older_than(Duration::from_secs(29));
        assert_eq!(names(older).await, ["t0", "t1", "t2"]);
        assert_eq!(threads().older_than(Duration::from_secs(40)).count().await.unwrap(), 1);
        assert_eq!(threads().status(Status::Sleeping).older_than(Duration::from_secs(1)).count().await.unwrap(), 0);
        clock.set(Duration::from_secs(1000));
        assert_eq!(threads().status(Status::Sleeping).older_than(Duration::from_secs(1)).count().await.unwrap(), 2);
        assert_eq!(threads().count().await.unwrap(), 8);
        assert_eq!(threads().status(Status::Failed).count().await.unwrap(), 0);
        let stats = runtime.stats().await.unwrap();
        assert_eq!(stats.by_status.into_iter().collect::<Vec<_>>(), [(Status::Interrupted, 6), (Status::Sleeping, 2)]);
        // A tag of a later run replaces the one of the same key; the others stay.
        let thread = runtime.thread("t3").unwrap();
        thread.discard().await.unwrap();
        assert_eq!(thread.invoke(ask(3)).tag("even", "odd").await.unwrap().questions().len(), 1);
        let page: ThreadList = threads().tag("even", "odd").await.unwrap();
        assert_eq!(page.threads[0].tags.values().collect::<Vec<_>>(), ["odd", "3"]);
        assert_eq!((page.threads[0].run.get(), page.next), (2, None));
    });
}

#[test]
fn pages_by_any_question_give_every_thread_once() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let many = u32::try_from(size(30)).unwrap();
        for n in 0..many {
            let invoke = runtime.thread(format!("t{n}")).unwrap().invoke(ask(n)).tag("third", (n % 3).to_string());
            assert_eq!(invoke.await.unwrap().questions().len(), 1);
        }
        for limit in [1, 2, 7, 1000] {
            for third in ["0", "1", "2", "3"] {
                let (mut all, mut after) = (Vec::new(), None);
                loop {
                    let page = runtime.threads().tag("third", third).limit(limit).after(after).await.unwrap();
                    assert!(page.threads.len() <= limit);
                    all.extend(page.threads.into_iter().map(|thread| thread.thread.as_str().to_owned()));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                all.sort();
                let wanted = (0..many).filter(|n| (n % 3).to_string() == third).map(|n| format!("t{n}"));
                let mut wanted: Vec<String> = wanted.collect();
                wanted.sort();
                assert_eq!(all, wanted, "{limit} at a time");
            }
        }
    });
}

#[test]
fn a_tag_that_does_not_fit_is_a_typed_error_and_nothing_is_written() {
    let runtime = Runtime::builder().memory();
    tests::block_on(async {
        let thread = runtime.thread("t").unwrap();
        let long = thread.invoke(ask(1)).tag("k", "v".repeat(120)).await;
        assert!(matches!(&long, Err(RunError::Tag { detail }) if detail.contains("120")), "{long:?}");
        let mut many = thread.invoke(ask(1));
        for n in 0..9 {
            many = many.tag(n.to_string(), "");
        }
        let many = many.await;
        assert!(matches!(&many, Err(RunError::Tag { detail }) if detail.contains('9')), "{many:?}");
        assert!(thread.state().await.unwrap().is_none());
        // The most that a thread may have fit into its head.
        let mut most = thread.invoke(ask(1));
        for n in 0..8_u8 {
            most = most.tag(n.to_string(), "\u{fffd}".repeat(39));
        }
        assert_eq!(most.await.unwrap().questions().len(), 1);
        assert_eq!(thread.state().await.unwrap().unwrap().tags.len(), 8);
    });
}
