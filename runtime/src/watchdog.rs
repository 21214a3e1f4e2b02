//! A thread of its own that looks after what blocks threads: no timer of an async runtime fires while its threads are
//! blocked. It is started with the first thing to look after, and ends with its runtime.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Looks at what is watched, and gives when to look again.
type Look = Box<dyn FnMut() -> Option<Instant> + Send>;

/// The thread, once there is something to watch.
#[derive(Default)]
pub(crate) struct Watchdog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    looks: BTreeMap<(Instant, u64), Look>,
    /// When each thing that is watched is to be looked at next.
    watched: HashMap<u64, Instant>,
    next: u64,
    runs: bool,
    closed: bool,
}

/// Something that is watched; dropped, it is not any more.
pub(crate) struct Watched {
    shared: Arc<Shared>,
    number: u64,
}

impl Watchdog {
    /// Looks at this moment, from the watchdog's thread, and then whenever the look before says.
    pub(crate) fn watch(&self, at: Instant, look: impl FnMut() -> Option<Instant> + Send + 'static) -> Watched {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        let is_first = state.looks.first_key_value().is_none_or(|((first, _), _)| at < *first);
        state.looks.insert((at, number), Box::new(look));
        state.watched.insert(number, at);
        if !state.runs {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("durably watchdog".to_owned());
            // Where there is no thread to be had nothing is watched; the next one tries again.
            state.runs = thread.spawn(move || shared.run()).is_ok();
        } else if is_first {
            self.0.changed.notify_one();
        }
        Watched { shared: self.0.clone(), number }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            let Some(first) = state.looks.first_entry() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (at, number) = *first.key();
            if at > now {
                let waited = self.changed.wait_timeout(state, at - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let mut look = first.remove();
            drop(state);
            // What a user's code does in it must not end the watch over others; its panic was reported by its hook.
            let again = catch_unwind(AssertUnwindSafe(&mut look)).unwrap_or(None);
            state = self.lock();
            match again {
                Some(at) if state.watched.contains_key(&number) => {
                    state.watched.insert(number, at);
                    state.looks.insert((at, number), look);
                }
                _ => {
                    state.watched.remove(&number);
                    drop(state);
                    // What it holds may lead back to here.
                    drop(look);
                    state = self.lock();
                }
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let look = state.watched.remove(&self.number).and_then(|at| state.looks.remove(&(at, self.number)));
        drop(state);
        // What it holds may lead back to here.
        drop(look);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").finish_non_exhaustive()
    }
}
