//! The crash explorer on the reference flows, which keep their promise, and on flows that do not: each fault is found.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use durably::{
    checkpoint::{BoxFuture, Checkpointer, SledCheckpointer},
    entrypoint, interrupt, resource, task,
    testing::{ExploreError, Explored, Finding, Ledger, conformance::Backend, explore},
};
use futures::future::{join_all, try_join_all};
use tests::size;

/// An effect that is no harm when it happens again.
#[task]
async fn look(what: &str) -> String {
    resource::<Ledger>().at_least_once(format!("look {what}"));
    tokio::task::yield_now().await;
    what.to_uppercase()
}

/// An effect that the receiver does once for a key.
#[task]
async fn pay(cents: u64) -> u64 {
    resource::<Ledger>().received(format!("pay {cents}"), durably::idempotency_key().as_deref());
    tokio::task::yield_now().await;
    cents
}

#[entrypoint]
async fn chain() -> Vec<String> {
    let mut log = Vec::new();
    for what in ["a", "b", "c", "d"] {
        log.push(look(what).await);
    }
    log
}

#[entrypoint]
async fn fan() -> Vec<String> {
    let (one, two) = tokio::join!(look("one"), look("two").spawn());
    let mut log = join_all(["a", "b", "c"].map(look)).await;
    log.extend([one, two, look("last").await]);
    log
}

#[entrypoint]
async fn equal() -> u64 {
    let mut sum = 0;
    for _ in 0..4 {
        sum += pay(10).await;
    }
    sum
}

#[entrypoint]
async fn pair(what: String) -> Vec<String> {
    vec![look(&what).await, look(&what).await]
}

#[entrypoint]
async fn nested() -> Vec<String> {
    let mut log = pair("x".to_owned()).await;
    let (one, two) = tokio::join!(pair("y".to_owned()), look("z"));
    log.extend(one);
    log.push(two);
    log
}

#[entrypoint]
async fn asks() -> String {
    let before = look("before").await;
    let yes: bool = interrupt("go on?", &before).await;
    durably::sleep(Duration::from_secs(3600)).await;
    let after = look("after").await;
    format!("{before} {yes} {after}")
}

#[task(retry(max_attempts = 3, initial_interval = "2s"))]
async fn flaky(cents: u64) -> anyhow::Result<u64> {
    resource::<Ledger>().at_least_once("flaky");
    anyhow::ensure!(durably::attempt() > 1, "not yet");
    Ok(cents)
}

#[entrypoint]
async fn approves() -> anyhow::Result<u64> {
    let cents = flaky(700).await?;
    let yes: bool = interrupt("pay?", &cents).await;
    Ok(if yes { pay(cents).await } else { 0 })
}

/// A folder for each store.
struct Sled {
    folder: tempfile::TempDir,
    last: Mutex<u32>,
}

impl Sled {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), last: Mutex::new(0) }
    }

    fn open(&self) -> Arc<dyn Checkpointer> {
        Arc::new(SledCheckpointer::open(self.folder.path().join(self.last.lock().unwrap().to_string())).unwrap())
    }
}

impl Backend for Sled {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>> {
        let mut last = self.last.lock().unwrap();
        // The store before is not looked at any more.
        let _ = std::fs::remove_dir_all(self.folder.path().join(last.to_string()));
        *last += 1;
        drop(last);
        Box::pin(std::future::ready(self.open()))
    }

