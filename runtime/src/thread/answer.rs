//! Answers: each goes to exactly the question that it names, once.

use std::{collections::HashMap, fmt, future::IntoFuture};

use serde::Serialize;

use super::{Command, Thread, Which, command::Given};
use crate::{
    AnswerError, CallId, CheckpointError, RunError, Status,
    checkpoint::{BoxFuture, Change, Commit, Expect, Key},
    id::{RunNo, Seq},
    journal::{AnswerKind, Answered, Outcome, Record, Wait, Waited},
    output::Recorded,
    storage::{self, Answer, Entry, EntryState, Head, Stored},
    value::Payload,
};

/// How often an answer is tried again when the thread changes under it.
const TRIES: u32 = 100;

impl Thread {
    /// Answers an open question, named by its key or its id. The answer is durable when this returns, and waits for the
    /// run to go on: by a [`resume`](Self::resume), or by itself if the run is driven in this process. To answer and go on
    /// in one call, hand [`resume`](Self::resume) a [`Command`].
    ///
    /// The same answer again is taken as the same answer, whoever gives it. The answer's type is checked now where this
    /// process has come by the code that asks, and so is the question's [schema](crate::Interrupt::schema); else it is
    /// checked when the run goes on, and if it is of another type, the question stays open, and its
    /// [`refused`](crate::Question::refused) says why.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was changed then.
    pub fn answer(&self, which: impl Into<Which>, value: impl Serialize) -> Answering {
        Answering { thread: self.clone(), command: Command::answer(which, value) }
    }

    /// Answers several open questions in one atomic step: all are checked, then all are stored, or nothing is.
    ///
    /// For values of several types, `thread.answer("a", 1).and("b", "two")`.
    ///
    /// ```
    /// use durably::{Runtime, bounded, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn sizes(of: Vec<String>) -> Vec<u32> {
    ///     bounded(8, of.iter().map(|it| interrupt(it.clone(), "how large?"))).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// let paused = thread.invoke(sizes(vec!["hat".to_owned(), "shoe".to_owned()])).await?;
    /// assert!(thread.answers([("hat", 56), ("show", 42)]).await.is_err()); // and nothing is stored
    /// thread.answers([("hat", 56), ("shoe", 42)]).by("alice").await?;
    /// assert_eq!(thread.resume(sizes).await?.completed(), Some(vec![56, 42]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was changed then.
    pub fn answers<W: Into<Which>, V: Serialize>(&self, answers: impl IntoIterator<Item = (W, V)>) -> Answering {
        Answering { thread: self.clone(), command: Command::answers(answers) }
    }

    /// Cancels an open question that is [`cancellable`](crate::Interrupt::cancellable): the code that waits for it gets
    /// `None`. As an answer, it goes by the same rules: it is durable when this returns, and the first one counts.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing was changed then. [`AnswerError::NotCancellable`] for any other question.
    pub fn cancel_question(&self, which: impl Into<Which>) -> Answering {
        Answering { thread: self.clone(), command: Command::new().cancel(which) }
    }

