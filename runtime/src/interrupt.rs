//! Questions to the outside: the run pauses until somebody answers.

use std::{
    fmt,
    future::Future,
    panic::Location,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    RunError, ValueError,
    call::{Claim, Claimed},
    journal::{AnswerKind, CallKind, Slot},
    output::Recorded,
    scope::{Ambient, Asking, Run},
    storage::Answer,
    value::{Arguments, Payload},
};

/// Asks the outside, and waits for the answer: a minute or a month.
///
/// The question is open, and shown to whoever lists the thread's questions, from the moment this is first awaited. When
/// nothing else in the run is alive, the run pauses: its caller gets [`Outcome::Interrupted`](crate::Outcome::Interrupted)
/// with all open questions, and its memory is freed. An answer by [`Thread::answer`](crate::Thread::answer) and a resume
/// bring it back here, in whatever process.
///
/// The answer is recorded as a task's output is: hence `T` is `Serialize` too.
///
/// This gives a `T`, not a `Result`: there is nothing that error handling could swallow. The payload is part of the
/// question's identity: code that asks something else at this place is a divergence, not a question for an old answer.
/// What is said of it beside that ([`schema`](Interrupt::schema), [`or_after`](Interrupt::or_after),
/// [`cancellable`](Interrupt::cancellable)) is not, and is on record as it was when the question opened.
///
/// ```
/// use durably::{entrypoint, interrupt};
///
/// #[entrypoint]
/// async fn publish(text: String) -> bool {
///     interrupt::<bool>("publish?", &text).await
/// }
/// ```
///
/// # Panics
///
/// The future, when it is awaited outside of a run.
#[track_caller]
pub fn interrupt<T>(key: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Interrupt<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let key = key.into();
    let Some(ambient) = Ambient::current() else {
        panic!("`interrupt({key:?}, ..)` was called outside of a run: call it in an #[entrypoint] or a #[task]");
    };
    let location = Location::caller();
    ambient.run.environment.answer_types.note(location, std::any::type_name::<T>(), check::<T>);
    let mut interrupt = Interrupt {
        run: ambient.run.clone(),
        key: key.clone(),
        terms: Arc::default(),
        call: None,
        read: read_payload::<T>,
    };
    let mut arguments = Arguments::new();
    let recordable = arguments.push("payload", payload).and_then(|()| Payload::encode(payload));
    let payload = match recordable {
        Ok(payload) => payload,
        Err(source) => return interrupt.refused("payload", source),
    };
    let claim = Claim { kind: CallKind::Interrupt, name: key.into(), definition: None, arguments, location };
    interrupt.call = Claimed::new(&ambient, claim, read_raw, |run, slot| {
        let (run, terms) = (run.clone(), interrupt.terms.clone());
        Some(Box::pin(async move { ask::<T>(&run, slot, payload, &terms).await }))
    });
    interrupt
}

/// A question that waits for its answer: see [`interrupt`].
#[must_use = "a question is asked only when it is awaited"]
pub struct Interrupt<T> {
    run: Arc<Run>,
    key: String,
    /// Read when the question is first awaited.
    terms: Arc<Mutex<Terms>>,
    /// `None`: the run is stopped by the question itself.
    call: Option<Claimed<'static, Raw>>,
    read: fn(&Payload) -> Result<T, ValueError>,
}

/// What is said of a question beside its payload.
#[derive(Debug, Default)]
struct Terms {
    schema: Option<Payload>,
    after: Option<(Duration, Payload)>,
    cancellable: bool,
}

