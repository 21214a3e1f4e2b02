//! What is left of a run that failed or was cut off, and what a resume does with it. Each test names its line in the list
//! of behaviours.

use std::{fmt, sync::Arc};

use durably::{
    CallStatus, Durability, IfUnfinished, Outcome, RunError, Runtime, Status, ValueError,
    checkpoint::{Change, Checkpointer, Key, MemoryCheckpointer, SledCheckpointer},
    entrypoint, interrupt, resource, task,
    testing::FaultyCheckpointer,
};
use futures::future::try_join_all;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tests::{Ledger, World, block_on, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

use crate::watch::cut;

fn open(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).resource(Hang::default()))
}

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

/// Whether the test has mended what was broken.
fn mended() -> bool {
    resource::<Ledger>().count("mended") > 0
}

#[task]
async fn t1(n: u32) -> u32 {
    note("t1");
    n * 10
}

#[task]
async fn t2(n: u32) -> anyhow::Result<u32> {
    note("t2");
    anyhow::ensure!(mended(), "t2 is broken");
    Ok(n + 1)
}

#[entrypoint]
async fn wf(n: u32, #[previous] previous: Option<u32>) -> anyhow::Result<u32> {
    note("wf");
    note(&format!("{previous:?}"));
    t2(t1(n).await).await
}

fn failed(error: RunError) -> String {
    match error {
        RunError::Failed(failure) => failure.to_string(),
        other => panic!("{other}"),
    }
}

/// Line 19.
#[test]
fn a_resume_runs_what_failed_and_not_what_had_ended() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let error = open(&world, &ledger).thread("t").unwrap().invoke(wf(1)).await.unwrap_err();
        assert_eq!(failed(error), "t2 is broken");
        ledger.note("mended");
        let outcome = open(&world, &ledger).thread("t").unwrap().resume(wf).await.unwrap();
        assert_eq!(outcome.completed(), Some(11));
        assert_eq!(["wf", "t1", "t2", "None"].map(|effect| ledger.count(effect)), [2, 1, 2, 2]);
    });
}

/// Line 20.
#[test]
fn a_new_input_after_a_failure_is_refused_or_starts_from_nothing() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        open(&world, &ledger).thread("t").unwrap().invoke(wf(1)).await.unwrap_err();
        ledger.clear();
        ledger.note("mended");
        let thread = open(&world, &ledger).thread("t").unwrap();
        let refused = thread.invoke(wf(2)).await.unwrap_err();
        assert!(matches!(refused, RunError::Unfinished { status: Status::Failed, .. }), "{refused}");
        assert_eq!(ledger.total(), 1, "a refusal runs nothing");
        let outcome = thread.invoke(wf(2)).if_unfinished(IfUnfinished::Discard).await.unwrap();
        assert_eq!(outcome.completed(), Some(21));
        assert_eq!(["wf", "t1", "t2", "None"].map(|effect| ledger.count(effect)), [1, 1, 1, 1]);
        let outcome = thread.invoke(wf(3)).await.unwrap();
        assert_eq!((outcome.completed(), ledger.count("Some(21)")), (Some(31), 1));
    });
}

/// Line 22.
#[test]
fn a_resume_on_a_fresh_thread_is_an_error_and_writes_nothing() {
    block_on(async {
        let store = Arc::new(FaultyCheckpointer::new(Arc::new(MemoryCheckpointer::new())));
        let runtime = Runtime::builder().resource(Ledger::default()).shared_checkpointer(store.clone());
        let thread = runtime.thread("t").unwrap();
        assert!(matches!(thread.resume(wf).await, Err(RunError::NothingToResume { .. })));
        assert!(thread.state().await.unwrap().is_none());
        assert_eq!(store.commits(), 0);
    });
}

