//! What a run takes from the process it runs in: a clock, randomness, resources, observers, replaced bodies.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    ThreadId,
    cache::Flights,
    checkpoint::{BoxFuture, Checkpointer},
    id::{CallId, RunNo},
    journal::CallKind,
    output::Recorded,
    stream::Watchers,
    value::{Arguments, Payload, ValueError},
    watchdog::Watchdog,
};

/// Where a run's time comes from. The default is the system's clock and tokio's timers.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> SystemTime;

    /// Waits until a moment; returns at once if it has passed.
    fn sleep_until(&self, moment: SystemTime) -> BoxFuture<'static, ()>;
}

/// The system's clock and tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, moment: SystemTime) -> BoxFuture<'static, ()> {
        let pause = moment.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
        Box::pin(tokio::time::sleep(pause))
    }
}

/// Milliseconds since 1970; a clock before that counts as 1970.
pub(crate) fn millis(moment: SystemTime) -> u64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A length of time in whole milliseconds.
pub(crate) fn length_ms(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// The moment of so many milliseconds since 1970.
pub(crate) fn moment(at_ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(at_ms)).unwrap_or(UNIX_EPOCH)
}

/// Is told what happens in a runtime's runs, as it happens: for progress bars, metrics and logs.
///
/// It is called from within the run, so it should return quickly; what it does cannot change the run.
///
/// ```
/// use durably::{Event, Observer};
///
/// #[derive(Debug)]
/// struct Progress;
///
/// impl Observer for Progress {
///     fn observe(&self, event: &Event<'_>) {
///         if let Event::Released { call, replayed: false, .. } = event {
///             println!("{} done", call.name);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn observe(&self, event: &Event<'_>);
}

/// What an [`Observer`] is told.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A run begins, or goes on in this process.
    RunStarted {
        /// The run.
        run: RunView<'a>,
        /// Whether it has records from an earlier process or an earlier drive.
        resumed: bool,
    },
    /// An attempt of a call's body begins.
    Started {
        /// The call.
        call: CallView<'a>,
        /// Which attempt it is, from 1.
        attempt: u32,
    },
    /// A call's outcome is recorded, as durably as the run's mode says.
    Recorded {
        /// The call.
        call: CallView<'a>,
    },
    /// A call's outcome is handed to the code.
    Released {
        /// The call.
        call: CallView<'a>,
        /// Whether it was recorded in an earlier drive of the run.
        replayed: bool,
        /// The recorded value; `None` for a failure.
        value: Option<Recall<'a>>,
    },
    /// An attempt failed and another one will be made.
    Retried {
        /// The call.
        call: CallView<'a>,
        /// Which attempt failed, from 1.
        attempt: u32,
        /// Its error.
        error: &'a str,
        /// How long until the next one.
        pause: Duration,
    },
    /// A call is given the value that an equal one left, and its body does not run.
    Cached {
        /// The call.
        call: CallView<'a>,
    },
    /// A shared value could not be used, or not be kept; the call's own body makes it.
    CacheFailed {
        /// The call.
        call: CallView<'a>,
        /// Why.
        reason: &'a str,
    },
    /// A body has run for longer than its task allows and could not be ended, since it blocks the thread it is on. Its
    /// result, when it comes, does not count.
    Overdue {
        /// The call.
        call: CallView<'a>,
        /// Which attempt it is, from 1.
        attempt: u32,
        /// What the task allows.
        limit: Duration,
    },
    /// A body left a result that does not count, since it came after the end of its attempt.
    Refused {
        /// The call.
        call: CallView<'a>,
        /// Which attempt it was, from 1.
        attempt: u32,
    },
    /// The run's entrypoint failed and will be run again.
    RunRetried {
        /// The run.
        run: RunView<'a>,
        /// Which attempt failed, from 1.
        attempt: u32,
        /// Its error.
        error: &'a str,
        /// How long until the next one.
        pause: Duration,
    },
    /// The run ended or paused.
    RunStopped {
        /// The run.
        run: RunView<'a>,
        /// How: `"completed"`, `"interrupted"`, or the kind of a [`RunError`](crate::RunError).
        how: &'a str,
    },
}

/// A run, as an observer sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunView<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// Which run of the thread.
    pub run: RunNo,
    /// The entrypoint's name.
    pub entrypoint: &'a str,
}

/// A call, as an observer sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallView<'a> {
    /// The run it is made in.
    pub run: RunView<'a>,
    /// Its identity.
    pub id: CallId,
    /// What sort of call it is.
    pub kind: CallKind,
    /// The name of what is called.
    pub name: &'a str,
    pub(crate) arguments: &'a Arguments,
}

impl CallView<'_> {
    /// One of its recorded arguments, by the parameter's name.
    ///
    /// `None` if there is no such recorded parameter, or it is of another type.
    #[must_use]
    pub fn argument<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.arguments.get(name)?.ok()
    }
}

