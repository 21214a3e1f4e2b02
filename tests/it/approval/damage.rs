//! Rows that somebody changed on disk, checksum and all, and files that were put back.

use std::sync::Arc;

use durably::{
    ThreadId,
    approval::{ApprovalError, Approvals, Pending, State},
    checkpoint::{Change, Checkpointer, Commit, Key, MemoryCheckpointer, ThreadQuery},
};
use tests::{World, on_every_checkpointer};

use super::{Office, Payment, approved, claimed, session, state, who, worker, yes};

/// The checksum that a row has: CRC-32 as in IEEE 802.3.
fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().flat_map(|part| *part) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// A row with another payload, and the checksum that fits.
fn sealed(thread: &ThreadId, key: Key, payload: &[u8]) -> Vec<u8> {
    let name = thread.as_str().as_bytes();
    let length = u16::try_from(name.len()).unwrap().to_le_bytes();
    let crc = crc32(&[&length, name, &key.to_bytes(), &[1, 0], payload]);
    [&[1, 0][..], &crc.to_le_bytes(), payload].concat()
}

const ACTION: Key = Key::Aside { space: 0x40, id: 0, chunk: 0 };
const REVISION: Key = Key::Aside { space: 0x41, id: 1, chunk: 0 };

/// The thread that the one action of a store is kept in.
async fn only(store: &Arc<dyn Checkpointer>) -> ThreadId {
    let page = store.threads(ThreadQuery { limit: 2, ..ThreadQuery::default() }).await.unwrap();
    let [listed] = page.threads.as_slice() else { panic!("{page:?}") };
    listed.thread.clone()
}

/// Replaces bytes in a row by others of the same length; the row fits its checksum before and after.
async fn change(store: &Arc<dyn Checkpointer>, key: Key, from: &[u8], to: &[u8]) {
    let thread = only(store).await;
    let row = store.get(&thread, key).await.unwrap().unwrap();
    assert_eq!(row, sealed(&thread, key, &row[6..]), "rows are sealed as this test thinks");
    let mut payload = row[6..].to_vec();
    let mut changed = 0;
    for at in 0..=payload.len() - from.len() {
        if payload[at..].starts_with(from) {
            payload[at..at + to.len()].copy_from_slice(to);
            changed += 1;
        }
    }
    assert!(changed > 0, "the row has no {from:?}");
    let changes = vec![Change::Put(key, sealed(&thread, key, &payload))];
    store.commit(Commit { thread, expect: vec![], changes }).await.unwrap();
}

async fn an_approved_one(office: &Office, world: &World) -> Pending {
    approved(&office.open(world), office.payment(1, 7)).await
}

/// A33.
#[test]
fn a_proposal_whose_bytes_were_changed_on_disk_is_not_executed() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let pending = an_approved_one(&office, &world).await;
        change(&world.checkpointer(), REVISION, br#""cents":7"#, br#""cents":9"#).await;
        let approvals = office.open(&world);
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(&error, ApprovalError::Corrupt { detail } if detail.contains("digest")), "{error}");
        assert!(matches!(approvals.look(&who("ada"), &pending.id).await, Err(ApprovalError::Corrupt { .. })));
        assert!(approvals.audit(&who("ada"), &pending.id.action).await.unwrap().last().unwrap().is_refused());
        drop(approvals);
        // Without its checksum it is found out all the same.
        let store = world.checkpointer();
        let thread = only(&store).await;
        let mut row = store.get(&thread, REVISION).await.unwrap().unwrap();
        row[40] ^= 1;
        let changes = vec![Change::Put(REVISION, row)];
        store.commit(Commit { thread, expect: vec![], changes }).await.unwrap();
        drop(store);
        let approvals = office.open(&world);
        let error = claimed(&approvals, &pending).await.unwrap_err();
        assert!(matches!(error, ApprovalError::Corrupt { .. }), "{error}");
        assert_eq!(office.ledger.total(), 0);
    });
}

/// A34, as far as a chain without a key can tell.
#[test]
fn a_state_that_was_changed_on_disk_is_refused_and_the_audit_says_so() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let pending = office.open(&world).propose(&who("ada"), office.payment(1, 7)).await.unwrap();
        change(&world.checkpointer(), ACTION, b"Pending", b"Revoked").await;
        check_broken(&office.open(&world), &pending).await;
        change(&world.checkpointer(), ACTION, b"Revoked", b"Pending").await;
        let approvals = office.open(&world);
        assert_eq!(state(&approvals, &pending.id).await, State::Pending);
        drop(approvals);
        // The head alone is what lists show and steps compare: it has to fit too.
        let target = b"production";
        change(&world.checkpointer(), ACTION, target, b"productioN").await;
        check_broken(&office.open(&world), &pending).await;
    });
}

async fn check_broken(approvals: &Approvals, pending: &Pending) {
    let (answer, token) = yes(pending);
    let is_corrupt =
        |error: ApprovalError| matches!(&error, ApprovalError::Corrupt { detail } if detail.contains("audit"));
    assert!(is_corrupt(approvals.answer(&session("bob"), answer, token).await.unwrap_err()));
    assert!(is_corrupt(claimed(approvals, pending).await.unwrap_err()));
    assert!(is_corrupt(approvals.state(&who("ada"), &pending.id).await.unwrap_err()));
    assert!(is_corrupt(approvals.audit(&who("ada"), &pending.id.action).await.unwrap_err()));
}

