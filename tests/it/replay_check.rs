//! Journals of yesterday's flow against today's code: which edits go on with them, and where the others part.
//!
//! Each flow below has the name of the first one, as if its code had been edited.

use durably::{
    Runtime, RuntimeBuilder, ThreadFile, entrypoint, interrupt, task,
    testing::{Reach, ReplayReport, Verdict, replay_check},
};
use tests::block_on;

#[task]
async fn reserve(article: &str) -> String {
    format!("one {article}")
}

#[task]
async fn charge(cents: u64) -> u64 {
    cents
}

#[task]
async fn ship(to: &str) -> String {
    to.to_owned()
}

#[entrypoint]
async fn part(n: u64) -> u64 {
    charge(n).await + charge(n + 1).await
}

/// The flow as it was.
#[entrypoint]
async fn order(article: String) -> String {
    let reserved = reserve(&article).await;
    let paid = charge(350).await;
    let parts = part(1).await;
    let to: String = interrupt("to?", &reserved).await;
    let shipped = ship(&to).await;
    format!("{reserved} {paid} {parts} {shipped}")
}

/// One journal for each place where a run can stand: paused, completed, and cut off after each commit.
fn journals() -> Vec<ThreadFile> {
    let commits = tests::commits_of(
        |builder| builder,
        async |runtime| {
            let thread = runtime.thread("t").unwrap();
            let _ = thread.invoke(order("tea".to_owned())).await.unwrap();
            thread.answer("to?", "Ada").await.unwrap();
            let _ = thread.resume(order).await.unwrap();
        },
    );
    let cuts = (1..=commits.len()).map(|cut| durably::checkpoint::MemoryCheckpointer::replay(&commits[..cut]));
    let file = async |store| Runtime::builder().checkpointer(store).thread("t").unwrap().export().await.unwrap();
    cuts.map(|store| block_on(file(store))).collect()
}

fn check(build: impl Fn() -> RuntimeBuilder) -> Result<ReplayReport, ReplayReport> {
    journals().into_iter().fold(replay_check(build), durably::testing::ReplayCheck::thread).run()
}