/// Line 24.
#[test]
fn the_state_of_a_failed_run_shows_the_error_and_where_it_came_from() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        open(&world, &ledger).thread("t").unwrap().invoke(wf(1)).await.unwrap_err();
        let state = open(&world, &ledger).thread("t").unwrap().state().await.unwrap().unwrap();
        assert_eq!((state.status, state.entrypoint.as_str(), state.driven), (Status::Failed, "wf", false));
        assert_eq!(state.reason.as_deref(), Some("t2 is broken"));
        let [one, two] = state.calls.as_slice() else { panic!("{:?}", state.calls) };
        assert_eq!((one.name.as_str(), &one.status), ("t1", &CallStatus::Value("10".to_owned())));
        let CallStatus::Failed(failure) = &two.status else { panic!("{two:?}") };
        assert_eq!((two.name.as_str(), failure.to_string().as_str()), ("t2", "t2 is broken"));
        assert!(two.file.ends_with("failure.rs"), "{}", two.file);
    });
}

/// Writes itself as a text and reads only numbers.
#[derive(Debug)]
struct Sly;

impl Serialize for Sly {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("sly")
    }
}

impl<'de> Deserialize<'de> for Sly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|_| Self)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Report {
    pages: u32,
    total: Sly,
}

#[task]
async fn report() -> anyhow::Result<Report> {
    note("report");
    Ok(Report { pages: 1, total: Sly })
}

#[entrypoint]
async fn reports() -> anyhow::Result<u32> {
    let pages = report().await?.pages;
    Ok(t1(pages).await)
}

#[entrypoint]
async fn gives_sly() -> Report {
    Report { pages: t1(1).await, total: Sly }
}

fn assert_names_the_field(error: &RunError, what: &str) {
    let RunError::Value { what: told, source: source @ ValueError::Unreadable { .. } } = error else {
        panic!("{error}")
    };
    assert_eq!((told.as_str(), source.field()), (what, Some("total")));
}

/// Lines 25 and 40; what cannot be written at all does not compile, see `ui/task/output_not_serialisable.rs`.
#[test]
fn a_value_that_does_not_come_back_stops_the_run_at_its_task_before_the_next_effect() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let thread = open(&world, &ledger).thread("t").unwrap();
            let error = thread.invoke(reports()).await.unwrap_err();
            assert_names_the_field(&error, "the output of task \"report\"");
            assert_eq!((ledger.count("report"), ledger.count("t1")), (1, 0));
        }
        let runtime = open(&world, &ledger);
        let state = runtime.thread("t").unwrap().state().await.unwrap().unwrap();
        assert_eq!((state.status, state.calls.len()), (Status::Stuck, 0));
        let error = runtime.thread("u").unwrap().invoke(gives_sly()).await.unwrap_err();
        assert_names_the_field(&error, "the output of entrypoint \"gives_sly\"");
        assert_eq!(ledger.count("t1"), 1);
    });
}

/// Tells of its end.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// What the three siblings tell each other.
#[derive(Clone, Debug, Default)]
struct Signals {
    begun: Arc<Notify>,
    begun_too: Arc<Notify>,
    dropped: Arc<Notify>,
}

#[task]
async fn sibling(kind: String) -> anyhow::Result<String> {
    note(&kind);
    let signals = resource::<Signals>();
    match kind.as_str() {
        _ if mended() => {}
        "slow" => {
            let _dropped = Dropped(signals.dropped.clone());
            signals.begun.notify_one();
            std::future::pending::<()>().await;
        }
        "detached" => {
            signals.begun_too.notify_one();
            signals.dropped.notified().await;
        }
        _ => {
            tokio::join!(signals.begun.notified(), signals.begun_too.notified());
            anyhow::bail!("the {kind} one is broken");
        }
    }
    Ok(kind)
}

#[entrypoint]
async fn siblings() -> anyhow::Result<Vec<String>> {
    let call = |kind: &str| sibling(kind.to_owned());
    try_join_all([call("slow"), call("failing"), call("detached").detached()]).await
}

/// Line 26.
#[test]
fn a_failure_drops_its_siblings_in_place_and_waits_for_the_detached_one() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let open = || {
            let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(Signals::default()));
            runtime.thread("t").unwrap()
        };
        assert_eq!(failed(open().invoke(siblings()).await.unwrap_err()), "the failing one is broken");
        assert_eq!(["slow", "failing", "detached"].map(|kind| ledger.count(kind)), [1, 1, 1]);
        ledger.note("mended");
        let outcome = open().resume(siblings).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["slow", "failing", "detached"]);
        let counts = ["slow", "failing", "detached"].map(|kind| ledger.count(kind));
        assert_eq!(counts, [2, 2, 1], "the detached one had ended, and is on record");
    });
}

