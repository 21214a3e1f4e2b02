//! A store that fails at its n-th commit, for every n: the caller is told, before the next effect. Line 36.

use std::{future::IntoFuture, sync::Arc};

use durably::{
    AnswerError, CheckpointError, Durability, IfUnfinished, Outcome, RunError, Runtime, Status, Thread,
    checkpoint::MemoryCheckpointer,
    continue_as_new, entrypoint, interrupt, resource, task,
    testing::{Fault, FaultyCheckpointer},
};
use futures::future::join_all;
use tests::{Ledger, block_on};

/// The store and the effects, for bodies to see how far the one was when the other happened.
#[derive(Clone, Debug)]
struct Scene {
    store: Arc<FaultyCheckpointer>,
    ledger: Ledger,
    /// The commit that fails.
    nth: u64,
}

impl Scene {
    fn effect(&self, name: &str) {
        self.ledger.note(name);
        if self.store.commits() >= self.nth {
            self.ledger.note("too late");
        }
    }
}

#[task]
async fn effect(name: &str) -> String {
    resource::<Scene>().effect(name);
    name.to_owned()
}

#[task]
async fn owned(name: String) -> String {
    effect(&name).await
}

#[task(retry(max_attempts = 3, initial_interval = "0ms", jitter = false))]
async fn flaky(name: &str) -> anyhow::Result<String> {
    resource::<Scene>().effect(&format!("{name} {}", durably::attempt()));
    anyhow::ensure!(durably::attempt() > 1, "not yet");
    Ok(name.to_owned())
}

#[entrypoint]
async fn part(name: String) -> String {
    effect(&name).await
}

/// A flow with everything in it that is recorded.
#[entrypoint]
async fn flow(round: u32) -> anyhow::Result<String> {
    let one = effect("one").await;
    durably::now().await;
    let two = flaky("two").await?;
    let all = join_all(["a", "b"].map(|name| owned(name.to_owned()).spawn())).await.concat();
    let three = part("three".to_owned()).await;
    if round == 0 {
        return continue_as_new(flow(1)).await;
    }
    let answer: String = interrupt("answer", &one).await;
    durably::sleep(std::time::Duration::ZERO).await;
    Ok(format!("{one} {two} {all} {three} {answer} {}", effect("four").await))
}

const RESULT: &str = "one two ab three yes four";

/// Takes the flow from wherever it is to its end; the first error of the store.
async fn drive(thread: &Thread) -> Result<String, RunError> {
    loop {
        let outcome = match thread.state().await? {
            None => thread.invoke(flow(0)).await?,
            Some(state) if state.status == Status::Interrupted && !state.questions.is_empty() => {
                match thread.answer("answer", "yes").await {
                    Ok(()) => {}
                    Err(AnswerError::Run(error)) => return Err(error),
                    Err(error) => panic!("{error}"),
                }
                thread.resume(flow).await?
            }
            Some(_) => thread.resume(flow).await?,
        };
        if let Outcome::Completed(text) = outcome {
            return Ok(text);
        }
    }
}

fn scene(memory: &MemoryCheckpointer, nth: u64, fault: Fault) -> (Scene, impl Fn(Durability) -> Thread) {
    let store = Arc::new(FaultyCheckpointer::new(Arc::new(memory.reopen())).at(nth, fault));
    let scene = Scene { store, ledger: Ledger::default(), nth };
    let given = scene.clone();
    let open = move |durability| {
        let builder = Runtime::builder().durability(durability).resource(given.clone());
        builder.shared_checkpointer(given.store.clone()).thread("t").unwrap()
    };
    (scene, open)
}

fn fails_at_every_commit(fault: impl Fn() -> Fault, durability: Durability) {
    for nth in 1.. {
        println!("{durability:?}, failing at commit {nth}");
        let memory = MemoryCheckpointer::new();
        let (broken, open) = scene(&memory, nth, fault());
        let outcome = block_on(async { drive(&open(durability)).await });
        if broken.store.commits() < nth {
            assert_eq!(outcome.unwrap(), RESULT);
            assert!(nth > 3, "every commit was made to fail");
            return;
        }
        let error = outcome.unwrap_err();
        assert!(matches!(error, RunError::Checkpoint(_)), "{error}");
        if durability == Durability::Sync {
            assert_eq!(broken.ledger.count("too late"), 0, "effects after the failure: {:?}", broken.ledger.all());
        }
        // Opened anew, the store has a journal that goes on.
        let (_, open) = scene(&memory, u64::MAX, fault());
        assert_eq!(block_on(async { drive(&open(durability)).await }).unwrap(), RESULT);
    }
}

