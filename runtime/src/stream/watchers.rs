//! Who reads which thread in this process, also while nobody drives it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::Line;
use crate::ThreadId;

/// The lines of those who watch threads.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<HashMap<ThreadId, Vec<Weak<Line>>>>);

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Vec<Weak<Line>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody watches a thread, for as long as the line lives.
    pub(crate) fn add(&self, thread: &ThreadId, line: &Arc<Line>) {
        self.lock().entry(thread.clone()).or_default().push(Arc::downgrade(line));
    }

    /// Who watches a thread.
    pub(crate) fn of(&self, thread: &ThreadId) -> Vec<Arc<Line>> {
        let watchers = self.lock();
        watchers.get(thread).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Forgets a line that nobody reads any more, and all others of the thread that are gone.
    pub(crate) fn remove(&self, thread: &ThreadId, line: &Arc<Line>) {
        let mut watchers = self.lock();
        if let Some(lines) = watchers.get_mut(thread) {
            lines.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(line)));
            if lines.is_empty() {
                watchers.remove(thread);
            }
        }
    }
}