#[task]
async fn step(n: u32) -> u32 {
    note(&format!("step {n}"));
    let hang = resource::<Hang>();
    if n == hang.at && !mended() {
        hang.hung.notify_one();
        std::future::pending::<()>().await;
    }
    n
}

/// At which step a body hangs until things are mended, and the sign of it.
#[derive(Clone, Debug, Default)]
struct Hang {
    at: u32,
    hung: Arc<Notify>,
}

#[entrypoint]
async fn three_steps(from: u32) -> u32 {
    step(from).await + step(from + 1).await + step(from + 2).await
}

/// Drives until the step hangs, then drops the drive.
async fn cut_at_step(world: &World, ledger: &Ledger, at: u32) {
    let hang = Hang { at, ..Hang::default() };
    let runtime = world.open(|builder| builder.resource(ledger.clone()).resource(hang.clone()));
    cut(runtime.thread("t").unwrap().invoke(three_steps(1)), hang.hung.notified()).await;
}

/// Line 27.
#[test]
fn a_dropped_drive_keeps_what_had_ended_and_repeats_what_had_not() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        cut_at_step(&world, &ledger, 2).await;
        ledger.note("mended");
        let thread = open(&world, &ledger).thread("t").unwrap();
        assert_eq!(thread.resume(three_steps).await.unwrap().completed(), Some(6));
        let first = ledger.count("step 1");
        match world.durability {
            Durability::Sync => assert_eq!(first, 1),
            // As far as the writes in the background had come.
            Durability::Async => assert!((1..=2).contains(&first)),
            _ => assert_eq!(first, 2),
        }
        assert_eq!(["step 2", "step 3"].map(|step| ledger.count(step)), [2, 1]);
    });
}

/// Line 37, in one process.
#[test]
fn what_two_tasks_returned_is_kept_in_a_hundred_of_a_hundred_cuts() {
    block_on(async {
        for _ in 0..100 {
            let (world, ledger) = (World::memory(), Ledger::default());
            cut_at_step(&world, &ledger, 3).await;
            ledger.note("mended");
            let thread = open(&world, &ledger).thread("t").unwrap();
            assert_eq!(thread.resume(three_steps).await.unwrap().completed(), Some(6));
            assert_eq!(["step 1", "step 2", "step 3"].map(|step| ledger.count(step)), [1, 1, 2]);
        }
    });
}

/// Lines 38 and 39, in one process.
#[test]
fn a_cut_in_the_first_task_leaves_the_thread_with_its_input() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        cut_at_step(&world, &ledger, 1).await;
        ledger.note("mended");
        let thread = open(&world, &ledger).thread("t").unwrap();
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.input.as_str(), state.driven), (Status::Running, "[1]", false));
        assert_eq!(thread.resume(three_steps).await.unwrap().completed(), Some(6));
    });
}

/// Line 39.
#[test]
fn in_exit_mode_a_cut_keeps_the_input_alone_and_a_failure_keeps_all() {
    block_on(async {
        for world in [World::memory(), World::sled()] {
            let (world, ledger) = (world.with(Durability::Exit), Ledger::default());
            cut_at_step(&world, &ledger, 3).await;
            {
                let state = open(&world, &ledger).thread("t").unwrap().state().await.unwrap().unwrap();
                assert_eq!((state.input.as_str(), state.calls.len()), ("[1]", 0));
            }
            open(&world, &ledger).thread("u").unwrap().invoke(wf(1)).await.unwrap_err();
            let state = open(&world, &ledger).thread("u").unwrap().state().await.unwrap().unwrap();
            assert_eq!(state.calls.len(), 2);
        }
    });
}

#[task]
async fn falsy<T: fmt::Debug + Serialize + serde::de::DeserializeOwned + Send + Sync + 'static>(it: T) -> T {
    note(&format!("falsy {it:?}"));
    it
}

