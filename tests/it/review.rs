//! Ends and pauses of a run beside bodies that are on the pool: nothing is lost, nothing hangs, nobody is asked in vain.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use durably::{
    AnswerError, Final, Outcome, RunError, Runtime, Status, continue_as_new, entrypoint, interrupt, resource, task,
};
use tests::Ledger;
use tokio::sync::Notify;

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

/// What a test's bodies wait for, and whether its code was changed.
#[derive(Clone, Debug, Default)]
struct Scene {
    gate: Arc<Notify>,
    begun: Arc<Notify>,
    changed: Arc<AtomicBool>,
}

fn open(ledger: &Ledger, scene: &Scene) -> Runtime {
    Runtime::builder().resource(ledger.clone()).resource(scene.clone()).memory()
}

/// A hang is a failed test: time is paused, so that this is over as soon as nothing moves.
async fn soon<F: IntoFuture>(future: F) -> F::Output {
    // Not `timeout`: it would poll the future once more, which is what one that missed a wake needs.
    tokio::select! {
        biased;
        () = tokio::time::sleep(Duration::from_secs(3600)) => panic!("it hangs"),
        output = future.into_future() => output,
    }
}

async fn polled_once<F: Future>(future: &mut Pin<Box<F>>) {
    std::future::poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[task]
async fn quick(name: &str) -> String {
    note(name);
    name.to_owned()
}

#[task]
async fn never_ends() {
    note("never ends");
    std::future::pending::<()>().await;
}

#[task]
async fn holds_another() {
    never_ends().await;
}

/// Ends once the others of a race have begun.
#[task]
async fn overtakes() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[entrypoint]
async fn drops_a_body_on_the_pool() -> bool {
    tokio::select! {
        biased;
        () = holds_another().spawn() => {}
        () = overtakes() => {}
    }
    interrupt("go?", &()).await
}

#[tokio::test(start_paused = true)]
async fn a_race_s_loser_on_the_pool_does_not_keep_the_run_from_pausing() {
    let ledger = Ledger::default();
    let thread = open(&ledger, &Scene::default()).thread("t").unwrap();
    let outcome = soon(thread.invoke(drops_a_body_on_the_pool())).await.unwrap();
    assert_eq!((outcome.questions().len(), ledger.count("never ends")), (1, 1));
    thread.answer("go?", true).await.unwrap();
    assert_eq!(soon(thread.resume(drops_a_body_on_the_pool)).await.unwrap(), Outcome::Completed(true));
}

#[task]
async fn asks(key: String) -> bool {
    interrupt(key, &()).await
}

#[entrypoint]
async fn drops_an_asking_body() -> bool {
    tokio::select! {
        biased;
        _ = asks("dropped?".to_owned()).spawn() => {}
        () = overtakes() => {}
    }
    interrupt("go?", &()).await
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_race_s_loser_on_the_pool_is_withdrawn() {
    let thread = open(&Ledger::default(), &Scene::default()).thread("t").unwrap();
    let outcome = soon(thread.invoke(drops_an_asking_body())).await.unwrap();
    let keys: Vec<&str> = outcome.questions().iter().map(durably::Question::key).collect();
    assert_eq!(keys, ["go?"]);
    let error = thread.answer("dropped?", true).await.unwrap_err();
    assert!(matches!(error, AnswerError::UnknownInterrupt { .. }), "{error}");
    thread.answer("go?", true).await.unwrap();
    assert_eq!(soon(thread.resume(drops_an_asking_body)).await.unwrap(), Outcome::Completed(true));
}

#[entrypoint]
async fn goes_on_early(round: u32) -> u32 {
    if round > 0 {
        return round;
    }
    quick("before").await;
    if !resource::<Scene>().changed.load(Ordering::Relaxed) {
        quick("pays").await;
        let _: bool = interrupt("go?", &()).await;
    }
    continue_as_new(goes_on_early(1)).await
}

#[tokio::test(start_paused = true)]
async fn going_on_as_a_new_run_does_not_pass_over_records_that_the_code_did_not_ask_for() {
    let (ledger, scene) = (Ledger::default(), Scene::default());
    let thread = open(&ledger, &scene).thread("t").unwrap();
    assert_eq!(soon(thread.invoke(goes_on_early(0))).await.unwrap().questions().len(), 1);
    thread.answer("go?", true).await.unwrap();
    scene.changed.store(true, Ordering::Relaxed);
    let error = soon(thread.resume(goes_on_early)).await.unwrap_err();
    assert!(matches!(error, RunError::Nondeterminism(_)), "{error}");
    assert_eq!(thread.state().await.unwrap().unwrap().run.get(), 1);
    // With the code back, it goes on.
    scene.changed.store(false, Ordering::Relaxed);
    assert_eq!(soon(thread.resume(goes_on_early)).await.unwrap(), Outcome::Completed(1));
    assert_eq!(ledger.count("pays"), 1);
}

#[task]
async fn slow(name: String) {
    note("begun");
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    quick(&name).await;
}

#[entrypoint]
async fn detaches_and_goes_on(round: u32) -> u32 {
    if round == 0 {
        let mut call = Box::pin(slow("detached".to_owned()).detached());
        polled_once(&mut call).await;
        drop(call);
        quick("beside").await;
        return continue_as_new(detaches_and_goes_on(1)).await;
    }
    round
}

#[tokio::test(start_paused = true)]
async fn going_on_as_a_new_run_waits_for_what_was_detached() {
    let ledger = Ledger::default();
    let thread = open(&ledger, &Scene::default()).thread("t").unwrap();
    assert_eq!(soon(thread.invoke(detaches_and_goes_on(0))).await.unwrap(), Outcome::Completed(1));
    assert_eq!((ledger.count("begun"), ledger.count("detached")), (1, 1));
}

#[task]
async fn gated() {
    let scene = resource::<Scene>();
    scene.begun.notify_one();
    scene.gate.notified().await;
}

#[entrypoint]
async fn detaches_at_the_end() -> u32 {
    gated().await;
    let mut call = Box::pin(slow("detached".to_owned()).detached());
    polled_once(&mut call).await;
    7
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_lose_what_was_detached() {
    let (ledger, scene) = (Ledger::default(), Scene::default());
    let runtime = open(&ledger, &scene);
    let thread = runtime.thread("t").unwrap();
    let started = thread.invoke(detaches_at_the_end()).start();
    soon(scene.begun.notified()).await;
    runtime.drain();
    scene.gate.notify_one();
    assert_eq!(soon(started).await.unwrap(), Outcome::Drained);
    assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Drained);
    runtime.undrain();
    assert_eq!(soon(thread.resume(detaches_at_the_end)).await.unwrap(), Outcome::Completed(7));
    assert_eq!((ledger.count("begun"), ledger.count("detached")), (1, 1));
}

#[task]
async fn asks_for_long() {
    let go: bool = interrupt("go?", &()).await;
    note(if go { "went" } else { "stayed" });
}

#[entrypoint]
async fn detaches_a_question() -> u32 {
    let mut call = Box::pin(asks_for_long().detached());
    polled_once(&mut call).await;
    7
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_detached_body_pauses_the_run() {
    let ledger = Ledger::default();
    let thread = open(&ledger, &Scene::default()).thread("t").unwrap();
    let outcome = soon(thread.invoke(detaches_a_question())).await.unwrap();
    assert_eq!(outcome.questions().len(), 1);
    thread.answer("go?", true).await.unwrap();
    assert_eq!(soon(thread.resume(detaches_a_question)).await.unwrap(), Outcome::Completed(7));
    assert_eq!(ledger.count("went"), 1);
}

#[task]
async fn goes_on() {
    note("begun");
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    note("went on");
}

#[task]
async fn detaches_another() {
    let mut call = Box::pin(goes_on().detached());
    polled_once(&mut call).await;
    // It has begun by then.
    tokio::task::yield_now().await;
}

#[entrypoint]
async fn detaches_what_detaches() -> u32 {
    let mut call = Box::pin(detaches_another().detached());
    polled_once(&mut call).await;
    7
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_after_what_a_detached_body_detached() {
    let ledger = Ledger::default();
    let thread = open(&ledger, &Scene::default()).thread("t").unwrap();
    assert_eq!(soon(thread.invoke(detaches_what_detaches())).await.unwrap(), Outcome::Completed(7));
    assert_eq!((ledger.count("begun"), ledger.count("went on")), (1, 1));
    assert!(!thread.state().await.unwrap().unwrap().driven);
}

fn thread_reason(state: &durably::ThreadState) -> &str {
    state.reason.as_deref().unwrap_or_default()
}

#[task]
async fn too_large() -> String {
    note("too large");
    "x".repeat(65 << 20)
}

#[entrypoint]
async fn makes_too_much() -> usize {
    quick("before").await;
    too_large().await.len()
}

#[tokio::test]
async fn an_output_that_is_too_large_leaves_the_thread_stuck_with_what_was_before() {
    for durability in [durably::Durability::Sync, durably::Durability::Async, durably::Durability::Exit] {
        let ledger = Ledger::default();
        let thread = open(&ledger, &Scene::default()).thread("t").unwrap();
        let error = thread.invoke(makes_too_much()).durability(durability).await.unwrap_err();
        assert!(error.to_string().contains("keep it elsewhere"), "{error}");
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.calls.len()), (Status::Stuck, 1), "{durability:?}");
        // It is told to whoever looks, and not run again by every process that starts.
        assert!(thread_reason(&state).contains("keep it elsewhere"));
        assert_eq!((ledger.count("before"), ledger.count("too large")), (1, 1));
    }
}

#[entrypoint]
async fn reads_later() -> (bool, bool) {
    let mut first = Box::pin(interrupt::<bool>("first", &()));
    polled_once(&mut first).await;
    let second = interrupt("second", &()).await;
    (first.await, second)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_code_does_not_look_at_yet_lets_the_run_pause() {
    let thread = open(&Ledger::default(), &Scene::default()).thread("t").unwrap();
    assert_eq!(soon(thread.invoke(reads_later())).await.unwrap().questions().len(), 2);
    thread.answer("first", true).await.unwrap();
    let outcome = soon(thread.resume(reads_later)).await.unwrap();
    assert!(outcome.questions().iter().any(|question| question.key() == "second"), "{outcome:?}");
    thread.answer("second", false).await.unwrap();
    assert_eq!(soon(thread.resume(reads_later)).await.unwrap(), Outcome::Completed((true, false)));
}

#[entrypoint]
async fn reads_later_still() -> (bool, bool) {
    let mut first = Box::pin(interrupt::<bool>("first", &()));
    polled_once(&mut first).await;
    gated().await;
    let second = interrupt("second", &()).await;
    (first.await, second)
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_driven_run_that_does_not_look_at_it_yet_lets_the_run_pause() {
    let scene = Scene::default();
    let thread = open(&Ledger::default(), &scene).thread("t").unwrap();
    let started = thread.invoke(reads_later_still()).start();
    soon(scene.begun.notified()).await;
    thread.answer("first", true).await.unwrap();
    scene.gate.notify_one();
    let outcome = soon(started).await.unwrap();
    assert!(outcome.questions().iter().any(|question| question.key() == "second"), "{outcome:?}");
    thread.answer("second", false).await.unwrap();
    assert_eq!(soon(thread.resume(reads_later_still)).await.unwrap(), Outcome::Completed((true, false)));
}

/// Holds up the end of the body that holds it, until it is told to go on.
struct HoldsUp {
    ends: std::sync::mpsc::Sender<()>,
    go_on: std::sync::mpsc::Receiver<()>,
}

impl Drop for HoldsUp {
    fn drop(&mut self) {
        let _ = self.ends.send(());
        let _ = self.go_on.recv();
    }
}

#[derive(Clone, Debug)]
struct Holder(Arc<std::sync::Mutex<Option<HoldsUp>>>);

impl std::fmt::Debug for HoldsUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HoldsUp")
    }
}

#[task]
async fn asks_and_is_slow_to_end() -> bool {
    let _holds_up = resource::<Holder>().0.lock().unwrap().take();
    interrupt("go?", &()).await
}

#[entrypoint]
async fn asks_on_the_pool() -> bool {
    asks_and_is_slow_to_end().spawn().await
}

#[test]
fn an_answer_that_comes_while_the_run_is_being_paused_is_gone_on_with() {
    let (ends, ending) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let holder = Holder(Arc::new(std::sync::Mutex::new(Some(HoldsUp { ends, go_on: goes_on }))));
    tests::block_on(async {
        let thread = Runtime::builder().resource(holder).memory().thread("t").unwrap();
        let started = thread.invoke(asks_on_the_pool()).start();
        tokio::task::spawn_blocking(move || ending.recv()).await.unwrap().unwrap();
        // The run has come to rest, its body is being ended, and nothing is written down yet.
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Running);
        thread.answer("go?", true).await.unwrap();
        go_on.send(()).unwrap();
        assert_eq!(started.await.unwrap(), Outcome::Completed(true));
    });
}

#[entrypoint]
async fn is_too_much_together() -> Final<String, String> {
    Final { value: "v".repeat(40 << 20), save: "s".repeat(40 << 20) }
}

#[tokio::test]
async fn an_end_that_is_too_large_as_a_whole_leaves_the_thread_stuck() {
    let thread = open(&Ledger::default(), &Scene::default()).thread("t").unwrap();
    let error = thread.invoke(is_too_much_together()).await.unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
    assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Stuck);
}
