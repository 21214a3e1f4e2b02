//! What a run waits for outside of the process: answers and moments. And when it waits for nothing else.

use std::{
    collections::HashMap,
    future::{pending, poll_fn},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    Earlier,
    liveness::Waits,
    run::{Run, State},
};
use crate::{
    ValueError,
    environment::{AnswerCheck, moment},
    id::{CallId, Seq},
    journal::{Asked, Deadline, Slot, Waited},
    output::Recorded,
    storage::{self, Answer, Entry, EntryState},
    value::Payload,
};

/// What a call asks, as the code has it.
pub(crate) struct Asking {
    pub(crate) payload: Payload,
    pub(crate) expects: &'static str,
    pub(crate) check: AnswerCheck,
    pub(crate) schema: Option<Payload>,
    /// After how long it answers itself, and with what.
    pub(crate) after: Option<(Duration, Payload)>,
    pub(crate) cancellable: bool,
}

/// An open question, for whoever may answer it.
pub(crate) struct OpenQuestion {
    pub(crate) id: CallId,
    pub(crate) key: String,
    pub(crate) asked: Arc<Asked>,
    /// Why the newest answer was not taken.
    pub(crate) refused: Option<String>,
}

/// What a run waits for when nothing in it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// Something is still going on.
    Not,
    /// Answers; or the end of the nearest sleep beside them, if there is one, in milliseconds since 1970.
    Questions(Option<u64>),
    /// Somebody who says what became of a call; or, beside it, the nearest moment as above.
    Doubts(Option<u64>),
    /// This moment, in milliseconds since 1970.
    Until(u64),
    /// The end of the drain.
    Drained,
    /// Nothing that could ever come.
    Stalled,
}

impl Run {
    /// Opens the call's question, unless an earlier drive did; as it is on record.
    pub(crate) fn open_question(self: &Arc<Self>, slot: Slot, asking: Asking) -> Option<Arc<Asked>> {
        let asked = {
            let mut state = self.lock();
            state.journal.call(slot)?;
            let check = asking.check;
            let asked = match state.journal.loaded_wait(slot) {
                Some(Waited::Answer(asked)) => asked.clone(),
                _ => {
                    let now = self.environment.now_ms();
                    let asked = Arc::new(asking.open_at(now));
                    state.journal.wait(slot, Waited::Answer(asked.clone()), now);
                    asked
                }
            };
            state.begin_wait(slot, Waits::Answer(asked.clone(), check));
            asked
        };
        self.nudge();
        Some(asked)
    }

    /// Sets the call's timer, unless an earlier drive did; when it is due.
    pub(crate) fn set_timer(self: &Arc<Self>, slot: Slot, pause: Duration) -> u64 {
        let now = self.environment.now_ms();
        let due = {
            let mut state = self.lock();
            if let Some(Waited::Until { due_ms }) = state.journal.loaded_wait(slot) {
                *due_ms
            } else {
                let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                // Rounded up: a sleep is never shorter than asked for.
                let due_ms = now.saturating_add(pause).saturating_add(1);
                state.journal.wait(slot, Waited::Until { due_ms }, now);
                due_ms
            }
        };
        let left = Duration::from_millis(due.saturating_sub(now));
        // One that is over parks in no case: nothing would ever wake it.
        if !left.is_zero() && left >= self.environment.park_after {
            let mut state = self.lock();
            // A body that may run at most once is not left for it: it could not be gone on with.
            let once = state.journal.call(slot).and_then(|call| state.journal.once_around(&call.scope));
            if once.is_none() {
                state.begin_wait(slot, Waits::Until(due));
            }
        }
        self.nudge();
        due
    }

    /// The next answer to the call's question: one that was given, or its default when it is due.
    pub(crate) async fn next_answer(self: &Arc<Self>, slot: Slot, asked: &Asked) -> Answer {
        let Some(Deadline { due_ms, default }) = &asked.deadline else {
            return poll_fn(|cx| self.poll_answer(slot, cx)).await;
        };
        let mut due = self.environment.clock.sleep_until(moment(*due_ms));
        let given = poll_fn(|cx| match self.poll_answer(slot, cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => due.as_mut().poll(cx).map(|()| None),
        });
        if let Some(answer) = given.await {
            return answer;
        }
        // The default goes through the inbox as any answer does: whichever is there first counts.
        let Some((id, entry)) = poll_fn(|cx| self.poll_open(slot, cx)).await else { return pending().await };
        let default = Answer::at_deadline(default.clone(), self.environment.now_ms());
        let store = &self.environment.checkpointer;
        match storage::answer_open(store, &self.thread, self.epoch, (id, &entry), default).await {
            Ok(answer) => answer,
            // Its question was withdrawn meanwhile.
            Err(_) if self.is_cut() => pending().await,
            Err(error) => {
                self.fail(error.into());
                pending().await
            }
        }
    }

