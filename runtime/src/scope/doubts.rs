//! Calls in doubt: their body, which may run at most once, has begun, and nobody knows what became of it.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
};

use super::{
    liveness::Waits,
    run::{Run, Stop},
};
use crate::{
    environment::AnswerCheck,
    journal::{CallInfo, Doubted, Slot, Waited},
    storage::{self, Answer},
    value::Payload,
};

/// A call that waits for somebody who says what became of it.
pub(crate) struct InDoubt {
    pub(crate) call: CallInfo,
    pub(crate) attempt: u32,
    pub(crate) doubted: Arc<Doubted>,
    /// Why the newest settlement was not taken.
    pub(crate) refused: Option<String>,
}

impl Run {
    /// Notes that the call's body, which may run at most once, is about to begin; returns once that is durable.
    pub(crate) async fn begin_once(self: &Arc<Self>, slot: Slot) {
        let now = self.environment.now_ms();
        let is_stopped = {
            let mut state = self.lock();
            if state.stop.is_none() {
                state.journal.begin(slot, now);
            }
            state.stop.is_some()
        };
        if is_stopped {
            return pending().await;
        }
        self.nudge();
        poll_fn(|cx| self.poll_try_again(slot, cx)).await;
    }

    /// Whether the call's body may run at most once and has begun.
    pub(crate) fn has_begun_once(&self, slot: Slot) -> bool {
        self.lock().journal.call(slot).is_some_and(|call| call.begun)
    }

    /// Whether somebody has said what became of the call.
    pub(crate) fn is_settled(&self, slot: Slot) -> bool {
        let state = self.lock();
        state.journal.call(slot).is_some_and(|call| state.answers.contains_key(&call.id))
    }

    /// The call waits for somebody who says what became of it.
    pub(crate) fn open_doubt(
        self: &Arc<Self>,
        slot: Slot,
        expects: &'static str,
        why: Option<String>,
        check: AnswerCheck,
    ) {
        let now = self.environment.now_ms();
        let doubted = Doubted { expects: expects.to_owned(), why };
        {
            let mut state = self.lock();
            let Some(call) = state.journal.call(slot) else { return };
            self.environment.answer_types.note(call.location, expects, check);
            // Opened anew, it would lose what somebody may just have said of it.
            let is_open = matches!(state.journal.loaded_wait(slot), Some(Waited::InDoubt(_)));
            let doubted = Arc::new(doubted);
            if !is_open && !state.liveness.asks(slot) {
                state.journal.wait(slot, Waited::InDoubt(doubted.clone()), now);
            }
            state.begin_wait(slot, Waits::Settlement(doubted, check));
        }
        self.nudge();
    }

    /// A settlement is taken: the body may begin again.
    pub(crate) fn take_settlement(&self, slot: Slot, answer: &Answer) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(id) = state.journal.call(slot).map(|call| call.id) else { return };
        state.liveness.end_wait(&state.journal, slot);
        state.answers.remove(&id);
        if state.questions.get(id).is_some() {
            state.questions.take(id, answer);
        }
    }

    /// What a reconcile function found out counts, unless somebody has said something else first.
    pub(crate) async fn settle_first(self: &Arc<Self>, slot: Slot, value: Option<Payload>) -> Answer {
        let found = Answer::reconciled(value, self.environment.now_ms());
        let open = {
            let state = self.lock();
            let id = state.journal.call(slot).map(|call| call.id);
            id.and_then(|id| Some((id, state.questions.get(id)?.clone())))
        };
        let Some((id, entry)) = open else { return found };
        let store = &self.environment.checkpointer;
        match storage::answer_open(store, &self.thread, self.epoch, (id, &entry), found).await {
            Ok(answer) => answer,
            Err(error) => {
                self.stop(Stop::from(error));
                pending().await
            }
        }
    }

    /// The calls that wait to be settled, in the order in which they began to.
    pub(crate) fn doubts(&self) -> Vec<InDoubt> {
        let state = self.lock();
        let waiting = state.liveness.waits().filter_map(|(slot, waits)| match waits {
            Waits::Settlement(doubted, _) => {
                let call = state.journal.call(*slot)?;
                let (attempt, refused) = (call.attempts, state.refused.get(&call.id).cloned());
                Some(InDoubt { call: state.journal.info(*slot), attempt, doubted: doubted.clone(), refused })
            }
            Waits::Answer(..) | Waits::Until(_) => None,
        });
        waiting.collect()
    }
}
