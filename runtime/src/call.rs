//! One claimed call as the future that the code awaits: whatever it is a call of.

use std::{
    borrow::Cow,
    future::Future,
    panic::Location,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{
    CachePolicy, RunError, ValueError,
    id::CallId,
    journal::{CallKind, Definition, NewCall, Slot},
    output::Recorded,
    scope::{Ambient, BodySignal, InnerSignal, Run, Step, outside},
    value::Arguments,
};

/// What a call does when it has no record: ends by finishing the call, or by stopping the run.
pub(crate) type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Reads a call's output from its record; the name is that of what was called.
pub(crate) type Read<T> = fn(&Recorded, &str) -> Result<T, ValueError>;

/// A claimed call.
pub(crate) struct Claimed<'a, T> {
    run: Arc<Run>,
    slot: Slot,
    name: Cow<'static, str>,
    read: Read<T>,
    work: Working<'a>,
}

/// Where a call's work is.
enum Working<'a> {
    /// None is needed, or it is over.
    None,
    /// It is polled in place, once it may start.
    Here(Work<'a>, Option<Watch>),
    /// It goes to the pool, once it may start and was asked to.
    ToSpawn { work: Work<'static>, detached: bool, asked: bool },
    /// It is on the pool.
    Spawned(tokio::task::AbortHandle, bool),
}

/// Who is told when a body that is polled in place is woken; and the waker that tells it.
enum Watch {
    /// The entrypoint that the call stands in.
    Entrypoint(Arc<BodySignal>, Waker),
    /// The body that the call stands in.
    Body(Arc<InnerSignal>, Waker),
}

/// What is claimed.
pub(crate) struct Claim<'d> {
    pub(crate) kind: CallKind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) definition: Option<&'d Definition>,
    pub(crate) arguments: Arguments,
    pub(crate) location: &'static Location<'static>,
}

impl<'a, T> Claimed<'a, T> {
    /// Claims a call where the code stands. `work` is made only if there is no record of it.
    ///
    /// `None`: the run is stopped by this, so that whatever awaits the call waits for good.
    pub(crate) fn new(
        ambient: &Ambient,
        claim: Claim<'_>,
        read: Read<T>,
        work: impl FnOnce(&Arc<Run>, Slot) -> Option<Work<'a>>,
    ) -> Option<Self> {
        let Claim { kind, name, definition, arguments, location } = claim;
        let run = ambient.run.clone();
        if let Some(task) = ambient.reconciles {
            run.fail(RunError::CallInReconcile { task: task.to_owned(), called: name.into_owned() });
            return None;
        }
        let new = NewCall { kind, name: name.clone(), definition: definition.copied(), arguments, location };
        let slot = run.claim(&ambient.scope, new)?;
        let work = if run.is_recorded(slot) { None } else { work(&run, slot) };
        let work = work.map_or(Working::None, |work| Working::Here(work, None));
        Some(Self { run, slot, name, read, work })
    }

    /// The call's identity.
    pub(crate) fn id(&self) -> Option<CallId> {
        self.run.call_id(self.slot)
    }

    /// Has its value be shared.
    pub(crate) fn share(&self, policy: CachePolicy) {
        self.run.share(self.slot, policy);
    }

    /// Polls the work where the call is awaited.
    fn work_here(&mut self, cx: &mut Context<'_>) {
        let Working::Here(work, watch) = &mut self.work else { return };
        let done = match watch.get_or_insert_with(|| watch_over(&self.run, self.slot)) {
            Watch::Entrypoint(body, waker) => {
                body.polled();
                outside(|| work.as_mut().poll(&mut Context::from_waker(waker)))
            }
            Watch::Body(body, waker) => {
                body.polled(cx.waker());
                work.as_mut().poll(&mut Context::from_waker(waker))
            }
        };
        if done.is_ready() {
            self.work = Working::None;
        }
    }
}

fn watch_over(run: &Run, slot: Slot) -> Watch {
    match run.signal_of(slot) {
        Some(entrypoint) => {
            let body = BodySignal::new(entrypoint, slot);
            Watch::Entrypoint(body.clone(), Waker::from(body))
        }
        None => {
            let body = run.watch_inner(slot);
            Watch::Body(body.clone(), Waker::from(body))
        }
    }
}

impl<T> Claimed<'static, T> {
    /// Has the body run on the pool, once it may start.
    pub(crate) fn spawn(&mut self) {
        self.work = match std::mem::replace(&mut self.work, Working::None) {
            Working::Here(work, None) => Working::ToSpawn { work, detached: false, asked: false },
            other => other,
        };
    }
}

impl<T> Claimed<'_, T> {
    /// Has a spawned body go on when the call is dropped.
    pub(crate) fn detach(&mut self) {
        if let Working::ToSpawn { detached, .. } | Working::Spawned(_, detached) = &mut self.work {
            *detached = true;
        }
    }
}

impl<T> Future for Claimed<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        match this.run.step(this.slot, cx.waker()) {
            Step::Wait => {
                if let Working::ToSpawn { asked, .. } = &mut this.work {
                    *asked = true;
                }
                Poll::Pending
            }
            Step::Release(recorded) => {
                this.work = Working::None;
                match (this.read)(&recorded, &this.name) {
                    Ok(value) => Poll::Ready(value),
                    Err(source) => {
                        let what = format!("the recorded outcome of {:?}", this.name);
                        this.run.fail(RunError::Value { what, source });
                        Poll::Pending
                    }
                }
            }
            Step::Work => {
                match std::mem::replace(&mut this.work, Working::None) {
                    Working::ToSpawn { work, detached, .. } => {
                        this.work = Working::Spawned(this.run.spawn(this.slot, work), detached);
                    }
                    other => {
                        this.work = other;
                        this.work_here(cx);
                    }
                }
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Claimed<'_, T> {
    fn drop(&mut self) {
        // The body first: what it holds is within the call.
        let detached = match std::mem::replace(&mut self.work, Working::None) {
            Working::Spawned(_, true) => true,
            Working::Spawned(handle, false) => {
                handle.abort();
                false
            }
            Working::ToSpawn { work, detached: true, asked: true } => {
                self.run.start_later(self.slot, work);
                true
            }
            Working::None | Working::Here(..) | Working::ToSpawn { .. } => false,
        };
        self.run.drop_call(self.slot, detached);
    }
}
