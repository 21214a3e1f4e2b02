//! A thread as a file: it goes on elsewhere, from wherever it was; what is damaged, cut or newer is refused, and stores
//! nothing.

use durably::{
    ImportError, Outcome, RunError, Runtime, Status, ThreadFile, checkpoint::Key, continue_as_new, entrypoint,
    interrupt, resource, task,
};
use tests::{Chance, Ledger, World, block_on, cut_after_every_record, on_every_checkpointer, size};

#[task]
async fn note(what: &str, size: usize) -> String {
    resource::<Ledger>().note(what);
    what.repeat(size)
}

#[entrypoint]
async fn essay(chapter: u32, #[previous] last: Option<usize>) -> usize {
    let long = note("long", 3_000).await;
    if chapter == 0 {
        return continue_as_new(essay(1)).await;
    }
    let more: u32 = interrupt("more?", &chapter).await;
    let short = note("short", usize::try_from(more).unwrap()).await;
    long.len() + short.len() + last.unwrap_or_default()
}

const LENGTH: usize = 3_000 * 4 + 2 * 5;

fn runtime(world: &World, ledger: &Ledger) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).entrypoint(essay))
}

#[test]
fn an_exported_thread_goes_on_elsewhere_where_it_was() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let thread = runtime(&world, &ledger).thread("a/b\0c").unwrap();
        let _ = thread.invoke(essay(0)).await.unwrap();
        thread.answer("more?", 2).await.unwrap();
        let file = thread.export().await.unwrap();
        let read = ThreadFile::from_bytes(&file.to_bytes()).unwrap();
        assert_eq!(read, file);
        assert_eq!(read.thread().as_str(), "a/b\0c");
        for elsewhere in [World::memory(), World::sled()] {
            let ledger = Ledger::default();
            let runtime = runtime(&elsewhere, &ledger);
            let there = runtime.import(&read).await.unwrap();
            assert_eq!(there.export().await.unwrap(), file, "what is imported is what was exported");
            assert_eq!(there.resume(essay).await.unwrap(), Outcome::Completed(LENGTH));
            assert_eq!((ledger.count("long"), ledger.count("short")), (0, 1));
            // What the thread has saved came along too.
            let _ = there.invoke(essay(1)).await.unwrap();
            there.answer("more?", 0).await.unwrap();
            assert_eq!(there.resume(essay).await.unwrap(), Outcome::Completed(LENGTH + 3_000 * 4));
        }
        assert_eq!(thread.resume(essay).await.unwrap(), Outcome::Completed(LENGTH), "and it goes on here too");
    });
}

#[test]
fn a_thread_is_imported_from_what_a_crash_leaves_after_any_commit() {
    let ledger = Ledger::default();
    cut_after_every_record(
        |builder| builder.resource(ledger.clone()).entrypoint(essay),
        async |runtime| {
            let thread = runtime.thread("t").unwrap();
            let _ = thread.invoke(essay(0)).await.unwrap();
            thread.answer("more?", 2).await.unwrap();
            assert_eq!(thread.resume(essay).await.unwrap(), Outcome::Completed(LENGTH));
        },
        async |runtime, cut| {
            let thread = runtime.thread("t").unwrap();
            let file = match thread.export().await {
                Err(RunError::NothingToResume { .. }) if cut == 0 => return,
                file => file.unwrap(),
            };
            let there = Runtime::builder().resource(ledger.clone()).entrypoint(essay).memory();
            let there = there.import_as("elsewhere", &file).await.unwrap();
            assert_eq!(there.state().await.unwrap().unwrap().status, thread.state().await.unwrap().unwrap().status);
            loop {
                match there.resume(essay).await.unwrap() {
                    Outcome::Completed(length) => break assert_eq!(length, LENGTH),
                    Outcome::Interrupted(_) => there.answer("more?", 2).await.unwrap(),
                    other => panic!("{other:?}"),
                }
            }
        },
    );
}

async fn exported() -> Vec<u8> {
    let runtime = runtime(&World::memory(), &Ledger::default());
    let thread = runtime.thread("t").unwrap();
    let _ = thread.invoke(essay(1)).await.unwrap();
    thread.export().await.unwrap().to_bytes()
}

