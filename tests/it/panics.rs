//! A panic fails its task or run once, with message and place; other threads, the store and a later resume are unharmed.

use std::{
    future::IntoFuture,
    panic::panic_any,
    sync::{Arc, Mutex},
    time::Duration,
};

use durably::{Event, Observer, Outcome, RunError, Runtime, Status, entrypoint, interrupt, task};
use futures::join;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tests::{Ledger, World, in_every_mode, on_every_checkpointer, pends};

/// How a body panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Text,
    Formatted,
    NoText,
    AfterPending,
    InDrop,
    WhenOutputIsRecorded,
    WhenOutputIsRead,
    WhenOutputIsDropped,
}

const ALL: [How; 8] = [
    How::Text,
    How::Formatted,
    How::NoText,
    How::AfterPending,
    How::InDrop,
    How::WhenOutputIsRecorded,
    How::WhenOutputIsRead,
    How::WhenOutputIsDropped,
];

/// Which task panics, and how; none once it is disarmed.
#[derive(Clone, Debug, Default)]
struct Trap(Arc<Mutex<Option<(u32, How)>>>);

impl Trap {
    fn is_set(&self, place: u32) -> Option<How> {
        self.0.lock().unwrap().filter(|(trapped, _)| *trapped == place).map(|(_, how)| how)
    }
}

struct PanicsInDrop(bool);

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        assert!(!self.0 || std::thread::panicking(), "boom");
    }
}

/// A value that panics on its way to or from its record.
#[derive(Debug)]
struct Fragile(u32, Option<How>);

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(self.1 != Some(How::WhenOutputIsRecorded), "boom");
        (self.0, self.1 == Some(How::WhenOutputIsRead)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (value, panics) = <(u32, bool)>::deserialize(deserializer)?;
        assert!(!panics, "boom");
        Ok(Self(value, None))
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(self.1 != Some(How::WhenOutputIsDropped) || std::thread::panicking(), "boom");
    }
}

/// What each task of the flow does at its place.
async fn body(trap: &Trap, ledger: &Ledger, place: u32) -> Fragile {
    ledger.note(place.to_string());
    let how = trap.is_set(place);
    let _guard = PanicsInDrop(how == Some(How::InDrop));
    match how {
        Some(How::Text) => panic!("boom"),
        Some(How::Formatted) => panic!("boom at {place}"),
        Some(How::NoText) => panic_any(42_u8),
        Some(How::AfterPending) => {
            pends(2).await;
            panic!("boom");
        }
        _ => Fragile(place, how),
    }
}

#[task(skip(trap, ledger))]
async fn in_place(trap: &Trap, ledger: &Ledger, place: u32) -> Fragile {
    body(trap, ledger, place).await
}

#[task(skip(trap, ledger))]
async fn on_the_pool(trap: Trap, ledger: Ledger, place: u32) -> Fragile {
    body(&trap, &ledger, place).await
}

#[task(blocking, skip(trap, ledger))]
fn on_a_thread(trap: Trap, ledger: Ledger, place: u32) -> Fragile {
    tokio::runtime::Handle::current().block_on(body(&trap, &ledger, place))
}

#[task(skip(trap, ledger))]
async fn around(trap: &Trap, ledger: &Ledger, place: u32) -> Fragile {
    let inner = in_place(trap, ledger, place).await;
    Fragile(inner.0, None)
}

#[task(skip(trap, ledger), retry(max_attempts = 3, initial_interval = "1ms"))]
async fn retried(trap: &Trap, ledger: &Ledger, place: u32) -> anyhow::Result<Fragile> {
    Ok(body(trap, ledger, place).await)
}

#[entrypoint]
async fn nested(place: u32) -> u32 {
    let (trap, ledger) = (durably::resource::<Trap>(), durably::resource::<Ledger>());
    in_place(&trap, &ledger, place).await.0
}

const PLACES: u32 = 9;

#[entrypoint]
async fn flow() -> anyhow::Result<u32> {
    let (trap, ledger) = (durably::resource::<Trap>(), durably::resource::<Ledger>());
    let (trap, ledger) = (&*trap, &*ledger);
    let mut sum = in_place(trap, ledger, 0).await.0;
    let (one, two) = join!(in_place(trap, ledger, 1), in_place(trap, ledger, 2));
    sum += one.0 + two.0;
    sum += on_the_pool(trap.clone(), ledger.clone(), 3).spawn().await.0;
    sum += on_a_thread(trap.clone(), ledger.clone(), 4).await.0;
    sum += around(trap, ledger, 5).await.0;
    sum += nested(6).await;
    sum += retried(trap, ledger, 7).await?.0;
    let detached = on_the_pool(trap.clone(), ledger.clone(), 8).detached();
    Ok(sum + detached.await.0)
}