    /// Takes a command's answers: all of them or none.
    pub(super) async fn take(&self, command: &Command) -> Result<(), AnswerError> {
        let answers = command.answers.as_ref().map_err(|error| AnswerError::Value(error.clone()))?;
        let checkpointer = self.runtime.checkpointer();
        for _ in 0..TRIES {
            let (head, row) = self.pending().await?;
            let at_ms = self.runtime.inner.environment.now_ms();
            let mut batch = Batch { head: row, ..Batch::default() };
            let mut checked = Ok(());
            for (which, given) in answers {
                let answer = answer(given, command.by.clone(), at_ms);
                checked = self.check_one(&head, which, given, answer, &mut batch).await;
                if checked.is_err() {
                    break;
                }
            }
            match checked {
                // Read while the run came to its end, and what belongs to it went.
                Err(AnswerError::Run(RunError::Corrupt { .. })) if self.pending().await?.1 != batch.head => continue,
                Err(error) => return Err(error),
                Ok(()) if batch.changes.is_empty() => return Ok(()),
                Ok(()) => {}
            }
            let Batch { head, mut expect, changes, arrived, .. } = batch;
            expect.push(Expect::Equals(Key::Head, head));
            expect.push(Expect::Absent(storage::CANCEL));
            match checkpointer.commit(Commit { thread: self.id.clone(), expect, changes }).await {
                Ok(()) => {
                    if let Some(run) = self.runtime.inner.driven(&self.id) {
                        for (question, asked, answer) in arrived {
                            run.deliver(question, asked, answer);
                        }
                    }
                    return Ok(());
                }
                // A pause, an end, or another answer came between.
                Err(CheckpointError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(RunError::Busy { thread: self.id.clone() }.into())
    }

    /// The head of a thread whose run can have open questions, and its row.
    async fn pending(&self) -> Result<(Head, Vec<u8>), AnswerError> {
        let thread = || self.id.clone();
        match storage::head(self.runtime.checkpointer(), &self.id).await? {
            None => Err(AnswerError::NoPendingInterrupt { thread: thread(), status: None }),
            Some((head, _)) if !head.status.is_unfinished() || head.status == Status::Failed => {
                Err(AnswerError::NoPendingInterrupt { thread: thread(), status: Some(head.status) })
            }
            Some((head, row)) => {
                if storage::cancel_request(self.runtime.checkpointer(), &self.id).await?.is_some() {
                    // Its questions are withdrawn.
                    return Err(AnswerError::NoPendingInterrupt { thread: thread(), status: Some(head.status) });
                }
                Ok((head, row))
            }
        }
    }

    /// The question that is meant, if it is exactly one: an open one, else one that was answered.
    async fn find(&self, which: &Which, head: &Head) -> Result<(CallId, Stored), AnswerError> {
        let checkpointer = self.runtime.checkpointer();
        let (meant, asked) = match which {
            Which::Id(id) => (Some(*id), id.to_string()),
            Which::Key(key) => {
                let open = storage::open_questions(checkpointer, &self.id, Some(key)).await?;
                let meant = match open.as_slice() {
                    [] => storage::named(checkpointer, &self.id, key).await?,
                    [(_, one)] => Some(*one),
                    _ => return Err(AnswerError::Ambiguous { key: Some(key.clone()), open }),
                };
                (meant, format!("{key:?}"))
            }
            Which::Only => {
                let open = storage::open_questions(checkpointer, &self.id, None).await?;
                match open.as_slice() {
                    [] => (None, String::new()),
                    [(_, one)] => (Some(*one), String::new()),
                    _ => return Err(AnswerError::Ambiguous { key: None, open }),
                }
            }
        };
        if let Some(id) = meant
            && let Some(stored) = storage::entry(checkpointer, &self.id, id).await?
            && !stored.entry.doubt
        {
            return Ok((id, stored));
        }
        let known = storage::open_questions(checkpointer, &self.id, None).await?;
        if known.is_empty() {
            return Err(AnswerError::NoPendingInterrupt { thread: self.id.clone(), status: Some(head.status) });
        }
        Err(AnswerError::UnknownInterrupt { asked, known })
    }

    /// Finds the question that is meant, and adds what its answer changes.
    async fn check_one(
        &self,
        head: &Head,
        which: &Which,
        given: &Given,
        answer: Answer,
        batch: &mut Batch,
    ) -> Result<(), AnswerError> {
        let (question, stored) = self.find(which, head).await?;
        match batch.given.insert(question, given.clone()) {
            Some(other) if other != *given => Err(AnswerError::Twice { question }),
            Some(_) => Ok(()),
            None => self.add(head, (question, stored), answer, batch).await,
        }
    }

    /// Adds what an answer changes, once it is checked.
    async fn add(
        &self,
        head: &Head,
        (question, stored): (CallId, Stored),
        answer: Answer,
        batch: &mut Batch,
    ) -> Result<(), AnswerError> {
        let conflict = |answered: &Answer| AnswerError::Conflict {
            question,
            answered: answered.value.as_ref().map_or_else(|| "null".to_owned(), Payload::to_json),
            how: answered.how.kind,
        };
        match &stored.entry.state {
            EntryState::Open => {
                self.check(head.run, question, &stored.entry, &answer).await?;
                batch.expect.push(stored.expect(question));
                let Stored { entry, .. } = stored;
                batch.arrived.push((question, entry.asked, answer.clone()));
                Ok(storage::answer_changes(&self.id, question, &entry, answer, &mut batch.changes)?)
            }
            EntryState::Answered(first) if first.digest() == answer.digest() => Ok(()),
            EntryState::Answered(first) => Err(conflict(first)),
            EntryState::Taken(_, first) if *first == answer.digest() => Ok(()),
            EntryState::Taken(outcome, _) => {
                let checkpointer = self.runtime.checkpointer();
                let record = storage::load_record(checkpointer, &self.id, head.run, *outcome).await?;
                let Some(Record::Outcome(Outcome { recorded, answered: Some(how), .. })) = record else {
                    return Err(self.corrupt(head.run, *outcome, "the answer to a question is not there").into());
                };
                let value = match &*recorded {
                    Recorded::Value(value) => Some(value.clone()),
                    Recorded::Failure(_) => None,
                };
                Err(conflict(&Answer { value, how }))
            }
        }
    }

    /// Checks an answer as far as this process can: its type, if it has come by the code that asks; its schema.
    async fn check(&self, run: RunNo, question: CallId, entry: &Entry, answer: &Answer) -> Result<(), AnswerError> {
        let key = || entry.key.clone();
        let Some(value) = &answer.value else {
            return match entry.cancellable {
                true => Ok(()),
                false => Err(AnswerError::NotCancellable { question, key: key() }),
            };
        };
        let inner = &self.runtime.inner;
        let driven = inner.driven(&self.id).and_then(|run| run.answer_check(question));
        let types = &inner.environment.answer_types;
        if let Some(check) = driven.or_else(|| types.check(&entry.file, entry.line, &entry.expects)) {
            check(value).map_err(|source| AnswerError::WrongType { question, key: key(), source })?;
        }
        if !entry.schema {
            return Ok(());
        }
        let record = storage::load_record(self.runtime.checkpointer(), &self.id, run, entry.asked).await?;
        let Some(Record::Wait(Wait { what: Waited::Answer(asked), .. })) = record else {
            return Err(self.corrupt(run, entry.asked, "a question that is open is not there").into());
        };
        let Some(schema) = &asked.schema else { return Ok(()) };
        schema.accepts(value).map_err(|misfit| AnswerError::Schema {
            question,
            key: key(),
            path: misfit.path,
            why: misfit.why,
        })
    }

    fn corrupt(&self, run: RunNo, seq: Seq, detail: &str) -> RunError {
        RunError::Corrupt { thread: self.id.clone(), run, seq, detail: detail.to_owned() }
    }
}

/// What the answers of one call come to.
#[derive(Default)]
struct Batch {
    /// The head's row, as it was read.
    head: Vec<u8>,
    expect: Vec<Expect>,
    changes: Vec<Change>,
    arrived: Vec<(CallId, Seq, Answer)>,
    /// What was said of each question, to find one that is answered twice.
    given: HashMap<CallId, Given>,
}

fn answer(given: &Given, by: Option<String>, at_ms: u64) -> Answer {
    let how = |kind| Answered { kind, by, at_ms };
    match given {
        Given::Value(value) => Answer { value: Some(value.clone()), how: how(AnswerKind::Given) },
        Given::Cancel => Answer { value: None, how: how(AnswerKind::Cancelled) },
    }
}

/// Answers on their way: await this to store them.
#[must_use = "an answer is stored only when this is awaited"]
pub struct Answering {
    thread: Thread,
    command: Command,
}

impl Answering {
    /// Answers one more question, in the same step: all are stored, or none.
    pub fn and(self, which: impl Into<Which>, value: impl Serialize) -> Self {
        Self { command: self.command.and(which, value), ..self }
    }

    /// Says who answers. It is kept with the answers, and shown by [`Thread::state`].
    pub fn by(self, who: impl Into<String>) -> Self {
        Self { command: self.command.by(who), ..self }
    }
}

impl IntoFuture for Answering {
    type Output = Result<(), AnswerError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.thread.take(&self.command).await })
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").field("thread", &self.thread.id).field("command", &self.command).finish()
    }
}
