//! Leases: one holder, growing epochs, fences.

use std::{sync::Arc, time::Duration};

use super::{Backend, Failure, Outcome, expecting, holds, id, put};
use crate::checkpoint::{CheckpointError, Expect, Key, ThreadQuery};

pub(super) async fn a_leased_thread_is_busy_until_released(backend: &dyn Backend) -> Outcome {
    let (store, thread, other) = (backend.open().await, id("t")?, id("u")?);
    holds!(!store.is_leased(&thread), "a thread is leased before anybody asked");
    let lease = store.acquire(&thread).await?;
    holds!(lease.thread == thread, "the lease is of {}", lease.thread);
    holds!(store.is_leased(&thread) && !store.is_leased(&other), "the wrong thread is leased");
    match store.acquire(&thread).await {
        Err(CheckpointError::Busy { thread: busy }) if busy == thread => {}
        second => holds!(false, "a second lease while the first is held: {second:?}"),
    }
    store.acquire(&other).await?;
    store.release(&lease);
    holds!(!store.is_leased(&thread), "released, but still leased");
    store.acquire(&thread).await?;
    Ok(())
}

pub(super) async fn epochs_grow(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let mut last = 0;
    for _ in 0..100 {
        let lease = store.acquire(&thread).await?;
        holds!(lease.epoch > last, "epoch {} follows {last}", lease.epoch);
        last = lease.epoch;
        store.release(&lease);
    }
    store.commit(put(&thread, Key::Head, b"x")).await?;
    store.delete_thread(&thread).await?;
    let lease = store.acquire(&thread).await?;
    holds!(lease.epoch > last, "after the thread was deleted epoch {} follows {last}", lease.epoch);
    Ok(())
}

pub(super) async fn a_lease_allows_and_its_loss_fences(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let lease = store.acquire(&thread).await?;
    let under = |epoch, row: &[u8]| expecting(Expect::Lease(epoch), put(&thread, Key::Head, row));
    store.commit(under(lease.epoch, b"one")).await?;
    store.release(&lease);
    match store.commit(under(lease.epoch, b"bad")).await {
        Err(CheckpointError::Fenced { thread: of, epoch, current: None }) if epoch == lease.epoch && of == thread => {}
        other => holds!(false, "a commit after the lease was released: {other:?}"),
    }
    let second = store.acquire(&thread).await?;
    match store.commit(under(lease.epoch, b"bad")).await {
        Err(CheckpointError::Fenced { current: Some(current), .. }) if current == second.epoch => {}
        other => holds!(false, "a commit under a lease that another one follows: {other:?}"),
    }
    let other = id("u")?;
    let foreign = store.commit(expecting(Expect::Lease(second.epoch), put(&other, Key::Head, b"bad"))).await;
    holds!(foreign.is_err(), "a lease allows a commit of another thread");
    store.commit(under(second.epoch, b"two")).await?;
    let head = store.get(&thread, Key::Head).await?;
    holds!(head.as_deref() == Some(b"two"), "the row is {head:?}");
    Ok(())
}

pub(super) async fn a_stale_lease_is_not_released(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let first = store.acquire(&thread).await?;
    store.release(&first);
    store.release(&first);
    let second = store.acquire(&thread).await?;
    store.release(&first);
    holds!(store.is_leased(&thread), "an old lease was released and took the new one with it");
    store.commit(expecting(Expect::Lease(second.epoch), put(&thread, Key::Head, b"x"))).await?;
    Ok(())
}

pub(super) async fn waiting_for_a_lease_ends_with_its_release(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let soon = Duration::from_secs(10);
    let late = |_| Failure("waiting for a release did not end within 10 s of it".to_owned());
    tokio::time::timeout(soon, store.released(&thread)).await.map_err(late)?;
    for _ in 0..50 {
        let lease = store.acquire(&thread).await?;
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let (store, thread) = (Arc::clone(&store), thread.clone());
                tokio::spawn(async move { store.released(&thread).await })
            })
            .collect();
        tokio::task::yield_now().await;
        store.release(&lease);
        for waiter in waiters {
            let ended = tokio::time::timeout(soon, waiter).await.map_err(late)?;
            ended.map_err(|error| Failure(error.to_string()))?;
        }
    }
    Ok(())
}

pub(super) async fn a_lease_makes_no_thread(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let lease = store.acquire(&thread).await?;
    store.release(&lease);
    let page = store.threads(ThreadQuery::default()).await?;
    holds!(page.threads.is_empty(), "a thread that was only leased is listed");
    holds!(!store.delete_thread(&thread).await?, "a thread that was only leased could be deleted");
    Ok(())
}

pub(super) async fn one_of_many_gets_the_lease(backend: &dyn Backend) -> Outcome {
    let (store, thread) = (backend.open().await, id("t")?);
    let racers: Vec<_> = (0..64)
        .map(|_| {
            let (store, thread) = (Arc::clone(&store), thread.clone());
            tokio::spawn(async move { store.acquire(&thread).await.is_ok() })
        })
        .collect();
    let mut winners = 0;
    for racer in racers {
        winners += u32::from(racer.await.map_err(|error| Failure(error.to_string()))?);
    }
    holds!(winners == 1, "{winners} of 64 have the lease");
    Ok(())
}

pub(super) async fn a_restart_voids_leases_and_epochs_go_on_growing(backend: &dyn Backend) -> Outcome {
    let (mut store, thread) = (backend.open().await, id("t")?);
    let mut last = 0;
    for _ in 0..3 {
        let lease = store.acquire(&thread).await?;
        holds!(lease.epoch > last, "after a restart epoch {} follows {last}", lease.epoch);
        last = lease.epoch;
        store.commit(expecting(Expect::Lease(last), put(&thread, Key::Head, b"x"))).await?;
        let Some(reopened) = backend.reopen(store).await else { return Ok(()) };
        store = reopened;
        holds!(!store.is_leased(&thread), "a dead process still holds its lease");
        let answer = store.commit(expecting(Expect::Lease(last), put(&thread, Key::Head, b"bad"))).await;
        holds!(matches!(answer, Err(CheckpointError::Fenced { .. })), "a lease outlived its process: {answer:?}");
    }
    Ok(())
}
