//! Every backend of ours against the contract.

use std::sync::Arc;

use super::{BoxFuture, Checkpointer, MemoryCheckpointer};
use crate::testing::conformance::{Backend, checks, conformance};

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