impl<T> Interrupt<T> {
    /// Shows a JSON schema to whoever answers, and refuses answers that do not fit it when they are given, with
    /// [`AnswerError::Schema`](crate::AnswerError::Schema).
    ///
    /// The schema is anything that serialises as one: a `serde_json::Value` (`json!({"type": "object", ..})`), what
    /// `schemars::schema_for!` makes, a struct of your own. Checked are `type`, `enum`, `const`, `properties`, `required`,
    /// `additionalProperties`, `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems`, `minLength`, `maxLength`,
    /// `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf` (of integers), `minProperties`,
    /// `maxProperties`, `anyOf`, `oneOf`, `allOf`, `not` and `$ref` within the schema; all else is shown, and left to whoever
    /// asks the person. Whatever the schema says, the answer must be a `T`.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use durably::{AnswerError, Runtime, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn order() -> u32 {
    ///     let schema = BTreeMap::from([("minimum", 1), ("maximum", 10)]); // or serde_json's `json!`
    ///     interrupt("how many?", "tea").schema(&schema).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// let paused = thread.invoke(order()).await?;
    /// assert_eq!(paused.questions()[0].schema().as_deref(), Some(r#"{"maximum":10,"minimum":1}"#));
    /// let error = thread.answer("how many?", 11).await.unwrap_err();
    /// assert!(matches!(error, AnswerError::Schema { .. }), "{error}");
    /// thread.answer("how many?", 10).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A schema that cannot be recorded, or is neither a map nor a bool, stops the run with [`RunError::Value`].
    pub fn schema(self, schema: &(impl Serialize + ?Sized)) -> Self {
        let encoded = Payload::encode(schema).and_then(|schema| match schema.is_schema() {
            true => Ok(schema),
            false => Err(ValueError::unfit::<Payload>(format!(
                "{} is no JSON schema, which is a map or a bool; parse a text first",
                schema.preview(40)
            ))),
        });
        match encoded {
            Ok(schema) => {
                self.terms().schema = Some(schema);
                self
            }
            Err(source) => self.refused("schema", source),
        }
    }

    /// Answers itself with `default` if nobody has answered so long after it was asked.
    ///
    /// When that is, is recorded when the question opens, and stands over crashes and restarts. The run pauses all the
    /// same; [`Runtime::run_due`](crate::Runtime::run_due) or a resume after that moment goes on with the default. An answer
    /// that comes later than that, but before the default was stored, counts: whichever is stored first, and the other is a
    /// [`Conflict`](crate::AnswerError::Conflict).
    ///
    /// ```
    /// use std::time::Duration;
    /// use durably::{Outcome, Runtime, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn publish(text: String) -> bool {
    ///     interrupt("publish?", &text).or_after(Duration::from_millis(5), false).await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let runtime = Runtime::builder().entrypoint(publish).memory();
    /// let paused = runtime.thread("essay")?.invoke(publish("Dear all".to_owned())).await?;
    /// assert!(paused.questions()[0].due().is_some());
    /// tokio::time::sleep(Duration::from_millis(20)).await;
    /// for due in runtime.run_due().await? {
    ///     assert_eq!(due.outcome_as::<bool>().await?, Outcome::Completed(false));
    /// }
    /// # Ok::<(), durably::RunError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A default that cannot be recorded stops the run with [`RunError::Value`].
    pub fn or_after(self, after: Duration, default: T) -> Self
    where
        T: Serialize,
    {
        match Payload::encode(&default) {
            Ok(default) => {
                self.terms().after = Some((after, default));
                self
            }
            Err(source) => self.refused("default", source),
        }
    }

    /// Lets the question be cancelled, by [`Thread::cancel_question`](crate::Thread::cancel_question): awaiting it then
    /// gives `None`, and `Some` of an answer. The last of the options.
    ///
    /// A question that does not say so cannot be cancelled by itself: the code could only hang or fail. Whoever wants to
    /// be rid of it gives up the run.
    ///
    /// ```
    /// use durably::{Outcome, Runtime, entrypoint, interrupt};
    ///
    /// #[entrypoint]
    /// async fn publish(text: String) -> String {
    ///     match interrupt::<bool>("publish?", &text).cancellable().await {
    ///         Some(true) => "published",
    ///         Some(false) => "rejected",
    ///         None => "nobody wants to decide any more",
    ///     }
    ///     .to_owned()
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("essay")?;
    /// let _ = thread.invoke(publish("Dear all".to_owned())).await?;
    /// thread.cancel_question("publish?").by("alice").await?;
    /// let outcome = thread.resume(publish).await?;
    /// assert_eq!(outcome.completed().as_deref(), Some("nobody wants to decide any more"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancellable(self) -> Cancellable<T>
    where
        T: Serialize + DeserializeOwned,
    {
        self.terms().cancellable = true;
        let Self { run, key, terms, call, .. } = self;
        Cancellable(Interrupt { run, key, terms, call, read: read_payload::<Option<T>> })
    }