#[track_caller]
fn passes(build: impl Fn() -> RuntimeBuilder) {
    let report = check(build).unwrap_or_else(|report| panic!("{report}"));
    let reached: Vec<Reach> = report
        .runs
        .iter()
        .map(|run| match run.verdict {
            Verdict::Compatible(reach) => reach,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((reached[0], reached.last()), (Reach::GoesOn, Some(&Reach::Ends)));
    assert!(reached.contains(&Reach::Asks));
}

/// The first record that parts the two, and what is said of it.
#[track_caller]
fn parts(build: impl Fn() -> RuntimeBuilder, wanted: &str) {
    let report = check(build).unwrap_err();
    let said = report.to_string();
    println!("{said}\n");
    let last = report.runs.last().unwrap();
    assert!(!matches!(last.verdict, Verdict::Compatible(_)), "{last}");
    assert!(last.to_string().contains(wanted), "{last}");
    // A run that has not come to the change yet goes on with it.
    assert!(matches!(report.runs[0].verdict, Verdict::Compatible(Reach::GoesOn)), "{said}");
}

macro_rules! edited {
    ($name:ident($article:ident: $input:ty) -> $output:ty $body:block) => {
        mod $name {
            use super::*;

            #[entrypoint(name = "order")]
            pub(super) async fn edited($article: $input) -> $output $body
        }
    };
}

edited!(harmless(article: String) -> String {
    // Renamed, moved, logged, and another way to the same calls.
    println!("an order of {article}");
    let first = reserve(&article);
    let one = first.await;
    let paid = Box::pin(charge(350)).await;
    let parts = part(1).await;
    let whereto: String = interrupt("to?", &one).await;
    format!("{one} {paid} {parts} {}", ship(&whereto).await)
});

edited!(patched(article: String) -> String {
    let reserved = reserve(&article).await;
    if durably::patched("charge less").await {
        charge(300).await;
    } else {
        charge(350).await;
    }
    part(1).await;
    let to: String = interrupt("to?", &reserved).await;
    ship(&to).await
});

edited!(added(article: String) -> String {
    let reserved = reserve(&article).await;
    charge(1).await;
    charge(350).await;
    part(1).await;
    let to: String = interrupt("to?", &reserved).await;
    ship(&to).await
});

edited!(removed(article: String) -> String {
    let reserved = reserve(&article).await;
    part(1).await;
    let to: String = interrupt("to?", &reserved).await;
    ship(&to).await
});

edited!(reordered(article: String) -> String {
    charge(350).await;
    let reserved = reserve(&article).await;
    part(1).await;
    let to: String = interrupt("to?", &reserved).await;
    ship(&to).await
});

edited!(changed_argument(article: String) -> String {
    let reserved = reserve(&article).await;
    charge(351).await;
    part(1).await;
    let to: String = interrupt("to?", &reserved).await;
    ship(&to).await
});

edited!(ended_early(article: String) -> String {
    let reserved = reserve(&article).await;
    charge(350).await;
    part(1).await;
    interrupt::<String>("to?", &reserved).await
});

edited!(asks_otherwise(article: String) -> String {
    let reserved = reserve(&article).await;
    charge(350).await;
    part(1).await;
    let to: String = interrupt("where?", &reserved).await;
    ship(&to).await
});

mod renamed_task {
    use super::*;

    #[task]
    async fn bill(cents: u64) -> u64 {
        cents
    }

    #[entrypoint(name = "order")]
    pub(super) async fn edited(article: String) -> String {
        let reserved = reserve(&article).await;
        bill(350).await;
        part(1).await;
        let to: String = interrupt("to?", &reserved).await;
        ship(&to).await
    }
}

mod kept_name {
    use super::*;

    #[task(name = "charge")]
    async fn bill(cents: u64) -> u64 {
        cents
    }

    #[entrypoint(name = "part")]
    async fn portion(n: u64) -> u64 {
        bill(n).await + bill(n + 1).await
    }

    #[entrypoint(name = "order")]
    pub(super) async fn edited(article: String) -> String {
        let reserved = reserve(&article).await;
        bill(350).await;
        portion(1).await;
        let to: String = interrupt("to?", &reserved).await;
        ship(&to).await
    }
}

mod retyped {
    use super::*;

    #[task]
    async fn charge(cents: u64) -> String {
        cents.to_string()
    }

    #[entrypoint(name = "order")]
    pub(super) async fn edited(article: String) -> String {
        let reserved = reserve(&article).await;
        charge(350).await;
        reserved
    }
}

#[entrypoint(name = "part")]
async fn part_edited(n: u64) -> u64 {
    charge(n).await + charge(n + 2).await
}

edited!(changed_within(article: String) -> String {
    let reserved = reserve(&article).await;
    charge(350).await;
    part_edited(1).await;
    let to: String = interrupt("to?", &reserved).await;
    ship(&to).await
});

#[test]
fn the_same_code_and_harmless_edits_pass() {
    passes(|| Runtime::builder().entrypoint(order));
    passes(|| Runtime::builder().entrypoint(harmless::edited));
    passes(|| Runtime::builder().entrypoint(kept_name::edited));
}

#[test]
fn a_patched_change_passes_for_old_runs() {
    let report = check(|| Runtime::builder().entrypoint(patched::edited)).unwrap_or_else(|report| panic!("{report}"));
    assert!(report.to_string().contains("runs replay with today's code"), "{report}");
}

#[test]
fn each_other_edit_is_told_with_both_sides() {
    parts(
        || Runtime::builder().entrypoint(added::edited),
        "record 2 is the outcome of task \"charge\" (cents=350), at tests/it/replay_check.rs:",
    );
    parts(
        || Runtime::builder().entrypoint(added::edited),
        "but the code called instead: task \"charge\" (cents=1), at ",
    );
    parts(|| Runtime::builder().entrypoint(removed::edited), "of task \"charge\" (cents=350)");
    parts(|| Runtime::builder().entrypoint(removed::edited), "called instead: entrypoint \"part\" (n=1)");
    parts(|| Runtime::builder().entrypoint(reordered::edited), "record 1 is the outcome of task \"reserve\"");
    parts(|| Runtime::builder().entrypoint(changed_argument::edited), "called instead: task \"charge\" (cents=351)");
    parts(|| Runtime::builder().entrypoint(ended_early::edited), "of task \"ship\" (to=\"Ada\")");
    parts(|| Runtime::builder().entrypoint(asks_otherwise::edited), "called instead: interrupt \"where?\"");
    parts(|| Runtime::builder().entrypoint(renamed_task::edited), "called instead: task \"bill\" (cents=350)");
    parts(|| Runtime::builder().entrypoint(retyped::edited), "the recorded outcome of \"charge\"");
}

#[test]
fn a_change_within_a_nested_entrypoint_is_found_while_it_is_open() {
    let report = check(|| Runtime::builder().entrypoint(changed_within::edited)).unwrap_err();
    let wanted = "of task \"charge\" (cents=2)";
    assert!(report.runs.iter().any(|run| run.to_string().contains(wanted)), "{report}");
    // Once it has ended it is one outcome, whatever it is made of today.
    assert!(matches!(report.runs.last().unwrap().verdict, Verdict::Compatible(Reach::Ends)), "{report}");
}

#[entrypoint(name = "order")]
async fn other_input(article: u64) -> String {
    reserve(&article.to_string()).await
}

#[test]
fn another_input_and_an_entrypoint_that_is_gone_are_told() {
    let report = check(|| Runtime::builder().entrypoint(other_input)).unwrap_err();
    assert!(report.runs[0].to_string().contains("the recorded input of entrypoint \"order\""), "{report}");
    let report = check(Runtime::builder).unwrap_err();
    assert!(report.to_string().contains("entrypoint \"order\" is not registered"), "{report}");
}

#[test]
fn files_are_read_from_a_folder_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for (nth, file) in journals().into_iter().enumerate() {
        std::fs::write(folder.path().join(format!("{nth}.durably")), file.to_bytes()).unwrap();
    }
    let report = replay_check(|| Runtime::builder().entrypoint(order)).folder(folder.path()).run().unwrap();
    assert_eq!(report.runs.len(), journals().len());
    std::fs::write(folder.path().join("99.durably"), "not a thread").unwrap();
    let report = replay_check(|| Runtime::builder().entrypoint(order)).folder(folder.path()).run().unwrap_err();
    assert!(report.to_string().contains("99.durably: these are not the bytes of an exported thread"), "{report}");
    let report = replay_check(Runtime::builder).folder(folder.path().join("none")).run().unwrap_err();
    assert!(matches!(report.runs[0].verdict, Verdict::Unreadable(_)), "{report}");
}

#[task]
async fn never() -> u32 {
    panic!("a body runs in a check")
}

#[entrypoint]
async fn unfinished() -> u64 {
    let (one, two) = tokio::join!(durably::random(), durably::now());
    let _ = two;
    durably::sleep(std::time::Duration::from_secs(1)).await;
    one + u64::from(never().await)
}

#[test]
fn nothing_is_run_by_a_check() {
    let file = block_on(async {
        let runtime = Runtime::builder().memory();
        runtime.drain();
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(unfinished()).await.unwrap();
        thread.export().await.unwrap()
    });
    let report = replay_check(|| Runtime::builder().entrypoint(unfinished)).thread(file).run().unwrap();
    assert!(matches!(report.runs[0].verdict, Verdict::Compatible(Reach::GoesOn)), "{report}");
    // Within a tokio runtime too.
    let checked = journals().into_iter().fold(replay_check(Runtime::builder), durably::testing::ReplayCheck::thread);
    assert!(block_on(async move { checked.run() }).is_err());
}
