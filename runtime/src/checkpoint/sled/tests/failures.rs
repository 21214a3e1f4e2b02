//! Disks that fail, fill up or hang, and crashes between two batches.

use super::*;

fn failed(point: Point, kind: io::ErrorKind, store: &SledCheckpointer) {
    store.0.faults.arm(point, 1, Fault::Fail(kind));
}

#[tokio::test]
async fn after_a_failed_write_or_sync_nothing_more_is_written() {
    for point in [Point::Apply, Point::Sync, Point::Mark] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        store.commit(put("t", 1, vec![1])).await.expect("no fault yet");
        store.commit(put("u", 1, vec![1])).await.expect("no fault yet");
        failed(point, io::ErrorKind::Other, &store);
        let first = store.commit(put("t", 2, vec![2])).await;
        assert!(matches!(first, Err(CheckpointError::Io { .. })), "{point:?}: {first:?}");
        for seq in 3..6 {
            let later = store.commit(put("t", seq, vec![3])).await;
            assert!(matches!(later, Err(CheckpointError::Poisoned { .. })), "{point:?}: {later:?}");
        }
        let deleted = store.delete_thread(&id("u")).await;
        assert!(matches!(deleted, Err(CheckpointError::Poisoned { .. })), "{point:?}: {deleted:?}");
        // What is known to be durable can still be read, what is not is not shown.
        assert_eq!(rows(&store, "u").await.expect("readable").len(), 1);
        let unsure = rows(&store, "t").await;
        assert!(matches!(unsure, Err(CheckpointError::Poisoned { .. })), "{point:?}: {unsure:?}");
        let closed = store.close().await;
        assert!(matches!(closed, Err(CheckpointError::Poisoned { .. })), "{point:?}: {closed:?}");
        let store = SledCheckpointer::open(folder.path()).expect("opened anew");
        let found = rows(&store, "t").await.expect("readable");
        assert!(found.len() == 1 || found.len() == 2, "{point:?}: {found:?}");
        store.commit(put("t", 9, vec![9])).await.expect("goes on");
    }
}

#[tokio::test]
async fn everybody_who_waits_is_told_of_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    failed(Point::Sync, io::ErrorKind::StorageFull, &store);
    let tickets: Vec<_> = (0..100).map(|seq| store.commit(put("t", seq, vec![1]))).collect();
    for ticket in tickets {
        match ticket.await {
            Err(CheckpointError::Full { .. }) => {}
            Err(CheckpointError::Poisoned { cause }) if matches!(*cause, CheckpointError::Full { .. }) => {}
            other => panic!("a full disk: {other:?}"),
        }
    }
    assert!(matches!(store.acquire(&id("t")).await, Err(CheckpointError::Poisoned { .. })));
}

#[tokio::test]
async fn a_panic_of_the_engine_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    store.0.faults.arm(Point::Apply, 1, Fault::Panic);
    let first = store.commit(put("t", 1, vec![1])).await;
    assert!(matches!(first, Err(CheckpointError::CorruptStore { .. })), "{first:?}");
    let second = store.commit(put("t", 2, vec![1])).await;
    assert!(matches!(second, Err(CheckpointError::Poisoned { .. })), "{second:?}");
    drop(store);
    SledCheckpointer::open(folder.path()).expect("opened anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_ever_for_an_engine_that_hangs() {
    for point in [Point::Apply, Point::Sync] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SledOptions::new().patience(Duration::from_millis(100)).open(folder.path()).expect("opened");
        let latch = Arc::<Latch>::default();
        store.0.faults.arm(point, 1, Fault::Stall(latch.clone()));
        let ticket = store.commit(put("t", 1, vec![1]));
        let (answer, read) = tokio::join!(ticket, rows(&store, "t"));
        assert!(matches!(answer, Err(CheckpointError::Io { .. })), "{answer:?}");
        assert!(matches!(read, Err(CheckpointError::Poisoned { .. }) | Ok(_)), "{read:?}");
        let later = store.commit(put("t", 2, vec![1])).await;
        assert!(matches!(later, Err(CheckpointError::Poisoned { .. })), "{later:?}");
        assert!(store.close().await.is_err());
        drop(store);
        // All of this was answered while the engine hung.
        latch.open();
    }
}

