//! A call of a run that waits for what others do to an action. It is told by an answer to its question, whatever that says;
//! what counts is how the action stands.

use std::{
    future::{pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use serde::Serialize;

use super::ApprovalError;
use crate::{
    journal::{Asked, Slot},
    scope::{Asking, Run},
    value::{Payload, ValueError},
};

/// The question of one call, opened when there is something to wait for.
pub(super) struct Waiting<'r> {
    run: &'r Arc<Run>,
    slot: Slot,
    open: Option<Arc<Asked>>,
    /// Whether the question was answered, and by that nothing was settled.
    is_answered: bool,
}

impl<'r> Waiting<'r> {
    pub(super) fn new(run: &'r Arc<Run>, slot: Slot) -> Self {
        Self { run, slot, open: None, is_answered: false }
    }

    /// Waits until the action is to be looked at again: when the question has just been opened, so that nothing that came
    /// before is missed, and from then on when somebody says so. `why`: why what came has settled nothing.
    pub(super) async fn until_told(&mut self, asked: &impl Serialize, why: &str) -> Result<(), ApprovalError> {
        let Self { run, slot, open, is_answered } = self;
        let Some(open) = open else {
            let asking = Asking {
                payload: Payload::encode(asked).map_err(ApprovalError::Value)?,
                expects: "a decision, by `Approvals`",
                check,
                schema: None,
                after: None,
                cancellable: false,
            };
            let Some(asked) = run.open_question(*slot, asking) else { return pending().await };
            // It is alive until it has looked once more.
            run.look_up(*slot);
            *open = Some(asked);
            run.can_be_answered(*slot).await;
            return Ok(());
        };
        if std::mem::take(is_answered) {
            run.refuse_answer(*slot, &ValueError::unfit::<()>(why.to_owned()));
        }
        run.wait_on(*slot, open, check);
        let mut answer = pin!(run.next_answer(*slot, open));
        let answered = poll_fn(|cx| match run.poll_told(*slot, cx) {
            Poll::Ready(()) => Poll::Ready(false),
            Poll::Pending => answer.as_mut().poll(cx).map(|_| true),
        });
        *is_answered = answered.await;
        run.look_up(*slot);
        Ok(())
    }
}

/// What says that there is something new.
fn check(value: &Payload) -> Result<(), ValueError> {
    value.decode::<()>()
}
