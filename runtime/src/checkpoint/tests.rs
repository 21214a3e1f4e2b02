//! Every backend of ours against the contract.

use std::sync::Arc;

use super::{BoxFuture, Change, Checkpointer, Commit, MemoryCheckpointer, Ticket};
use crate::{
    ThreadId,
    testing::{
        Delegate,
        conformance::{Backend, checks, conformance},
    },
};

/// Finds the handle's store again: the suite gives back only what it was given.
#[derive(Default)]
struct Memory(std::sync::Mutex<Vec<MemoryCheckpointer>>);

impl Backend for Memory {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>> {
        let store = MemoryCheckpointer::new();
        self.0.lock().expect("no panic").push(store.clone());
        Box::pin(async { Arc::new(store) as _ })
    }

    fn reopen(&self, store: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>> {
        drop(store);
        // The suite's checks have one store each.
        let store = self.0.lock().expect("no panic").last().expect("opened before").reopen();
        Box::pin(async { Some(Arc::new(store) as _) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_contract() {
    conformance(&Memory::default()).await.unwrap_or_else(|broken| panic!("{broken}"));
}

#[tokio::test]
async fn memory_keeps_the_contract_on_one_thread() {
    conformance(&Memory::default()).await.unwrap_or_else(|broken| panic!("{broken}"));
}

#[cfg(feature = "sled")]
mod sled {
    use std::path::PathBuf;

    use super::*;
    use crate::checkpoint::SledCheckpointer;

    struct Sled {
        folder: tempfile::TempDir,
        last: std::sync::Mutex<u32>,
    }

    impl Sled {
        fn path(&self, number: u32) -> PathBuf {
            self.folder.path().join(number.to_string())
        }
    }

    impl Backend for Sled {
        fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>> {
            let number = {
                let mut last = self.last.lock().expect("no panic");
                *last += 1;
                *last
            };
            Box::pin(async move { Arc::new(SledCheckpointer::open(self.path(number)).expect("opened")) as _ })
        }

        fn reopen(&self, store: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>> {
            drop(store);
            let path = self.path(*self.last.lock().expect("no panic"));
            Box::pin(async move { Some(Arc::new(SledCheckpointer::open(path).expect("opened")) as _) })
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sled_keeps_the_contract() {
        let backend = Sled { folder: tempfile::tempdir().expect("a folder"), last: std::sync::Mutex::default() };
        conformance(&backend).await.unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[test]
fn checks_have_names_of_their_own() {
    let mut names: Vec<_> = checks().iter().map(|check| check.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), checks().len());
}

type Alter = fn(Commit) -> Commit;

/// A backend that does something else with commits than it was asked to.
#[derive(Debug)]
struct Altered(MemoryCheckpointer, Alter);

impl Delegate for Altered {
    fn inner(&self) -> &dyn Checkpointer {
        &self.0
    }

    fn commit(&self, commit: Commit) -> Ticket {
        self.0.commit((self.1)(commit))
    }
}

struct Altering(Alter);

impl Backend for Altering {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>> {
        let store = Altered(MemoryCheckpointer::new(), self.0);
        Box::pin(async { Arc::new(store) as _ })
    }

    /// Forgets everything.
    fn reopen(&self, store: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>> {
        drop(store);
        Box::pin(async { Some(self.open().await) })
    }
}

#[tokio::test]
async fn the_suite_sees_what_a_backend_does_wrong() {
    fn without(commit: Commit, wanted: fn(&Change) -> bool) -> Commit {
        Commit { changes: commit.changes.into_iter().filter(wanted).collect(), ..commit }
    }
    let wrongs: [(Alter, &str); 7] = [
        (|commit| commit, "commits_survive_a_restart"),
        (|commit| Commit { expect: Vec::new(), ..commit }, "a_refused_commit_changes_nothing"),
        (|commit| without(commit, |change| !matches!(change, Change::List(_))), "lists_are_ordered_by_class_and_time"),
        (|commit| without(commit, |change| !matches!(change, Change::Remove(_))), "changes_are_applied_in_order"),
        (
            |commit| without(commit, |change| !matches!(change, Change::RemoveRange(..))),
            "a_range_is_removed_with_both_ends",
        ),
        (
            |mut commit| {
                commit.changes.truncate(2000);
                commit
            },
            "a_large_commit_is_seen_whole_or_not_at_all",
        ),
        (
            |commit| {
                let folded = commit.thread.as_str().to_lowercase();
                Commit { thread: ThreadId::new(folded).unwrap_or(commit.thread.clone()), ..commit }
            },
            "hostile_ids_are_threads_of_their_own",
        ),
    ];
    for (wrong, check) in wrongs {
        let Err(violations) = conformance(&Altering(wrong)).await else { panic!("nothing was seen of {check}") };
        assert!(violations.0.iter().any(|broken| broken.check == check), "{check} is not in {violations}");
    }
}