#[test]
fn an_audit_entry_that_was_changed_or_removed_is_found() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let pending = an_approved_one(&office, &world).await;
        let entries = office.open(&world).audit(&who("ada"), &pending.id.action).await.unwrap().len();
        for seq in 0..u128::try_from(entries).unwrap() {
            let key = Key::Aside { space: 0x42, id: seq, chunk: 0 };
            let store = world.checkpointer();
            let thread = only(&store).await;
            let good = store.get(&thread, key).await.unwrap().unwrap();
            let put = async |store: &Arc<dyn Checkpointer>, change: Change| {
                let commit = Commit { thread: thread.clone(), expect: vec![], changes: vec![change] };
                store.commit(commit).await.unwrap();
            };
            let at = good.iter().rposition(|byte| *byte == b'e').unwrap();
            let mut other = good[6..].to_vec();
            other[at - 6] = b'x';
            for damage in [Change::Remove(key), Change::Put(key, sealed(&thread, key, &other))] {
                let store = store.clone();
                put(&store, damage).await;
                let runtime = office_on(&office, store.clone());
                let error = runtime.audit(&who("ada"), &pending.id.action).await.unwrap_err();
                assert!(matches!(error, ApprovalError::Corrupt { .. }), "entry {seq}: {error}");
                put(&store, Change::Put(key, good.clone())).await;
            }
            let runtime = office_on(&office, store);
            assert_eq!(runtime.audit(&who("ada"), &pending.id.action).await.unwrap().len(), entries);
        }
    });
}

fn office_on(office: &Office, store: Arc<dyn Checkpointer>) -> Approvals {
    let runtime = durably::Runtime::builder().clock(office.clock.clone()).shared_checkpointer(store);
    Approvals::new(&runtime, office.rules())
}

/// A43, by the mark that the store keeps beside its files. Another store's anchor would tell a folder that was put back whole.
#[test]
fn files_from_before_the_claim_that_are_put_back_are_refused() {
    let office = Office::new();
    let world = World::sled();
    let folder = world.folder().unwrap();
    let before = tempfile::tempdir().unwrap();
    tests::block_on(async {
        let pending = an_approved_one(&office, &world).await;
        copy(&folder, before.path());
        let approvals = office.open(&world);
        claimed(&approvals, &pending).await.unwrap().execute(office.pays()).await.unwrap();
        drop(approvals);
    });
    // The engine's own files are put back, but not the mark beside them.
    copy_one(&before.path().join("sled"), &folder.join("sled"));
    let error = durably::checkpoint::SledCheckpointer::open(&folder).unwrap_err();
    assert!(matches!(error, durably::CheckpointError::RolledBack { .. }), "{error}");
    assert_eq!(office.ledger.count("paid 7"), 1);
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        copy_one(&path, &to.join(path.file_name().unwrap()));
    }
}

fn copy_one(from: &std::path::Path, to: &std::path::Path) {
    if from.is_dir() {
        if to.exists() {
            std::fs::remove_dir_all(to).unwrap();
        }
        std::fs::create_dir(to).unwrap();
        copy(from, to);
    } else {
        std::fs::copy(from, to).unwrap();
    }
}

#[test]
fn no_bytes_in_any_row_make_a_verb_panic() {
    tests::block_on(async {
        let office = Office::new();
        let memory = MemoryCheckpointer::new();
        let store: Arc<dyn Checkpointer> = Arc::new(memory.clone());
        let approvals = office_on(&office, store.clone());
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let thread = only(&store).await;
        let rows = store.scan(&thread, Key::FIRST, Key::LAST).await.unwrap();
        for (key, row) in &rows {
            let payload = &row[6..];
            let cuts = (0..payload.len()).step_by(7).map(|at| payload[..at].to_vec());
            let flips = (0..payload.len()).step_by(3).map(|at| {
                let mut flipped = payload.to_vec();
                flipped[at] ^= 0x55;
                flipped
            });
            for other in cuts.chain(flips) {
                let put = |row: Vec<u8>| Commit {
                    thread: thread.clone(),
                    expect: vec![],
                    changes: vec![Change::Put(*key, row)],
                };
                store.commit(put(sealed(&thread, *key, &other))).await.unwrap();
                let _ = approvals.audit(&who("ada"), &pending.id.action).await.map(drop);
                let claim = approvals.claim::<Payment>(&worker("nobody"), &pending.id, &pending.digest).await;
                assert!(claim.is_err());
                for (key, row) in store.scan(&thread, Key::FIRST, Key::LAST).await.unwrap() {
                    if !rows.contains(&(key, row)) {
                        let commit = Commit {
                            thread: thread.clone(),
                            expect: vec![],
                            changes: vec![Change::RemoveRange(key.with_chunk(0), key.with_chunk(u16::MAX))],
                        };
                        store.commit(commit).await.unwrap();
                    }
                }
                let changes = rows.iter().map(|(key, row)| Change::Put(*key, row.clone())).collect();
                store.commit(Commit { thread: thread.clone(), expect: vec![], changes }).await.unwrap();
            }
        }
        assert_eq!(state(&approvals, &pending.id).await, State::Approved);
    });
}
