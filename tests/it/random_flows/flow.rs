//! Flows as data: what they can do, how a random one is made and made smaller, and the entrypoint that runs one.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, UNIX_EPOCH},
};

use durably::{entrypoint, task};
use futures::{
    StreamExt,
    future::{join_all, try_join_all},
    stream::{self, FuturesUnordered},
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};

use super::lab::Lab;

/// One thing that a flow does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Step {
    /// One after another.
    Seq(Vec<Step>),
    /// A task; its failure ends what it stands in.
    Task(Call),
    /// A task whose failure is handled.
    Handled(Call),
    /// A task that is polled once and then dropped, to go on by itself.
    Detached(Call),
    /// Several calls of one identity but for their ordinal, claimed before any is awaited.
    Equal(Call, usize),
    /// At once; the first failure in order counts, after all have ended.
    Join(Vec<Step>),
    /// At once; the first failure in time drops the others.
    TryJoin(Vec<Step>),
    /// The first to end goes on with its second step; the others are dropped.
    Select(Vec<(Step, Step)>),
    /// Each goes on with its second step as it ends, during which no other is read.
    Unordered(Vec<(Step, Step)>),
    /// So many at once, as a stream.
    Buffered(usize, Vec<Step>),
    /// So many at once, in the order of the calls.
    Bounded(usize, Vec<Step>),
    /// So many at once, by a semaphore.
    Gate(usize, Vec<Step>),
    /// Each sends a message when it has ended; the receiver does something after each.
    Channel(Vec<Step>, Box<Step>),
    /// In an entrypoint of its own.
    Nested(Box<Step>),
    /// In a scope of its own.
    Branch(u8, Box<Step>),
    Now,
    Random,
    Patched,
    /// For so many milliseconds.
    Sleep(u64),
    /// Waits for an answer.
    Ask(u32),
    /// Tells whoever reads the run.
    Tell(u32),
}

/// A task's call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    /// No two calls of a flow have the same one, but for those of [`Step::Equal`].
    pub(super) tag: u32,
    /// What its body does.
    pub(super) inner: Option<Box<Step>>,
    /// How many attempts fail.
    pub(super) fails: u32,
    /// Whether it is made again after a failure, three times in all.
    pub(super) retried: bool,
    /// Whether its body runs on the pool.
    pub(super) spawned: bool,
}

/// Why a flow or a task ended early.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("task {tag} failed")]
pub(super) struct Fault {
    /// Whose body failed first.
    pub(super) tag: u32,
    /// What the entrypoint had seen by then; empty for a task.
    pub(super) trace: Vec<String>,
}

