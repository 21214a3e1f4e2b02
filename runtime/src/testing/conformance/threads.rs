//! Threads as a whole: their names, their end, many at once, and the end of the store.

use std::sync::Arc;

use super::{Backend, Failure, Outcome, all, changes, expecting, holds, id, put, record};
use crate::{
    ThreadId,
    checkpoint::{Change, CheckpointError, Expect, Key, Listing, ThreadQuery},
};

/// Names that look alike, contain each other, or look like something of the backend's.
fn hostile() -> Result<Vec<ThreadId>, Failure> {
    let long = "x".repeat(ThreadId::MAX_BYTES);
    let mut names: Vec<String> = [
        "a",
        "b",
        "c",
        "ab",
        "a/b",
        "a/b/c",
        "b/c",
        "a:b",
        "a:b:c",
        "b:c",
        "a}12:{a",
        "a b",
        " a",
        "a ",
        "A",
        "..",
        ".",
        "/",
        "\\",
        "../a",
        "%",
        "%41",
        "_",
        "a%",
        "a_",
        "*",
        "?",
        "'",
        "\"",
        "'; drop table threads; --",
        "\0",
        "a\0",
        "a\0b",
        "\0a",
        "\0\0",
        "\n",
        "a\n",
        "\r\n",
        "\u{feff}a",
        "\u{202e}a",
        "a\u{202e}",
        "é",
        "e\u{301}",
        "Å",
        "A\u{30a}",
        "\u{212b}",
        "ﬁ",
        "fi",
        "I",
        "ı",
        "İ",
        "i",
        "ß",
        "ss",
        "\u{200b}",
        "a\u{200b}",
        "日本",
        "🦀",
        "null",
        "0",
        "head",
        "\0s",
        "\0g",
        "\0n",
        "\u{1}",
        "\u{2}",
        "\u{3}",
        "\u{10}",
        "0\0\0\0\0\0\0\0\u{1}",
        "\u{10}\0\0\0\0\0\0\0\u{1}",
        "\u{10}\0\0\0\0\0\0\0\u{1}\0",
        "\u{1}\0\0\0\0\0\0\0\u{1}",
        "2\0\0\0\0\0\0\0\u{1}",
        "\u{3}\u{1}\0\0\0\0\0\0\0\u{1}",
    ]
    .map(str::to_owned)
    .into();
    names.extend([long.clone(), long[1..].to_owned(), format!("{}y", &long[1..]), "é".repeat(256)]);
    let users: Result<Vec<ThreadId>, Failure> = names.iter().map(|name| id(name)).collect();
    // And ids of ours, which are longer than any user's.
    Ok(users?.into_iter().chain([ThreadId::reserved("a", b"a"), ThreadId::reserved("a", b"b")]).collect())
}

pub(super) async fn hostile_ids_are_threads_of_their_own(backend: &dyn Backend) -> Outcome {
    let mut store = backend.open().await;
    let ids = hostile()?;
    for (n, thread) in ids.iter().enumerate() {
        let row = Change::Put(Key::Head, n.to_le_bytes().to_vec());
        let place = Change::List(Listing { class: 1, at_ms: 0 });
        let commit = expecting(Expect::Absent(Key::Head), changes(thread, vec![row, place]));
        let made = store.commit(commit).await;
        made.map_err(|error| Failure(format!("thread {thread} was taken for another: {error}")))?;
    }
    for restarted in [false, true] {
        if restarted {
            let Some(reopened) = backend.reopen(store).await else { return Ok(()) };
            store = reopened;
        }
        for (n, thread) in ids.iter().enumerate() {
            let rows = all(&*store, thread).await?;
            let own = [(Key::Head, n.to_le_bytes().to_vec())];
            holds!(rows == own, "thread {thread} has the rows {rows:?} instead of {own:?}");
        }
        let page = store.threads(ThreadQuery { limit: 1000, ..ThreadQuery::default() }).await?;
        let mut listed: Vec<_> = page.threads.into_iter().map(|listed| listed.thread).collect();
        let mut wanted = ids.clone();
        listed.sort();
        wanted.sort();
        holds!(listed == wanted, "{} of {} names are listed as they are", listed.len(), wanted.len());
    }
    for (n, thread) in ids.iter().enumerate() {
        holds!(store.delete_thread(thread).await?, "thread {thread} was deleted with another");
        if let Some(next) = ids.get(n + 1) {
            let rows = all(&*store, next).await?.len();
            holds!(rows == 1, "deleting {thread} took rows of {next}");
        }
    }
    Ok(())
}

pub(super) async fn a_deleted_thread_is_gone_and_no_other(backend: &dyn Backend) -> Outcome {
    let (store, before, thread, after) = (backend.open().await, id("t")?, id("t1")?, id("t2")?);
    for thread in [&before, &thread, &after] {
        let mut rows: Vec<_> = (0..2500).map(|seq| Change::Put(record(seq), vec![1; 20])).collect();
        rows.push(Change::Put(Key::Head, b"h".to_vec()));
        rows.push(Change::Put(Key::LAST, b"l".to_vec()));
        rows.push(Change::List(Listing { class: 1, at_ms: 1 }));
        store.commit(changes(thread, rows)).await?;
    }
    holds!(store.delete_thread(&thread).await?, "the thread was there, but deleting says it was not");
    let rows = all(&*store, &thread).await?;
    holds!(rows.is_empty(), "{} rows of a deleted thread are left", rows.len());
    let page = store.threads(ThreadQuery { limit: 9, ..ThreadQuery::default() }).await?;
    let listed: Vec<_> = page.threads.into_iter().map(|listed| listed.thread).collect();
    holds!(listed == [before.clone(), after.clone()], "after the deletion {listed:?} are listed");
    for thread in [&before, &after] {
        let rows = all(&*store, thread).await?.len();
        holds!(rows == 2502, "{rows} of 2502 rows of another thread are left");
    }
    holds!(!store.delete_thread(&thread).await?, "a thread was deleted twice");
    holds!(!store.delete_thread(&id("never")?).await?, "a thread that never was is said to have been there");
    Ok(())
}

