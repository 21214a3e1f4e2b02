//! Commits: order, atomicity, expectations, sizes.

use std::sync::Arc;

use super::{Backend, Failure, Outcome, all, changes, expecting, holds, id, put, record};
use crate::checkpoint::{Change, CheckpointError, Expect, Key, Listing, MAX_ROW, ThreadQuery};

/// Rows of a commit that no backend will take for a small one: 3 MB.
const LARGE: u32 = 3000;

fn large(fill: u8) -> Vec<Change> {
    (0..LARGE).map(|seq| Change::Put(record(seq), vec![fill; 1000])).collect()
}

pub(super) async fn a_commit_is_seen_once_its_ticket_says_so(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    for n in 0..50_u8 {
        store.commit(put(&thread, record(u32::from(n)), &[n])).await?;
        let row = store.get(&thread, record(u32::from(n))).await?;
        holds!(row == Some(vec![n]), "row {n} is acknowledged, but reads as {row:?}");
    }
    store.commit(changes(&thread, vec![Change::Remove(record(7))])).await?;
    let row = store.get(&thread, record(7)).await?;
    holds!(row.is_none(), "the row was removed, but reads as {row:?}");
    store.commit(changes(&thread, vec![Change::Remove(record(7))])).await?;
    Ok(())
}

pub(super) async fn commits_are_applied_in_the_order_of_the_calls(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let tickets: Vec<_> = (0..500_u16)
        .map(|n| {
            let commit = put(&thread, Key::Head, &n.to_le_bytes());
            let before = n.checked_sub(1).map(|before| Expect::Equals(Key::Head, before.to_le_bytes().to_vec()));
            store.commit(expecting(before.unwrap_or(Expect::Absent(Key::Head)), commit))
        })
        .collect();
    for (n, ticket) in tickets.into_iter().enumerate() {
        ticket.await.map_err(|error| Failure(format!("commit {n} did not follow the one before: {error}")))?;
    }
    Ok(())
}

pub(super) async fn a_dropped_ticket_does_not_drop_the_commit(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    for seq in 0..100 {
        drop(store.commit(put(&thread, record(seq), b"kept")));
    }
    store.commit(put(&thread, Key::Head, b"last")).await?;
    let rows = all(&*store, &thread).await?.len();
    holds!(rows == 101, "of 100 commits whose tickets were dropped {} are there", rows.saturating_sub(1));
    Ok(())
}

pub(super) async fn changes_are_applied_in_order(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let [a, b, c, d] = [record(1), record(2), record(3), record(4)];
    store.commit(put(&thread, b, b"old")).await?;
    let commit = vec![
        Change::Put(a, b"first".to_vec()),
        Change::Remove(a),
        Change::Put(a, b"second".to_vec()),
        Change::Put(c, b"gone".to_vec()),
        Change::Put(record(5), b"gone".to_vec()),
        Change::Remove(record(5)),
        Change::RemoveRange(b, d),
        Change::Put(d, b"after".to_vec()),
        Change::List(Listing { class: 1, at_ms: 1 }),
        Change::List(Listing { class: 2, at_ms: 2 }),
    ];
    store.commit(changes(&thread, commit)).await?;
    let rows = all(&*store, &thread).await?;
    holds!(rows == [(a, b"second".to_vec()), (d, b"after".to_vec())], "the rows are {rows:?}");
    let page = store.threads(ThreadQuery { limit: 9, ..ThreadQuery::default() }).await?;
    let listed: Vec<_> = page.threads.iter().map(|listed| listed.listing.class).collect();
    holds!(listed == [2], "listed twice in one commit, the thread is in the classes {listed:?}");
    Ok(())
}