#[entrypoint]
async fn sibling() -> u32 {
    interrupt("how many?", &()).await
}

#[test]
fn a_panic_at_any_task_fails_the_run_once_and_a_resume_runs_that_call_again() {
    on_every_checkpointer(async |world| {
        let (trap, ledger) = (Trap::default(), Ledger::default());
        let runtime = world.open(|builder| builder.resource(trap.clone()).resource(ledger.clone()));
        let other = runtime.thread("other").unwrap();
        let _ = other.invoke(sibling()).await.unwrap();
        for how in ALL {
            for place in 0..PLACES {
                println!("{how:?} at {place}");
                ledger.clear();
                *trap.0.lock().unwrap() = Some((place, how));
                let thread = runtime.thread(format!("{how:?} {place}")).unwrap();
                let run = tokio::time::timeout(Duration::from_secs(20), thread.invoke(flow()));
                let error = run.await.expect("the run ends").unwrap_err();
                let RunError::Panicked { what, message } = &error else { panic!("{error}") };
                let says = if how == How::NoText { "something that is not a text" } else { "boom" };
                assert!(message.contains(says), "{error}");
                assert!(what.contains("task \"") && what.contains(file!()), "{error}");
                let state = thread.state().await.unwrap().unwrap();
                assert_eq!(state.status, Status::Failed);
                assert!(state.reason.unwrap().contains(message));
                assert!(!state.driven);
                assert_eq!(ledger.count(&place.to_string()), 1);

                *trap.0.lock().unwrap() = None;
                let outcome = thread.resume(flow).await.unwrap();
                assert_eq!(outcome, Outcome::Completed((0..PLACES).sum()));
                for other in 0..PLACES {
                    let times = ledger.count(&other.to_string());
                    let expected = match other {
                        // Its outcome was on record when what it left behind panicked.
                        _ if other == place && how == How::WhenOutputIsDropped => 1..=2,
                        _ if other == place => 2..=2,
                        // A sibling side by side may have been cut off.
                        1 | 2 => 1..=2,
                        _ => 1..=1,
                    };
                    assert!(expected.contains(&times), "place {other} ran {times} times");
                }
            }
        }
        other.answer("how many?", 3).await.unwrap();
        assert_eq!(other.resume(sibling).await.unwrap(), Outcome::Completed(3));
        runtime.close().await.unwrap();
        drop((runtime, other));
        let runtime = world.open(|builder| builder.resource(trap.clone()).resource(ledger.clone()));
        let threads = runtime.threads().status(Status::Completed).limit(1000).await.unwrap();
        assert_eq!(threads.threads.len(), ALL.len() * PLACES as usize + 1);
    });
}

#[entrypoint]
async fn panics_by_itself(place: u32) -> u32 {
    let (trap, ledger) = (durably::resource::<Trap>(), durably::resource::<Ledger>());
    let set = |here| trap.is_set(here).is_some();
    assert!(!set(0), "boom");
    let guard = PanicsInDrop(set(1));
    let before = in_place(&Trap::default(), &ledger, place).await.0;
    assert!(!set(2), "boom");
    if set(3) {
        panic_any(7_u8);
    }
    let pausing = PanicsInDrop(set(4));
    let answer: u32 = interrupt("pause", &()).await;
    drop((pausing, guard));
    before + answer
}

#[test]
fn a_panic_of_the_entrypoint_itself_fails_the_run_and_a_resume_replays_it() {
    in_every_mode(async |world| {
        let (trap, ledger) = (Trap::default(), Ledger::default());
        let runtime = world.open(|builder| builder.resource(trap.clone()).resource(ledger.clone()));
        for place in 0..5 {
            println!("place {place}");
            *trap.0.lock().unwrap() = Some((place, How::Text));
            let thread = runtime.thread(format!("{place}")).unwrap();
            let error = thread.invoke(panics_by_itself(place)).await.unwrap_err();
            let RunError::Panicked { what, message } = &error else { panic!("{error}") };
            let says = if place == 3 { "something that is not a text" } else { "boom" };
            assert!(what.contains("entrypoint \"panics_by_itself\"") && message.contains(says), "{error}");
            let state = thread.state().await.unwrap().unwrap();
            assert_eq!((state.status, state.driven), (Status::Failed, false));

            *trap.0.lock().unwrap() = None;
            let outcome = thread.resume(panics_by_itself).await.unwrap();
            assert_eq!(outcome.questions().len(), 1);
            thread.answer("pause", 10).await.unwrap();
            assert_eq!(thread.resume(panics_by_itself).await.unwrap(), Outcome::Completed(place + 10));
            assert_eq!(ledger.count(&place.to_string()), 1);
        }
    });
}

