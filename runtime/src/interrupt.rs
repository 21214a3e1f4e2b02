//! Questions to the outside: the run pauses until somebody answers.

use std::{future::Future, panic::Location};

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
pub fn interrupt<T>(key: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> impl Future<Output = T> + Send + use<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let claimed = ask::<T>(key.into(), Payload::encode(payload), Location::caller());
    async move {
        match claimed {
            Some(claimed) => claimed.await,
            None => std::future::pending().await,
        }
    }
}

fn ask<T>(
    key: String,
    payload: Result<Payload, crate::ValueError>,
    location: &'static Location<'static>,
) -> Option<Claimed<'static, T>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let ambient = Ambient::current().unwrap_or_else(|| {
        panic!("`interrupt({key:?}, ..)` was called outside of a run: call it in an #[entrypoint] or a #[task]")
    });
    let payload = match payload {
        Ok(payload) => payload,
        Err(source) => {
            ambient.run.fail(RunError::Value { what: format!("the payload of interrupt {key:?}"), source });
            return None;
        }
    };
    let mut arguments = Arguments::new();
    arguments.push_encoded("payload", &payload);
    let claim = Claim { kind: CallKind::Interrupt, name: key.into(), definition: None, arguments, location };
    Claimed::new(&ambient, claim, read::<T>, |run, slot| {
        let run = run.clone();
        Some(Box::pin(async move {
            run.begin_attempt(slot);
            run.open_question(slot, payload, std::any::type_name::<T>());
            loop {
                let answer = std::future::poll_fn(|cx| run.poll_answer(slot, cx)).await;
                match answer.decode::<T>() {
                    Ok(_) => return run.finish(slot, Recorded::Value(answer), 0),
                    Err(error) => run.refuse_answer(slot, &error),
                }
            }
        }))
    })
}

/// Reads a value from a record that cannot be a failure.
pub(crate) fn read<T: DeserializeOwned>(recorded: &Recorded, name: &str) -> Result<T, crate::ValueError> {
    match recorded {
        Recorded::Value(value) => value.decode(),
        Recorded::Failure(failure) => {
            Err(crate::ValueError::custom(format!("{name:?} has a failure on record (\"{failure}\"), which it cannot have")))
        }
    }
}
