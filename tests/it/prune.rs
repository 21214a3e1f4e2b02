//! Old runs and whole threads that go: what must stay, what must not, and what happens meanwhile.
//!
//! | line | test |
//! | --- | --- |
//! | 99 | `deleting_a_thread_leaves_the_others` |
//! | 100 | `the_newest_runs_are_kept_and_what_is_saved`, `a_run_that_has_not_ended_keeps_what_it_sees` |
//! | F28 | `a_deleted_thread_leaves_nothing_whatever_happens_meanwhile`, `a_prune_that_races_with_runs_takes_nothing_that_is_needed` |

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use durably::{
    CheckpointError, CheckpointId, Keep, Outcome, RunError, Status, Thread, ThreadId,
    checkpoint::{BoxFuture, Checkpointer, Key, Lease, Rows, ThreadQuery},
    entrypoint, interrupt, task,
    testing::Delegate,
};
use tests::{Chance, HandClock, cut_after_every_record, on_every_checkpointer, pends, size};

#[task]
async fn work(n: u64) -> u64 {
    pends(usize::try_from(n % 3).unwrap()).await;
    n
}

#[entrypoint]
async fn add(n: u64, #[previous] sum: Option<u64>) -> u64 {
    let sum = sum.unwrap_or(0) + work(n).await;
    if n == 1000 { interrupt("go on?", &sum).await } else { sum }
}

/// Saves what takes several rows.
#[entrypoint]
async fn grow(n: u64, #[previous] before: Option<Vec<u64>>) -> Vec<u64> {
    let mut all = before.unwrap_or_default();
    all.extend(std::iter::repeat_n(u64::MAX - n, 1000));
    if n == 1000 { interrupt::<Vec<u64>>("go on?", &n).await } else { all }
}

async fn ids(thread: &Thread) -> Vec<String> {
    thread.history().await.unwrap().iter().map(|at| at.id.to_string()).collect()
}

fn id(text: &str) -> CheckpointId {
    text.parse().unwrap()
}

#[test]
fn the_newest_runs_are_kept_and_what_is_saved() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        for n in 1..=5 {
            thread.invoke(add(n)).await.unwrap().completed().unwrap();
        }
        assert_eq!(thread.prune(Keep::runs(7)).await.unwrap().runs, 0);
        assert_eq!(thread.prune(Keep::runs(2)).await.unwrap().runs, 3);
        assert_eq!(ids(&thread).await, ["5.2", "5.1", "5.0", "4.2", "4.1", "4.0"]);
        assert_eq!(thread.history().await.unwrap()[5].parent, None);
        assert_eq!(thread.prune(Keep::runs(2)).await.unwrap().runs, 0);
        let pruned = |error: RunError, at: &str| match error {
            RunError::Pruned { checkpoint, .. } => assert_eq!(checkpoint, id(at)),
            other => panic!("{other:?}"),
        };
        pruned(thread.state_at(id("3.1")).await.unwrap_err(), "3.1");
        pruned(thread.fork(id("3.1")).await.unwrap_err(), "3.1");
        // Run 5 still has its `previous`; that of run 4 is gone, and it cannot be run again.
        assert_eq!(thread.fork(id("5.0")).await.unwrap().resume(add).await.unwrap(), Outcome::Completed(15));
        pruned(thread.fork(id("4.1")).await.unwrap_err(), "3.2");
        pruned(thread.fork(id("4.1")).to("other").await.unwrap_err(), "3.2");
        pruned(thread.state_at(id("4.1")).await.unwrap().saved().unwrap_err(), "3.2");
        assert_eq!(thread.resume(add).await.unwrap(), Outcome::Completed(15));
        assert_eq!(thread.prune(Keep::runs(0)).await.unwrap().runs, 2, "one is always kept");
        assert_eq!(thread.resume(add).await.unwrap(), Outcome::Completed(15));
        assert_eq!(thread.invoke(add(5)).await.unwrap(), Outcome::Completed(20));
    });
}

