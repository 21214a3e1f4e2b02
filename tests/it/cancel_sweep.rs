//! Every cut of every cancellation: a run is cancelled after each of its records, and each of these cancellations is cut
//! off after each of its own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use durably::{
    CallStatus, CancelError, Cancellation, Outcome, Runtime, RuntimeBuilder, Status, Thread,
    checkpoint::MemoryCheckpointer, entrypoint, interrupt, task, testing::FaultyCheckpointer,
};
use tests::{Ledger, block_on, commits_of};

#[task]
async fn step(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("step {n}"));
    n
}

#[task]
async fn undo(n: u32) -> u32 {
    durably::resource::<Ledger>().note(format!("undo {n}"));
    n
}

#[task]
async fn outer_step(n: u32) -> u32 {
    step(n).await + in_a_task(n + 1).await
}

/// It cleans up where it ends by itself, and goes with its task otherwise.
#[entrypoint]
async fn in_a_task(n: u32) -> u32 {
    durably::defer(async move || {
        undo(n).await;
    });
    step(n).await
}

#[task]
async fn fails() -> anyhow::Result<u32> {
    anyhow::bail!("as always")
}

#[entrypoint]
async fn nested(n: u32) -> u32 {
    durably::defer(async move || {
        undo(n).await;
    });
    let sum = step(n).await + deeper(n + 1).await;
    let undo_later = durably::defer(async move || {
        undo(n + 2).await;
    });
    let sum = sum + step(n + 2).await;
    if n == 20 {
        undo_later.disarm();
    }
    sum
}

#[entrypoint]
async fn deeper(n: u32) -> u32 {
    durably::defer(async move || {
        undo(n).await;
        durably::sleep(Duration::from_millis(1)).await;
    });
    fails().await.unwrap_or(0) + step(n).await
}

#[entrypoint]
async fn flow() -> u32 {
    durably::defer(async || {
        futures::join!(undo(1), undo(2).spawn());
    });
    let mut sum = step(1).await;
    let both = futures::join!(nested(10), nested(20));
    sum += both.0 + both.1;
    durably::defer(async || {
        undo(3).await;
    });
    sum += outer_step(30).await + step(3).spawn().await;
    let asked: u32 = interrupt("n", &()).await;
    sum + asked + step(4).detached().await
}

/// The clean-ups that have an outcome on record, by name, with how many there are.
async fn undone(thread: &Thread) -> BTreeMap<String, u32> {
    let mut undone = BTreeMap::new();
    for call in thread.state().await.unwrap().map(|state| state.calls).unwrap_or_default() {
        if call.name == "undo" && matches!(call.status, CallStatus::Value(_)) {
            *undone.entry(format!("undo {}", call.arguments.trim_start_matches("n="))).or_default() += 1;
        }
    }
    undone
}

/// Cancels the thread's run, unless it has ended; the effects that are on record before it and after it. `None`: the run
/// had come to its end.
async fn cancel(runtime: &Runtime) -> Option<(BTreeMap<String, u32>, BTreeMap<String, u32>)> {
    let thread = runtime.thread("t").unwrap();
    let before = undone(&thread).await;
    let state = thread.state().await.unwrap().unwrap();
    if state.status.is_unfinished() {
        match thread.cancel().await {
            Ok(cancelled) => assert_eq!(cancelled, Cancellation::Cancelled),
            Err(CancelError::NothingToCancel { status: Some(Status::Completed), .. }) => {
                assert!(state.calls.iter().any(|call| call.name == "step" && call.arguments == "n=4"));
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Cancelled);
    Some((before, undone(&thread).await))
}

#[test]
fn a_run_that_is_cancelled_anywhere_and_cut_off_anywhere_in_that_undoes_the_same_once() {
    let ledger = Ledger::default();
    let build = |builder: RuntimeBuilder| builder.resource(ledger.clone()).entrypoint(flow);
    let commits = commits_of(build, async |runtime| {
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(flow()).await.unwrap().questions().len(), 1);
        thread.answer("n", 5).await.unwrap();
        let outcome = thread.resume(flow).await.unwrap();
        assert!(matches!(outcome, Outcome::Completed(_)));
    });
    let ended = commits.len();
    let mut tried = 0;
    for first in 1..ended {
        let store = MemoryCheckpointer::replay(&commits[..first]).reopen();
        let recorder = Arc::new(FaultyCheckpointer::new(Arc::new(store)));
        let runtime = build(Runtime::builder()).shared_checkpointer(recorder.clone());
        ledger.clear();
        let Some((_, whole)) = block_on(cancel(&runtime)) else { break };
        let calls = block_on(runtime.thread("t").unwrap().state()).unwrap().unwrap().calls;
        // Past its first step the code has entered both nested ones, whether they have ended since or not.
        let entered = calls.iter().any(|call| call.name == "step");
        for effect in ["undo 10", "undo 20"] {
            assert_eq!(whole.contains_key(effect), entered, "after {first} commits: {whole:?}");
        }
        drop(runtime);
        let cancelling = recorder.recorded();
        for second in 0..=cancelling.len() {
            println!("cancelled after {first} of {ended} commits, cut off after {second} of {}", cancelling.len());
            let kept = [&commits[..first], &cancelling[..second]].concat();
            let runtime = build(Runtime::builder()).checkpointer(MemoryCheckpointer::replay(&kept).reopen());
            ledger.clear();
            let (before, after) = block_on(cancel(&runtime)).expect("its cancellation is on record, or its request");
            assert_eq!(after, whole, "the same is undone");
            for (effect, times) in &after {
                assert_eq!(*times, 1, "{effect}");
                let on_record = before.get(effect).copied().unwrap_or(0);
                assert_eq!(on_record + ledger.count(effect), 1, "{effect}");
            }
            for effect in ledger.all().keys() {
                assert!(effect.starts_with("undo"), "{effect} began in a run that is cancelled");
            }
            tried += 1;
        }
    }
    println!("{tried} cuts");
    assert!(tried > 100);
}
