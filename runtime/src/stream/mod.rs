//! What a reader of a thread is told: events, the modes by which they are asked for, and their numbers.
//!
//! Most events are read off records, live as later from the journal ([`records`]), so that both are the same by
//! construction. A reader has a bounded line of its own ([`line`]); no run ever waits for one.

mod line;
mod number;
mod records;
mod watchers;

use std::{fmt, sync::Arc};

use serde::de::DeserializeOwned;

pub(crate) use line::{Begin, Item, Line, Position};
pub use number::{EventNo, EventNoError};
pub(crate) use records::{events_of, is_task, task};
pub(crate) use watchers::Watchers;

use crate::{CallId, CallKind, Failure, ValueError, journal::Around, output::Recorded, value::Payload};

/// A kind of events that a reader may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamMode {
    /// How the run ends: its value, or its failure; and each question when it is asked.
    Values,
    /// Each finished task's value, nested entrypoints' and the run's own too; and each question when it is asked.
    Updates,
    /// What the code tells with [`emit`](crate::emit).
    Custom,
    /// The beginning, the retries and the end of each task and nested entrypoint.
    Tasks,
    /// Each record of the journal.
    Checkpoints,
}

impl StreamMode {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Values, Self::Updates, Self::Custom, Self::Tasks, Self::Checkpoints];

    fn bit(self) -> u8 {
        match self {
            Self::Values => 1,
            Self::Updates => 2,
            Self::Custom => 4,
            Self::Tasks => 8,
            Self::Checkpoints => 16,
        }
    }
}

/// The kinds of events that a reader asks for: one [`StreamMode`], or an array of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamModes(u8);

impl StreamModes {
    pub(crate) fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn without(self, mode: StreamMode) -> Self {
        Self(self.0 & !mode.bit())
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl From<StreamMode> for StreamModes {
    fn from(mode: StreamMode) -> Self {
        Self(mode.bit())
    }
}

impl<const N: usize> From<[StreamMode; N]> for StreamModes {
    fn from(modes: [StreamMode; N]) -> Self {
        modes.into_iter().collect()
    }
}

impl FromIterator<StreamMode> for StreamModes {
    fn from_iter<I: IntoIterator<Item = StreamMode>>(modes: I) -> Self {
        Self(modes.into_iter().fold(0, |bits, mode| bits | mode.bit()))
    }
}

/// One event of a thread's stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamEvent {
    /// Where it stands: a reader that comes back after this number gets all that was recorded after it.
    pub number: EventNo,
    /// Whether it stands in the journal. What does not is told live only: the beginning of tasks, what their bodies
    /// [`emit`](crate::emit), and in [`Durability::Exit`](crate::Durability::Exit) all that is not written yet. A reader
    /// that comes back does not get it again under this number; what is recorded of it later comes under its own.
    pub recorded: bool,
    /// What happened.
    pub what: Streamed,
}

/// What happened, as a reader is told.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Streamed {
    /// The run returned a value (values).
    Value {
        /// The value.
        value: EventValue,
    },
    /// The run returned an error, or panicked (values).
    Failed {
        /// The error.
        error: String,
    },
    /// The run was cancelled (values).
    Cancelled {
        /// Why, in the words of whoever cancelled it.
        reason: Option<String>,
    },
    /// A question is open (values, updates). Once, however often the run is resumed before it is answered.
    Interrupted {
        /// The question's identity, to be answered by.
        id: CallId,
        /// The key that the code gave it.
        key: String,
        /// The calls in whose bodies it is asked, the outermost first.
        within: Vec<Enclosing>,
        /// What is shown to whoever answers.
        payload: EventValue,
    },
    /// A task or an entrypoint has ended with a value (updates). None for one that failed.
    Update {
        /// The name of the task or the entrypoint.
        name: String,
        /// The call; `None` for the run's own entrypoint.
        id: Option<CallId>,
        /// The calls in whose bodies it was made, the outermost first; none for one of the run's own entrypoint.
        within: Vec<Enclosing>,
        /// What it gave.
        value: EventValue,
    },
    /// The code told something with [`emit`](crate::emit) (custom).
    Custom {
        /// The calls in whose bodies the code stands, the outermost first.
        within: Vec<Enclosing>,
        /// What it told.
        value: EventValue,
    },
    /// An attempt of a task, or a nested entrypoint, begins (tasks). Told live only.
    TaskStarted {
        /// The call.
        task: StreamedTask,
        /// Which attempt it is, from 1.
        attempt: u32,
    },
    /// An attempt failed, and another one will be made (tasks).
    TaskRetried {
        /// The call.
        task: StreamedTask,
        /// Which attempt failed, from 1.
        attempt: u32,
        /// Its error.
        error: String,
    },
    /// A task or a nested entrypoint has ended (tasks). None if it waits for the outside, and so begins again later.
    TaskEnded {
        /// The call.
        task: StreamedTask,
        /// Which attempt it was, from 1.
        attempt: u32,
        /// What it gave, or how it failed.
        outcome: Result<EventValue, Failure>,
    },
    /// A record was written (checkpoints); its place is in the event's number.
    Checkpoint {
        /// What sort of record it is, in a word: `"start"`, `"outcome"`, `"end"`, ..
        record: &'static str,
        /// The call that it is of, if it is of one.
        id: Option<CallId>,
    },
    /// The reader was too slow: so many events of the modes that it asked for are lost to it, at this place. One that
    /// comes back with the number of the event before this one gets those of them that are recorded.
    Missed {
        /// How many.
        events: u64,
    },
    /// The drive of the run in this process is over: the run has ended, pauses, or cannot go on. Told live only, and
    /// only by [`Thread::watch`](crate::Thread::watch): another stream ends there.
    Stopped {
        /// How: `"completed"`, `"interrupted"`, `"cut off"`, .., or the kind of a [`RunError`](crate::RunError).
        how: String,
    },
}