#[test]
fn a_run_that_has_not_ended_keeps_what_it_sees() {
    on_every_checkpointer(async |world| {
        {
            let runtime = world.runtime();
            let thread = runtime.thread("t").unwrap();
            for n in 1..=4 {
                thread.invoke(grow(n)).await.unwrap().completed().unwrap();
            }
            assert_eq!(thread.invoke(grow(1000)).await.unwrap().questions().len(), 1);
            assert_eq!(thread.prune(Keep::runs(1)).await.unwrap().runs, 4);
            let size = thread.size().await.unwrap();
            assert!(size.kept.rows > 1 && size.runs.len() == 1, "{size:?}");
            assert_eq!(ids(&thread).await, ["5.1", "5.0"], "what is kept of a pruned run is no checkpoint");
            assert_eq!(thread.runs().await.unwrap().len(), 1);
            assert!(matches!(thread.state_at(id("4.1")).await, Err(RunError::Pruned { .. })));
        }
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.resume(grow).await.unwrap().questions().len(), 1, "it is replayed with what it saw");
        let saved = thread.state().await.unwrap().unwrap().saved().unwrap().unwrap();
        assert_eq!(saved.decode::<Vec<u64>>().unwrap().len(), 4000);
        thread.fork(id("5.0")).to("other").await.unwrap();
        // Given up, its predecessor's value is still the thread's.
        thread.discard().await.unwrap();
        assert_eq!(thread.invoke(grow(5)).await.unwrap().completed().unwrap().len(), 5000);
        // From here on it is not needed, and goes.
        assert_eq!(thread.prune(Keep::runs(1)).await.unwrap().runs, 1);
        assert_eq!(thread.size().await.unwrap().kept.rows, 0);
        let other = runtime.thread("other").unwrap();
        assert_eq!(other.resume(grow).await.unwrap().questions().len(), 1);
        other.answer("go on?", vec![1_u64]).await.unwrap();
        assert_eq!(other.resume(grow).await.unwrap(), Outcome::Completed(vec![1]));
    });
}

#[test]
fn a_crash_between_any_two_commits_leaves_a_thread_that_goes_on() {
    let sums = [0_u64, 1, 3, 6, 10];
    cut_after_every_record(
        |builder| builder,
        async |runtime| {
            let thread = runtime.thread("t").unwrap();
            for n in 1..=3 {
                thread.invoke(add(n)).await.unwrap().completed().unwrap();
            }
            thread.prune(Keep::runs(1)).await.unwrap();
            thread.update(add, 6).await.unwrap();
            thread.fork(id("4.0")).await.unwrap();
            thread.stage(add(4)).await.unwrap();
            thread.resume(add).await.unwrap().completed().unwrap();
            thread.fork(id("6.1")).to("other").await.unwrap().resume(add).await.unwrap().completed().unwrap();
            runtime.copy_thread("other", "copy").await.unwrap();
            thread.prune(Keep::runs(1)).await.unwrap();
            runtime.thread("copy").unwrap().discard().await.unwrap();
        },
        async |runtime, cut| {
            for thread in ["t", "other", "copy"].map(|name| runtime.thread(name).unwrap()) {
                let Some(state) = thread.state().await.unwrap() else { continue };
                assert_eq!(thread.history().limit(1).await.unwrap()[0].id, state.checkpoint);
                for at in thread.history().await.unwrap() {
                    thread.state_at(at.id).await.unwrap();
                }
                let saved = thread.resume(add).await.unwrap().completed().unwrap();
                assert!(sums.contains(&saved), "after {cut} commits {} has {saved}", thread.id());
                assert_eq!(thread.invoke(add(2)).await.unwrap(), Outcome::Completed(saved + 2));
            }
        },
    );
}

#[test]
fn runs_are_kept_by_their_age() {
    on_every_checkpointer(async |world| {
        let clock = HandClock::at(Duration::ZERO);
        let runtime = world.open(|builder| builder.clock(clock.clone()));
        for name in ["t", "u"] {
            for n in 0..6 {
                clock.set(Duration::from_secs(n * 10));
                runtime.thread(name).unwrap().invoke(add(n)).await.unwrap().completed().unwrap();
            }
        }
        let thread = runtime.thread("t").unwrap();
        let keep = |seconds| Keep::younger_than(Duration::from_secs(seconds));
        assert_eq!(thread.prune(keep(41)).await.unwrap().runs, 1);
        assert_eq!(thread.prune(keep(20).or_runs(4)).await.unwrap().runs, 1);
        assert_eq!(thread.prune(keep(20)).await.unwrap().runs, 2);
        clock.set(Duration::from_secs(1_000_000));
        assert_eq!(thread.prune(keep(20)).await.unwrap().runs, 1, "the newest is always kept");
        assert_eq!(runtime.prune(Keep::runs(2).or_younger_than(Duration::ZERO)).await.unwrap().runs, 4);
        assert_eq!(ids(&runtime.thread("u").unwrap()).await.len(), 6);
    });
}

#[test]
fn a_retention_prunes_when_runs_end() {
    on_every_checkpointer(async |world| {
        {
            let runtime = world.open(|builder| builder.retention(Keep::runs(3)));
            let thread = runtime.thread("t").unwrap();
            for n in 1..=20 {
                thread.invoke(add(n)).await.unwrap().completed().unwrap();
            }
            runtime.close().await.unwrap();
        }
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.runs().await.unwrap().len(), 3);
        assert_eq!(thread.invoke(add(1)).await.unwrap(), Outcome::Completed(211));
    });
}

