//! Which call is which: changed code is told, never answered with another call's record. Each test names its line in the
//! list of behaviours.

use std::collections::{BTreeMap, HashMap};

use durably::{
    CallKind, IfUnfinished, Nondeterminism, RecordedStep, RunError, Runtime, Status, branch, entrypoint,
    idempotency_key, interrupt, resource, task,
};
use futures::future::join_all;
use tests::{Ledger, World, in_every_mode, on_every_checkpointer};

/// Which version of the code is deployed.
#[derive(Clone, Copy, Debug)]
struct Version(u32);

fn open(world: &World, ledger: &Ledger, version: u32) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).resource(Version(version)))
}

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

fn version() -> u32 {
    resource::<Version>().0
}

#[task]
async fn pay(to: &str, cents: u64) -> String {
    note(&format!("{cents} to {to}"));
    format!("paid {to}")
}

#[task]
async fn notify(whom: &str) {
    note(&format!("notify {whom}"));
}

/// Its code changes while its runs are open, as a deployment would change it.
#[entrypoint]
async fn payout() -> String {
    let receipt = match version() {
        1 => pay("ada", 100).await,
        // Line 105: an argument changed.
        2 => pay("ada", 101).await,
        // Line 107: a call was inserted.
        3 => {
            notify("ada").await;
            pay("ada", 100).await
        }
        // Line 107: the task was renamed.
        4 => {
            notify("ada").await;
            String::new()
        }
        // The call is gone.
        _ => String::new(),
    };
    let go: bool = interrupt("go?", &()).await;
    if version() == 6 { receipt } else { format!("{receipt} {go} {}", pay("bob", 5).await) }
}

fn divergence(error: RunError) -> Nondeterminism {
    match error {
        RunError::Nondeterminism(divergence) => *divergence,
        other => panic!("{other}"),
    }
}

/// Drives to the question with version 1, then answers it and resumes with another version.
async fn changed(world: &World, version: u32) -> (Nondeterminism, Ledger) {
    let ledger = Ledger::default();
    {
        let thread = open(world, &ledger, 1).thread("t").unwrap();
        let _ = thread.invoke(payout()).await.unwrap();
        thread.answer("go?", true).await.unwrap();
    }
    ledger.clear();
    let error = open(world, &ledger, version).thread("t").unwrap().resume(payout).await.unwrap_err();
    (divergence(error), ledger)
}

/// Line 105.
#[test]
fn a_changed_argument_is_told_with_the_task_the_place_and_both_values() {
    in_every_mode(async |world| {
        let (told, ledger) = changed(&world, 2).await;
        assert_eq!((told.expected.name.as_str(), told.seq.get(), told.step), ("pay", 1, RecordedStep::Outcome));
        assert!(told.expected.arguments.contains("100"), "{}", told.expected);
        let [found] = told.found.as_slice() else { panic!("{told}") };
        assert!(found.name == "pay" && found.arguments.contains("101"), "{found}");
        assert_ne!(told.expected.line, found.line);
        for part in ["record 1", "\"pay\"", "100", "101", "identity.rs", "patched", "nothing was run"] {
            assert!(told.to_string().contains(part), "{told}");
        }
        assert_eq!(ledger.total(), 0, "nothing was run");
    });
}

/// Line 107.
#[test]
fn an_inserted_or_renamed_or_removed_task_is_told_with_a_hint_and_pays_nobody_twice() {
    in_every_mode(async |world| {
        let world = &world;
        for (version, found) in [(3, vec!["notify"]), (4, vec!["notify"])] {
            let world = World::memory().with(world.durability);
            let (told, ledger) = changed(&world, version).await;
            let names: Vec<&str> = told.found.iter().map(|call| call.name.as_str()).collect();
            assert_eq!((told.expected.name.as_str(), names, told.ended), ("pay", found, false));
            assert_eq!(ledger.total(), 0);
        }
        let (told, ledger) = changed(world, 5).await;
        // The question is as it was, but stands after a payment that the code does not make any more.
        assert_eq!((told.expected.name.as_str(), told.expected.kind), ("pay", CallKind::Task));
        assert_eq!(ledger.total(), 0);
        // The thread is stuck, until the code that began the run is back.
        let thread = open(world, &ledger, 1).thread("t").unwrap();
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.status, Status::Stuck);
        assert!(state.reason.unwrap().contains("no longer matches the journal"));
        assert_eq!(thread.resume(payout).await.unwrap().completed().unwrap(), "paid ada true paid bob");
        assert_eq!(ledger.all(), BTreeMap::from([("5 to bob".to_owned(), 1)]));
    });
}