pub(super) async fn a_leased_thread_is_not_deleted(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    store.commit(put(&thread, Key::Head, b"x")).await?;
    let lease = store.acquire(&thread).await?;
    let answer = store.delete_thread(&thread).await;
    holds!(matches!(answer, Err(CheckpointError::Busy { .. })), "a running thread was deleted: {answer:?}");
    let row = store.get(&thread, Key::Head).await?;
    holds!(row.is_some(), "refused, but the rows are gone");
    store.release(&lease);
    holds!(store.delete_thread(&thread).await?, "it was not there once it was free");
    Ok(())
}

pub(super) async fn a_deleted_thread_can_begin_anew(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    for n in 0..5_u8 {
        let old: Vec<_> = (0..1500).map(|seq| Change::Put(record(seq), vec![n])).collect();
        store.commit(expecting(Expect::Absent(record(0)), changes(&thread, old))).await?;
        let deleted = store.delete_thread(&thread);
        let anew = store.commit(expecting(Expect::Absent(record(0)), put(&thread, Key::Head, &[n])));
        // A backend may delete when the future is polled or when it is made: the commit is refused or stands.
        holds!(deleted.await?, "in round {n} there was nothing to delete");
        let rows = all(&*store, &thread).await?;
        match anew.await {
            Ok(()) => holds!(rows.len() <= 1, "in round {n} {} rows are there", rows.len()),
            Err(_) => holds!(rows.is_empty(), "in round {n} {} rows are there", rows.len()),
        }
        store.delete_thread(&thread).await?;
    }
    Ok(())
}

pub(super) async fn deleting_survives_a_restart(backend: &dyn Backend) -> Outcome {
    let (store, thread, other) = (backend.open().await, id("t")?, id("u")?);
    for thread in [&thread, &other] {
        let rows = (0..1500).map(|seq| Change::Put(record(seq), vec![1; 20]));
        store.commit(changes(thread, rows.chain([Change::List(Listing { class: 1, at_ms: 1 })]).collect())).await?;
    }
    store.delete_thread(&thread).await?;
    let Some(store) = backend.reopen(store).await else { return Ok(()) };
    let rows = all(&*store, &thread).await?.len();
    holds!(rows == 0, "after a restart {rows} rows of a deleted thread are there");
    let rows = all(&*store, &other).await?.len();
    holds!(rows == 1500, "after a restart {rows} of 1500 rows of another thread are there");
    let page = store.threads(ThreadQuery { limit: 9, ..ThreadQuery::default() }).await?;
    holds!(page.threads.len() == 1, "{} threads are listed", page.threads.len());
    Ok(())
}

pub(super) async fn many_tasks_work_at_once(backend: &dyn Backend) -> Outcome {
    let store = backend.open().await;
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let thread = id(&format!("t{task}"))?;
                let lease = store.acquire(&thread).await?;
                for seq in 0..20 {
                    let commit = put(&thread, record(seq), &[u8::try_from(task).unwrap_or(0)]);
                    store.commit(expecting(Expect::Lease(lease.epoch), commit)).await?;
                    if seq % 5 == 0 {
                        store.commit(changes(&thread, vec![Change::List(Listing { class: 1, at_ms: 7 })])).await?;
                        let rows = all(&*store, &thread).await?.len();
                        holds!(rows == usize::try_from(seq).unwrap_or(0) + 1, "task {task} reads {rows} rows at {seq}");
                    }
                }
                store.release(&lease);
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|error| Failure(error.to_string()))??;
    }
    let page = store.threads(ThreadQuery { limit: 100, ..ThreadQuery::default() }).await?;
    holds!(page.threads.len() == 64, "{} of 64 threads are listed", page.threads.len());
    Ok(())
}

pub(super) async fn a_closed_store_answers_closed(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    store.commit(put(&thread, Key::Head, b"x")).await?;
    let lease = store.acquire(&thread).await?;
    store.close().await?;
    let answers = [
        ("commit", store.commit(put(&thread, Key::Head, b"x")).await.err()),
        ("acquire", store.acquire(&id("u")?).await.err()),
        ("get", store.get(&thread, Key::Head).await.err()),
        ("scan", all(&*store, &thread).await.err()),
        ("threads", store.threads(ThreadQuery::default()).await.err()),
        ("delete_thread", store.delete_thread(&id("u")?).await.err()),
    ];
    for (verb, answer) in answers {
        holds!(matches!(answer, Some(CheckpointError::Closed)), "{verb} of a closed store: {answer:?}");
    }
    store.release(&lease);
    store.close().await?;
    Ok(())
}

pub(super) async fn closing_waits_for_what_is_queued(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let tickets: Vec<_> = (0..300).map(|seq| store.commit(put(&thread, record(seq), &[1; 100]))).collect();
    store.close().await?;
    for (n, ticket) in tickets.into_iter().enumerate() {
        ticket.await.map_err(|error| Failure(format!("commit {n} was queued before the store was closed: {error}")))?;
    }
    let Some(store) = backend.reopen(store).await else { return Ok(()) };
    let rows = all(&*store, &thread).await?.len();
    holds!(rows == 300, "{rows} of 300 commits that were queued are there");
    Ok(())
}
