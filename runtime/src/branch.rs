//! Concurrency in an entrypoint: named branches, and many calls of which only some are live at a time.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, stream::FuturesUnordered};

use crate::{
    journal::Scope,
    scope::{Ambient, Run, within},
};

/// Gives the calls made in a branch a scope of their own, so that equal calls of several branches cannot be taken for
/// each other's, whatever the order in which they are made.
///
/// Takes a closure, since calls made before would be claimed outside of the branch. Branches of one name in a scope are
/// told apart by the order in which they are made.
///
/// ```
/// use durably::{branch, entrypoint, task};
///
/// #[task]
/// async fn next_ticket() -> u32 { 7 }
///
/// #[entrypoint]
/// async fn both() -> (u32, u32) {
///     futures::join!(branch("eu", async || next_ticket().await), branch("us", async || next_ticket().await))
/// }
/// ```
///
/// # Panics
///
/// When called outside of a run.
pub fn branch<F, Fut>(name: &str, body: F) -> impl Future<Output = Fut::Output> + use<F, Fut>
where
    F: FnOnce() -> Fut,
    Fut: Future,
{
    let Some(mut ambient) = Ambient::current() else {
        panic!("`branch({name:?}, ..)` was called outside of a run: call it in an #[entrypoint] or a #[task]");
    };
    let parent = ambient.scope;
    ambient.scope = ambient.run.branch(&parent, name);
    let over = Over { run: ambient.run.clone(), parent, branch: ambient.scope };
    let future = within(ambient.clone(), body);
    async move {
        let _over = over;
        crate::scope::Within::new(ambient, Box::pin(future)).await
    }
}

/// Tells the run when a branch is over, or dropped.
struct Over {
    run: Arc<Run>,
    parent: Scope,
    branch: Scope,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.run.leave_branch(&self.parent, &self.branch);
    }
}

/// Runs calls with at most `limit` of them live at a time, and gives their outputs in the order of the calls.
///
/// A call is made when its turn comes: `calls` is asked for the next one when one before has ended. 0 counts as 1.
/// To stop at the first error, use [`Bounded::until_error`].
///
/// ```
/// use durably::{bounded, entrypoint, task};
///
/// #[task]
/// async fn length(text: &str) -> usize { text.len() }
///
/// #[entrypoint]
/// async fn lengths(texts: Vec<String>) -> Vec<usize> {
///     bounded(8, texts.iter().map(|text| length(text))).await
/// }
/// ```
pub fn bounded<'a, I>(limit: usize, calls: I) -> Bounded<'a, I::Item>
where
    I: IntoIterator<IntoIter: Send + 'a, Item: Future>,
{
    let calls = Box::new(calls.into_iter());
    Bounded { calls, limit: limit.max(1), live: FuturesUnordered::new(), outputs: Vec::new(), made: 0 }
}

/// Calls of which only some are live at a time: see [`bounded`].
///
/// The iterator is behind a pointer, so that a closure over borrowed items does not show in the type: with it, an
/// entrypoint's future would not be `Send` to the compiler.
#[must_use = "the calls are made only when this is awaited"]
pub struct Bounded<'a, F: Future> {
    calls: Box<dyn Iterator<Item = F> + Send + 'a>,
    limit: usize,
    live: FuturesUnordered<Placed<F>>,
    outputs: Vec<Option<F::Output>>,
    made: usize,
}

/// A call that knows its place among all.
struct Placed<F> {
    place: usize,
    call: Pin<Box<F>>,
}

impl<F: Future> Future for Placed<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let place = self.place;
        self.call.as_mut().poll(cx).map(|output| (place, output))
    }
}

impl<F: Future> Bounded<'_, F> {
    /// The next output, in the order in which the calls end; makes calls up to the limit.
    fn poll_next_output(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, F::Output)>> {
        while self.live.len() < self.limit {
            let Some(call) = self.calls.next() else { break };
            self.live.push(Placed { place: self.made, call: Box::pin(call) });
            self.outputs.push(None);
            self.made += 1;
        }
        Pin::new(&mut self.live).poll_next(cx)
    }
}

impl<F: Future> Unpin for Bounded<'_, F> {}

impl<F: Future> Future for Bounded<'_, F> {
    type Output = Vec<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match this.poll_next_output(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some((place, output))) => this.outputs[place] = Some(output),
                Poll::Ready(None) => return Poll::Ready(this.outputs.drain(..).flatten().collect()),
            }
        }
    }
}

impl<T, E, F: Future<Output = Result<T, E>>> Bounded<'_, F> {
    /// As awaiting it, but ends with the first error that comes, and drops the calls that are live then.
    ///
    /// # Errors
    ///
    /// The first error, in the order in which calls end.
    pub async fn until_error(mut self) -> Result<Vec<T>, E> {
        loop {
            match std::future::poll_fn(|cx| self.poll_next_output(cx)).await {
                Some((_, Err(error))) => return Err(error),
                Some((place, output)) => self.outputs[place] = Some(output),
                None => return self.outputs.drain(..).flatten().collect(),
            }
        }
    }
}

impl<F: Future> std::fmt::Debug for Bounded<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bounded").field("limit", &self.limit).field("made", &self.made).finish_non_exhaustive()
    }
}
