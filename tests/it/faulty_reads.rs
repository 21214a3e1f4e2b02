//! A store whose n-th operation of any kind fails, stalls or is its last: the thread goes on after a reopen, and again
//! if the second process fails too. Conformance 36, F29.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use durably::{
    AnswerError, CheckpointError, Durability, Outcome, RunError, Runtime, Status,
    checkpoint::MemoryCheckpointer,
    entrypoint, interrupt, resource, task,
    testing::{Fault, FaultyCheckpointer, Operation},
};
use tests::{Chance, Ledger, block_on, size};

#[task]
async fn effect(name: &str) -> String {
    resource::<Ledger>().note(name);
    name.to_owned()
}

#[entrypoint]
async fn part(name: String) -> String {
    effect(&name).await
}

#[entrypoint]
async fn flow(#[previous] last: Option<String>) -> String {
    let one = effect("one").await;
    let two = part("two".to_owned()).await;
    let answer: String = interrupt("answer", &one).await;
    format!("{}{one} {two} {answer} {}", last.unwrap_or_default(), effect("three").await)
}

const FIRST: &str = "one two yes three";
const SECOND: &str = "one two yes threeone two yes three";

/// Everything that a program asks of a thread, from wherever it is to the end of its second run.
async fn work(runtime: &Runtime) -> Result<(), RunError> {
    for recovered in runtime.recover().await? {
        let _ = recovered.outcome().await?;
    }
    let thread = runtime.thread("t")?;
    let mut done = None;
    for expected in [FIRST, SECOND] {
        loop {
            let state = thread.state().await?;
            let outcome = match &state {
                None => thread.invoke(flow()).await?,
                Some(state) if state.run.get() == 1 && expected == SECOND => thread.invoke(flow()).await?,
                Some(state) if state.run.get() == 2 && expected == FIRST => break,
                Some(state) if state.status == Status::Interrupted => {
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
                assert_eq!(text, expected);
                done = Some(text);
                break;
            }
        }
    }
    assert!(done.is_some());
    let listed = runtime.threads().await?;
    assert_eq!(listed.threads.len(), 1);
    Ok(())
}

/// One process on this store, one operation of which goes wrong; what it came to, if it came to anything, and what it
/// asked of the store.
fn process(
    memory: &MemoryCheckpointer,
    ledger: &Ledger,
    durability: Durability,
    fault: Option<(u64, Fault)>,
) -> (Option<Result<(), RunError>>, Vec<Operation>) {
    let store = FaultyCheckpointer::new(Arc::new(memory.reopen()));
    let store = match fault {
        Some((nth, fault)) => store.at_operation(nth, fault),
        None => store,
    };
    let store = Arc::new(store);
    // Its clock moves only when nothing else does: what is delayed comes at once, and what hangs is seen.
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let came = tokio.block_on(async {
        let builder = Runtime::builder().durability(durability).resource(ledger.clone()).entrypoint(flow);
        let runtime = builder.shared_checkpointer(store.clone());
        tokio::select! {
            biased;
            came = work(&runtime) => Some(came),
            () = store.stopped() => None,
            () = tokio::time::sleep(Duration::from_secs(3600)) => panic!("the process hangs"),
        }
    });
    (came, store.operations())
}

fn faults() -> [Fault; 5] {
    let full = CheckpointError::Full { path: "/there".into() };
    let late = Fault::Delay(Duration::from_secs(1));
    [Fault::Fail(full.clone()), Fault::Poison(full), late, Fault::StopBefore, Fault::StopAfter]
}

/// What the caller must be told of a fault.
fn check_told(fault: &Fault, came: Option<Result<(), RunError>>) {
    match (fault, came) {
        (Fault::Fail(_) | Fault::Poison(_), Some(Err(RunError::Checkpoint(_))))
        | (Fault::Delay(_), Some(Ok(())))
        | (Fault::StopBefore | Fault::StopAfter, None) => {}
        (fault, came) => panic!("{fault:?} came to {came:?}"),
    }
}

/// Effects in sync mode: once, and once more for each crash, but only what was in flight then.
fn check_effects(ledger: &Ledger, durability: Durability, crashes: u32) {
    for (effect, times) in ledger.all() {
        assert!(times >= 2, "{effect} was lost");
        if durability == Durability::Sync {
            assert!(times <= 2 + crashes, "{effect} ran {times} times");
        }
    }
}

const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

fn operations(durability: Durability) -> Vec<Operation> {
    process(&MemoryCheckpointer::new(), &Ledger::default(), durability, None).1
}

#[test]
fn a_thread_goes_on_after_any_operation_went_wrong() {
    for durability in MODES {
        let asked = operations(durability);
        for kind in [Operation::Acquire, Operation::Commit, Operation::Get, Operation::Scan, Operation::Threads] {
            assert!(asked.contains(&kind), "{kind:?} is made to fail too");
        }
        for (nth, operation) in (1..).zip(&asked) {
            for fault in faults() {
                println!("{durability:?}: {fault:?} at operation {nth}, {operation:?}");
                let (memory, ledger) = (MemoryCheckpointer::new(), Ledger::default());
                let (came, _) = process(&memory, &ledger, durability, Some((nth, fault.clone())));
                check_told(&fault, came);
                let (came, _) = process(&memory, &ledger, durability, None);
                came.unwrap().unwrap();
                check_effects(&ledger, durability, 1);
            }
        }
    }
}

#[test]
fn a_thread_goes_on_after_any_two_operations_went_wrong() {
    let seed = 20_301;
    println!("seed {seed}");
    let mut chance = Chance::new(seed);
    let most = MODES.map(|durability| operations(durability).len());
    let (mut pairs, wanted) = (0, size(1_000));
    while pairs < wanted {
        let mode = chance.below(MODES.len());
        let durability = MODES[mode];
        let mut fault = || {
            let nth = u64::try_from(chance.below(most[mode]) + 1).unwrap();
            (nth, chance.pick(&faults()).clone())
        };
        let (first, second) = (fault(), fault());
        println!("{durability:?}: {first:?}, then {second:?}");
        let (memory, ledger) = (MemoryCheckpointer::new(), Ledger::default());
        let _ = process(&memory, &ledger, durability, Some(first));
        let (came, asked) = process(&memory, &ledger, durability, Some(second.clone()));
        if u64::try_from(asked.len()).unwrap() < second.0 {
            // The second process had less to ask for.
            came.unwrap().unwrap();
            continue;
        }
        check_told(&second.1, came);
        let (came, _) = process(&memory, &ledger, durability, None);
        came.unwrap().unwrap();
        check_effects(&ledger, durability, 2);
        pairs += 1;
    }
}

/// A read that is answered late is waited for, and the lease is given back by whoever gives up first.
#[test]
fn a_run_dropped_while_a_read_is_on_its_way_frees_its_thread() {
    block_on(async {
        for operation in [Operation::Acquire, Operation::Get, Operation::Scan] {
            let memory = MemoryCheckpointer::new();
            let store = FaultyCheckpointer::new(Arc::new(memory));
            let store = Arc::new(store.on(operation, 1, Fault::Delay(Duration::from_secs(3600))));
            let runtime = Runtime::builder().resource(Ledger::default()).shared_checkpointer(store.clone());
            let thread = runtime.thread("t").unwrap();
            let mut run = thread.invoke(flow()).into_future();
            assert!(futures::poll!(&mut run).is_pending());
            assert_eq!(store.operations().last(), Some(&operation));
            drop(run);
            let again = match thread.invoke(flow()).await {
                Err(RunError::Unfinished { .. }) => thread.resume(flow).await,
                outcome => outcome,
            };
            assert_eq!(again.unwrap().questions().len(), 1, "{operation:?}");
        }
    });
}
