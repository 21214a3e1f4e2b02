//! A call of an entrypoint: a value for a thread, or a nested entrypoint where it is awaited in another one.

use std::{
    fmt,
    future::{Future, poll_fn},
    panic::Location,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{Definition, Previous};
use crate::{
    RunError,
    call::{Claim, Claimed, Work},
    journal::{CallKind, Slot},
    run::{CleansUp, Entered, clean_up_nested},
    scope::{Ambient, Run},
    value::{Arguments, Payload},
};

/// A call of an entrypoint, as a value: hand it to a thread's [`invoke`](crate::Thread::invoke), or await it in another
/// entrypoint, where it runs nested: in a scope and an order of its own, its outcome recorded as one call of the outer.
#[must_use = "an entrypoint's call does nothing until it is handed to a thread or awaited in another entrypoint"]
pub struct EntrypointCall<D: Definition> {
    state: State<D>,
    location: &'static Location<'static>,
}

enum State<D: Definition> {
    /// Not awaited yet.
    Value(Option<D::Input>),
    /// Awaited in a run.
    Claimed(Claimed<'static, D::Output>),
    /// In a run that is stopped by this very call.
    Stopped,
}

impl<D: Definition> EntrypointCall<D> {
    /// Called by the expansion of `#[entrypoint]`.
    #[track_caller]
    pub fn new(input: D::Input) -> Self {
        Self { state: State::Value(Some(input)), location: Location::caller() }
    }

    /// The input, if the call was not awaited.
    pub(crate) fn into_input(self) -> Option<D::Input> {
        match self.state {
            State::Value(input) => input,
            State::Claimed(_) | State::Stopped => None,
        }
    }
}

/// An input as it is recorded, and the digest by which inputs are compared.
pub(crate) fn record_input<D: Definition>(input: &D::Input) -> Result<(Payload, Arguments), RunError> {
    let what = || format!("the input of entrypoint {:?}", D::SPEC.name);
    let payload = Payload::encode(input).map_err(|source| RunError::Value { what: what(), source })?;
    let arguments = D::arguments(input).map_err(|error| {
        let what = format!("{}, parameter {:?}", what(), error.parameter);
        RunError::Value { what, source: error.error }
    })?;
    Ok((payload, arguments))
}

/// Ends the current run and starts a new one on the same thread with this input, in one step: an endless loop keeps a
/// short journal that way. Nothing after it runs.
///
/// ```
/// use durably::{entrypoint, task};
///
/// #[task]
/// async fn poll_source(cursor: u64) -> u64 { cursor + 1 }
///
/// #[entrypoint]
/// async fn watch(mut cursor: u64) {
///     for _ in 0..1000 {
///         cursor = poll_source(cursor).await;
///     }
///     durably::continue_as_new(watch(cursor)).await
/// }
/// ```
///
/// # Panics
///
/// Outside of a run's own entrypoint: a task or a nested entrypoint cannot end the run.
pub fn continue_as_new<D: Definition, T>(call: EntrypointCall<D>) -> impl Future<Output = T> + Send + use<D, T> {
    let ambient = Ambient::current().filter(|ambient| ambient.scope.owner.is_none());
    let ambient =
        ambient.expect("`continue_as_new` is called in a run's own entrypoint, not in a task or a nested entrypoint");
    assert_eq!(
        D::SPEC.name,
        ambient.run.entrypoint,
        "`continue_as_new` goes on with the entrypoint that runs; start another one on a thread of its own"
    );
    let run = ambient.run;
    let input = match call.into_input().map(|input| record_input::<D>(&input)) {
        Some(input) => input,
        None => Err(RunError::Stalled { entrypoint: D::SPEC.name.to_owned() }),
    };
    poll_fn(move |_| {
        match &input {
            Ok((payload, arguments)) => run.go_on_as_new(payload, arguments.digest()),
            Err(error) => run.fail(error.clone()),
        }
        Poll::Pending
    })
}

/// The nested entrypoint's work: drive it, and record what it returns.
fn nested<D: Definition>(run: Arc<Run>, slot: Slot, input: D::Input) -> Work<'static> {
    Box::pin(async move {
        run.begin_attempt(slot).await;
        let Some(place) = run.enter_nested(slot) else { return };
        let body = match D::run(input, Previous::default()) {
            Ok(body) => body,
            Err(source) => {
                let what = format!("the saved value of entrypoint {:?}", D::SPEC.name);
                return run.fail(RunError::Value { what, source });
            }
        };
        let frame = place.0;
        let _cleans_up = CleansUp(run.clone(), frame);
        let mut entered = Entered::new(run.clone(), place, D::SPEC.name, body);
        let returned = poll_fn(|cx| entered.poll(cx)).await;
        drop(entered);
        clean_up_nested(&run, frame).await;
        let codec = D::codec();
        let recorded = (codec.encode)(&returned.output).and_then(|recorded| {
            // What is handed on is read from the record; an error shows here, where the value was made.
            (codec.decode)(&recorded, D::SPEC.name).map(|_| recorded)
        });
        match recorded {
            Ok(recorded) => run.finish(slot, recorded, 0),
            Err(source) => {
                run.fail(RunError::Value { what: format!("the output of entrypoint {:?}", D::SPEC.name), source });
            }
        }
    })
}

impl<D: Definition> Unpin for EntrypointCall<D> {}

impl<D: Definition> Future for EntrypointCall<D> {
    type Output = D::Output;

    /// # Panics
    ///
    /// Outside of a run, and when polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<D::Output> {
        let this = self.get_mut();
        if let State::Value(input) = &mut this.state {
            let Some(ambient) = Ambient::current() else {
                panic!(
                    "entrypoint `{0}` was awaited outside of a run: hand the call to a thread, \
                     `runtime.thread(\"..\")?.invoke({0}(..)).await`",
                    D::SPEC.name
                );
            };
            let input = input.take().expect("a call is awaited once");
            this.state = match record_input::<D>(&input) {
                Err(error) => {
                    ambient.run.fail(error);
                    State::Stopped
                }
                Ok((_, arguments)) => {
                    let claim = Claim {
                        kind: CallKind::Entrypoint,
                        name: D::SPEC.name.into(),
                        definition: Some(&D::SPEC.definition),
                        arguments,
                        location: this.location,
                    };
                    let claimed = Claimed::new(&ambient, claim, D::codec().decode, |run, slot| {
                        Some(nested::<D>(run.clone(), slot, input))
                    });
                    claimed.map_or(State::Stopped, State::Claimed)
                }
            };
        }
        match &mut this.state {
            State::Claimed(claimed) => Pin::new(claimed).poll(cx),
            State::Value(_) | State::Stopped => Poll::Pending,
        }
    }
}

impl<D: Definition> fmt::Debug for EntrypointCall<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntrypointCall").field("entrypoint", &D::SPEC.name).finish_non_exhaustive()
    }
}
