//! A run that was cut off goes on where it was.

use durably::{Outcome, entrypoint, task};
use futures::future::try_join_all;
use tests::{Ledger, cut_after_every_record, in_every_mode};

#[task(skip(ledger))]
async fn fetch(ledger: &Ledger, url: &str) -> anyhow::Result<String> {
    ledger.note(url);
    Ok(format!("<{url}>"))
}

#[entrypoint]
async fn digest(urls: Vec<String>) -> anyhow::Result<Vec<String>> {
    let ledger = durably::resource::<Ledger>();
    try_join_all(urls.iter().map(|url| fetch(&ledger, url))).await
}

fn urls() -> Vec<String> {
    vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]
}

#[test]
fn a_completed_run_gives_its_output_again_and_runs_nothing() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let expected = Outcome::Completed(vec!["<a>".to_owned(), "<b>".to_owned(), "<c>".to_owned()]);
        {
            let runtime = world.open(|builder| builder.resource(ledger.clone()));
            let outcome = runtime.thread("t").unwrap().invoke(digest(urls())).await.unwrap();
            assert_eq!(outcome, expected);
        }
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let outcome = runtime.thread("t").unwrap().resume(digest).await.unwrap();
        assert_eq!(outcome, expected);
        assert_eq!(ledger.total(), 3);
    });
}

#[test]
fn a_finished_task_answers_from_the_journal_after_a_crash_at_any_record() {
    let ledger = Ledger::default();
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()),
        async |runtime| {
            let _ = runtime.thread("t").unwrap().invoke(digest(urls())).await.unwrap();
            ledger.clear();
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let outcome = if cut == 0 { thread.invoke(digest(urls())).await } else { thread.resume(digest).await };
            assert_eq!(outcome.unwrap().completed().unwrap(), ["<a>", "<b>", "<c>"]);
            ledger.clear();
        },
    );
}
