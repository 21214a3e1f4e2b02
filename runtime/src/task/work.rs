//! A task's body from its first attempt to its record: attempts, timeouts, retries, panics.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Instant,
};

use super::{Body, Retries, TaskSpec, body::Form, cached::look_up, limits::Limits, once::Settled};
use crate::{
    RunError,
    environment::ReplacedCall,
    journal::Slot,
    output::{OutputCodec, Recorded, TaskError},
    panics::panic_message,
    scope::{Ambient, Run, Within, within},
};

/// Runs a task's attempts until one counts, and records that. Ends without a record only if the run is stopped: by a
/// panic too, of the body or of the output on its way to its record.
pub(super) async fn attempts<T: Send + 'static>(
    run: Arc<Run>,
    slot: Slot,
    spec: &'static TaskSpec,
    codec: OutputCodec<T>,
    body: Body<'_, T>,
) {
    let mut attempts = pin!(until_one_counts(run.clone(), slot, spec, codec, body));
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| attempts.as_mut().poll(cx))) {
        Ok(polled) => polled,
        Err(panic) => {
            run.fail(panicked(spec, &*panic));
            Poll::Ready(())
        }
    })
    .await;
}

fn panicked(spec: &TaskSpec, panic: &(dyn Any + Send)) -> RunError {
    let what = format!("task {:?} (defined at {}:{})", spec.name, spec.definition.file, spec.definition.line);
    RunError::Panicked { what, message: panic_message(panic) }
}

async fn until_one_counts<T: Send + 'static>(
    run: Arc<Run>,
    slot: Slot,
    spec: &'static TaskSpec,
    codec: OutputCodec<T>,
    mut body: Body<'_, T>,
) {
    // Shared with whoever looks at the attempt from outside; most tasks have none.
    let retries = (!body.retries.is_empty()).then(|| Arc::new(std::mem::take(&mut body.retries)));
    let mut making = None;
    let mut once = body.once.take();
    // A value that others left would stand for an effect of its own.
    let shared = if once.is_some() { None } else { run.shared(slot).or_else(|| body.cache.take()) };
    if let Some(policy) = shared {
        match Box::pin(look_up(&run, slot, spec, codec, policy)).await {
            Some(found) => making = Some(found),
            None => return,
        }
    }
    // Whether somebody said that the last attempt had no effect.
    let mut may_begin = false;
    loop {
        // An earlier process may have failed an attempt and not come to the next one.
        run.next_attempt_is_due(slot).await;
        if let Some(once) = &mut once {
            let in_doubt = run.has_begun_once(slot) && !std::mem::take(&mut may_begin);
            if in_doubt && Box::pin(once.settle(&run, slot, spec, codec)).await == Settled::Happened {
                return;
            }
            Box::pin(run.begin_once(slot)).await;
        }
        let attempt = run.begin_attempt(slot).await;
        let began = Instant::now();
        let is_once = once.is_some();
        let ended = one(&run, slot, attempt, spec, codec, (&mut body, retries.clone(), is_once)).await;
        if let Some(gate) = &run.environment.gate {
            gate().await;
        }
        let (output, timed_out) = match ended {
            Ok(Ended::Returned(output)) => (output, None),
            Ok(Ended::TimedOut(output, error)) => {
                // Its effect may have happened all the same.
                if let Some(once) = &mut once {
                    match Box::pin(once.settle(&run, slot, spec, codec)).await {
                        Settled::Happened => return,
                        Settled::DidNot => {}
                        Settled::DidNotByWord => {
                            may_begin = true;
                            continue;
                        }
                    }
                }
                (output, Some(error))
            }
            Err(panic) => return run.fail(panicked(spec, &*panic)),
        };
        // A timeout is recorded as what it is: the error that the output made of it may not say so any more.
        let encoded = timed_out.map_or_else(|| (codec.encode)(&output), |error| Ok(Recorded::Failure((&error).into())));
        let recorded = match encoded {
            Ok(recorded) => recorded,
            Err(source) => {
                run.fail(RunError::Value { what: format!("the output of task {:?}", spec.name), source });
                return;
            }
        };
        if let Recorded::Failure(failure) = &recorded
            && let Some(pause) = retries.as_ref().and_then(|retries| retries.next_pause(&output, attempt))
            && run.is_working(slot, attempt)
        {
            run.attempt_failed(slot, attempt, failure.to_string(), pause);
            poll_fn(|cx| run.poll_try_again(slot, cx)).await;
            continue;
        }
        // A value that does not come back is an error here, where it was made, and not at some replay.
        if let Err(source) = (codec.decode)(&recorded, spec.name) {
            run.fail(RunError::Value { what: format!("the output of task {:?}", spec.name), source });
            return;
        }
        // Before its record: if this panics, the run must not have gone on with the outcome on another thread.
        drop(output);
        let took = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        if let (Some(making), Recorded::Value(value)) = (making.take(), &recorded) {
            Box::pin(making.keep(&run, slot, spec, value)).await;
        }
        run.finish_attempt(slot, attempt, recorded, took);
        return;
    }
}

/// How an attempt ended, if it did not panic.
enum Ended<T> {
    /// The body returned this.
    Returned(T),
    /// It took longer than it may; the output that stands for that, and the error it was made of.
    TimedOut(T, TaskError),
}