#[entrypoint]
async fn ends_early() -> String {
    let first = pay("ada", 100).await;
    if version() > 1 {
        return first;
    }
    let second = pay("bob", 5).await;
    let _: bool = interrupt("go?", &()).await;
    first + &second
}

/// Line 107: a removed call at the end.
#[test]
fn an_entrypoint_that_ends_before_its_journal_does_is_told() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let _ = open(&world, &ledger, 1).thread("t").unwrap().invoke(ends_early()).await.unwrap();
        let told = divergence(open(&world, &ledger, 2).thread("t").unwrap().resume(ends_early).await.unwrap_err());
        assert!(told.ended && told.found.is_empty(), "{told}");
        assert_eq!((told.seq.get(), told.expected.name.as_str()), (2, "pay"));
    });
}

#[entrypoint]
async fn pays_two() -> Vec<String> {
    let order = if version() == 1 { ["ada", "bob"] } else { ["bob", "ada"] };
    let mut receipts = Vec::new();
    for name in order {
        receipts.push(pay(name, 5).await);
    }
    let _: bool = interrupt("go?", &()).await;
    receipts
}

#[entrypoint]
async fn pays_two_at_once() -> Vec<String> {
    let order = if version() == 1 { ["ada", "bob"] } else { ["bob", "ada"] };
    let receipts = join_all(order.map(|name| pay(name, 5))).await;
    let _: bool = interrupt("go?", &()).await;
    receipts
}

/// Line 106.
#[test]
fn reordered_calls_are_told_or_keep_their_own_outcomes() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let runtime = open(&world, &ledger, 1);
            for (name, call) in [("one by one", false), ("at once", true)] {
                let thread = runtime.thread(name).unwrap();
                let outcome =
                    if call { thread.invoke(pays_two_at_once()).await } else { thread.invoke(pays_two()).await };
                assert_eq!(outcome.unwrap().questions().len(), 1);
                thread.answer("go?", true).await.unwrap();
            }
        }
        ledger.clear();
        let runtime = open(&world, &ledger, 2);
        let told = divergence(runtime.thread("one by one").unwrap().resume(pays_two).await.unwrap_err());
        assert!(told.expected.arguments.contains("ada") && told.found[0].arguments.contains("bob"), "{told}");
        // Calls are known by what they are, not by when they are made.
        let outcome = runtime.thread("at once").unwrap().resume(pays_two_at_once).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["paid bob", "paid ada"]);
        assert_eq!(ledger.total(), 0);
    });
}

#[entrypoint]
async fn grows() -> String {
    let receipt = pay("ada", 100).await;
    if version() > 1 && durably::patched("notify-2026").await {
        notify("ada").await;
    }
    let _: bool = interrupt("go?", &()).await;
    if version() > 1 && durably::patched("notify-2026").await {
        notify("at the end").await;
    }
    receipt
}

/// Line 107: the remedy.
#[test]
fn patched_code_lets_old_runs_go_on_without_it_and_new_ones_with_it() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let thread = open(&world, &ledger, 1).thread("old").unwrap();
            let _ = thread.invoke(grows()).await.unwrap();
            thread.answer("go?", true).await.unwrap();
        }
        for name in ["old", "new"] {
            let thread = open(&world, &ledger, 2).thread(name).unwrap();
            if name == "new" {
                let _ = thread.invoke(grows()).await.unwrap();
                thread.answer("go?", true).await.unwrap();
            }
            // In a new process: what the marker said is on record.
            drop(thread);
            let outcome = open(&world, &ledger, 2).thread(name).unwrap().resume(grows).await.unwrap();
            assert_eq!(outcome.completed().unwrap(), "paid ada");
        }
        assert_eq!(ledger.count("100 to ada"), 2);
        assert_eq!(ledger.count("notify ada"), 1, "of the new run");
        // The old run reached this place only with the new code.
        assert_eq!(ledger.count("notify at the end"), 2);
    });
}

