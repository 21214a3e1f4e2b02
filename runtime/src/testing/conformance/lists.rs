//! The list of threads.

use super::{Backend, Outcome, changes, holds, id, put};
use crate::{
    ThreadId,
    checkpoint::{Change, CheckpointError, Checkpointer, Commit, Cursor, Key, Listing, ThreadQuery},
};

fn list(thread: &ThreadId, class: u8, at_ms: u64) -> Commit {
    changes(thread, vec![Change::List(Listing { class, at_ms })])
}

/// Names and places of all threads of a query, with pages of this size.
async fn walk(store: &dyn Checkpointer, query: ThreadQuery) -> Result<Vec<(String, u8, u64)>, CheckpointError> {
    let mut query = query;
    let mut walked = Vec::new();
    loop {
        let page = store.threads(query.clone()).await?;
        walked.extend(
            page.threads
                .into_iter()
                .map(|listed| (listed.thread.as_str().to_owned(), listed.listing.class, listed.listing.at_ms)),
        );
        match page.next {
            // A listing that never ends is a failed check, not a hanging one.
            Some(next) if walked.len() < 100_000 => query.after = Some(next),
            _ => return Ok(walked),
        }
    }
}

fn every(limit: usize) -> ThreadQuery {
    ThreadQuery { limit, ..ThreadQuery::default() }
}

pub(super) async fn a_thread_is_listed_where_it_was_put_last(backend: &dyn Backend) -> Outcome {
    let (store, thread, other) = (backend.open().await, id("t")?, id("u")?);
    store.commit(put(&other, Key::Head, b"not listed")).await?;
    let page = store.threads(every(9)).await?;
    holds!(page.threads.is_empty(), "a thread that was never put in the list is in it");
    store.commit(put(&thread, Key::Head, b"head")).await?;
    for (class, at_ms) in [(1, 5), (1, 5), (2, 5), (0, u64::MAX), (255, 0), (1, 4)] {
        store.commit(list(&thread, class, at_ms)).await?;
        let page = store.threads(every(9)).await?;
        let places: Vec<_> = page.threads.iter().map(|listed| listed.listing).collect();
        holds!(places == [Listing { class, at_ms }], "moved to {class}, {at_ms}, the thread is at {places:?}");
        holds!(page.threads[0].thread == thread, "the thread is listed as {}", page.threads[0].thread);
        holds!(page.threads[0].head == b"head", "its head is listed as {:?}", page.threads[0].head);
    }
    store.commit(put(&thread, Key::Head, b"new")).await?;
    let page = store.threads(every(9)).await?;
    holds!(page.threads[0].head == b"new", "the old head is listed");
    Ok(())
}

pub(super) async fn lists_are_ordered_by_class_and_time(backend: &dyn Backend) -> Outcome {
    let store = backend.open().await;
    let mut wanted = Vec::new();
    for n in (0..60_u64).rev() {
        let class = u8::try_from(n % 3).unwrap_or(0);
        // Times that differ in each of their bytes.
        let at_ms = (n / 3) << (n % 7 * 8);
        store.commit(list(&id(&format!("t{n}"))?, class, at_ms)).await?;
        wanted.push((class, at_ms));
    }
    wanted.sort_unstable();
    let walked: Vec<_> = walk(&*store, every(7)).await?.into_iter().map(|(_, class, at)| (class, at)).collect();
    holds!(walked == wanted, "the list is {walked:?}");
    for class in 0..4 {
        let query = ThreadQuery { class: Some(class), ..every(4) };
        let walked: Vec<_> = walk(&*store, query).await?.into_iter().map(|(_, class, at)| (class, at)).collect();
        let wanted: Vec<_> = wanted.iter().copied().filter(|(of, _)| *of == class).collect();
        holds!(walked == wanted, "the list of class {class} is {walked:?}");
    }
    Ok(())
}

