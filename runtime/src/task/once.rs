//! Bodies that run at most once: what becomes of one that has begun and left no outcome.

use std::{
    any::Any,
    fmt,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::Poll,
};

use serde::de::DeserializeOwned;

use super::TaskSpec;
use crate::{
    ValueError,
    environment::AnswerCheck,
    journal::{AnswerKind, Slot},
    output::{Journaled, OutputCodec, Recorded},
    panics::panic_message,
    scope::{Ambient, Run, Within},
    storage::Answer,
    value::Payload,
};

/// What a task's reconcile function found out about a body that had begun and left no outcome: see
/// `#[task(at_most_once, reconcile = ..)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled<T> {
    /// Its effect happened; this is what the task gives.
    Happened(T),
    /// Its effect did not happen, and never will: the body may run again.
    DidNot,
    /// Nobody can tell from here: a person has to. See [`Thread::settle`](crate::Thread::settle).
    Unknown,
}

/// What a reconcile function returns: a [`Reconciled`], or a `Result` with one. An error is as good as
/// [`Reconciled::Unknown`], and is shown to whoever settles.
#[diagnostic::on_unimplemented(
    message = "a reconcile function gives `durably::Reconciled<{T}>`, or a `Result` with it, and not `{Self}`",
    label = "does not give `Reconciled<{T}>`"
)]
pub trait Reconciles<T> {
    /// What was found out.
    ///
    /// # Errors
    ///
    /// Why nothing was.
    fn told(self) -> Result<Reconciled<T>, String>;
}

impl<T> Reconciles<T> for Reconciled<T> {
    fn told(self) -> Result<Self, String> {
        Ok(self)
    }
}

impl<T, E: fmt::Display> Reconciles<T> for Result<Reconciled<T>, E> {
    fn told(self) -> Result<Reconciled<T>, String> {
        self.map_err(|error| format!("its reconcile function failed: {error:#}"))
    }
}

/// A reconcile function at work.
pub struct Reconciling<'a>(Pin<Box<dyn Future<Output = Result<Reconciled<Payload>, String>> + Send + 'a>>);

impl fmt::Debug for Reconciling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciling").finish_non_exhaustive()
    }
}

/// Calls a reconcile function. Called by the expansion of `#[task]`.
pub fn reconciling<'a, T, R>(asked: impl Future<Output = R> + Send + 'a) -> Reconciling<'a>
where
    T: Journaled,
    R: Reconciles<T>,
{
    Reconciling(Box::pin(async move {
        Ok(match asked.await.told()? {
            Reconciled::Happened(value) => {
                let encoded = Payload::encode(&value);
                Reconciled::Happened(encoded.map_err(|error| format!("what it found cannot be recorded: {error}"))?)
            }
            Reconciled::DidNot => Reconciled::DidNot,
            Reconciled::Unknown => Reconciled::Unknown,
        })
    }))
}

/// That a body runs at most once, and how it is found out what became of it.
pub(crate) struct Once<'a> {
    /// The type that the task gives, by name.
    expects: &'static str,
    check: AnswerCheck,
    pub(crate) reconcile: Option<Box<dyn FnMut() -> Reconciling<'a> + Send + 'a>>,
}

/// What became of a call in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Its effect happened, and that is its outcome.
    Happened,
    /// It did not, as its reconcile function says.
    DidNot,
    /// It did not, as somebody says.
    DidNotByWord,
}

impl Once<'_> {
    pub(crate) fn new<T: Journaled>() -> Self {
        Self { expects: std::any::type_name::<T>(), check: check::<T>, reconcile: None }
    }

    /// Finds out what became of the call. Waits, for a person if it must be.
    pub(super) async fn settle<T>(
        &mut self,
        run: &Arc<Run>,
        slot: Slot,
        spec: &'static TaskSpec,
        codec: OutputCodec<T>,
    ) -> Settled {
        let mut why = None;
        if !run.is_settled(slot) {
            let found = match self.ask(run, slot, spec).await {
                None => None,
                Some(Ok(Reconciled::Happened(value))) => Some(Some(value)),
                Some(Ok(Reconciled::DidNot)) => Some(None),
                Some(Ok(Reconciled::Unknown)) => {
                    why = Some("its reconcile function does not know".to_owned());
                    None
                }
                Some(Err(error)) => {
                    why = Some(error);
                    None
                }
            };
            if let Some(found) = found {
                let answer = run.settle_first(slot, found).await;
                match take(run, slot, spec, codec, &answer) {
                    Ok(settled) => return settled,
                    // What it found is not of the task's type any more.
                    Err(error) => why = Some(error.of_an_answer()),
                }
            }
        }
        loop {
            run.open_doubt(slot, self.expects, why.clone(), self.check);
            let answer = poll_fn(|cx| run.poll_answer(slot, cx)).await;
            match take(run, slot, spec, codec, &answer) {
                Ok(settled) => return settled,
                Err(error) => run.refuse_answer(slot, &error),
            }
        }
    }

    /// Asks the reconcile function, if there is one.
    async fn ask(
        &mut self,
        run: &Arc<Run>,
        slot: Slot,
        spec: &'static TaskSpec,
    ) -> Option<Result<Reconciled<Payload>, String>> {
        let make = self.reconcile.as_mut()?;
        let Some(scope) = run.body_scope(slot) else { return std::future::pending().await };
        let attempt = run.with_journal(|journal| journal.call(slot).map_or(0, |call| call.attempts));
        let ambient = Ambient { run: run.clone(), scope, body: Some((slot, attempt)), reconciles: Some(spec.name) };
        let panicked =
            |panic: &(dyn Any + Send)| Err(format!("its reconcile function panicked: {}", panic_message(panic)));
        // It is made where it is polled, so that a call beside its `async` block is told as one too.
        let asked = async move { make().0.await };
        let mut asked = Within::new(ambient, Box::pin(asked));
        let found = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut asked).poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => Poll::Ready(panicked(&*panic)),
        });
        Some(found.await)
    }
}

/// Takes what somebody or something says became of the call.
fn take<T>(
    run: &Arc<Run>,
    slot: Slot,
    spec: &'static TaskSpec,
    codec: OutputCodec<T>,
    answer: &Answer,
) -> Result<Settled, ValueError> {
    let Some(value) = &answer.value else {
        run.take_settlement(slot, answer);
        return Ok(match answer.how.kind {
            AnswerKind::Reconciled => Settled::DidNot,
            AnswerKind::Given | AnswerKind::Deadline | AnswerKind::Cancelled => Settled::DidNotByWord,
        });
    };
    (codec.decode)(&Recorded::Value(value.clone()), spec.name)?;
    run.finish_answered(slot, answer, value.clone());
    Ok(Settled::Happened)
}

fn check<T: DeserializeOwned>(value: &Payload) -> Result<(), ValueError> {
    value.decode::<T>().map(drop)
}