const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

#[test]
fn a_refused_commit_reaches_the_caller_before_the_next_effect() {
    for durability in MODES {
        let full = || Fault::Fail(CheckpointError::Full { path: "/there".into() });
        fails_at_every_commit(full, durability);
    }
}

#[test]
fn a_failed_disk_reaches_the_caller_before_the_next_effect() {
    for durability in MODES {
        let full = || Fault::Poison(CheckpointError::Full { path: "/there".into() });
        fails_at_every_commit(full, durability);
    }
}

#[test]
fn a_discard_whose_commit_fails_leaves_the_run_that_was_to_be_discarded() {
    block_on(async {
        let memory = MemoryCheckpointer::new();
        let (_, open) = scene(&memory, u64::MAX, Fault::StopBefore);
        assert_eq!(open(Durability::Sync).invoke(flow(1)).await.unwrap().questions().len(), 1);
        let (_, open) = scene(&memory, 1, Fault::Fail(CheckpointError::Closed));
        let refused = open(Durability::Sync).invoke(flow(2)).if_unfinished(IfUnfinished::Discard).await.unwrap_err();
        assert!(matches!(refused, RunError::Checkpoint(CheckpointError::Closed)), "{refused}");
        assert_eq!(drive(&open(Durability::Sync)).await.unwrap(), RESULT);
    });
}

#[test]
fn every_verb_on_a_closed_store_says_so() {
    block_on(async {
        let (scene, _) = scene(&MemoryCheckpointer::new(), u64::MAX, Fault::StopBefore);
        let runtime = Runtime::builder().resource(scene).memory();
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(flow(1)).await.unwrap();
        runtime.close().await.unwrap();
        let closed =
            |error: RunError| assert!(matches!(error, RunError::Checkpoint(CheckpointError::Closed)), "{error}");
        closed(thread.invoke(flow(1)).await.unwrap_err());
        closed(thread.resume(flow).await.unwrap_err());
        closed(thread.state().await.unwrap_err());
        closed(runtime.recover().await.unwrap_err());
        closed(runtime.threads().limit(10).await.unwrap_err());
        match thread.answer("answer", "yes").await {
            Err(AnswerError::Run(error)) => closed(error),
            other => panic!("{other:?}"),
        }
    });
}

/// Lets the detached body go on once the entrypoint is gone.
#[derive(Clone, Debug, Default)]
struct Gone(Arc<tokio::sync::Notify>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.0.notify_one();
    }
}

struct Leaving(Gone);

#[task(retry(max_attempts = 2, initial_interval = "0ms", jitter = false))]
async fn left_behind() -> anyhow::Result<String> {
    if durably::attempt() == 1 {
        resource::<Gone>().0.notified().await;
        anyhow::bail!("once more");
    }
    Ok(effect("behind").await)
}

#[entrypoint]
async fn leaves_a_body_behind() -> String {
    let leaving = Leaving(resource::<Gone>().as_ref().clone());
    let outcome = durably::select! {
        _ = left_behind().detached() => "not left behind".to_owned(),
        text = effect("ahead") => text,
    };
    drop(leaving);
    outcome
}

#[test]
fn a_store_that_fails_while_a_detached_body_is_waited_for_ends_the_drive() {
    for nth in 1.. {
        println!("failing at commit {nth}");
        let (scene, _) = scene(&MemoryCheckpointer::new(), nth, Fault::Fail(CheckpointError::Closed));
        let builder = Runtime::builder().resource(scene.clone()).resource(Gone::default());
        let thread = builder.shared_checkpointer(scene.store.clone()).thread("t").unwrap();
        let drive = async {
            let drive = thread.invoke(leaves_a_body_behind()).into_future();
            tokio::time::timeout(std::time::Duration::from_secs(10), drive).await
        };
        let outcome = block_on(drive).expect("the drive ends");
        if scene.store.commits() < nth {
            assert_eq!(outcome.unwrap().completed().unwrap(), "ahead");
            assert_eq!(scene.ledger.count("behind"), 1);
            assert!(nth > 5, "every commit was made to fail");
            return;
        }
        assert!(matches!(outcome, Err(RunError::Checkpoint(CheckpointError::Closed))), "{outcome:?}");
    }
}
