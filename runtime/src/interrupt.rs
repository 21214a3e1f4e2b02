//! Questions to the outside: the run pauses until somebody answers.

use std::{
    fmt,
    future::Future,
    panic::Location,
    pin::Pin,
    task::{Context, Poll},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    RunError,
    call::{Claim, Claimed},
    journal::CallKind,
    output::Recorded,
    scope::Ambient,
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
    let mut arguments = Arguments::new();
    let recordable = arguments.push("payload", payload).and_then(|()| Payload::encode(payload));
    let payload = match recordable {
        Ok(payload) => payload,
        Err(source) => {
            ambient.run.fail(RunError::Value { what: format!("the payload of interrupt {key:?}"), source });
            return Interrupt(None);
        }
    };
    let location = Location::caller();
    let claim = Claim { kind: CallKind::Interrupt, name: key.into(), definition: None, arguments, location };
    Interrupt(Claimed::new(&ambient, claim, read::<T>, |run, slot| {
        let run = run.clone();
        Some(Box::pin(async move {
            run.begin_attempt(slot).await;
            run.open_question(slot, payload, std::any::type_name::<T>());
            loop {
                let answer = std::future::poll_fn(|cx| run.poll_answer(slot, cx)).await;
                match answer.decode::<T>() {
                    Ok(_) => return run.finish(slot, Recorded::Value(answer), 0),
                    Err(error) => run.refuse_answer(slot, &error),
                }
            }
        }))
    }))
}

/// A question that waits for its answer: see [`interrupt`].
#[must_use = "a question is asked only when it is awaited"]
pub struct Interrupt<T>(Option<Claimed<'static, T>>);

impl<T> Future for Interrupt<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.get_mut().0 {
            Some(claimed) => Pin::new(claimed).poll(cx),
            // The run is stopped by the question itself.
            None => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for Interrupt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}

/// Reads a value from a record that cannot be a failure.
pub(crate) fn read<T: DeserializeOwned>(recorded: &Recorded, name: &str) -> Result<T, crate::ValueError> {
    match recorded {
        Recorded::Value(value) => value.decode(),
        Recorded::Failure(failure) => Err(crate::ValueError::unfit::<T>(format!(
            "{name:?} has a failure on record (\"{failure}\"), which it cannot have"
        ))),
    }
}