#[test]
fn deleting_a_thread_leaves_the_others() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        for name in ["a", "a\0", "ab", "b"] {
            runtime.thread(name).unwrap().invoke(add(1)).await.unwrap().completed().unwrap();
        }
        assert!(runtime.delete_thread("a").await.unwrap());
        assert!(!runtime.delete_thread("a").await.unwrap());
        assert_eq!(runtime.threads().count().await.unwrap(), 3);
        for name in ["a\0", "ab", "b"] {
            assert_eq!(runtime.thread(name).unwrap().resume(add).await.unwrap(), Outcome::Completed(1), "{name:?}");
        }
        let again = runtime.thread("a").unwrap();
        assert!(again.state().await.unwrap().is_none());
        assert_eq!(again.invoke(add(5)).await.unwrap(), Outcome::Completed(5));
        assert_eq!(ids(&again).await, ["1.2", "1.1", "1.0"], "it begins anew");
    });
}

/// A store whose reads and leases take a while, so that what goes on at once comes in between.
#[derive(Debug)]
struct Slow(Arc<dyn Checkpointer>, Mutex<Chance>);

impl Slow {
    fn new(inner: Arc<dyn Checkpointer>, seed: u64) -> Arc<Self> {
        Arc::new(Self(inner, Mutex::new(Chance::new(seed))))
    }

    fn after_a_while<'a, T: 'a>(&self, verb: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        let turns = self.1.lock().unwrap().below(4);
        Box::pin(async move {
            pends(turns).await;
            verb.await
        })
    }
}

impl Delegate for Slow {
    fn inner(&self) -> &dyn Checkpointer {
        &*self.0
    }

    fn acquire(&self, thread: &ThreadId) -> BoxFuture<'_, Result<Lease, CheckpointError>> {
        self.after_a_while(self.0.acquire(thread))
    }

    fn released(&self, thread: &ThreadId) -> BoxFuture<'_, ()> {
        self.after_a_while(self.0.released(thread))
    }

    fn get(&self, thread: &ThreadId, key: Key) -> BoxFuture<'_, Result<Option<Vec<u8>>, CheckpointError>> {
        // What is read is what is there after the while.
        let thread = thread.clone();
        self.after_a_while(Box::pin(async move { self.0.get(&thread, key).await }))
    }

    fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> BoxFuture<'_, Result<Rows, CheckpointError>> {
        let thread = thread.clone();
        self.after_a_while(Box::pin(async move { self.0.scan(&thread, first, last).await }))
    }

    fn delete_thread(&self, thread: &ThreadId) -> BoxFuture<'_, Result<bool, CheckpointError>> {
        let thread = thread.clone();
        self.after_a_while(Box::pin(async move { self.0.delete_thread(&thread).await }))
    }
}

/// Nothing of the thread is in the store.
async fn check_gone(checkpointer: &Arc<dyn Checkpointer>, name: &str) {
    let id = ThreadId::new(name).unwrap();
    let rows = checkpointer.scan(&id, Key::FIRST, Key::LAST).await.unwrap();
    assert!(rows.is_empty(), "{} rows are left of {name}", rows.len());
    let page = checkpointer.threads(ThreadQuery { limit: 100_000, ..ThreadQuery::default() }).await.unwrap();
    for listed in page.threads {
        assert_ne!(listed.thread, id, "it is listed");
        for (key, row) in checkpointer.scan(&listed.thread, Key::FIRST, Key::LAST).await.unwrap() {
            let holds = row.windows(name.len()).any(|bytes| bytes == name.as_bytes());
            assert!(!holds, "{key:?} of {} has {name} in it", listed.thread);
        }
    }
}

