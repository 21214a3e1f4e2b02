//! Damaged files: mended where nothing is lost, refused otherwise; never a panic, never silence.

use super::*;
use crate::checkpoint::rows as sealed;

fn snapshots(path: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(path.join("sled")).expect("readable").map(|entry| entry.expect("readable").path());
    entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("snap."))).collect()
}

#[tokio::test]
async fn snapshots_that_a_kill_left_are_of_no_consequence() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    filled(&whole, 50).await;
    filled(&whole, 60).await;
    let snapshot = snapshots(&whole).pop().expect("opening writes a snapshot");
    let bytes = fs::read(&snapshot).expect("readable");
    let garbage = vec![0xa5; bytes.len()];
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 0x10;
    let harms: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("cut", &bytes[..bytes.len() / 2]),
        ("cut-by-one", &bytes[..bytes.len() - 1]),
        ("garbage", &garbage),
        ("flipped", &flipped),
        ("short", b"x"),
    ];
    for (name, harm) in harms {
        for generating in [false, true] {
            let path = folder.path().join(format!("{name}-{generating}"));
            copy(&whole, &path);
            let mut file = path.join("sled").join(snapshot.file_name().expect("a name"));
            if generating {
                file = path.join("sled/snap.00000000000000ff.generating");
            }
            fs::write(&file, harm).expect("written");
            let store = SledCheckpointer::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(rows(&store, "t").await.expect("readable").len(), 60, "{name}");
            store.commit(put("t", 1000, vec![1])).await.expect("goes on");
        }
    }
}

/// Opens a harmed copy; tells whether its rows were all right, and fails if damage went unseen.
async fn outcome(path: &Path, wanted: &[(Key, Vec<u8>)]) -> bool {
    let store = match SledCheckpointer::open(path) {
        Ok(store) => store,
        Err(CheckpointError::CorruptStore { .. } | CheckpointError::RolledBack { .. }) => return false,
        Err(other) => panic!("an error of another kind: {other}"),
    };
    match rows(&store, "t").await {
        Ok(found) => {
            assert!(found == wanted, "damage went unseen: {} of {} rows", found.len(), wanted.len());
            true
        }
        Err(CheckpointError::CorruptStore { .. } | CheckpointError::Corrupt { .. }) => false,
        Err(other) => panic!("an error of another kind: {other}"),
    }
}

/// Harms copies of a store's log at so many places in each way; tells how many harms were seen, and of how many.
async fn sweep(places: usize) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, path) = (folder.path().join("whole"), folder.path().join("harmed"));
    filled(&whole, 200).await;
    let wanted = {
        let store = SledCheckpointer::open(&whole).expect("opened");
        rows(&store, "t").await.expect("readable")
    };
    let log = fs::read(whole.join("sled/db")).expect("readable");
    let used = log.iter().rposition(|byte| *byte != 0).expect("not empty");
    let mut seen = 0;
    for place in 0..places {
        let at = used * place / places;
        for harm in ["flip", "zero", "cut"] {
            copy(&whole, &path);
            let mut log = log.clone();
            match harm {
                "flip" => log[at] ^= 1 << (place % 8),
                "zero" => log[at..(at + 512).min(used)].fill(0),
                _ => log.truncate(at),
            }
            fs::write(path.join("sled/db"), log).expect("written");
            seen += usize::from(!outcome(&path, &wanted).await);
            fs::remove_dir_all(&path).expect("removed");
        }
    }
    (seen, 3 * places)
}

#[tokio::test]
async fn a_damaged_log_is_refused_or_harmless() {
    let (seen, of) = sweep(40).await;
    assert!(seen > of / 4, "only {seen} of {of} harms were seen, the others were harmless");
}

/// `cargo test --release -- --ignored wide`; a few minutes.
#[tokio::test]
#[ignore = "long"]
async fn a_damaged_log_is_refused_or_harmless_far_and_wide() {
    let (seen, of) = sweep(4000).await;
    println!("{seen} of {of} harms were seen, the others were harmless");
}

/// In a log of several segments the engine meets damage in other ways than at the end of the first: some are panics.
async fn sweep_long(places: usize) -> (u32, u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, path) = (folder.path().join("whole"), folder.path().join("harmed"));
    let wanted = {
        let store = SledCheckpointer::open(&whole).expect("opened");
        for part in 0..6_u8 {
            let rows = (0..1000).map(|seq| Change::Put(record(1000 * u32::from(part) + seq), vec![part; 4000]));
            let commit = Commit { thread: id("t"), expect: vec![], changes: rows.collect() };
            store.commit(commit).await.expect("committed");
        }
        let wanted = rows(&store, "t").await.expect("readable");
        store.close().await.expect("closed");
        wanted
    };
    // The engine puts large leaves into files that it never syncs.
    let blobs = fs::read_dir(whole.join("sled/blobs")).map_or(0, Iterator::count);
    assert_eq!(blobs, 0, "{blobs} blobs");
    let log = fs::read(whole.join("sled/db")).expect("readable");
    let used = log.iter().rposition(|byte| *byte != 0).expect("not empty");
    assert!(used > 16 << 20, "the log has {used} bytes, too few for three segments");
    let (mut seen, mut whole_after) = (0, 0);
    for place in 1..places {
        let at = used * place / places;
        for (harm, keep_snapshot) in [("flip", true), ("zero", false), ("zero", true)] {
            copy(&whole, &path);
            let mut log = log.clone();
            match harm {
                "flip" => log[at] ^= 0x20,
                _ => log[at..at + 8192].fill(0),
            }
            fs::write(path.join("sled/db"), log).expect("written");
            if !keep_snapshot {
                for snapshot in snapshots(&path) {
                    fs::remove_file(snapshot).expect("removed");
                }
            }
            if outcome(&path, &wanted).await {
                whole_after += 1;
            } else {
                seen += 1;
            }
            fs::remove_dir_all(&path).expect("removed");
        }
    }
    (seen, whole_after)
}