/// What code has seen, in order.
#[derive(Clone, Debug, Default)]
struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    fn saw(&self, what: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[entrypoint]
pub(super) async fn flow(step: Step) -> Result<Vec<String>, Fault> {
    traced(step).await
}

#[entrypoint]
async fn nested(step: Step) -> Result<Vec<String>, Fault> {
    traced(step).await
}

async fn traced(step: Step) -> Result<Vec<String>, Fault> {
    let trace = Trace::default();
    match run(step, trace.clone()).await {
        Ok(()) => Ok(trace.all()),
        Err(Fault { tag, .. }) => Err(Fault { tag, trace: trace.all() }),
    }
}

#[task]
async fn once(tag: u32, call: Call) -> Result<String, Fault> {
    body(tag, call).await
}

#[task(retry(max_attempts = 3, initial_interval = "0ms", jitter = false))]
async fn retried(tag: u32, call: Call) -> Result<String, Fault> {
    body(tag, call).await
}

async fn body(tag: u32, call: Call) -> Result<String, Fault> {
    let lab = durably::resource::<Lab>();
    lab.begin(tag, &durably::idempotency_key().unwrap());
    lab.pause().await;
    let inner = Trace::default();
    if let Some(step) = call.inner {
        run(*step, inner.clone()).await?;
        lab.pause().await;
    }
    if durably::attempt() <= call.fails && !lab.is_mended() {
        return Err(Fault { tag, trace: Vec::new() });
    }
    // No two bodies give the same, so that a value tells which of them made it.
    Ok(format!("{tag}#{}{:?}", lab.unique(), inner.all()))
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn call(call: Call) -> durably::TaskCall<'static, Result<String, Fault>> {
    let (tag, spawned) = (call.tag, call.spawned);
    let made = if call.retried { retried(tag, call) } else { once(tag, call) };
    if spawned { made.spawn() } else { made }
}

fn all(steps: Vec<Step>, trace: &Trace) -> Vec<Boxed<Result<(), Fault>>> {
    steps.into_iter().map(|step| run(step, trace.clone())).collect()
}

/// Does one step of a flow, in an entrypoint or in a task's body.
#[allow(clippy::too_many_lines)] // a flat list of what there is
fn run(step: Step, trace: Trace) -> Boxed<Result<(), Fault>> {
    Box::pin(async move {
        match step {
            Step::Seq(steps) => {
                for step in steps {
                    run(step, trace.clone()).await?;
                }
            }
            Step::Task(it) => {
                let value = call(it).await?;
                trace.saw(value);
            }
            Step::Handled(it) => match call(it).await {
                Ok(value) => trace.saw(value),
                Err(fault) => trace.saw(format!("handled {fault}")),
            },
            Step::Detached(it) => {
                trace.saw(format!("detached {}", it.tag));
                let mut call = Box::pin(call(it).detached());
                std::future::poll_fn(|cx| {
                    let _ = call.as_mut().poll(cx);
                    Poll::Ready(())
                })
                .await;
            }
            Step::Equal(it, times) => {
                let calls: Vec<_> = (0..times).map(|_| call(it.clone())).collect();
                for value in join_all(calls).await {
                    trace.saw(value?);
                }
            }
            Step::Join(steps) => {
                for result in join_all(all(steps, &trace)).await {
                    result?;
                }
            }
            Step::TryJoin(steps) => {
                try_join_all(all(steps, &trace)).await?;
            }
            Step::Select(branches) => {
                let (steps, then): (Vec<_>, Vec<_>) = branches.into_iter().unzip();
                let mut steps = all(steps, &trace);
                let (place, result) = std::future::poll_fn(|cx| {
                    for (place, step) in steps.iter_mut().enumerate() {
                        if let Poll::Ready(result) = step.as_mut().poll(cx) {
                            return Poll::Ready((place, result));
                        }
                    }
                    Poll::Pending
                })
                .await;
                drop(steps);
                trace.saw(format!("selected {place}"));
                result?;
                run(then[place].clone(), trace).await?;
            }
            Step::Unordered(branches) => {
                let mut live = FuturesUnordered::new();
                for (place, (step, then)) in branches.into_iter().enumerate() {
                    let step = run(step, trace.clone());
                    live.push(async move { (place, then, step.await) });
                }
                while let Some((place, then, result)) = live.next().await {
                    trace.saw(format!("ended {place}"));
                    result?;
                    run(then, trace.clone()).await?;
                }
            }
            Step::Buffered(limit, steps) => {
                let mut live = stream::iter(all(steps, &trace)).buffer_unordered(limit);
                while let Some(result) = live.next().await {
                    result?;
                }
            }
            Step::Bounded(limit, steps) => {
                durably::bounded(limit, all(steps, &trace)).until_error().await?;
            }
            Step::Gate(permits, steps) => {
                let gate = Arc::new(Semaphore::new(permits));
                let steps = all(steps, &trace).into_iter().enumerate().map(|(place, step)| {
                    let (gate, trace) = (gate.clone(), trace.clone());
                    async move {
                        let _permit = gate.acquire().await.unwrap();
                        trace.saw(format!("through the gate {place}"));
                        step.await
                    }
                });
                try_join_all(steps).await?;
            }
            Step::Channel(producers, after) => {
                let (sender, mut messages) = mpsc::unbounded_channel();
                let mut parts: Vec<Boxed<Result<(), Fault>>> = Vec::new();
                for (place, step) in all(producers, &trace).into_iter().enumerate() {
                    let sender = sender.clone();
                    parts.push(Box::pin(async move {
                        step.await?;
                        let _ = sender.send(place);
                        Ok(())
                    }));
                }
                drop(sender);
                let trace = trace.clone();
                parts.push(Box::pin(async move {
                    while let Some(place) = messages.recv().await {
                        trace.saw(format!("message {place}"));
                        run((*after).clone(), trace.clone()).await?;
                    }
                    Ok(())
                }));
                try_join_all(parts).await?;
            }
            Step::Nested(step) => match nested(*step).await {
                Ok(inner) => trace.saw(format!("nested {inner:?}")),
                Err(fault) => {
                    trace.saw(format!("nested failed {:?}", fault.trace));
                    return Err(fault);
                }
            },
            Step::Branch(name, step) => {
                let inner = trace.clone();
                let branch = durably::branch(&format!("branch {name}"), move || run(*step, inner));
                Box::pin(branch).await?;
            }
            Step::Now => {
                let now = durably::now().await.duration_since(UNIX_EPOCH).unwrap();
                trace.saw(format!("now {}", now.as_millis()));
            }
            Step::Random => trace.saw(format!("random {}", durably::random().await)),
            Step::Patched => trace.saw(format!("patched {}", durably::patched("a change").await)),
            Step::Sleep(ms) => {
                durably::sleep(Duration::from_millis(ms)).await;
                trace.saw(format!("slept {ms}"));
            }
            Step::Ask(what) => {
                let answer: u32 = durably::interrupt(format!("question {what}"), &what).await;
                trace.saw(format!("answer {answer}"));
            }
            Step::Tell(what) => {
                trace.saw(format!("told {what}"));
                durably::emit(&what);
            }
        }
        Ok(())
    })
}
