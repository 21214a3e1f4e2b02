//! What is answered in one step: the answers of a call, or of a command that goes on with the run too.

use std::fmt;

use serde::Serialize;

use crate::{CallId, ValueError, value::Payload};

/// Which question is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The only open question, whatever it is.
    Only,
    /// The open question with this key.
    Key(String),
    /// The question of this identity.
    Id(CallId),
}

impl From<&str> for Which {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<&String> for Which {
    fn from(key: &String) -> Self {
        Self::Key(key.clone())
    }
}

impl From<String> for Which {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<CallId> for Which {
    fn from(id: CallId) -> Self {
        Self::Id(id)
    }
}

/// Answers that are taken all or not at all, and then gone on with: hand it to [`Resume::with`](crate::Resume::with).
///
/// | | one question | several |
/// | --- | --- | --- |
/// | answer | [`thread.answer(key, value)`](crate::Thread::answer) | [`thread.answers(map)`](crate::Thread::answers) |
/// | answer and go on | `thread.resume(f).with(`[`Command::resume(value)`](Self::resume)`)` | `.. .with(`[`Command::answers(map)`](Self::answers)`)` |
///
/// ```
/// use durably::{Command, Outcome, Runtime, entrypoint, interrupt};
///
/// #[entrypoint]
/// async fn trip() -> (bool, String) {
///     futures::join!(interrupt("go?", "to the sea"), interrupt("with?", "whom"))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let thread = Runtime::builder().memory().thread("t")?;
/// let _ = thread.invoke(trip()).await?;
/// // Two questions are open: a bare answer could mean either.
/// assert!(thread.resume(trip).with(Command::resume(true)).await.is_err());
/// let command = Command::answer("go?", true).and("with?", "you").by("alice");
/// let outcome = thread.resume(trip).with(command).await?;
/// assert_eq!(outcome, Outcome::Completed((true, "you".to_owned())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a command does nothing until a resume is made with it"]
pub struct Command {
    /// What is answered; the first value that could not be recorded stands for all.
    pub(super) answers: Result<Vec<(Which, Given)>, ValueError>,
    pub(super) by: Option<String>,
}

/// What becomes of a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    Value(Payload),
    Cancel,
}

impl Command {
    pub(super) fn new() -> Self {
        Self { answers: Ok(Vec::new()), by: None }
    }

    /// Answers the only open question, without naming it; [`AnswerError::Ambiguous`](crate::AnswerError::Ambiguous) if
    /// several are open.
    ///
    /// What may be sent again, by a browser or a queue, should name its question instead: sent again, this would answer
    /// whatever is asked next.
    pub fn resume(value: impl Serialize) -> Self {
        Self::new().and(Which::Only, value)
    }

    /// Answers the question of this key or id.
    pub fn answer(which: impl Into<Which>, value: impl Serialize) -> Self {
        Self::new().and(which, value)
    }

    /// Answers several questions, by their keys or ids.
    pub fn answers<W: Into<Which>, V: Serialize>(answers: impl IntoIterator<Item = (W, V)>) -> Self {
        answers.into_iter().fold(Self::new(), |command, (which, value)| command.and(which, value))
    }

    /// Answers one more question, in the same step.
    pub fn and(mut self, which: impl Into<Which>, value: impl Serialize) -> Self {
        if let Ok(answers) = &mut self.answers {
            match Payload::encode(&value) {
                Ok(value) => answers.push((which.into(), Given::Value(value))),
                Err(error) => self.answers = Err(error),
            }
        }
        self
    }

    /// Cancels the question of this key or id, which must be [`cancellable`](crate::Interrupt::cancellable).
    pub fn cancel(mut self, which: impl Into<Which>) -> Self {
        if let Ok(answers) = &mut self.answers {
            answers.push((which.into(), Given::Cancel));
        }
        self
    }

    /// Says who answers; kept with the answers.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(who.into());
        self
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("answers", &self.answers).field("by", &self.by).finish()
    }
}