#[tokio::test]
async fn damage_in_the_middle_of_a_long_log_is_an_error() {
    let (seen, harmless) = sweep_long(5).await;
    assert!(seen > 0, "no harm was seen, {harmless} were harmless");
}

/// Rows vanished in one of a few dozen harms before batches carried a tally.
#[tokio::test]
#[ignore = "long"]
async fn damage_in_the_middle_of_a_long_log_is_an_error_far_and_wide() {
    let (seen, harmless) = sweep_long(120).await;
    println!("{seen} harms were seen, {harmless} were harmless");
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_set_aside_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    filled(folder.path(), 20).await;
    fs::remove_file(folder.path().join("HWM")).expect("removed");
    for _ in 0..2 {
        let opened = SledCheckpointer::open(folder.path());
        assert!(matches!(opened, Err(CheckpointError::CorruptStore { .. })), "{opened:?}");
    }
    let store = SledOptions::new().quarantine().open(folder.path()).expect("set aside");
    assert_eq!(rows(&store, "t").await.expect("readable"), []);
    store.commit(put("t", 0, vec![1])).await.expect("goes on");
    drop(store);
    let aside = fs::read_dir(folder.path()).expect("readable").filter_map(Result::ok);
    let aside = aside.filter(|entry| entry.file_name().to_string_lossy().starts_with("sled.corrupt-")).count();
    assert_eq!(aside, 1, "the damaged engine is kept");
    let store = SledOptions::new().quarantine().open(folder.path()).expect("a whole store is left as it is");
    assert_eq!(rows(&store, "t").await.expect("readable").len(), 1);
}

#[tokio::test]
async fn a_flipped_bit_in_a_stored_row_is_seen_above() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SledCheckpointer::open(folder.path()).expect("opened");
    let mut changes = Vec::new();
    sealed::seal(&id("t"), record(1), &[7; 9000], sealed::PAYLOAD_LIMIT, &mut changes).expect("small");
    store.commit(Commit { thread: id("t"), expect: vec![], changes: changes.clone() }).await.expect("committed");
    let found = rows(&store, "t").await.expect("readable");
    assert_eq!(sealed::unseal(&id("t"), found).expect("whole"), [(record(1), vec![7; 9000])]);
    let Change::Put(key, mut row) = changes.swap_remove(1) else { panic!("a seal only puts") };
    row[100] ^= 1;
    let harm = Commit { thread: id("t"), expect: vec![], changes: vec![Change::Put(key, row)] };
    store.commit(harm).await.expect("committed");
    let found = rows(&store, "t").await.expect("readable");
    let found = sealed::unseal(&id("t"), found);
    assert!(matches!(found, Err(CheckpointError::Corrupt { key: Some(at), .. }) if at == key), "{found:?}");
}

/// The engine by itself. Threads of its last opening may hold its file for a moment longer than the store was open.
fn engine(folder: &Path) -> ::sled::Db {
    loop {
        match ::sled::open(folder.join("sled")) {
            Err(::sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
                std::thread::yield_now();
            }
            opened => return opened.expect("opened"),
        }
    }
}

#[tokio::test]
async fn a_name_that_is_not_the_one_looked_up_is_an_error() {
    use super::super::keys::{self, Named};
    let folder = tempfile::tempdir().expect("a folder");
    filled(folder.path(), 1).await;
    let key = keys::name(&id("t"));
    for (value, what) in [
        (Named::encode(&key, 1, &id("u")), "another name with the same digest"),
        (b"garbage".to_vec(), "garbage"),
        (keys::guarded(&key, b"1"), "a cut row"),
    ] {
        {
            let db = engine(folder.path());
            db.insert(key, value).expect("inserted");
            db.flush().expect("flushed");
        }
        let store = SledOptions::new().verify_up_to(0).open(folder.path()).expect("opened unread");
        assert!(store.verify().await.is_err(), "{what}");
        for answer in [
            rows(&store, "t").await.map(|_| ()),
            store.get(&id("t"), Key::Head).await.map(|_| ()),
            store.commit(put("t", 1, vec![1])).await,
        ] {
            assert!(matches!(answer, Err(CheckpointError::Corrupt { .. })), "{what}: {answer:?}");
        }
    }
}
