//! What an entrypoint may not do by itself, since it would differ on replay: as recorded calls.

use std::{
    future::{Future, poll_fn},
    panic::Location,
    time::{Duration, SystemTime},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    RunError,
    call::{Claim, Claimed},
    environment::{millis, moment},
    interrupt::read,
    journal::{CallKind, Slot},
    output::Recorded,
    scope::{Ambient, Run},
    value::{Arguments, Payload},
};

use std::sync::Arc;

/// The time, the same on replay.
///
/// The first time it is reached the clock is read and recorded, in milliseconds; from then on the record answers.
///
/// ```
/// use durably::entrypoint;
///
/// #[entrypoint]
/// async fn stamp() -> String {
///     format!("{:?}", durably::now().await)
/// }
/// ```
///
/// # Panics
///
/// When called outside of a run.
#[track_caller]
pub fn now() -> impl Future<Output = SystemTime> + Send {
    let call = simple(CallKind::Now, "now", Location::caller(), |run| millis(run.environment.clock.now()));
    async move { moment(settled(call).await) }
}

/// A random number, the same on replay; from the system's source, fit for keys.
///
/// ```
/// use durably::entrypoint;
///
/// #[entrypoint]
/// async fn draw() -> bool {
///     durably::random().await % 2 == 0
/// }
/// ```
///
/// # Panics
///
/// When called outside of a run, or if the system has no randomness to give.
#[track_caller]
pub fn random() -> impl Future<Output = u64> + Send {
    let call = simple(CallKind::Random, "random", Location::caller(), |_| {
        getrandom::u64().expect("the system's random source works")
    });
    settled(call)
}

/// A random UUID of version 4 as its text, the same on replay.
///
/// ```
/// use durably::entrypoint;
///
/// #[entrypoint]
/// async fn order() -> String {
///     durably::uuid().await
/// }
/// ```
///
/// # Panics
///
/// When called outside of a run, or if the system has no randomness to give.
#[track_caller]
pub fn uuid() -> impl Future<Output = String> + Send {
    let call = simple(CallKind::Random, "uuid", Location::caller(), |_| {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system's random source works");
        // RFC 9562, section 5.4: version 4, variant 10.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    });
    settled(call)
}

/// Waits so long, counted from the first time this is reached, over crashes and restarts.
///
/// A sleep of at least the runtime's [`park_after`](crate::RuntimeBuilder::park_after) does not hold the run in memory once
/// nothing else in it is alive: the caller gets [`Outcome::Sleeping`](crate::Outcome::Sleeping).
///
/// ```
/// use std::time::Duration;
/// use durably::entrypoint;
///
/// #[entrypoint]
/// async fn remind(text: String) -> String {
///     durably::sleep(Duration::from_secs(3600)).await;
///     text
/// }
/// ```
///
/// # Panics
///
/// When called outside of a run.
#[track_caller]
pub fn sleep(pause: Duration) -> impl Future<Output = ()> + Send {
    let mut arguments = Arguments::new();
    let recordable = arguments.push("for", &pause);
    let location = Location::caller();
    let ambient = inside("sleep");
    let call = match recordable {
        Err(source) => {
            ambient.run.fail(RunError::Value { what: "a sleep's duration".to_owned(), source });
            None
        }
        Ok(()) => {
            let claim = Claim { kind: CallKind::Timer, name: "sleep".into(), definition: None, arguments, location };
            Claimed::new(&ambient, claim, read::<()>, |run, slot| {
                let run = run.clone();
                Some(Box::pin(async move {
                    run.begin_attempt(slot).await;
                    let due = run.set_timer(slot, pause);
                    run.environment.clock.sleep_until(moment(due)).await;
                    poll_fn(|cx| run.poll_return(slot, cx)).await;
                    record(&run, slot, &());
                }))
            })
        }
    };
    settled(call)
}

/// Whether this place of the code is new to the run: `false` where a run from before the change comes by, `true` from
/// there on and for every later run. For a change of an entrypoint's code while runs of it are open.
///
/// ```
/// use durably::{entrypoint, task};
///
/// #[task]
/// async fn notify() {}
///
/// #[entrypoint]
/// async fn order() -> u32 {
///     if durably::patched("notify-2026-11").await {
///         notify().await; // new; runs from before go on without it
///     }
///     1
/// }
/// ```
///
/// # Panics
///
/// When called outside of a run.
#[track_caller]
pub fn patched(id: &'static str) -> impl Future<Output = bool> + Send {
    let location = Location::caller();
    let ambient = inside("patched");
    let claim =
        Claim { kind: CallKind::Patch, name: id.into(), definition: None, arguments: Arguments::new(), location };
    let call = Claimed::new(&ambient, claim, read::<bool>, |run, slot| {
        if run.waits_for_replay(slot)
            && let Ok(old) = Payload::encode(&false)
        {
            // The only call that replay answers without a record: the run was here before the change.
            run.answer_unrecorded(slot, Recorded::Value(old));
            return None;
        }
        let run = run.clone();
        Some(Box::pin(async move {
            run.begin_attempt(slot).await;
            record(&run, slot, &true);
        }))
    });
    settled(call)
}

/// A call without arguments whose value is made when it is live.
fn simple<T>(
    kind: CallKind,
    name: &'static str,
    location: &'static Location<'static>,
    make: impl FnOnce(&Run) -> T + Send + 'static,
) -> Option<Claimed<'static, T>>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let ambient = inside(name);
    let claim = Claim { kind, name: name.into(), definition: None, arguments: Arguments::new(), location };
    Claimed::new(&ambient, claim, read::<T>, |run, slot| {
        let run = run.clone();
        Some(Box::pin(async move {
            run.begin_attempt(slot).await;
            let value = make(&run);
            record(&run, slot, &value);
        }))
    })
}

fn record<T: Serialize>(run: &Arc<Run>, slot: Slot, value: &T) {
    match Payload::encode(value) {
        Ok(payload) => run.finish(slot, Recorded::Value(payload), 0),
        Err(source) => run.fail(RunError::Value { what: "a recorded call's value".to_owned(), source }),
    }
}

fn inside(name: &str) -> Ambient {
    Ambient::current().unwrap_or_else(|| {
        panic!("`durably::{name}` was called outside of a run: call it in an #[entrypoint] or a #[task]")
    })
}

/// Waits for the call; for good if the run was stopped by it.
async fn settled<T>(call: Option<Claimed<'static, T>>) -> T {
    match call {
        Some(call) => call.await,
        None => std::future::pending().await,
    }
}