    /// The answer to the call's question, once there is one.
    pub(crate) fn poll_answer(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.lock();
        let Some(id) = state.journal.call(slot).map(|call| call.id) else { return Poll::Pending };
        if state.answers.contains_key(&id)
            && Self::may_return(&mut state, slot)
            && let Some(answer) = state.answers.remove(&id)
        {
            return Poll::Ready(answer);
        }
        state.liveness.of(slot).body = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits, after a wait for the outside is over, until the body that it stands in may go on.
    pub(crate) fn poll_return(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.journal.call(slot).is_none() {
            return Poll::Pending;
        }
        if Self::may_return(&mut state, slot) {
            return Poll::Ready(());
        }
        state.liveness.of(slot).body = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The call's question as its row in the inbox has it, once that is written; `None`: the call is gone.
    fn poll_open(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<Option<(CallId, Entry)>> {
        let mut state = self.lock();
        let Some(id) = state.journal.call(slot).map(|call| call.id) else { return Poll::Ready(None) };
        if state.journal.is_cut() {
            return Poll::Pending;
        }
        if let Some(entry) = state.questions.get(id) {
            return Poll::Ready(Some((id, entry.clone())));
        }
        let activity = state.liveness.of(slot);
        (activity.body, activity.waits_to_open) = (Some(cx.waker().clone()), true);
        Poll::Pending
    }

    /// The call's question ends with this answer, as this value.
    pub(crate) fn finish_answered(self: &Arc<Self>, slot: Slot, answer: &Answer, value: Payload) {
        {
            let mut state = self.lock();
            let Some(id) = state.journal.call(slot).map(|call| call.id) else { return };
            state.answers.remove(&id);
            if state.questions.get(id).is_some() {
                state.questions.take(id, answer);
            }
            state.journal.note_answer(slot, answer.how.clone());
        }
        self.finish(slot, Recorded::Value(value), 0);
    }

    /// How long the call's body has waited for the outside, all in all: its timeout stands still meanwhile.
    pub(crate) fn paused(&self, slot: Slot) -> Duration {
        let state = self.lock();
        if state.journal.call(slot).is_some() { state.liveness.paused(slot) } else { Duration::ZERO }
    }

    /// Refuses an answer that is not of the type that the code wants; the question stays open.
    pub(crate) fn refuse_answer(self: &Arc<Self>, slot: Slot, error: &ValueError) {
        let now = self.environment.now_ms();
        let reason = error.of_an_answer();
        {
            let mut state = self.lock();
            if let Some(id) = state.journal.call(slot).map(|call| call.id) {
                state.refused.insert(id, reason.clone());
            }
            state.journal.wait(slot, Waited::Refused { reason }, now);
        }
        self.nudge();
    }

    /// Takes over what earlier drives refused and left open.
    pub(crate) fn remember(&self, earlier: Earlier) {
        let mut state = self.lock();
        (state.questions, state.refused) = (earlier.questions, earlier.refused);
    }

    /// The call looks whether what it was told of is what it waits for: it is alive meanwhile.
    pub(crate) fn look_up(&self, slot: Slot) {
        let mut state = self.lock();
        let State { journal, liveness, .. } = &mut *state;
        liveness.end_wait(journal, slot);
    }

    /// It is not: the call waits on, for an answer to its question.
    pub(crate) fn wait_on(self: &Arc<Self>, slot: Slot, asked: &Arc<Asked>, check: AnswerCheck) {
        self.lock().begin_wait(slot, Waits::Answer(asked.clone(), check));
        self.nudge();
    }

    /// Tells a call that has a question that there is something new beside it, whether it waits now or is about to.
    pub(crate) fn tell(&self, call: CallId) {
        let waker = {
            let mut state = self.lock();
            let State { journal, liveness, .. } = &mut *state;
            let Some(slot) = liveness.asks_at(call) else { return };
            liveness.of(slot).told = true;
            liveness.end_wait(journal, slot);
            liveness.of(slot).body.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the call was told that there is something new.
    pub(crate) fn poll_told(&self, slot: Slot, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.journal.call(slot).is_none() {
            return Poll::Pending;
        }
        let activity = state.liveness.of(slot);
        if std::mem::take(&mut activity.told) {
            return Poll::Ready(());
        }
        activity.body = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns once the call's question can be answered.
    pub(crate) async fn can_be_answered(&self, slot: Slot) {
        poll_fn(|cx| self.poll_open(slot, cx)).await;
    }

    /// Takes over what is in the inbox; the open questions that are not.
    pub(crate) fn take_inbox(self: &Arc<Self>, inbox: Vec<(CallId, Entry)>) -> Vec<(CallId, Entry)> {
        let mut rows = HashMap::with_capacity(inbox.len());
        for (question, entry) in inbox {
            if let EntryState::Answered(answer) = &entry.state {
                self.deliver(question, entry.asked, answer.clone());
            }
            rows.insert(question, entry);
        }
        self.lock().questions.missing(&rows)
    }

    /// An answer has arrived while the run is driven, for the question that was asked by this record.
    pub(crate) fn deliver(self: &Arc<Self>, question: CallId, asked: Seq, answer: Answer) {
        let waker = {
            let mut state = self.lock();
            if state.questions.get(question).is_none_or(|entry| entry.asked != asked) {
                // It is over, or was dropped and is asked anew.
                return;
            }
            let State { answers, liveness, .. } = &mut *state;
            answers.insert(question, answer);
            liveness.asking(question).and_then(|(slot, _)| liveness.of(slot).body.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// How the code that asks this question now checks an answer, if it stands at it.
    pub(crate) fn answer_check(&self, question: CallId) -> Option<AnswerCheck> {
        self.lock().liveness.asking(question).map(|(_, check)| check)
    }

    /// Whether any call waits for the outside.
    pub(super) fn waits_outside(&self) -> bool {
        self.lock().liveness.waits().next().is_some()
    }

    /// What the run waits for, once its entrypoint has settled.
    pub(crate) fn quiet(&self) -> Quiet {
        let mut state = self.lock();
        if state.is_alive() || state.journal.has_appended() || state.outbox.holds_back(self.mode) {
            return Quiet::Not;
        }
        let now = self.environment.now_ms();
        let mut until: Option<u64> = None;
        let (mut asks, mut doubts) = (false, false);
        for (slot, waits) in state.liveness.waits() {
            let Some(call) = state.journal.call(*slot) else { continue };
            if state.journal.is_orphaned(&call.scope) {
                // The body on the pool that asked is being ended: its question goes with it, and is withdrawn.
                return Quiet::Not;
            }
            let due = match waits {
                Waits::Until(due) => Some(*due),
                Waits::Answer(asked, _) => {
                    asks = true;
                    let due = asked.deadline.as_ref().map(|deadline| deadline.due_ms);
                    let is_answered = due.is_some_and(|due| due <= now) || state.answers.contains_key(&call.id);
                    if is_answered && state.liveness.would_look(&state.journal, *slot) {
                        return Quiet::Not;
                    }
                    due
                }
                Waits::Settlement(..) => {
                    doubts = true;
                    if state.answers.contains_key(&call.id) && state.liveness.would_look(&state.journal, *slot) {
                        return Quiet::Not;
                    }
                    None
                }
            };
            until = until.into_iter().chain(due).min();
        }
        if doubts {
            return Quiet::Doubts(until);
        }
        if asks {
            return Quiet::Questions(until);
        }
        match until {
            _ if state.held_back => Quiet::Drained,
            Some(due) => Quiet::Until(due),
            None => Quiet::Stalled,
        }
    }

    /// The open questions, in the order in which they were asked.
    pub(crate) fn questions(&self) -> Vec<OpenQuestion> {
        let state = self.lock();
        let asked = state.liveness.waits().filter_map(|(slot, waits)| match waits {
            Waits::Answer(asked, _) => {
                let call = state.journal.call(*slot)?;
                let refused = state.refused.get(&call.id).cloned();
                Some(OpenQuestion { id: call.id, key: call.name.clone().into_owned(), asked: asked.clone(), refused })
            }
            Waits::Settlement(..) | Waits::Until(_) => None,
        });
        let (answered, open): (Vec<_>, Vec<_>) = asked.partition(|asked| state.answers.contains_key(&asked.id));
        // One that was answered and that the code does not look at yet is nobody's to answer.
        if open.is_empty() { answered } else { open }
    }
}

impl Asking {
    /// As it is recorded when it is asked now.
    fn open_at(self, now_ms: u64) -> Asked {
        let Self { payload, expects, schema, after, cancellable, .. } = self;
        let deadline = after.map(|(after, default)| {
            let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            // Rounded up: the time to answer is never shorter than asked for.
            Deadline { due_ms: now_ms.saturating_add(after).saturating_add(1), default }
        });
        Asked { payload, expects: expects.to_owned(), schema, deadline, cancellable }
    }
}

impl State {
    fn is_alive(&mut self) -> bool {
        self.liveness.is_alive(&self.journal)
    }

    pub(super) fn begin_wait(&mut self, slot: Slot, waits: Waits) {
        self.liveness.begin_wait(&self.journal, slot, waits);
        self.give_up_leads();
    }
}