/// One attempt, within its limit; a panic's payload if it panicked.
async fn one<T: Send + 'static>(
    run: &Arc<Run>,
    slot: Slot,
    number: u32,
    spec: &'static TaskSpec,
    codec: OutputCodec<T>,
    (body, retries, is_once): (&mut Body<'_, T>, Option<Arc<Retries<T>>>, bool),
) -> Result<Ended<T>, Box<dyn Any + Send>> {
    let Some(scope) = run.body_scope(slot) else { return std::future::pending().await };
    let ambient = Ambient { run: run.clone(), scope, body: Some((slot, number)), reconciles: None };
    let mut attempt = match catch_unwind(AssertUnwindSafe(|| attempt_future(run, slot, number, spec, body))) {
        Ok(future) => Within::new(ambient, future),
        Err(panic) => return Err(panic),
    };
    let caught = poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut attempt).poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(output),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    });
    // The macro refuses a limit where the output cannot hold one.
    let is_limited = spec.timeout.is_some() || spec.idle_timeout.is_some();
    let Some(from_error) = codec.from_error.filter(|_| is_limited) else {
        return caught.await.map(Ended::Returned);
    };
    let limits = Arc::new(Limits::new(run, slot, spec));
    let follows = move |error| {
        is_once || retries.as_ref().is_some_and(|retries| retries.next_pause(&from_error(error), number).is_some())
    };
    let _watched = limits.watch(number, overdue(run, slot, number, follows));
    Box::pin(within_limits(caught, &limits, number, from_error)).await
}

/// One attempt of a task that has limits. Boxed by its caller, as the looks at shared values are: the future of a task that
/// has neither is moved once a call, and has no room for them.
async fn within_limits<T>(
    caught: impl Future<Output = Result<T, Box<dyn Any + Send>>>,
    limits: &Limits,
    attempt: u32,
    from_error: fn(TaskError) -> T,
) -> Result<Ended<T>, Box<dyn Any + Send>> {
    let mut caught = pin!(caught);
    let error = tokio::select! {
        biased;
        output = &mut caught => match limits.passed() {
            // It blocked its thread for too long, or came at the very moment: it is late all the same.
            Some(error) if output.is_ok() => {
                limits.refuse(attempt);
                error
            }
            _ => return output.map(Ended::Returned),
        },
        error = limits.run_out() => error,
    };
    Ok(Ended::TimedOut(from_error(error.clone()), error))
}

/// What is done about an attempt that has run into a limit and blocks its thread. On the pool, where nobody else is kept by
/// it, its time-out is noted at once, unless another attempt `follows`: that one needs the body that is blocked.
fn overdue(
    run: &Arc<Run>,
    slot: Slot,
    attempt: u32,
    follows: impl Fn(TaskError) -> bool + Send + 'static,
) -> impl FnMut(TaskError) + Send + 'static {
    let run = run.clone();
    move |error| {
        if run.is_on_the_pool(slot) && !follows(error.clone()) {
            let took = error.elapsed().unwrap_or_default();
            let recorded = Recorded::Failure((&error).into());
            run.finish_attempt(slot, attempt, recorded, u32::try_from(took.as_millis()).unwrap_or(u32::MAX));
        }
    }
}

type Attempt<'a, T> = Pin<Box<dyn Future<Output = Result<T, Box<dyn Any + Send>>> + Send + 'a>>;

/// What one attempt runs: the body, or what a test put in its place.
fn attempt_future<'a, T: Send + 'static>(
    run: &Arc<Run>,
    slot: Slot,
    attempt: u32,
    spec: &'static TaskSpec,
    body: &mut Body<'a, T>,
) -> Attempt<'a, T> {
    if let Some(replacement) = run.environment.replacements.get(spec.name) {
        let arguments = run.with_journal(|journal| journal.call(slot).map(|call| call.arguments.clone()));
        let output = (replacement.body)(ReplacedCall { arguments: arguments.unwrap_or_default(), attempt });
        let (name, gives) = (spec.name, replacement.gives);
        return Box::pin(async move {
            let Ok(output) = output.await.downcast::<T>() else {
                let wanted = std::any::type_name::<T>();
                panic!("the replacement of task `{name}` gives `{gives}`, but the task gives `{wanted}`");
            };
            Ok(*output)
        });
    }
    match &mut body.form {
        Form::Once(body) => match body.take() {
            Some(body) => Box::pin(async move { Ok(body.await) }),
            None => Box::pin(std::future::pending()),
        },
        Form::Again(make) => {
            let body = make();
            Box::pin(async move { Ok(body.await) })
        }
        Form::Blocking(make) => {
            let job = make();
            let run = run.clone();
            Box::pin(async move {
                // The run's lease is kept until the job has ended: it cannot be ended from outside.
                let kept = run.hold();
                let call = run.portrait(slot);
                // Its thread stands where the body stands: it can ask for resources, its attempt, its key.
                let here = Ambient::current();
                let job = tokio::task::spawn_blocking(move || {
                    let output = catch_unwind(AssertUnwindSafe(|| match here {
                        Some(here) => within(here, job),
                        None => job(),
                    }));
                    if let Some(call) = call.filter(|call| !call.run.is_working(slot, attempt)) {
                        call.refused(attempt);
                    }
                    drop(kept);
                    output
                });
                match job.await {
                    Ok(output) => output,
                    Err(error) if error.is_panic() => Err(error.into_panic()),
                    // The pool is shutting down, and with it everything.
                    Err(_) => std::future::pending().await,
                }
            })
        }
    }
}