#[test]
fn a_deleted_thread_leaves_nothing_whatever_happens_meanwhile() {
    on_every_checkpointer(async |world| {
        let seed = 28;
        let mut chance = Chance::new(seed);
        let mut deleted = 0;
        let rounds = size(60);
        for round in 0..rounds {
            let name = format!("doomed thread {round} of seed {seed}");
            let checkpointer = world.checkpointer();
            let slow = Slow::new(checkpointer.clone(), chance.number());
            let runtime = durably::Runtime::builder().shared_checkpointer(slow);
            let thread = runtime.thread(&name).unwrap();
            runtime.thread("bystander").unwrap().invoke(grow(1)).await.unwrap().completed().unwrap();
            thread.invoke(grow(2)).await.unwrap().completed().unwrap();
            assert_eq!(thread.invoke(grow(1000)).tag("a", "b").await.unwrap().questions().len(), 1);
            if chance.below(2) == 0 {
                thread.answer("go on?", vec![7_u64]).await.unwrap();
            }
            // At once: somebody resumes, somebody answers, somebody prunes, somebody deletes.
            let (waits, doomed) = ([(); 4].map(|()| chance.below(4)), name.clone());
            let resumes = async {
                pends(waits[0]).await;
                drop(thread.resume(grow).await);
            };
            let answers = async {
                pends(waits[1]).await;
                drop(thread.answer("go on?", vec![7_u64]).await);
            };
            let prunes = async {
                pends(waits[2]).await;
                drop(thread.prune(Keep::runs(1)).await);
            };
            let deletes = async {
                pends(waits[3]).await;
                runtime.delete_thread(&doomed).await
            };
            let ((), (), (), first) = futures::join!(resumes, answers, prunes, deletes);
            match first {
                Ok(true) => deleted += 1,
                Err(RunError::Busy { .. }) => assert!(runtime.delete_thread(&name).await.unwrap(), "round {round}"),
                other => panic!("round {round}: {other:?}"),
            }
            check_gone(&checkpointer, &name).await;
            let bystander = runtime.thread("bystander").unwrap();
            if round % 10 == 9 {
                bystander.prune(Keep::runs(1)).await.unwrap();
            }
            let expected = (round + 1) * 1000;
            assert_eq!(bystander.resume(grow).await.unwrap().completed().unwrap().len(), expected);
            drop((thread, bystander, runtime));
            drop(checkpointer);
            // Nor for another process.
            if round % 10 == 0 {
                check_gone(&world.checkpointer(), &name).await;
            }
        }
        println!("{deleted} of {rounds} were deleted at the first try");
    });
}

#[test]
fn a_prune_that_races_with_runs_takes_nothing_that_is_needed() {
    on_every_checkpointer(async |world| {
        let slow = Slow::new(world.checkpointer(), 30);
        let runtime = durably::Runtime::builder().shared_checkpointer(slow);
        let thread = runtime.thread("t").unwrap();
        let mut chance = Chance::new(29);
        let mut forks_made = 0;
        let mut sum = 0;
        for round in 0..u64::try_from(size(60)).unwrap() {
            let (n, waits) = (chance.number() % 7, [(); 3].map(|()| chance.below(6)));
            let keep = Keep::runs(u32::try_from(chance.below(3)).unwrap());
            let runs = async {
                pends(waits[0]).await;
                thread.invoke(add(n)).await
            };
            let prunes = async {
                pends(waits[1]).await;
                thread.prune(keep).await.unwrap();
            };
            let forks = async {
                pends(waits[2]).await;
                let runs = thread.runs().limit(2).await.unwrap();
                let Some(oldest) = runs.last() else { return };
                match thread.fork(oldest.newest).to(format!("fork {round}")).await {
                    Ok(forked) => drop(forked.resume(add).await.unwrap().completed().unwrap()),
                    Err(RunError::Pruned { .. } | RunError::UnknownCheckpoint { .. }) => {}
                    // It was made at a run that was under way.
                    Err(other) => panic!("round {round}: {other:?}"),
                }
            };
            let (outcome, (), ()) = futures::join!(runs, prunes, forks);
            sum += n;
            assert_eq!(outcome.unwrap(), Outcome::Completed(sum), "round {round}");
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!((state.status, state.saved().unwrap().unwrap().json()), (Status::Completed, sum.to_string()));
            // A fork of an earlier run on the same thread wants back what the prune is about to take.
            for _ in 0..3 {
                sum = thread.invoke(add(1)).await.unwrap().completed().unwrap();
            }
            let Some(oldest) = thread.runs().limit(2).await.unwrap().pop() else { continue };
            let begin: CheckpointId = format!("{}.0", oldest.run).parse().unwrap();
            let prunes = async {
                pends(waits[0]).await;
                thread.prune(Keep::runs(1)).await.unwrap();
            };
            let forks = async {
                pends(waits[1]).await;
                thread.fork(begin).await
            };
            match futures::join!(prunes, forks).1 {
                Ok(forked) => {
                    forks_made += 1;
                    sum = forked.resume(add).await.unwrap().completed().unwrap();
                }
                Err(RunError::Pruned { .. }) => {}
                Err(other) => panic!("round {round}: {other:?}"),
            }
        }
        println!("{forks_made} forks on the same thread");
        thread.prune(Keep::runs(1)).await.unwrap();
        assert_eq!((thread.size().await.unwrap().runs.len(), thread.runs().await.unwrap().len()), (1, 1));
    });
}