#[entrypoint]
async fn all_falsy() -> bool {
    let zero = falsy(0).await == 0 && falsy(String::new()).await.is_empty() && !falsy(false).await;
    falsy(()).await;
    let none = falsy(None::<u32>).await.is_none() && falsy(Vec::<u32>::new()).await.is_empty();
    interrupt::<bool>("go on?", &()).await && zero && none
}

/// Line 29.
#[test]
fn falsy_results_are_results() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        {
            let thread = open(&world, &ledger).thread("t").unwrap();
            let _ = thread.invoke(all_falsy()).await.unwrap();
            thread.answer("go on?", true).await.unwrap();
        }
        assert_eq!(ledger.total(), 6);
        let outcome = open(&world, &ledger).thread("t").unwrap().resume(all_falsy).await.unwrap();
        assert_eq!((outcome, ledger.total()), (Outcome::Completed(true), 6));
    });
}

#[entrypoint]
async fn sets_up_then_asks(n: u32) -> u32 {
    let set_up = t1(n).await;
    let more: u32 = interrupt("ask", &set_up).await;
    t1(set_up + more).await
}

/// Line 35.
#[test]
fn a_resume_writes_no_record_again() {
    block_on(async {
        let memory = MemoryCheckpointer::new();
        let mut records: Vec<Vec<Key>> = Vec::new();
        for part in 0..2 {
            let store = Arc::new(FaultyCheckpointer::new(Arc::new(memory.reopen())));
            let runtime = Runtime::builder().resource(Ledger::default()).shared_checkpointer(store.clone());
            let thread = runtime.thread("t").unwrap();
            if part == 0 {
                let _ = thread.invoke(sets_up_then_asks(1)).await.unwrap();
                thread.answer("ask", 5).await.unwrap();
            } else {
                assert_eq!(thread.resume(sets_up_then_asks).await.unwrap().completed(), Some(150));
            }
            let changes = store.recorded().into_iter().flat_map(|commit| commit.changes);
            let written = changes.filter_map(|change| match change {
                Change::Put(key @ Key::Record { .. }, _) => Some(key),
                _ => None,
            });
            records.push(written.collect());
        }
        // Start, outcome of `t1`, question; then the question's outcome, that of the second `t1`, the end.
        assert_eq!(records.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        let mut all = records.concat();
        all.dedup();
        assert_eq!(all.len(), 6, "{all:?}");
    });
}

/// Line 42, for a handle: what is streamed comes later.
#[test]
fn a_dropped_handle_lets_the_run_go_on_to_its_end() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let (begun, go_on) = (Gate::default(), Gate::default());
        let gates = Gates { begun: begun.clone(), go_on: go_on.clone() };
        let thread = world.open(|builder| builder.resource(ledger.clone()).resource(gates)).thread("t").unwrap();
        drop(thread.invoke(gated(1)).start());
        begun.0.notified().await;
        go_on.0.notify_one();
        assert_eq!(thread.resume(gated).wait().await.unwrap().completed(), Some(1));
        assert_eq!(ledger.count("gated"), 1);
    });
}

#[derive(Clone, Debug, Default)]
struct Gate(Arc<Notify>);

#[derive(Clone, Debug)]
struct Gates {
    begun: Gate,
    go_on: Gate,
}

#[task]
async fn through_gates(n: u32) -> u32 {
    note("gated");
    let gates = resource::<Gates>();
    gates.begun.0.notify_one();
    gates.go_on.0.notified().await;
    n
}

#[entrypoint]
async fn gated(n: u32) -> u32 {
    through_gates(n).await
}

/// Line 104.
#[test]
fn a_second_opening_of_a_folder_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let first = Runtime::builder().open(folder.path()).unwrap();
    let error = Runtime::builder().open(folder.path()).unwrap_err();
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
    assert!(matches!(error, durably::CheckpointError::Locked { .. }), "{error}");
    drop(first);
    let _: Arc<dyn Checkpointer> = Arc::new(SledCheckpointer::open(folder.path()).unwrap());
}