pub(super) async fn a_refused_commit_changes_nothing(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let lease = store.acquire(&thread).await?;
    let first = vec![Change::Put(record(1), b"one".to_vec()), Change::List(Listing { class: 1, at_ms: 1 })];
    store.commit(changes(&thread, first)).await?;
    let (rows, page) = (all(&*store, &thread).await?, store.threads(ThreadQuery::default()).await?);
    let refusals = [
        Expect::Absent(record(1)),
        Expect::Equals(record(1), b"two".to_vec()),
        Expect::Equals(record(2), b"one".to_vec()),
        Expect::Lease(lease.epoch + 1),
        Expect::Lease(0),
    ];
    for refusal in refusals {
        let second = vec![
            Change::Put(record(1), b"bad".to_vec()),
            Change::Put(record(9), b"bad".to_vec()),
            Change::RemoveRange(Key::FIRST, Key::LAST),
            Change::List(Listing { class: 2, at_ms: 2 }),
        ];
        let answer = store.commit(expecting(refusal.clone(), changes(&thread, second.clone()))).await;
        holds!(answer.is_err(), "a commit that expects {refusal:?} was applied");
        let (rows_now, page_now) = (all(&*store, &thread).await?, store.threads(ThreadQuery::default()).await?);
        holds!(rows_now == rows, "a refused commit ({refusal:?}) left the rows {rows_now:?}");
        holds!(page_now == page, "a refused commit ({refusal:?}) moved the thread: {page_now:?}");
        let other = id("never-made")?;
        if !matches!(refusal, Expect::Absent(_)) {
            let answer = store.commit(expecting(refusal.clone(), changes(&other, second))).await;
            holds!(answer.is_err(), "a commit of a new thread that expects {refusal:?} was applied");
            holds!(!store.delete_thread(&other).await?, "a refused commit made its thread");
        }
    }
    Ok(())
}

pub(super) async fn absent_holds_only_where_no_row_is(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    store.commit(expecting(Expect::Absent(record(1)), put(&thread, record(1), b""))).await?;
    match store.commit(expecting(Expect::Absent(record(1)), put(&thread, record(1), b"x"))).await {
        Err(CheckpointError::Conflict { found: Some(found), key, .. }) if found.is_empty() && key == record(1) => {}
        other => holds!(false, "an empty row is a row, yet: {other:?}"),
    }
    store.commit(changes(&thread, vec![Change::Remove(record(1))])).await?;
    store.commit(expecting(Expect::Absent(record(1)), put(&thread, record(1), b"x"))).await?;
    Ok(())
}

pub(super) async fn equals_holds_only_for_exactly_these_bytes(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    store.commit(put(&thread, record(1), b"row")).await?;
    for wrong in [&b""[..], b"ro", b"rows", b"Row"] {
        let expect = Expect::Equals(record(1), wrong.to_vec());
        match store.commit(expecting(expect, put(&thread, record(1), b"bad"))).await {
            Err(CheckpointError::Conflict { thread: of, found: Some(found), .. })
                if found == b"row" && of == thread => {}
            other => holds!(false, "the row is \"row\", expected was {wrong:?}, and: {other:?}"),
        }
    }
    match store.commit(expecting(Expect::Equals(record(2), Vec::new()), put(&thread, record(2), b"bad"))).await {
        Err(CheckpointError::Conflict { found: None, .. }) => {}
        other => holds!(false, "no row is not an empty row, yet: {other:?}"),
    }
    store.commit(expecting(Expect::Equals(record(1), b"row".to_vec()), put(&thread, record(1), b"new"))).await?;
    Ok(())
}

pub(super) async fn expectations_are_checked_in_order(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    store.commit(put(&thread, record(1), b"row")).await?;
    let mut commit = put(&thread, record(2), b"bad");
    commit.expect = vec![Expect::Absent(record(3)), Expect::Lease(1), Expect::Absent(record(1))];
    let answer = store.commit(commit.clone()).await;
    holds!(matches!(answer, Err(CheckpointError::Fenced { .. })), "the lease is the first that fails, yet: {answer:?}");
    commit.expect.swap(1, 2);
    let answer = store.commit(commit).await;
    holds!(matches!(answer, Err(CheckpointError::Conflict { .. })), "the row is the first that fails, yet: {answer:?}");
    Ok(())
}