pub(super) async fn lists_end_at_the_time_asked_for(backend: &dyn Backend) -> Outcome {
    let store = backend.open().await;
    for (class, at_ms) in [(1, 10), (1, 20), (1, 30), (2, 5), (2, 20), (2, 21), (255, 20), (255, 99)] {
        store.commit(list(&id(&format!("{class}-{at_ms}"))?, class, at_ms)).await?;
    }
    for limit in [1, 2, 100] {
        let query = ThreadQuery { until_ms: Some(20), ..every(limit) };
        let names: Vec<_> = walk(&*store, query).await?.into_iter().map(|(name, ..)| name).collect();
        holds!(names == ["1-10", "1-20", "2-5", "2-20", "255-20"], "until 20: {names:?}");
        let query = ThreadQuery { class: Some(2), until_ms: Some(20), ..every(limit) };
        let names: Vec<_> = walk(&*store, query).await?.into_iter().map(|(name, ..)| name).collect();
        holds!(names == ["2-5", "2-20"], "class 2 until 20: {names:?}");
    }
    Ok(())
}

pub(super) async fn pages_follow_one_another(backend: &dyn Backend) -> Outcome {
    let store = backend.open().await;
    for n in 0..40 {
        // Many at one time.
        store.commit(list(&id(&format!("t{n}"))?, 1, n / 10)).await?;
    }
    let whole = walk(&*store, every(1000)).await?;
    holds!(whole.len() == 40, "{} of 40 threads are listed", whole.len());
    for limit in [0, 1, 3, 39, 40, 41] {
        let paged = walk(&*store, every(limit)).await?;
        holds!(paged == whole, "pages of {limit} give another list: {paged:?}");
        let page = store.threads(every(limit)).await?;
        let wanted = limit.clamp(1, 40);
        holds!(page.threads.len() == wanted, "a page of {limit} has {} threads", page.threads.len());
        holds!(page.next.is_some() == (wanted < 40), "after {wanted} of 40 threads the next page is {:?}", page.next);
    }
    Ok(())
}

pub(super) async fn a_cursor_stays_valid_while_threads_move(backend: &dyn Backend) -> Outcome {
    let store = backend.open().await;
    for n in 0..30 {
        store.commit(list(&id(&format!("t{n}"))?, 1, n)).await?;
    }
    let page = store.threads(every(10)).await?;
    // The last one seen goes away, one seen moves behind, one not seen moves before, one comes.
    store.commit(list(&id("t9")?, 0, 0)).await?;
    store.delete_thread(&id("t8")?).await?;
    store.commit(list(&id("t1")?, 1, 100)).await?;
    store.commit(list(&id("t20")?, 1, 0)).await?;
    store.commit(list(&id("new")?, 1, 15)).await?;
    let rest = walk(&*store, ThreadQuery { after: page.next, ..every(4) }).await?;
    let rest: Vec<_> = rest.into_iter().map(|(name, ..)| name).collect();
    let mut wanted: Vec<_> = (10..30).filter(|n| *n != 20).map(|n| format!("t{n}")).collect();
    wanted.insert(6, "new".to_owned());
    wanted.push("t1".to_owned());
    holds!(rest == wanted, "after the cursor come {rest:?}");
    Ok(())
}

pub(super) async fn foreign_cursors_are_refused(backend: &dyn Backend) -> Outcome {
    let store = backend.open().await;
    store.commit(list(&id("t")?, 1, 1)).await?;
    for bytes in [&b""[..], b"x", b"another backend's cursor", &[0xff; 64]] {
        let page = store.threads(ThreadQuery { after: Some(Cursor(bytes.to_vec())), ..every(1) }).await;
        holds!(matches!(page, Err(CheckpointError::BadCursor)), "the cursor {bytes:?}: {page:?}");
    }
    Ok(())
}

pub(super) async fn lists_survive_a_restart(backend: &dyn Backend) -> Outcome {
    let mut store = backend.open().await;
    for n in 0..20 {
        store.commit(list(&id(&format!("t{n}"))?, 1, n)).await?;
        store.commit(list(&id(&format!("t{n}"))?, 2, n)).await?;
    }
    let before = walk(&*store, every(100)).await?;
    let cursor = store.threads(every(10)).await?.next;
    for _ in 0..2 {
        let Some(reopened) = backend.reopen(store).await else { return Ok(()) };
        store = reopened;
        let after = walk(&*store, every(100)).await?;
        holds!(after == before, "after a restart the list is {after:?}");
        let rest = walk(&*store, ThreadQuery { after: cursor.clone(), ..every(3) }).await?;
        holds!(before.ends_with(&rest) && rest.len() == 10, "after a restart the cursor goes on with {rest:?}");
        store.commit(list(&id("t0")?, 2, 0)).await?;
    }
    Ok(())
}
