//! What a run comes to.

use std::{fmt, sync::Arc, time::SystemTime};

use serde::de::DeserializeOwned;

use crate::{
    CallId, ValueError,
    environment::moment,
    journal::{Asked, CallInfo},
    scope::{InDoubt, OpenQuestion},
    value::Payload,
};

/// What a run came to: its end, or a pause.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[must_use = "a run may have paused instead of ended"]
pub enum Outcome<T> {
    /// It returned a value.
    Completed(T),
    /// It waits for answers to these questions, in the order in which they were asked.
    Interrupted(Vec<Question>),
    /// It waits for somebody who says what became of these calls, whose bodies may run at most once:
    /// [`Thread::settle`](crate::Thread::settle). [`Thread::state`](crate::Thread::state) lists them too, and the questions
    /// that are open beside them.
    InDoubt(Vec<Doubt>),
    /// It waits for a moment, and has left memory; [`Runtime::run_due`](crate::Runtime::run_due) or a resume after that
    /// goes on.
    Sleeping {
        /// When the nearest sleep ends.
        until: SystemTime,
    },
    /// It was stopped before its next body, since the runtime drains; a resume goes on.
    Drained,
    /// It was cancelled, and has cleaned up; [`ThreadState::reason`](crate::ThreadState::reason) says why.
    Cancelled,
}

impl<T> Outcome<T> {
    /// The value of a completed run.
    pub fn completed(self) -> Option<T> {
        match self {
            Self::Completed(value) => Some(value),
            Self::Interrupted(_) | Self::InDoubt(_) | Self::Sleeping { .. } | Self::Drained | Self::Cancelled => None,
        }
    }

    /// The open questions of an interrupted run; none for any other.
    pub fn questions(&self) -> &[Question] {
        match self {
            Self::Interrupted(questions) => questions,
            Self::Completed(_) | Self::InDoubt(_) | Self::Sleeping { .. } | Self::Drained | Self::Cancelled => &[],
        }
    }

    /// The calls that a run in doubt waits for; none for any other.
    pub fn doubts(&self) -> &[Doubt] {
        match self {
            Self::InDoubt(doubts) => doubts,
            Self::Completed(_) | Self::Interrupted(_) | Self::Sleeping { .. } | Self::Drained | Self::Cancelled => &[],
        }
    }

    /// A word for logs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Interrupted(_) => "interrupted",
            Self::InDoubt(_) => "in doubt",
            Self::Sleeping { .. } => "sleeping",
            Self::Drained => "drained",
            Self::Cancelled => "cancelled",
        }
    }

    /// The outcome with another value.
    pub(crate) fn try_map<U, E>(self, map: impl FnOnce(T) -> Result<U, E>) -> Result<Outcome<U>, E> {
        Ok(match self {
            Self::Completed(value) => Outcome::Completed(map(value)?),
            Self::Interrupted(questions) => Outcome::Interrupted(questions),
            Self::InDoubt(doubts) => Outcome::InDoubt(doubts),
            Self::Sleeping { until } => Outcome::Sleeping { until },
            Self::Drained => Outcome::Drained,
            Self::Cancelled => Outcome::Cancelled,
        })
    }
}

/// A call in doubt: its body, which may run at most once, has begun, and nobody knows what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doubt {
    /// The call's identity: what [`Thread::settle`](crate::Thread::settle) takes.
    pub call: CallId,
    /// The task's name.
    pub task: String,
    /// Its arguments for people, cut short.
    pub arguments: String,
    /// The source file of the call.
    pub file: String,
    /// The line of the call.
    pub line: u32,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// Whether the run waits for it to be settled. If not, the code has not come to the call again, or has dropped it, as a
    /// race's loser: then it blocks nothing.
    pub awaited: bool,
    /// The type of value that a settlement must have, by its Rust name; known once it is awaited.
    pub expects: Option<String>,
    /// What its reconcile function came to, if it has one and was asked.
    pub why: Option<String>,
    /// Why the newest settlement was not taken.
    pub refused: Option<String>,
}