pub(super) async fn expectations_see_the_commits_before(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let first = store.commit(put(&thread, record(1), b"row"));
    let second = store.commit(expecting(Expect::Absent(record(1)), put(&thread, record(2), b"bad")));
    let third = store.commit(changes(&thread, vec![Change::RemoveRange(Key::FIRST, Key::LAST)]));
    let fourth = store.commit(expecting(Expect::Absent(record(1)), put(&thread, record(3), b"good")));
    first.await?;
    holds!(second.await.is_err(), "a commit did not see the queued one before it");
    third.await?;
    fourth.await?;
    let rows = all(&*store, &thread).await?;
    holds!(rows == [(record(3), b"good".to_vec())], "the rows are {rows:?}");
    Ok(())
}

pub(super) async fn of_racing_commits_that_expect_absence_one_wins(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let racers: Vec<_> = (0..64_u8)
        .map(|n| {
            let (store, thread) = (Arc::clone(&store), thread.clone());
            tokio::spawn(async move {
                store.commit(expecting(Expect::Absent(Key::Head), put(&thread, Key::Head, &[n]))).await.map(|()| n)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for racer in racers {
        winners.extend(racer.await.map_err(|error| Failure(error.to_string()))?);
    }
    let row = store.get(&thread, Key::Head).await?;
    holds!(row == Some(winners.clone()), "the winners are {winners:?}, the row is {row:?}");
    Ok(())
}

pub(super) async fn rows_up_to_the_limit_are_taken_and_larger_ones_refused(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    for bytes in [0, 1, 4095, 4096, 4097, MAX_ROW - 1, MAX_ROW] {
        let row = vec![7; bytes];
        store.commit(put(&thread, record(1), &row)).await?;
        let read = store.get(&thread, record(1)).await?;
        holds!(read == Some(row), "a row of {bytes} bytes came back as {:?} bytes", read.map(|row| row.len()));
    }
    let commit = vec![Change::Put(record(2), b"x".to_vec()), Change::Put(record(3), vec![7; MAX_ROW + 1])];
    match store.commit(changes(&thread, commit)).await {
        Err(CheckpointError::TooLarge { bytes, .. }) if bytes == MAX_ROW + 1 => {}
        other => holds!(false, "a row above the limit: {other:?}"),
    }
    let row = store.get(&thread, record(2)).await?;
    holds!(row.is_none(), "half of a refused commit is there: {row:?}");
    store.commit(put(&thread, record(4), b"goes on")).await?;
    Ok(())
}

pub(super) async fn a_large_commit_is_seen_whole_or_not_at_all(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let expected = usize::try_from(LARGE).unwrap_or(0);
    for fill in [1, 2] {
        let mut whole = Vec::from([Change::List(Listing { class: fill, at_ms: 0 })]);
        whole.extend(large(fill));
        let mut ticket = std::pin::pin!(store.commit(changes(&thread, whole)));
        loop {
            let done =
                tokio::select! { biased; answer = &mut ticket => Some(answer), () = tokio::task::yield_now() => None };
            let rows = all(&*store, &thread).await?;
            let new = rows.iter().filter(|(_, row)| row.first() == Some(&fill)).count();
            holds!(new == 0 || new == expected, "{new} of {expected} rows of a commit are there");
            holds!(fill == 1 || rows.len() == expected, "{} of {expected} rows are there while replaced", rows.len());
            if let Some(answer) = done {
                answer?;
                holds!(new == expected, "acknowledged, but {new} of {expected} rows are there");
                break;
            }
        }
    }
    store.commit(changes(&thread, vec![Change::RemoveRange(record(1), record(LARGE))])).await?;
    let rows = all(&*store, &thread).await?.len();
    holds!(rows == 1, "all rows but one were removed, {rows} are there");
    Ok(())
}

pub(super) async fn a_refused_large_commit_changes_nothing(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    store.commit(put(&thread, record(1), b"row")).await?;
    let answer = store.commit(expecting(Expect::Absent(record(1)), changes(&thread, large(1)))).await;
    holds!(matches!(answer, Err(CheckpointError::Conflict { .. })), "a large commit was not refused: {answer:?}");
    let rows = all(&*store, &thread).await?;
    holds!(rows == [(record(1), b"row".to_vec())], "a refused large commit left {} rows", rows.len());
    Ok(())
}

pub(super) async fn a_large_commit_stands_in_order_with_small_ones(backend: &dyn Backend) -> Outcome {
    let (store, thread, other) = (backend.open().await, id("t")?, id("u")?);
    let mut tickets = vec![
        store.commit(put(&thread, record(0), b"before")),
        store.commit(put(&other, record(0), b"beside")),
        store.commit(expecting(Expect::Equals(record(0), b"before".to_vec()), changes(&thread, large(1)))),
        store.commit(expecting(Expect::Equals(record(0), vec![1; 1000]), put(&thread, record(0), b"after"))),
    ];
    for ticket in tickets.drain(..) {
        ticket.await?;
    }
    let rows = all(&*store, &thread).await?;
    holds!(rows.len() == usize::try_from(LARGE).unwrap_or(0), "{} rows are there", rows.len());
    holds!(rows[0].1 == b"after", "the later commit's row is {:?}", rows[0].1);
    Ok(())
}

pub(super) async fn a_range_is_removed_with_both_ends(backend: &dyn Backend) -> Outcome {
    let (store, thread, other) = (backend.open().await, id("t")?, id("u")?);
    for thread in [&thread, &other] {
        let rows = (0..10).map(|seq| Change::Put(record(seq), b"x".to_vec()));
        let head = [Change::Put(Key::Head, b"h".to_vec()), Change::Put(Key::LAST, b"l".to_vec())];
        store.commit(changes(thread, rows.chain(head).collect())).await?;
    }
    store.commit(changes(&thread, vec![Change::RemoveRange(record(3), record(5))])).await?;
    let left: Vec<_> = all(&*store, &thread).await?.into_iter().map(|(key, _)| key).collect();
    let wanted: Vec<_> = [Key::Head].into_iter().chain([0, 1, 2, 6, 7, 8, 9].map(record)).chain([Key::LAST]).collect();
    holds!(left == wanted, "after the removal of 3 to 5 there are {left:?}");
    store.commit(changes(&thread, vec![Change::RemoveRange(record(9), record(6))])).await?;
    let left = all(&*store, &thread).await?.len();
    holds!(left == wanted.len(), "a range from a later to an earlier key removed something");
    store.commit(changes(&thread, vec![Change::RemoveRange(Key::FIRST, Key::LAST)])).await?;
    let left = all(&*store, &thread).await?;
    holds!(left.is_empty(), "after the removal of everything there are {left:?}");
    let left = all(&*store, &other).await?.len();
    holds!(left == 12, "the removal reached another thread: {left} of 12 rows are left");
    Ok(())
}

pub(super) async fn commits_survive_a_restart(backend: &dyn Backend) -> Outcome {
    let (mut store, thread, big) = (backend.open().await, id("t")?, id("big")?);
    for round in 0..3_u32 {
        let mut commit: Vec<_> = (0..20).map(|seq| Change::Put(record(100 * round + seq), vec![1; 50])).collect();
        commit.push(Change::RemoveRange(record(100 * round + 10), record(100 * round + 19)));
        store.commit(changes(&thread, commit)).await?;
        if round == 0 {
            store.commit(changes(&big, large(9))).await?;
        }
        let Some(reopened) = backend.reopen(store).await else { return Ok(()) };
        store = reopened;
        let rows = all(&*store, &thread).await?.len();
        let wanted = 10 * usize::try_from(round + 1).unwrap_or(0);
        holds!(rows == wanted, "after restart {round} there are {rows} rows instead of {wanted}");
        let rows = all(&*store, &big).await?.len();
        holds!(rows == usize::try_from(LARGE).unwrap_or(0), "after a restart {rows} rows of a large commit are there");
    }
    Ok(())
}