/// Reads and imports; what is stored after a refusal is nothing.
async fn refused(bytes: &[u8]) -> Option<ImportError> {
    let world = World::memory();
    let runtime = world.runtime();
    let imported = match ThreadFile::from_bytes(bytes) {
        Ok(file) => runtime.import(&file).await.map(drop),
        Err(error) => Err(error),
    };
    let error = imported.err()?;
    let thread = durably::ThreadId::new("t").unwrap();
    drop(runtime);
    let left = world.checkpointer().scan(&thread, Key::FIRST, Key::LAST).await.unwrap();
    assert!(left.is_empty(), "{error}");
    assert!(error.to_string().contains("nothing was stored"), "{error}");
    Some(error)
}

#[test]
fn a_cut_or_damaged_file_is_refused_and_nothing_is_stored() {
    block_on(async {
        let bytes = exported().await;
        assert!(refused(&bytes).await.is_none());
        for cut in 0..bytes.len() {
            let error = refused(&bytes[..cut]).await.unwrap_or_else(|| panic!("cut at {cut}"));
            let is_told = matches!(error, ImportError::Truncated { .. } | ImportError::NotAThread);
            assert!(is_told, "cut at {cut}: {error}");
        }
        let more = [&bytes[..], &[0]].concat();
        assert!(matches!(refused(&more).await, Some(ImportError::Damaged { .. })));
        let mut chance = Chance::new(7);
        for _ in 0..size(2_000) {
            let mut bytes = bytes.clone();
            let at = chance.below(bytes.len());
            bytes[at] ^= 1 << chance.below(8);
            assert!(refused(&bytes).await.is_some(), "a bit was flipped at {at}");
        }
    });
}

#[test]
fn a_newer_file_says_what_it_needs() {
    block_on(async {
        let bytes = exported().await;
        let begin = b"durably thread, format ";
        assert!(bytes.starts_with(begin));
        let newer = [&begin[..], b"12\n", &bytes[begin.len() + 2..]].concat();
        match refused(&newer).await {
            Some(error @ ImportError::Newer { found: 12, supported: 1 }) => {
                assert!(error.to_string().contains("use a newer version of durably"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(refused(b"{\"thread\":1}").await, Some(ImportError::NotAThread)));
    });
}

#[test]
fn a_thread_that_exists_is_not_overwritten() {
    on_every_checkpointer(async |world| {
        let file = ThreadFile::from_bytes(&exported().await).unwrap();
        let runtime = runtime(&world, &Ledger::default());
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(essay(1)).await.unwrap();
        let before = thread.export().await.unwrap();
        let error = runtime.import(&file).await.unwrap_err();
        assert!(matches!(&error, ImportError::Exists { thread } if thread.as_str() == "t"), "{error}");
        assert_eq!(thread.export().await.unwrap(), before);
        let other = runtime.import_as("other", &file).await.unwrap();
        assert_eq!(other.state().await.unwrap().unwrap().status, Status::Interrupted);
        let listed = runtime.threads().status(Status::Interrupted).await.unwrap();
        assert_eq!(listed.threads.len(), 2, "it is listed");
        let unnamed = runtime.import_as("", &file).await.unwrap_err();
        assert!(matches!(unnamed, ImportError::Run(RunError::ThreadId(_))), "{unnamed}");
    });
}

#[test]
fn a_thread_is_shown_as_json_lines() {
    block_on(async {
        let file = ThreadFile::from_bytes(&exported().await).unwrap();
        let lines = file.to_json_lines();
        let shown: Vec<&str> = lines.lines().collect();
        assert!(shown[0].starts_with("{\"thread\":\"t\",\"status\":\"interrupted\",\"run\":1,"), "{lines}");
        let kinds: Vec<bool> =
            ["start", "outcome", "wait"].iter().zip(&shown[1..]).map(|(kind, line)| line.contains(kind)).collect();
        assert_eq!(kinds, [true, true, true], "{lines}");
        assert!(
            shown[2].contains("\"what\":\"task\",\"name\":\"note\",\"arguments\":\"what=\\\"long\\\", size=3000\""),
            "{lines}"
        );
        assert!(shown[3].contains("\"for\":\"answer\",\"payload\":1,\"expects\":\"u32\""), "{lines}");
    });
}