mod elsewhere {
    #[durably::task]
    pub(super) async fn notify(whom: &str) {
        super::note(&format!("notify {whom} elsewhere"));
    }
}

#[entrypoint]
async fn two_definitions() {
    notify("ada").await;
    elsewhere::notify("ada").await;
}

#[test]
fn two_tasks_of_one_name_in_a_run_are_an_error_that_names_both() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let error = open(&world, &ledger, 1).thread("t").unwrap().invoke(two_definitions()).await.unwrap_err();
        let RunError::TwoDefinitions { name, first, second, .. } = &error else { panic!("{error}") };
        assert_eq!(name, "notify");
        assert!(first.contains("identity.rs") && second.contains("elsewhere"), "{error}");
        assert_eq!(ledger.count("notify ada elsewhere"), 0);
    });
}

#[task(skip(note_too))]
async fn by_map(map: HashMap<String, u32>, note_too: &str) -> usize {
    note(note_too);
    map.len()
}

#[entrypoint]
async fn maps(n: u32) -> usize {
    // Each one is in an order of its own.
    let map: HashMap<String, u32> = (0..n).map(|n| (n.to_string(), n)).collect();
    let len = by_map(map, if version() == 1 { "first" } else { "second" }).await;
    let _: bool = interrupt("go?", &()).await;
    len
}

#[test]
fn neither_the_order_of_a_map_nor_a_skipped_argument_is_part_of_a_call() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let thread = open(&world, &ledger, 1).thread("t").unwrap();
            let _ = thread.invoke(maps(50)).await.unwrap();
            thread.answer("go?", true).await.unwrap();
        }
        let outcome = open(&world, &ledger, 2).thread("t").unwrap().resume(maps).await.unwrap();
        assert_eq!((outcome.completed(), ledger.count("first"), ledger.count("second")), (Some(50), 1, 0));
    });
}

#[task]
async fn key_of(what: &str) -> String {
    note(what);
    idempotency_key().unwrap()
}

#[task]
async fn outer_key(what: &str) -> (String, String) {
    (key_of(what).await, idempotency_key().unwrap())
}

#[entrypoint]
async fn keys() -> Vec<String> {
    let mut all = vec![key_of("a").await, key_of("a").await, key_of("b").await];
    all.push(branch("eu", async || key_of("a").await).await);
    all.push(branch("us", async || key_of("a").await).await);
    let (inner, outer) = outer_key("a").await;
    all.extend([inner, outer]);
    all
}

#[test]
fn an_idempotency_key_belongs_to_one_call_of_one_run_of_one_thread() {
    on_every_checkpointer(async |world| {
        let runtime = open(&world, &Ledger::default(), 1);
        let mut all = Vec::new();
        for name in ["t", "t", "u"] {
            let invoke = runtime.thread(name).unwrap().invoke(keys()).if_unfinished(IfUnfinished::Refuse);
            all.extend(invoke.await.unwrap().completed().unwrap());
        }
        assert!(all.iter().all(|key| key.len() == 64), "{all:?}");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 21);
        assert!(idempotency_key().is_none());
    });
}

#[task]
async fn number(n: u32) -> u32 {
    note("number");
    n
}

#[entrypoint]
async fn two_thousand(at_once: bool) -> u32 {
    let mut sum = 0;
    if at_once {
        sum += join_all((0..2000).map(number)).await.into_iter().sum::<u32>();
    } else {
        for n in 0..2000 {
            sum += number(n).await;
        }
    }
    sum + interrupt::<u32>("more", &()).await
}

/// Line 109.
#[test]
fn two_thousand_tasks_are_replayed_without_running_one() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        for (name, at_once) in [("one by one", false), ("at once", true)] {
            if !at_once && world.folder().is_some() && world.durability == durably::Durability::Sync {
                continue; // two thousand syncs of the disk
            }
            {
                let thread = open(&world, &ledger, 1).thread(name).unwrap();
                let _ = thread.invoke(two_thousand(at_once)).await.unwrap();
                thread.answer("more", 1).await.unwrap();
            }
            assert_eq!(ledger.count("number"), 2000);
            let outcome = open(&world, &ledger, 1).thread(name).unwrap().resume(two_thousand).await.unwrap();
            assert_eq!((outcome.completed(), ledger.count("number")), (Some(1_999_001), 2000));
            ledger.clear();
        }
    });
}