    fn terms(&self) -> std::sync::MutexGuard<'_, Terms> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run is stopped by what the question is made of.
    fn refused(mut self, what: &str, source: ValueError) -> Self {
        let what = format!("the {what} of interrupt {:?}", self.key);
        self.run.fail(RunError::Value { what, source });
        self.call = None;
        self
    }
}

/// A question that may be cancelled: see [`Interrupt::cancellable`].
#[must_use = "a question is asked only when it is awaited"]
pub struct Cancellable<T>(Interrupt<Option<T>>);

/// Asks, and waits for an answer of the type.
async fn ask<T: Serialize + DeserializeOwned>(run: &Arc<Run>, slot: Slot, payload: Payload, terms: &Mutex<Terms>) {
    run.begin_attempt(slot).await;
    let terms = std::mem::take(&mut *terms.lock().unwrap_or_else(PoisonError::into_inner));
    let Terms { schema, after, cancellable } = terms;
    let expects = std::any::type_name::<T>();
    let asking = Asking { payload, expects, check: check::<T>, schema, after, cancellable };
    let Some(asked) = run.open_question(slot, asking) else { return };
    loop {
        let answer = run.next_answer(slot, &asked).await;
        match value_of::<T>(&answer, cancellable) {
            Ok(value) => return run.finish_answered(slot, &answer, value),
            // Nobody else can answer it: what it answers itself with is on record.
            Err(source) if answer.how.kind == AnswerKind::Deadline => {
                return run.fail(RunError::Value { what: "the recorded default of an interrupt".to_owned(), source });
            }
            Err(error) => run.refuse_answer(slot, &error),
        }
    }
}

/// What an answer is recorded as.
fn value_of<T: Serialize + DeserializeOwned>(answer: &Answer, cancellable: bool) -> Result<Payload, ValueError> {
    match &answer.value {
        Some(value) if cancellable => Payload::encode(&Some(read_answer::<T>(value)?)),
        Some(value) if value.decode::<T>().is_ok() => Ok(value.clone()),
        Some(value) => Payload::encode(&read_answer::<T>(value)?),
        None if cancellable => Payload::encode(&None::<T>),
        None => Err(ValueError::unfit::<T>("the question was cancelled, and can no longer be".to_owned())),
    }
}

/// Whether a value is an answer of this type.
fn check<T: DeserializeOwned>(value: &Payload) -> Result<(), ValueError> {
    read_answer::<T>(value).map(drop)
}

/// Reads an answer, which may have been JSON on its way here.
fn read_answer<T: DeserializeOwned>(value: &Payload) -> Result<T, ValueError> {
    value.decode().or_else(|error| value.decode_as_json().map_err(|_| error))
}

fn read_payload<T: DeserializeOwned>(value: &Payload) -> Result<T, ValueError> {
    value.decode()
}

impl<T> Future for Interrupt<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let Some(call) = &mut this.call else { return Poll::Pending };
        let Poll::Ready(Raw(value)) = Pin::new(call).poll(cx) else { return Poll::Pending };
        match (this.read)(&value) {
            Ok(value) => Poll::Ready(value),
            Err(source) => {
                let what = format!("the recorded outcome of {:?}", this.key);
                this.run.fail(RunError::Value { what, source });
                Poll::Pending
            }
        }
    }
}

impl<T> Future for Cancellable<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.get_mut().0).poll(cx)
    }
}

impl<T> fmt::Debug for Interrupt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Cancellable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellable").field("key", &self.0.key).finish_non_exhaustive()
    }
}

/// A recorded answer, not yet read.
struct Raw(Payload);

fn read_raw(recorded: &Recorded, name: &str) -> Result<Raw, ValueError> {
    match recorded {
        Recorded::Value(value) => Ok(Raw(value.clone())),
        Recorded::Failure(failure) => Err(failed::<Payload>(failure, name)),
    }
}

/// Reads a value from a record that cannot be a failure.
pub(crate) fn read<T: DeserializeOwned>(recorded: &Recorded, name: &str) -> Result<T, ValueError> {
    match recorded {
        Recorded::Value(value) => value.decode(),
        Recorded::Failure(failure) => Err(failed::<T>(failure, name)),
    }
}

fn failed<T>(failure: &crate::Failure, name: &str) -> ValueError {
    ValueError::unfit::<T>(format!("{name:?} has a failure on record (\"{failure}\"), which it cannot have"))
}