#[entrypoint]
async fn returns(place: u32) -> Fragile {
    let (trap, ledger) = (durably::resource::<Trap>(), durably::resource::<Ledger>());
    let before = in_place(&Trap::default(), &ledger, place).await.0;
    Fragile(before, trap.is_set(place))
}

#[test]
fn a_panic_of_the_entrypoint_s_output_fails_the_run_and_not_its_caller() {
    in_every_mode(async |world| {
        let (trap, ledger) = (Trap::default(), Ledger::default());
        let runtime = world.open(|builder| builder.resource(trap.clone()).resource(ledger.clone()));
        for how in [How::WhenOutputIsRecorded, How::WhenOutputIsRead, How::WhenOutputIsDropped] {
            println!("{how:?}");
            *trap.0.lock().unwrap() = Some((1, how));
            let thread = runtime.thread(format!("{how:?}")).unwrap();
            let error = thread.invoke(returns(1)).await.unwrap_err();
            assert!(matches!(error, RunError::Panicked { .. }), "{error}");
            *trap.0.lock().unwrap() = None;
            assert_eq!(thread.resume(returns).await.unwrap().completed().unwrap().0, 1);
        }
        assert_eq!(ledger.count("1"), 3);
    });
}

#[entrypoint]
async fn races(left: u32, right: u32) -> u32 {
    let (trap, ledger) = (durably::resource::<Trap>(), durably::resource::<Ledger>());
    durably::select! {
        _ = never(&trap, left) => 0,
        won = in_place(&trap, &ledger, right) => won.0,
    }
}

#[task(skip(trap))]
async fn never(trap: &Trap, place: u32) -> u32 {
    let _guard = PanicsInDrop(trap.is_set(place).is_some());
    std::future::pending().await
}

#[test]
fn a_panic_in_the_drop_of_a_race_s_loser_fails_the_run() {
    in_every_mode(async |world| {
        let (trap, ledger) = (Trap::default(), Ledger::default());
        let runtime = world.open(|builder| builder.resource(trap.clone()).resource(ledger.clone()));
        let thread = runtime.thread("t").unwrap();
        *trap.0.lock().unwrap() = Some((1, How::InDrop));
        let error = thread.invoke(races(1, 2)).await.unwrap_err();
        assert!(matches!(error, RunError::Panicked { .. }), "{error}");
        *trap.0.lock().unwrap() = None;
        assert_eq!(thread.resume(races).await.unwrap(), Outcome::Completed(2));
        assert_eq!(ledger.count("2"), 1);
    });
}

struct PanickingObserver(Trap);

impl Observer for PanickingObserver {
    fn observe(&self, event: &Event<'_>) {
        let name = match event {
            Event::Started { .. } => 0,
            Event::Recorded { .. } => 1,
            Event::Released { .. } => 2,
            Event::Retried { .. } => 3,
            Event::RunStarted { .. } => 4,
            Event::RunStopped { .. } => 5,
            _ => return,
        };
        assert!(self.0.is_set(name).is_none(), "boom");
    }
}

/// An observer cannot change the run: neither by a panic.
#[test]
fn a_panic_of_an_observer_changes_nothing() {
    in_every_mode(async |world| {
        for event in 0..6 {
            println!("event {event}");
            let (trap, ledger, armed) = (Trap::default(), Ledger::default(), Trap::default());
            *armed.0.lock().unwrap() = Some((event, How::Text));
            let runtime = World::memory().with(world.durability).open(|builder| {
                builder.resource(trap.clone()).resource(ledger.clone()).observer(PanickingObserver(armed))
            });
            let thread = runtime.thread("t").unwrap();
            let run = tokio::spawn(tokio::time::timeout(Duration::from_secs(20), thread.invoke(flow()).into_future()));
            let outcome = run.await.expect("no panic comes through").expect("the run ends");
            assert_eq!(outcome.unwrap(), Outcome::Completed((0..PLACES).sum()));
        }
    });
}

/// As an application whose panics end the thread of the pool would see it.
#[test]
fn a_panic_is_the_same_when_the_run_is_driven_on_the_pool() {
    in_every_mode(async |world| {
        let (trap, ledger) = (Trap::default(), Ledger::default());
        let runtime: Runtime = world.open(|builder| builder.resource(trap.clone()).resource(ledger.clone()));
        *trap.0.lock().unwrap() = Some((3, How::Text));
        let thread = runtime.thread("t").unwrap();
        let error = thread.invoke(flow()).start().await.unwrap_err();
        assert!(matches!(error, RunError::Panicked { .. }), "{error}");
        *trap.0.lock().unwrap() = None;
        assert_eq!(thread.resume(flow).start().await.unwrap(), Outcome::Completed((0..PLACES).sum()));
    });
}
