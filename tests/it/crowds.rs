//! Many calls at once: at most so many, until the first error, the first of several, in branches of their own.

use std::{future::IntoFuture, sync::Arc};

use durably::{RunError, Runtime, bounded, branch, entrypoint, interrupt, resource, task};
use tests::{Ledger, World, block_on, in_every_mode};
use tokio::sync::{Notify, Semaphore, watch};

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

/// Counts the bodies that are alive, and lets each end when it may.
#[derive(Clone, Debug)]
struct Crowd {
    alive: Arc<watch::Sender<usize>>,
    most: Arc<watch::Sender<usize>>,
    may_end: Arc<Semaphore>,
}

impl Crowd {
    fn new(may_end: usize) -> Self {
        let (alive, most) = (Arc::new(watch::Sender::new(0)), Arc::new(watch::Sender::new(0)));
        Self { alive, most, may_end: Arc::new(Semaphore::new(may_end)) }
    }

    fn enter(&self) {
        self.alive.send_modify(|alive| *alive += 1);
        let alive = *self.alive.borrow();
        self.most.send_modify(|most| *most = alive.max(*most));
    }

    fn leave(&self) {
        self.alive.send_modify(|alive| *alive -= 1);
    }
}

fn open(world: &World, ledger: &Ledger, crowd: &Crowd) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).resource(crowd.clone()))
}

#[task]
async fn crowded(n: &u32) -> anyhow::Result<u32> {
    note(&format!("crowded {n}"));
    let crowd = resource::<Crowd>();
    crowd.enter();
    crowd.may_end.acquire().await?.forget();
    crowd.leave();
    anyhow::ensure!(*n < 100, "{n} is too many");
    Ok(n * 10)
}

#[entrypoint]
async fn three_at_a_time(numbers: Vec<u32>) -> anyhow::Result<Vec<u32>> {
    let all: Vec<anyhow::Result<u32>> = bounded(3, numbers.iter().map(|n| crowded(n))).await;
    let _: bool = interrupt("go?", &()).await;
    all.into_iter().collect()
}

#[test]
fn bounded_keeps_so_many_alive_and_gives_the_order_of_the_calls() {
    in_every_mode(async |world| {
        let (ledger, crowd) = (Ledger::default(), Crowd::new(0));
        {
            let thread = open(&world, &ledger, &crowd).thread("t").unwrap();
            let full = async {
                crowd.alive.subscribe().wait_for(|alive| *alive == 3).await.unwrap();
                assert_eq!(ledger.total(), 3, "a call is made when its turn comes");
                crowd.may_end.add_permits(10);
            };
            let (paused, ()) = tokio::join!(thread.invoke(three_at_a_time((0..10).collect())).into_future(), full);
            assert_eq!(paused.unwrap().questions().len(), 1);
            thread.answer("go?", true).await.unwrap();
        }
        assert_eq!(*crowd.most.borrow(), 3);
        let outcome = open(&world, &ledger, &crowd).thread("t").unwrap().resume(three_at_a_time).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), (0..10).map(|n| n * 10).collect::<Vec<_>>());
        assert_eq!(ledger.total(), 10);
    });
}

#[entrypoint]
async fn one_at_a_time(numbers: Vec<u32>) -> Vec<u32> {
    bounded(0, numbers.iter().map(|n| async move { crowded(n).await.unwrap_or_default() })).await
}

#[test]
fn bounded_by_nothing_is_bounded_by_one_and_no_calls_give_nothing() {
    in_every_mode(async |world| {
        let crowd = Crowd::new(3);
        let runtime = open(&world, &Ledger::default(), &crowd);
        let outcome = runtime.thread("t").unwrap().invoke(one_at_a_time(vec![1, 2, 3])).await.unwrap();
        assert_eq!((outcome.completed().unwrap(), *crowd.most.borrow()), (vec![10, 20, 30], 1));
        let outcome = runtime.thread("u").unwrap().invoke(one_at_a_time(vec![])).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), Vec::<u32>::new());
    });
}

#[entrypoint]
async fn until_error(numbers: Vec<u32>) -> anyhow::Result<Vec<u32>> {
    bounded(2, numbers.iter().map(|n| crowded(n))).until_error().await
}

