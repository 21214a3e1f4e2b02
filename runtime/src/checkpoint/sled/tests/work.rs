//! How the committer works: what shares a barrier, what order callers see.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_concurrent_commits_share_a_barrier() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    let before = store.stats();
    let tickets: Vec<_> = (0..2000).map(|seq| store.commit(put("t", seq, vec![1; 100]))).collect();
    for ticket in tickets {
        ticket.await.expect("committed");
    }
    let after = store.stats();
    assert_eq!(after.commits - before.commits, 2000);
    let barriers = after.barriers - before.barriers;
    assert!(barriers < 200, "{barriers} barriers for 2000 commits that were waiting together");
}

#[tokio::test]
async fn commits_one_after_another_have_a_barrier_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    for seq in 0..20 {
        store.commit(put("t", seq, vec![1])).await.expect("committed");
    }
    let mut refused = put("t", 1, vec![1]);
    refused.expect.push(Expect::Absent(record(1)));
    assert!(store.commit(refused).await.is_err());
    let stats = store.stats();
    assert_eq!((stats.commits, stats.barriers, stats.refused, stats.queued), (20, 20, 1, 0));
}

#[tokio::test]
async fn a_read_waits_for_the_barrier_of_what_it_saw() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    let latch = Arc::<Latch>::default();
    store.0.faults.arm(Point::Sync, 1, Fault::Stall(latch.clone()));
    let ticket = store.commit(put("t", 1, vec![1]));
    // Applied, and not synced.
    let reached = latch.clone();
    tokio::task::spawn_blocking(move || reached.reached()).await.expect("no panic");
    let mut read = std::pin::pin!(rows(&store, "t"));
    for _ in 0..20 {
        assert!(futures::poll!(&mut read).is_pending(), "seen before it was synced");
        // A read takes a turn of the blocking pool.
        tokio::task::spawn_blocking(|| ()).await.expect("no panic");
    }
    latch.open();
    assert_eq!(read.await.expect("readable").len(), 1);
    ticket.await.expect("committed");
}

/// Another executor than tokio's, as small as can be.
fn block_on(future: impl Future<Output = ()>) {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    while future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

#[test]
fn the_store_works_without_a_runtime() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    block_on(async {
        store.commit(put("t", 1, vec![1])).await.expect("committed");
        assert_eq!(rows(&store, "t").await.expect("readable").len(), 1);
        assert!(store.delete_thread(&id("t")).await.expect("deleted"));
        store.close().await.expect("closed");
    });
}

#[tokio::test]
async fn there_is_room_again_once_the_queue_is_worked_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    let tickets: Vec<_> = (0..10_000).map(|seq| store.commit(put("t", seq, vec![1]))).collect();
    store.room().await.expect("open");
    assert!(store.stats().queued < 4096);
    for ticket in tickets {
        ticket.await.expect("committed");
    }
}

#[tokio::test]
async fn a_clone_keeps_the_store_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let store: Arc<dyn Checkpointer> = Arc::new(SledCheckpointer::open(folder.path()).expect("opened"));
    let other = Arc::clone(&store);
    drop(store);
    other.commit(put("t", 1, vec![1])).await.expect("committed");
    assert!(SledCheckpointer::open(folder.path()).is_err());
    drop(other);
    SledCheckpointer::open(folder.path()).expect("free again");
}

/// The end was once told only to those who were waiting already, so that closing now and then waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_however_soon_the_committer_does() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..50 {
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        store.0.shared.desk.close();
        tokio::task::yield_now().await;
        for _ in 0..2 {
            let closed = tokio::time::timeout(Duration::from_secs(20), store.close()).await;
            closed.expect("it ends").expect("without an error");
        }
        // The lock is free although a handle is left.
        drop(SledCheckpointer::open(folder.path()).expect("opened"));
    }
}

/// Not a test of anything: prints what this machine does. `cargo test --release -- --ignored --nocapture speed`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn speed() {
    let folder = tempfile::tempdir().expect("a folder");
    for writers in [1_u32, 64, 256] {
        let store = SledCheckpointer::open(folder.path().join(writers.to_string())).expect("opened");
        let each = if writers == 1 { 5000 } else { 200_000 / writers };
        let begun = std::time::Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    let thread = format!("thread-{writer}");
                    let mut times = Vec::new();
                    for seq in 0..each {
                        let begun = std::time::Instant::now();
                        store.commit(put(&thread, seq, vec![7; 200])).await.expect("committed");
                        times.push(begun.elapsed());
                    }
                    times
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.expect("no panic"));
        }
        let took = begun.elapsed();
        times.sort_unstable();
        let stats = store.stats();
        println!(
            "{writers} writers: {:.0}/s, p50 {:?}, p99 {:?}, {} barriers",
            f64::from(each * writers) / took.as_secs_f64(),
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            stats.barriers,
        );
    }
    let store = crate::checkpoint::MemoryCheckpointer::new();
    let commits: Vec<_> = (0..200_000).map(|seq| put("t", seq, vec![7; 200])).collect();
    let begun = std::time::Instant::now();
    for commit in commits {
        store.commit(commit).await.expect("committed");
    }
    println!("memory: {:?} a commit", begun.elapsed() / 200_000);
}
