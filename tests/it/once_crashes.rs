//! A crash at each point around an external effect, with each sort of receiver (F25): the effect never happens twice.

use std::sync::{Arc, Mutex, PoisonError};

use durably::{
    Outcome, Reconciled, Runtime, Settlement, entrypoint, idempotency_key, resource, task,
    testing::{Ledger as Explored, explore},
};
use tests::{World, in_every_mode, size};
use tokio::sync::Notify;

/// Where the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// Before the task begins.
    Before,
    /// It has begun, and has sent nothing.
    Begun,
    /// It has sent the request, which got lost.
    Sent,
    /// The receiver has done it, and the reply got lost.
    Received,
    /// The reply is there, and is not on record.
    Replied,
    /// The outcome is on record.
    Recorded,
}

const POINTS: [Point; 6] = [Point::Before, Point::Begun, Point::Sent, Point::Received, Point::Replied, Point::Recorded];

/// Who receives the requests, over all processes.
#[derive(Debug, Default)]
struct Receiver {
    /// The keys of what was done.
    done: Mutex<Vec<String>>,
    /// How many requests came.
    requests: Mutex<u32>,
    dies: Mutex<Option<Point>>,
    here: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    async fn at(&self, point: Point) {
        if *lock(&self.dies) == Some(point) {
            self.here.notify_one();
            std::future::pending::<()>().await;
        }
    }

    fn receive(&self, key: &str, is_idempotent: bool) {
        *lock(&self.requests) += 1;
        let mut done = lock(&self.done);
        if !is_idempotent || done.iter().all(|known| known != key) {
            done.push(key.to_owned());
        }
    }
}

fn key() -> String {
    idempotency_key().expect("in a task")
}

async fn effect(is_idempotent: bool) -> u32 {
    let receiver = resource::<Arc<Receiver>>();
    receiver.at(Point::Begun).await;
    // A request that gets lost on its way.
    receiver.at(Point::Sent).await;
    receiver.receive(&key(), is_idempotent);
    receiver.at(Point::Received).await;
    receiver.at(Point::Replied).await;
    7
}

async fn look() -> Reconciled<u32> {
    let key = key();
    match lock(&resource::<Arc<Receiver>>().done).contains(&key) {
        true => Reconciled::Happened(7),
        false => Reconciled::DidNot,
    }
}

async fn send_again() -> Reconciled<u32> {
    Reconciled::DidNot
}

#[task(at_most_once, reconcile = look)]
async fn queryable() -> u32 {
    effect(false).await
}

#[task(at_most_once, reconcile = send_again)]
async fn idempotent() -> u32 {
    effect(true).await
}

#[task(at_most_once)]
async fn neither() -> u32 {
    effect(false).await
}

#[task]
async fn pass(point: bool) {
    let point = if point { Point::Recorded } else { Point::Before };
    resource::<Arc<Receiver>>().at(point).await;
}

#[entrypoint]
async fn sends(kind: String) -> u32 {
    pass(false).await;
    let sent = match kind.as_str() {
        "queryable" => queryable().await,
        "idempotent" => idempotent().await,
        _ => neither().await,
    };
    pass(true).await;
    sent
}

async fn cell(world: &World, name: &str, kind: &str, point: Point) {
    let receiver = Arc::new(Receiver { dies: Mutex::new(Some(point)), ..Receiver::default() });
    let open = || -> Runtime { world.open(|builder| builder.resource(receiver.clone())) };
    {
        let thread = open().thread(name).unwrap();
        tokio::select! {
            outcome = thread.invoke(sends(kind.to_owned())) => panic!("{outcome:?}"),
            () = receiver.here.notified() => {}
        }
    }
    *lock(&receiver.dies) = None;
    let thread = open().thread(name).unwrap();
    let mut outcome = thread.resume(sends).await.unwrap();
    let begun = !matches!(point, Point::Before | Point::Recorded);
    assert_eq!(!outcome.doubts().is_empty(), begun && kind == "neither", "{kind}, {point:?}: {outcome:?}");
    if let [doubt] = outcome.doubts() {
        let happened = !lock(&receiver.done).is_empty();
        let settlement = if happened { Settlement::happened(7) } else { Settlement::did_not() };
        thread.settle(doubt.call, settlement).by("alice").await.unwrap();
        outcome = thread.resume(sends).await.unwrap();
    }
    assert_eq!(outcome, Outcome::Completed(7), "{kind}, {point:?}");
    assert_eq!(lock(&receiver.done).len(), 1, "{kind}, {point:?}");
    if kind != "idempotent" {
        assert_eq!(*lock(&receiver.requests), 1, "{kind}, {point:?}");
    }
}

#[test]
fn no_effect_happens_twice_wherever_the_process_dies() {
    in_every_mode(async |world| {
        for round in 0..size(3) {
            for kind in ["queryable", "idempotent", "neither"] {
                for point in POINTS {
                    cell(&world, &format!("{kind}-{point:?}-{round}"), kind, point).await;
                }
            }
        }
    });
}

#[derive(Debug, Default)]
struct Sent(Mutex<Vec<String>>);

async fn asks() -> Reconciled<u32> {
    match lock(&resource::<Explored>().own::<Sent>().0).contains(&key()) {
        true => Reconciled::Happened(7),
        false => Reconciled::DidNot,
    }
}

#[task(at_most_once, reconcile = asks)]
async fn pays() -> u32 {
    resource::<Explored>().exactly_once("pay");
    lock(&resource::<Explored>().own::<Sent>().0).push(key());
    7
}

#[task(at_most_once)]
async fn blindly() -> u32 {
    resource::<Explored>().exactly_once("blind");
    8
}

#[entrypoint]
async fn both() -> u32 {
    pays().await + blindly().await
}

#[test]
fn the_explorer_finds_no_crash_that_repeats_an_effect() {
    let explored = explore(both)
        .settle(|doubt, ledger| {
            let happened = doubt.task == "blindly" && ledger.count("blind") > 0;
            happened.then(|| Settlement::happened(8))
        })
        .run()
        .unwrap();
    println!("{} crashes", explored.crashes);
    assert!(explored.crashes > 50, "{}", explored.crashes);
}