    fn reopen(&self, store: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>> {
        drop(store);
        Box::pin(std::future::ready(Some(self.open())))
    }
}

/// All reference flows under one plan.
macro_rules! reference_flows {
    ($explore:ident => $plan:expr) => {{
        let mut all: Option<Explored> = None;
        let mut one = |name: &str, explored: Result<Explored, Box<ExploreError>>| {
            let explored = explored.unwrap_or_else(|error| panic!("{name}: {error}"));
            println!("{name}: {explored}");
            match &mut all {
                Some(all) => *all += explored,
                None => all = Some(explored),
            }
        };
        one(
            "chain",
            {
                let $explore = explore(chain);
                $plan
            }
            .run(),
        );
        one(
            "fan",
            {
                let $explore = explore(fan);
                $plan
            }
            .run(),
        );
        one(
            "equal",
            {
                let $explore = explore(equal);
                $plan
            }
            .run(),
        );
        one(
            "nested",
            {
                let $explore = explore(nested);
                $plan
            }
            .run(),
        );
        one(
            "asks",
            {
                let $explore = explore(asks).answer("go on?", true);
                $plan
            }
            .run(),
        );
        one(
            "approves",
            {
                let $explore = explore(approves).answer("pay?", true);
                $plan
            }
            .run(),
        );
        let all = all.unwrap();
        println!("in all: {all}");
        all
    }};
}

#[test]
fn the_reference_flows_keep_their_promise_in_memory() {
    let began = std::time::Instant::now();
    let all = reference_flows!(explore => explore.pairs(size(2_200)).orders(size(60)));
    println!("in {:?}", began.elapsed());
    assert!(all.crashes >= 20_000, "{all}");
}

#[test]
fn the_reference_flows_keep_their_promise_on_disk() {
    let all = reference_flows!(explore => {
        explore.backend(Sled::new()).at_most(size(10)).pairs(size(5)).orders(2)
    });
    assert!(all.crashes >= 90, "{all}");
}

#[track_caller]
fn found(explored: Result<Explored, Box<ExploreError>>) -> (ExploreError, String) {
    let error = *explored.unwrap_err();
    let message = error.to_string();
    println!("{message}");
    (error, message)
}

#[entrypoint]
async fn effect_outside() -> String {
    let before = look("a").await;
    resource::<Ledger>().at_least_once("outside");
    before
}

#[test]
fn an_effect_outside_of_a_task_is_found() {
    let (error, message) = found(explore(effect_outside).run());
    assert!(matches!(error.finding, Finding::OutsideOfTask { .. }), "{message}");
    assert!(message.starts_with("effect \"outside\" happened outside of a task"), "{message}");
    assert_eq!(error.case, "sync");
}

/// An effect that bypasses the run altogether: it is known only by how often it happened.
#[entrypoint(allow(spawn))]
async fn effect_aside() -> String {
    let before = look("a").await;
    let ledger = resource::<Ledger>().as_ref().clone();
    std::thread::spawn(move || ledger.exactly_once("aside")).join().unwrap();
    before + &look("b").await
}

#[test]
fn an_effect_that_no_run_knows_of_is_found_by_its_count() {
    let (error, message) = found(explore(effect_aside).run());
    assert!(
        matches!(&error.finding, Finding::Effect { effect, expected: 1, found: 2, .. } if effect == "aside"),
        "{message}"
    );
}

/// What a process is configured with: another thing after a deploy.
struct Tariff(u64);

#[task(skip(tariff))]
async fn price(tariff: &Tariff, article: &str) -> u64 {
    tokio::task::yield_now().await;
    u64::try_from(article.len()).unwrap() * tariff.0
}

#[entrypoint]
async fn priced() -> u64 {
    let tariff = resource::<Tariff>();
    price(&tariff, "tea").await + price(&tariff, "coffee").await
}

#[test]
fn a_result_that_depends_on_a_skipped_argument_is_found() {
    let explored =
        explore(priced).runtime(|builder, ledger| builder.resource(Tariff(u64::from(ledger.process())))).run();
    let (error, message) = found(explored);
    assert!(matches!(error.finding, Finding::Outcome { .. }), "{message}");
    assert!(message.starts_with("the outcome differs: it is "), "{message}");
    assert!(message.contains("without crashes 9;"), "{message}");
    assert!(message.contains("a skipped argument that changed"), "{message}");
}

static READ: AtomicU32 = AtomicU32::new(0);

#[entrypoint]
async fn branches() -> String {
    let first = look("first").await;
    if READ.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        look("even").await
    } else {
        look("odd").await
    };
    first + &look("last").await
}

#[test]
fn a_branch_on_what_is_not_recorded_is_found() {
    let (error, message) = found(explore(branches).run());
    assert!(message.contains("look even") || message.contains("look odd") || message.contains("\"even\""), "{message}");
    assert!(matches!(error.finding, Finding::Run(_) | Finding::Effect { .. }), "{message}");
}

/// A payment that the receiver cannot tell from another one.
#[task]
async fn pay_blindly(cents: u64) -> u64 {
    resource::<Ledger>().exactly_once("blind payment");
    cents
}

#[entrypoint]
async fn pays_blindly() -> u64 {
    let cents: u64 = look("price").await.len().try_into().unwrap();
    pay_blindly(cents).await
}