impl Doubt {
    /// Of a call whose body has begun.
    pub(crate) fn begun(call: &CallInfo, attempt: u32) -> Self {
        Self {
            call: call.id,
            task: call.name.clone().into_owned(),
            arguments: call.preview.clone(),
            file: call.file.clone().into_owned(),
            line: call.line,
            attempt,
            awaited: false,
            expects: None,
            why: None,
            refused: None,
        }
    }
}

impl From<InDoubt> for Doubt {
    fn from(InDoubt { call, attempt, doubted, refused }: InDoubt) -> Self {
        let (expects, why) = (Some(doubted.expects.clone()), doubted.why.clone());
        Self { awaited: true, expects, why, refused, ..Self::begun(&call, attempt) }
    }
}

/// An open question of a run. Two are equal if they ask the same, whatever was answered to them meanwhile.
#[derive(Clone)]
pub struct Question {
    pub(crate) id: CallId,
    pub(crate) key: String,
    pub(crate) asked: Arc<Asked>,
    pub(crate) refused: Option<String>,
}

impl From<OpenQuestion> for Question {
    fn from(OpenQuestion { id, key, asked, refused }: OpenQuestion) -> Self {
        Self { id, key, asked, refused }
    }
}

impl Question {
    /// Its identity: the same over every re-run of the entrypoint.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.id
    }

    /// The key that the code gave it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is shown to whoever answers, as JSON text.
    #[must_use]
    pub fn payload(&self) -> String {
        self.asked.payload.to_json()
    }

    /// What is shown to whoever answers, as the type that the code asked with.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if it is of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        self.asked.payload.decode()
    }

    /// The type that the code wants as an answer, by its Rust name.
    #[must_use]
    pub fn expects(&self) -> &str {
        &self.asked.expects
    }

    /// The JSON schema that an answer must fit, as JSON text, if the code gave one: see
    /// [`Interrupt::schema`](crate::Interrupt::schema).
    #[must_use]
    pub fn schema(&self) -> Option<String> {
        self.asked.schema.as_ref().map(Payload::to_plain_json)
    }

    /// When it answers itself with its default, if it does: see [`Interrupt::or_after`](crate::Interrupt::or_after).
    #[must_use]
    pub fn due(&self) -> Option<SystemTime> {
        self.asked.deadline.as_ref().map(|deadline| moment(deadline.due_ms))
    }

    /// What it answers itself with when it is due, as JSON text.
    #[must_use]
    pub fn default_answer(&self) -> Option<String> {
        self.asked.deadline.as_ref().map(|deadline| deadline.default.to_json())
    }

    /// Whether it may be [cancelled](crate::Thread::cancel_question): see
    /// [`Interrupt::cancellable`](crate::Interrupt::cancellable).
    #[must_use]
    pub fn is_cancellable(&self) -> bool {
        self.asked.cancellable
    }

    /// Why the newest answer to it was not taken, if one came that is of another type than the code wants. An answer is
    /// checked when it is given, where this process knows the type; else when the run goes on, and then this tells.
    ///
    /// ```
    /// use durably::{AnswerError, Runtime, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn count() -> u32 {
    ///     interrupt("number", "how many?").await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// let paused = thread.invoke(count()).await?;
    /// assert_eq!(paused.questions()[0].expects(), "u32");
    /// let error = thread.answer("number", "many").await.unwrap_err(); // this process has come by the code
    /// assert!(matches!(error, AnswerError::WrongType { .. }), "{error}");
    /// assert_eq!(thread.resume(count).await?.questions()[0].refused(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        (self.id, &self.key, &self.asked.payload) == (other.id, &other.key, &other.asked.payload)
    }
}

impl Eq for Question {}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("key", &self.key)
            .field("id", &self.id)
            .field("payload", &self.asked.payload)
            .field("expects", &self.asked.expects)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}
