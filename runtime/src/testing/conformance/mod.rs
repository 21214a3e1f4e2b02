//! The contract of a [`Checkpointer`] as tests that any backend can run.
//!
//! ```
//! use std::sync::Arc;
//!
//! use durably::{
//!     checkpoint::{BoxFuture, Checkpointer, MemoryCheckpointer},
//!     testing::conformance::{Backend, conformance},
//! };
//!
//! struct Memory;
//!
//! impl Backend for Memory {
//!     fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>> {
//!         Box::pin(async { Arc::new(MemoryCheckpointer::new()) as _ })
//!     }
//!
//!     fn reopen(&self, store: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>> {
//!         // A backend on disk drops the store, then opens its folder again.
//!         drop(store);
//!         Box::pin(async { None })
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! conformance(&Memory).await?;
//! # Ok(())
//! # }
//! ```

use std::{fmt, sync::Arc};

use crate::{
    ThreadId,
    checkpoint::{BoxFuture, Change, CheckpointError, Checkpointer, Commit, Expect, Key, Rows},
};

mod commits;
mod leases;
mod lists;
mod reads;
mod threads;

/// How the suite gets stores of a backend.
pub trait Backend: Send + Sync {
    /// Opens a new store with nothing in it.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Checkpointer>>;

    /// The same store as a restarted process would open it. The suite gives its last handle. `None` if the backend keeps
    /// nothing beyond its handle; the checks of restarts are then passed over.
    fn reopen(&self, store: Arc<dyn Checkpointer>) -> BoxFuture<'_, Option<Arc<dyn Checkpointer>>>;
}

/// One sentence of the contract, as a test.
#[derive(Clone, Copy)]
pub struct Check {
    /// What must hold.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn Backend) -> BoxFuture<'a, Outcome>,
}

/// How a backend breaks the contract.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The [`Check::name`].
    pub check: &'static str,
    /// What was seen.
    pub detail: String,
}

/// All the ways in which a backend breaks the contract.
#[derive(Clone, Debug)]
pub struct Violations(pub Vec<Broken>);

impl Check {
    /// Runs this check on a new store.
    ///
    /// # Errors
    ///
    /// [`Broken`] tells what was seen instead.
    pub async fn run(&self, backend: &dyn Backend) -> Result<(), Broken> {
        (self.run)(backend).await.map_err(|Failure(detail)| Broken { check: self.name, detail })
    }
}

/// Runs all [`checks`].
///
/// # Errors
///
/// [`Violations`] lists every check that failed.
pub async fn conformance(backend: &dyn Backend) -> Result<(), Violations> {
    let mut broken = Vec::new();
    for check in checks() {
        if let Err(violation) = check.run(backend).await {
            broken.push(violation);
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(Violations(broken)) }
}

macro_rules! checks {
    ($($module:ident::{$($check:ident),* $(,)?})*) => {
        &[$($(Check { name: stringify!($check), run: |backend| Box::pin($module::$check(backend)) }),*),*]
    };
}

/// The contract, sentence by sentence.
#[must_use]
pub fn checks() -> &'static [Check] {
    checks! {
        commits::{
            a_commit_is_seen_once_its_ticket_says_so,
            commits_are_applied_in_the_order_of_the_calls,
            a_dropped_ticket_does_not_drop_the_commit,
            changes_are_applied_in_order,
            a_refused_commit_changes_nothing,
            absent_holds_only_where_no_row_is,
            equals_holds_only_for_exactly_these_bytes,
            expectations_are_checked_in_order,
            expectations_see_the_commits_before,
            of_racing_commits_that_expect_absence_one_wins,
            rows_up_to_the_limit_are_taken_and_larger_ones_refused,
            a_large_commit_is_seen_whole_or_not_at_all,
            a_refused_large_commit_changes_nothing,
            a_large_commit_stands_in_order_with_small_ones,
            a_range_is_removed_with_both_ends,
            commits_survive_a_restart,
        }
        leases::{
            a_leased_thread_is_busy_until_released,
            epochs_grow,
            a_lease_allows_and_its_loss_fences,
            a_stale_lease_is_not_released,
            waiting_for_a_lease_ends_with_its_release,
            a_lease_makes_no_thread,
            one_of_many_gets_the_lease,
            a_restart_voids_leases_and_epochs_go_on_growing,
        }
        reads::{
            what_is_not_there_reads_as_none,
            rows_are_scanned_in_the_order_of_their_keys,
            scans_include_both_ends,
            scans_are_of_one_moment,
        }
        lists::{
            a_thread_is_listed_where_it_was_put_last,
            lists_are_ordered_by_class_and_time,
            lists_end_at_the_time_asked_for,
            pages_follow_one_another,
            a_cursor_stays_valid_while_threads_move,
            foreign_cursors_are_refused,
            lists_survive_a_restart,
        }
        threads::{
            hostile_ids_are_threads_of_their_own,
            a_deleted_thread_is_gone_and_no_other,
            a_leased_thread_is_not_deleted,
            a_deleted_thread_can_begin_anew,
            deleting_survives_a_restart,
            many_tasks_work_at_once,
            a_closed_store_answers_closed,
            closing_waits_for_what_is_queued,
        }
    }
}

/// What a check saw.
struct Failure(String);

type Outcome = Result<(), Failure>;

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        Self(format!("an error where none is due: {error}"))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.detail)
    }
}

impl std::error::Error for Broken {}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the backend breaks {} of {} rules", self.0.len(), checks().len())?;
        self.0.iter().try_for_each(|broken| write!(f, "\n  {broken}"))
    }
}

impl std::error::Error for Violations {}

/// Fails a check with what was seen.
macro_rules! holds {
    ($condition:expr, $($seen:tt)+) => {
        if !$condition {
            return Err($crate::testing::conformance::Failure(format!($($seen)+)));
        }
    };
}
use holds;

/// A legal name.
fn id(name: &str) -> Result<ThreadId, Failure> {
    ThreadId::new(name).map_err(|error| Failure(error.to_string()))
}

fn record(seq: u32) -> Key {
    Key::Record { run: 1, seq, chunk: 0 }
}

fn put(thread: &ThreadId, key: Key, row: &[u8]) -> Commit {
    changes(thread, vec![Change::Put(key, row.to_vec())])
}

fn changes(thread: &ThreadId, changes: Vec<Change>) -> Commit {
    Commit { thread: thread.clone(), expect: Vec::new(), changes }
}

/// The commit with something to expect first.
fn expecting(expect: Expect, mut commit: Commit) -> Commit {
    commit.expect.push(expect);
    commit
}

/// All rows of a thread.
async fn all(store: &dyn Checkpointer, thread: &ThreadId) -> Result<Rows, CheckpointError> {
    store.scan(thread, Key::FIRST, Key::LAST).await
}
