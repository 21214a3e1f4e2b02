//! The folder: who has it open, what is in it, what is missing from it.

use super::*;

#[tokio::test]
async fn a_second_opener_is_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    let begun = std::time::Instant::now();
    let second = SledCheckpointer::open(folder.path());
    assert!(matches!(second, Err(CheckpointError::Locked { .. })), "{second:?}");
    assert!(begun.elapsed() < Duration::from_millis(500), "it took {:?}", begun.elapsed());
    store.commit(put("t", 1, vec![1])).await.expect("the first is unharmed");
}

#[test]
fn of_many_racing_openers_one_gets_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..5 {
        let start = std::sync::Barrier::new(100);
        let opened = std::thread::scope(|scope| {
            let opener = || {
                start.wait();
                SledCheckpointer::open(folder.path())
            };
            let openers: Vec<_> = (0..100).map(|_| scope.spawn(opener)).collect();
            // All are kept until the last has tried.
            openers.into_iter().map(|opener| opener.join().expect("no panic")).collect::<Vec<_>>()
        });
        let locked = opened.iter().filter(|one| matches!(one, Err(CheckpointError::Locked { .. }))).count();
        let stores = opened.iter().filter(|one| one.is_ok()).count();
        assert_eq!((stores, locked), (1, 99), "round {round}: {opened:?}");
    }
}

#[tokio::test]
async fn a_store_opens_again_right_after_it_was_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..200_u32 {
        let store = SledCheckpointer::open(folder.path()).expect("opened");
        if let Some(before) = round.checked_sub(1) {
            let row = store.get(&id("t"), record(before)).await.expect("readable");
            assert_eq!(row, Some(before.to_le_bytes().to_vec()), "round {round}");
        }
        // Not awaited: dropping the store waits for it.
        drop(store.commit(put("t", round, round.to_le_bytes().to_vec())));
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    filled(folder.path(), 3).await;
    let format = folder.path().join("FORMAT");
    let ours = fs::read(&format).expect("readable");
    fs::write(&format, "durably sled store, format 7\n").expect("written");
    match SledOptions::new().quarantine().accept_rollback().open(folder.path()) {
        Err(CheckpointError::NewerFormat { found: 7, supported: 1, .. }) => {}
        other => panic!("a newer format: {other:?}"),
    }
    for nonsense in [&b""[..], b"durably sled store, format x", &[0xff, 0xfe], b"7"] {
        fs::write(&format, nonsense).expect("written");
        let opened = SledCheckpointer::open(folder.path());
        assert!(matches!(opened, Err(CheckpointError::CorruptStore { .. })), "{nonsense:?}: {opened:?}");
    }
    fs::write(&format, ours).expect("written");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    assert_eq!(rows(&store, "t").await.expect("readable").len(), 3);
}

#[tokio::test]
async fn an_older_copy_of_the_engine_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, old) = (folder.path().join("store"), folder.path().join("old"));
    filled(&path, 5).await;
    copy(&path, &old);
    filled(&path, 9).await;
    fs::remove_dir_all(path.join("sled")).expect("removed");
    copy(&old.join("sled"), &path.join("sled"));
    for _ in 0..2 {
        match SledCheckpointer::open(&path) {
            Err(CheckpointError::RolledBack { have, need, .. }) => assert!(have < need, "{have} of {need}"),
            other => panic!("an older copy: {other:?}"),
        }
    }
    let store = SledOptions::new().accept_rollback().open(&path).expect("accepted");
    assert_eq!(rows(&store, "t").await.expect("readable").len(), 5);
    store.commit(put("t", 100, vec![1])).await.expect("goes on");
    drop(store);
    let store = SledCheckpointer::open(&path).expect("once accepted it is no more spoken of");
    assert_eq!(rows(&store, "t").await.expect("readable").len(), 6);
}

#[tokio::test]
async fn epochs_grow_even_when_an_older_copy_is_put_in_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, old) = (folder.path().join("store"), folder.path().join("old"));
    filled(&path, 1).await;
    copy(&path, &old);
    for _ in 0..5 {
        filled(&path, 1).await;
    }
    let store = SledCheckpointer::open(&path).expect("opened");
    let last = store.acquire(&id("t")).await.expect("free").epoch;
    drop(store);
    fs::remove_dir_all(path.join("sled")).expect("removed");
    copy(&old.join("sled"), &path.join("sled"));
    let store = SledOptions::new().accept_rollback().open(&path).expect("accepted");
    let epoch = store.acquire(&id("t")).await.expect("free").epoch;
    assert!(epoch > last, "{epoch:x} after {last:x}");
}

#[tokio::test]
async fn what_is_missing_is_never_taken_for_a_new_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    filled(&whole, 5).await;
    let case = |name: &str, harm: &dyn Fn(&Path)| {
        let path = folder.path().join(name);
        copy(&whole, &path);
        harm(&path);
        SledCheckpointer::open(&path)
    };
    let removed = case("no-engine", &|path| fs::remove_dir_all(path.join("sled")).expect("removed"));
    assert!(matches!(removed, Err(CheckpointError::RolledBack { have: 0, need: 6.., .. })), "{removed:?}");
    let removed = case("empty-engine", &|path| {
        fs::remove_dir_all(path.join("sled")).expect("removed");
        fs::create_dir(path.join("sled")).expect("made");
    });
    assert!(matches!(removed, Err(CheckpointError::RolledBack { have: 0, .. })), "{removed:?}");
    let emptied = case("empty-log", &|path| fs::write(path.join("sled/db"), b"").expect("written"));
    assert!(matches!(emptied, Err(CheckpointError::RolledBack { have: 0, .. })), "{emptied:?}");
    let removed = case("no-log", &|path| fs::remove_file(path.join("sled/db")).expect("removed"));
    assert!(matches!(removed, Err(CheckpointError::RolledBack { have: 0, .. })), "{removed:?}");
    let removed = case("no-mark", &|path| fs::remove_file(path.join("HWM")).expect("removed"));
    assert!(matches!(removed, Err(CheckpointError::CorruptStore { .. })), "{removed:?}");
    let harmed = case("bad-mark", &|path| fs::write(path.join("HWM"), [9; 16]).expect("written"));
    assert!(matches!(harmed, Err(CheckpointError::CorruptStore { .. })), "{harmed:?}");
    let removed = case("no-format", &|path| fs::remove_file(path.join("FORMAT")).expect("removed"));
    assert!(matches!(removed, Err(CheckpointError::CorruptStore { .. })), "{removed:?}");
    let store = SledOptions::new().accept_rollback().open(folder.path().join("no-mark")).expect("accepted");
    assert_eq!(rows(&store, "t").await.expect("readable").len(), 5);
    let store = SledOptions::new().accept_rollback().open(folder.path().join("no-log")).expect("accepted");
    assert_eq!(rows(&store, "t").await.expect("readable"), []);
}

#[tokio::test]
async fn an_interrupted_creation_begins_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    filled(&whole, 0).await;
    for left in [&[][..], &["sled"], &["sled", "HWM"]] {
        let path = folder.path().join(format!("left-{}", left.len()));
        fs::create_dir(&path).expect("made");
        fs::write(path.join("NEW"), b"").expect("written");
        for name in left {
            let from = whole.join(name);
            if from.is_dir() {
                copy(&from, &path.join(name));
            } else {
                fs::copy(from, path.join(name)).expect("copied");
            }
        }
        filled(&path, 2).await;
        let store = SledCheckpointer::open(&path).expect("opened");
        assert_eq!(rows(&store, "t").await.expect("readable").len(), 2, "with {left:?} left");
        assert!(!path.join("NEW").exists());
    }
}