impl Streamed {
    /// The modes that it belongs to; none: it is told to every reader.
    pub(crate) fn modes(&self) -> StreamModes {
        match self {
            Self::Value { .. } | Self::Failed { .. } | Self::Cancelled { .. } => StreamMode::Values.into(),
            Self::Interrupted { .. } => [StreamMode::Values, StreamMode::Updates].into(),
            Self::Update { .. } => StreamMode::Updates.into(),
            Self::Custom { .. } => StreamMode::Custom.into(),
            Self::TaskStarted { .. } | Self::TaskRetried { .. } | Self::TaskEnded { .. } => StreamMode::Tasks.into(),
            Self::Checkpoint { .. } => StreamMode::Checkpoints.into(),
            Self::Missed { .. } | Self::Stopped { .. } => StreamModes::default(),
        }
    }
}

/// A task's or a nested entrypoint's call, as a reader is told.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamedTask {
    /// Its identity: the same in all its events.
    pub id: CallId,
    /// Whether it is a task or a nested entrypoint.
    pub kind: CallKind,
    /// Its name.
    pub name: String,
    /// The calls in whose bodies it was made, the outermost first.
    pub within: Vec<Enclosing>,
    /// Its arguments for people, cut short.
    pub arguments: String,
}

/// A call in whose body another one stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Enclosing {
    /// Its identity.
    pub id: CallId,
    /// Its name.
    pub name: String,
}

/// The enclosing calls, as readers are told.
pub(crate) fn enclosing(within: &[Around]) -> Vec<Enclosing> {
    within.iter().map(|around| Enclosing { id: around.id, name: around.name.clone().into_owned() }).collect()
}

/// A value in an event; cheap to clone. Shown as JSON.
#[derive(Clone)]
pub struct EventValue(Shared);

#[derive(Clone)]
enum Shared {
    /// In a record.
    Recorded(Arc<Recorded>),
    /// On its own.
    Alone(Arc<Payload>),
}

impl EventValue {
    /// A recorded value; `None` if it is a failure.
    pub(crate) fn recorded(recorded: &Arc<Recorded>) -> Option<Self> {
        match **recorded {
            Recorded::Value(_) => Some(Self(Shared::Recorded(recorded.clone()))),
            Recorded::Failure(_) => None,
        }
    }

    pub(crate) fn alone(payload: Payload) -> Self {
        Self(Shared::Alone(Arc::new(payload)))
    }

    fn payload(&self) -> &Payload {
        match &self.0 {
            Shared::Alone(payload) => payload,
            Shared::Recorded(recorded) => match &**recorded {
                Recorded::Value(payload) => payload,
                Recorded::Failure(_) => unreachable!("a failure is refused when this is made"),
            },
        }
    }

    /// The value as a type.
    ///
    /// ```
    /// use durably::{Runtime, StreamMode, Streamed, entrypoint};
    ///
    /// #[entrypoint]
    /// async fn answer() -> u32 { 42 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let mut run = Runtime::builder().memory().thread("t")?.invoke(answer()).stream(StreamMode::Values);
    /// let event = run.next().await.ok_or("an event")?;
    /// let Streamed::Value { value } = event.what else { return Err("a value".into()) };
    /// assert_eq!(value.decode::<u32>()?, 42);
    /// assert_eq!(value.to_json(), "42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ValueError`] if it is of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        self.payload().decode()
    }

    /// The value as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.payload().to_json()
    }
}

impl PartialEq for EventValue {
    fn eq(&self, other: &Self) -> bool {
        self.payload() == other.payload()
    }
}

impl fmt::Display for EventValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl fmt::Debug for EventValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.payload(), f)
    }
}