#[test]
fn until_error_stops_at_the_first_and_makes_no_more_calls() {
    in_every_mode(async |world| {
        let (ledger, crowd) = (Ledger::default(), Crowd::new(100));
        let runtime = open(&world, &ledger, &crowd);
        let outcome = runtime.thread("good").unwrap().invoke(until_error(vec![1, 2, 3])).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), [10, 20, 30]);
        ledger.clear();
        let error = runtime.thread("bad").unwrap().invoke(until_error(vec![100, 1, 2, 3, 4])).await.unwrap_err();
        assert!(matches!(&error, RunError::Failed(failure) if failure.to_string() == "100 is too many"), "{error}");
        assert!(ledger.count("crowded 4") == 0 && ledger.count("crowded 3") == 0, "{:?}", ledger.all());
    });
}

#[task]
async fn ticket(of: u32) -> u32 {
    note("ticket");
    resource::<Tickets>().next.send_modify(|next| *next += 1);
    let next = *resource::<Tickets>().next.borrow();
    next * 100 + of
}

/// Numbers that differ each time, and who may have the first.
#[derive(Debug)]
struct Tickets {
    next: watch::Sender<u32>,
}

#[task]
async fn wait_for(turn: u32) {
    resource::<Tickets>().next.subscribe().wait_for(|next| *next >= turn).await.unwrap();
}

#[entrypoint]
async fn two_branches() -> (u32, u32) {
    let tickets = tokio::join!(
        branch("eu", async || {
            // Makes its call after the other one has made an equal one.
            wait_for(1).await;
            ticket(0).await
        }),
        branch("us", async || ticket(0).await),
    );
    let _: bool = interrupt("go?", &()).await;
    tickets
}

#[entrypoint]
async fn branches_of_one_name() -> Vec<u32> {
    let mut all = Vec::new();
    for of in 0..2 {
        all.push(branch("same", async || ticket(of).await).await);
        all.push(branch("same", async || ticket(of).await).await);
    }
    let _: bool = interrupt("go?", &()).await;
    all
}

fn with_tickets(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).resource(Tickets { next: watch::Sender::new(0) }))
}

#[test]
fn equal_calls_of_two_branches_keep_their_own_outcomes() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let runtime = with_tickets(&world, &ledger);
            for name in ["t", "u"] {
                let thread = runtime.thread(name).unwrap();
                if name == "t" {
                    let _ = thread.invoke(two_branches()).await.unwrap();
                } else {
                    let _ = thread.invoke(branches_of_one_name()).await.unwrap();
                }
                thread.answer("go?", true).await.unwrap();
            }
        }
        let runtime = with_tickets(&world, &ledger);
        let outcome = runtime.thread("t").unwrap().resume(two_branches).await.unwrap();
        assert_eq!(outcome.completed(), Some((200, 100)));
        let outcome = runtime.thread("u").unwrap().resume(branches_of_one_name).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), [300, 400, 501, 601]);
        assert_eq!(ledger.count("ticket"), 6);
    });
}

/// The loser's body waits for good until the winner is gone.
#[derive(Clone, Debug, Default)]
struct Race {
    loser_begun: Arc<Notify>,
}

#[task]
async fn loser() -> String {
    note("loser");
    resource::<Race>().loser_begun.notify_one();
    std::future::pending().await
}

#[task]
async fn winner() -> String {
    note("winner");
    resource::<Race>().loser_begun.notified().await;
    "winner".to_owned()
}

#[entrypoint]
async fn first_of_two() -> String {
    let first = durably::select! {
        text = loser() => text,
        text = winner() => text,
    };
    let _: bool = interrupt("go?", &()).await;
    first
}

#[test]
fn the_first_of_two_wins_on_replay_too_and_the_loser_is_not_run_again() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let open = || world.open(|builder| builder.resource(ledger.clone()).resource(Race::default()));
        {
            let thread = open().thread("t").unwrap();
            assert_eq!(thread.invoke(first_of_two()).await.unwrap().questions().len(), 1);
            thread.answer("go?", true).await.unwrap();
        }
        let outcome = open().thread("t").unwrap().resume(first_of_two).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "winner");
        assert_eq!((ledger.count("loser"), ledger.count("winner")), (1, 1));
    });
}

#[entrypoint]
async fn both_at_once() -> u32 {
    durably::select! {
        one = plain(1) => one,
        two = plain(2) => two,
    }
}

#[task]
async fn plain(n: u32) -> u32 {
    n
}

#[test]
fn the_earlier_branch_wins_where_both_are_ready() {
    block_on(async {
        let runtime = Runtime::builder().memory();
        for name in 0..50 {
            let outcome = runtime.thread(name.to_string()).unwrap().invoke(both_at_once()).await.unwrap();
            assert_eq!(outcome.completed(), Some(1));
        }
    });
}