#[tokio::test]
async fn a_large_commit_is_whole_after_a_crash_in_any_of_its_batches() {
    let mut outcomes = [0; 2];
    for nth in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        store.commit(large("t", 1)).await.expect("no fault yet");
        store.commit(put("u", 1, vec![1])).await.expect("no fault yet");
        store.0.faults.arm(Point::Apply, nth, Fault::Fail(io::ErrorKind::Other));
        let mut commit = large("t", 2);
        commit.changes.insert(0, Change::RemoveRange(Key::FIRST, Key::LAST));
        commit.changes.retain(|change| !matches!(change, Change::Put(Key::Record { seq: 2990.., .. }, _)));
        if store.commit(commit).await.is_ok() {
            assert!(nth > 6, "a large commit has only {nth} batches");
            break;
        }
        assert!(rows(&store, "t").await.is_err(), "half a commit can be read");
        drop(store);
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        let found = rows(&store, "t").await.expect("readable");
        let fill = found[0].1[0];
        assert_eq!(found.len(), if fill == 1 { 3000 } else { 2990 }, "crash before batch {nth}");
        assert!(found.iter().all(|(_, row)| row[0] == fill), "crash before batch {nth}: old and new rows");
        let page = store.threads(ThreadQuery { limit: 5, ..ThreadQuery::default() }).await.expect("readable");
        assert_eq!(page.threads.len(), 1);
        assert_eq!(page.threads[0].listing.class, fill, "crash before batch {nth}");
        assert_eq!(rows(&store, "u").await.expect("readable").len(), 1);
        outcomes[usize::from(fill) - 1] += 1;
        let db = store.0.shared.db();
        let left = db.as_ref().expect("open").range([0x30_u8].to_vec()..).count();
        assert_eq!(left, 0, "crash before batch {nth}: {left} notes are left");
    }
    assert!(outcomes.iter().all(|seen| *seen > 0), "{outcomes:?}");
}

/// The number of a thread that comes with a large commit is in that commit: a crash once gave it out twice, and the next
/// new thread shared all rows with the one before.
#[tokio::test]
async fn a_thread_that_a_finished_large_commit_made_shares_nothing_with_the_next() {
    for nth in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        store.0.faults.arm(Point::Apply, nth, Fault::Fail(io::ErrorKind::Other));
        if store.commit(large("t", 1)).await.is_ok() {
            assert!(nth > 6, "a large commit has only {nth} batches");
            break;
        }
        drop(store);
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        let before = rows(&store, "t").await.expect("readable");
        assert!(before.is_empty() || before.len() == 3000, "crash before batch {nth}: {} rows", before.len());
        store.commit(put("u", 5000, vec![2])).await.expect("committed");
        let own = rows(&store, "u").await.expect("readable").len();
        assert_eq!(own, 1, "crash before batch {nth}: the new thread has {own} rows");
        assert!(rows(&store, "t").await.expect("readable") == before, "crash before batch {nth}");
    }
}

#[tokio::test]
async fn a_deletion_is_finished_after_a_crash_in_any_of_its_batches() {
    for nth in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        store.commit(large("t", 1)).await.expect("no fault yet");
        store.commit(put("u", 1, vec![1])).await.expect("no fault yet");
        store.0.faults.arm(Point::Apply, nth, Fault::Fail(io::ErrorKind::Other));
        if store.delete_thread(&id("t")).await.is_ok() {
            assert!(nth > 4, "deleting took only {nth} batches");
            break;
        }
        drop(store);
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        let left = rows(&store, "t").await.expect("readable").len();
        assert_eq!(left, if nth == 1 { 3000 } else { 0 }, "crash before batch {nth}");
        let anything = store.0.shared.db().as_ref().expect("open").scan_prefix([0x32]).count();
        assert_eq!(anything, 0, "crash before batch {nth}: the deletion is not finished");
        assert_eq!(rows(&store, "u").await.expect("readable").len(), 1);
    }
}

/// A small file system in memory; unmounted when dropped. `None` where this user may not mount.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(folder.path())
            .output();
        mount.is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).output();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_loses_nothing_and_work_goes_on_once_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: mounting a tmpfs needs root");
        return;
    };
    let path = disk.0.path().join("store");
    let ballast = disk.0.path().join("ballast");
    let store = SledOptions::new().patience(Duration::from_secs(20)).open(&path).expect("opened");
    fs::write(&ballast, vec![1; 10 << 20]).expect("written");
    let mut acknowledged = 0;
    let full = loop {
        match store.commit(put("t", acknowledged, vec![7; 4000])).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 20_000, "the disk never filled up");
    };
    assert!(matches!(full, CheckpointError::Full { .. }), "{full}");
    let later = store.commit(put("t", acknowledged, vec![7])).await;
    match &later {
        Err(CheckpointError::Poisoned { cause }) if matches!(**cause, CheckpointError::Full { .. }) => {}
        other => panic!("after a full disk: {other:?}"),
    }
    drop(store);
    fs::remove_file(&ballast).expect("removed");
    let store = SledCheckpointer::open(&path).expect("opened once there is room");
    let found = rows(&store, "t").await.expect("readable").len();
    let acknowledged = usize::try_from(acknowledged).expect("small");
    assert!(found == acknowledged || found == acknowledged + 1, "{acknowledged} acknowledged, {found} there");
    store.commit(put("t", 99_999, vec![9; 4000])).await.expect("goes on");
}