/// A recorded value, as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Recall<'a>(pub(crate) &'a Payload);

impl Recall<'_> {
    /// The value, if it is of this type.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if it is of another type.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, ValueError> {
        self.0.decode()
    }
}

/// The arguments of a call whose body a test replaced.
#[derive(Clone, Debug)]
pub struct ReplacedCall {
    pub(crate) arguments: Arguments,
    pub(crate) attempt: u32,
}

impl ReplacedCall {
    /// One of the recorded arguments, by the parameter's name.
    ///
    /// `None` if there is no such recorded parameter, or it is of another type.
    #[must_use]
    pub fn argument<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.arguments.get(name)?.ok()
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// A body that stands in for a task's own; gives the task's output as `Any`.
#[derive(Clone)]
pub(crate) struct Replacement {
    pub(crate) body: Arc<dyn Fn(ReplacedCall) -> BoxFuture<'static, Box<dyn Any + Send>> + Send + Sync>,
    /// The name of the type that it gives.
    pub(crate) gives: &'static str,
}

/// Erases the output type of a replacement.
pub(crate) fn replacement<T, F, Fut>(body: F) -> Replacement
where
    T: Send + 'static,
    F: Fn(ReplacedCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    Replacement {
        body: Arc::new(move |call| {
            let output = body(call);
            Box::pin(async move { Box::new(output.await) as Box<dyn Any + Send> })
        }),
        gives: std::any::type_name::<T>(),
    }
}

/// Whether an answer is of the type that code asks for.
pub(crate) type AnswerCheck = fn(&Payload) -> Result<(), ValueError>;

/// The types that this process asks for, by the place in the code and the type's name: so that an answer to a run that is
/// not driven now is checked too.
#[derive(Debug, Default)]
pub(crate) struct AnswerTypes(Mutex<HashMap<(&'static str, u32), AskedHere>>);

/// The types that one place asks for, by name.
type AskedHere = Vec<(&'static str, AnswerCheck)>;

impl AnswerTypes {
    /// The code at this place asks for this type.
    pub(crate) fn note(&self, place: &'static Location<'static>, expects: &'static str, check: AnswerCheck) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = known.entry((place.file(), place.line())).or_default();
        if !here.iter().any(|(name, _)| *name == expects) {
            here.push((expects, check));
        }
    }

    /// How the code at this place checks an answer of this type, if it was ever asked for in this process.
    pub(crate) fn check(&self, file: &str, line: u32, expects: &str) -> Option<AnswerCheck> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Borrowed for as long as the file's name lives.
        let known: &HashMap<(&str, u32), AskedHere> = &known;
        let here = known.get(&(file, line))?;
        here.iter().find(|(name, _)| *name == expects).map(|(_, check)| *check)
    }
}

/// Holds back a body that is about to end, for tests of orders.
pub(crate) type Gate = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What all runs of a runtime share.
pub(crate) struct Environment {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) resources: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
    pub(crate) replacements: HashMap<String, Replacement>,
    /// Sleeps at least this long park the run instead of holding it in memory.
    pub(crate) park_after: Duration,
    /// Values that are being made, to be shared.
    pub(crate) flights: Arc<Flights>,
    /// Looks after bodies that block their thread.
    pub(crate) watchdog: Watchdog,
    /// Where bodies wait before they end; none but in tests.
    pub(crate) gate: Option<Gate>,
    /// Whether nothing is done that is not recorded: for tests of journals against code.
    pub(crate) replays_only: bool,
    /// Whether no more bodies are started.
    pub(crate) draining: AtomicBool,
    /// Who reads which thread.
    pub(crate) watchers: Watchers,
    /// How many events a reader may be behind.
    pub(crate) stream_buffer: usize,
    pub(crate) answer_types: AnswerTypes,
    /// Told when a thread is to be looked at at a moment, so that whoever waits for such moments looks anew.
    pub(crate) due: tokio::sync::Notify,
}

impl Environment {
    /// The time now, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        millis(self.clock.now())
    }

    /// A thread is to be looked at at this moment, if there is one.
    pub(crate) fn told_of_due(&self, due_ms: Option<u64>) {
        if due_ms.is_some() {
            self.due.notify_one();
        }
    }

    /// Tells the observers; the event is made only if there are any.
    pub(crate) fn observe<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if self.observers.is_empty() {
            return;
        }
        let event = event();
        for observer in &self.observers {
            // What an observer does cannot change the run: neither by a panic, which its hook has reported.
            let _ = catch_unwind(AssertUnwindSafe(|| observer.observe(&event)));
        }
    }
}

/// The recorded value, for an observer.
pub(crate) fn recall(recorded: &Recorded) -> Option<Recall<'_>> {
    match recorded {
        Recorded::Value(payload) => Some(Recall(payload)),
        Recorded::Failure(_) => None,
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("checkpointer", &self.checkpointer).finish_non_exhaustive()
    }
}