#[test]
fn a_payment_before_its_record_and_without_a_key_is_found() {
    let (error, message) = found(explore(pays_blindly).run());
    assert_eq!(error.case, "sync before:3", "{message}");
    let begin =
        "effect \"blind payment\" (exactly once) happened twice, and without crashes once; its task was cut off";
    assert!(message.starts_with(begin), "{message}");
    assert!(message.contains("the process dies before commit 3"), "{message}");
    assert!(message.contains("1: task \"look\"(what=\"price\") gave \"PRICE\""), "{message}");
    // The case alone shows it again.
    let (again, _) = found(explore(pays_blindly).case(error.case.clone()).run());
    assert_eq!(again.case, error.case);
    assert!(explore(pays_blindly).case("sync before:2").run().is_ok());
}

#[entrypoint]
async fn in_any_order() -> String {
    let articles: HashMap<String, u32> = (0..8).map(|n| (format!("article {n}"), n)).collect();
    let mut log = Vec::new();
    for article in articles.keys() {
        log.push(look(article).await);
    }
    log.sort();
    log.concat()
}

#[test]
fn the_order_of_a_hash_map_is_found() {
    let (error, message) = found(explore(in_any_order).run());
    assert!(message.contains("the code no longer matches the journal"), "{message}");
    assert!(matches!(error.finding, Finding::Run(durably::RunError::Nondeterminism(_))), "{message}");
}

#[task(retry(max_attempts = 3, initial_interval = "1s"))]
async fn pay_and_fail() -> anyhow::Result<u64> {
    resource::<Ledger>().exactly_once("payment");
    anyhow::ensure!(durably::attempt() > 1, "no answer from the bank");
    Ok(1)
}

#[entrypoint]
async fn retries_a_payment() -> anyhow::Result<u64> {
    pay_and_fail().await
}

#[test]
fn a_retry_that_repeats_a_payment_is_found() {
    let (error, message) = found(explore(retries_a_payment).run());
    assert_eq!(error.case, "sync", "no crash is needed: {message}");
    assert!(
        message.starts_with("effect \"payment\" was repeated by a retry: it happened in attempts 1 and 2;"),
        "{message}"
    );
}

#[test]
fn what_the_explorer_is_not_told_it_asks_for() {
    let (_, message) = found(explore(asks).run());
    assert!(message.starts_with("the run asks \"go on?\", and no answer was given for that"), "{message}");
    let (_, message) =
        found(explore(asks).answer("go on?", true).check(|_, ledger| assert_eq!(ledger.count("look before"), 1)).run());
    assert!(message.starts_with("the check failed: assertion"), "{message}");
    let (_, message) = found(explore(asks).answer("go on?", true).case("sync behind:3").run());
    assert!(message.starts_with("no such case: \"behind:3\" is no crash"), "{message}");
}

/// Two bodies, of which the second one to end overwrites what the first one wrote: only the order can show it.
#[task]
async fn write(n: u32) -> u32 {
    let ledger = resource::<Ledger>();
    let page = ledger.own::<AtomicU32>();
    tokio::task::yield_now().await;
    page.store(n, Ordering::Relaxed);
    n
}

#[task]
async fn read() -> u32 {
    resource::<Ledger>().own::<AtomicU32>().load(Ordering::Relaxed)
}

#[entrypoint]
async fn first_wins() -> u32 {
    durably::select! {
        one = write(1) => one,
        two = write(2) => two,
    }
}

#[test]
fn bodies_end_in_every_order() {
    let (error, message) = found(explore(first_wins).run());
    assert!(matches!(error.finding, Finding::Outcome { .. }), "{message}");
    let explored =
        explore(first_wins).outcome_may_differ().check(|outcome, _| assert!(matches!(outcome, Ok(1 | 2)))).run();
    assert!(explored.unwrap().all_orders);
    // Three bodies end in six orders.
    let explored = explore(three).run().unwrap();
    assert_eq!((explored.orders, explored.all_orders), (6, true));
}

#[entrypoint]
async fn three() -> anyhow::Result<Vec<u32>> {
    Ok(try_join_all((0..3).map(|n| async move { anyhow::Ok(write(n).await) })).await?)
}

#[test]
fn an_exploration_within_a_tokio_runtime_is_the_same() {
    let plain = explore(chain).run().unwrap();
    let within = tests::block_on(async { explore(chain).run().unwrap() });
    assert_eq!(plain, within);
}
