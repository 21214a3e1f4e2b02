//! What a thread is doing: its status, its open questions, each call of its current or last run.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

use super::{
    Thread,
    saved::{Kept, RecordedValue},
};
use crate::{
    AnswerKind, CallId, CallKind, CheckpointId, Doubt, Failure, Question, RunError, RunNo, Status, ThreadId,
    environment::moment,
    id::Seq,
    journal::{Again, Answered, Attempt, Begin, CallInfo, End, Ended, Outcome, Record, Resume, Update, Wait, Waited},
    output::Recorded,
    storage::{self, Answer, Entry, EntryState, Head},
};

/// A thread, as its journal has it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadState {
    /// The thread.
    pub thread: ThreadId,
    /// What it is doing, or how its last run ended. `Running` also if the run was cut off by a crash.
    pub status: Status,
    /// Whether somebody drives it now.
    pub driven: bool,
    /// The entrypoint of its current or last run.
    pub entrypoint: String,
    /// The version of that entrypoint when the run was started.
    pub version: u32,
    /// Which run it is.
    pub run: RunNo,
    /// Which attempt of its entrypoint it is, from 1, where the entrypoint has a `retry`; counted anew by a resume.
    pub attempt: u32,
    /// The run's input, as JSON text: the list of the entrypoint's parameters.
    pub input: String,
    /// When the run was started.
    pub started: SystemTime,
    /// Why the thread is stuck, failed or cancelled.
    pub reason: Option<String>,
    /// When a paused run is to be looked at: its nearest sleep ends, its deadline passes, or a request to cancel it waits.
    pub due: Option<SystemTime>,
    /// The open questions, in the order in which they were asked. Those that were answered are not among them.
    pub questions: Vec<Question>,
    /// The questions that were answered, and whose answers the run has not come to yet.
    pub answered: Vec<AnswerState>,
    /// The calls in doubt: their bodies, which may run at most once, have begun and left no outcome. One that runs just now
    /// is among them. Those that were settled, and whose settlement the run has not come to, are not.
    pub doubts: Vec<Doubt>,
    /// The calls that the journal has, in the order of their first records.
    pub calls: Vec<CallState>,
    /// The record that this is the state after: the newest one of the run, unless another was asked for.
    pub checkpoint: CheckpointId,
    /// What the thread was marked with by its invokes.
    pub tags: BTreeMap<String, String>,
    pub(super) saved: Kept,
    pub(super) output: Option<RecordedValue>,
}

/// An answer that waits for its run to go on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AnswerState {
    /// The question.
    pub question: Question,
    /// The answer as JSON text; `None`: the question was cancelled.
    pub value: Option<String>,
    /// How it came.
    pub how: AnswerKind,
    /// Who answered, if they said so.
    pub by: Option<String>,
    /// When it came.
    pub at: SystemTime,
}

/// A call, as its journal has it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallState {
    /// Its identity.
    pub id: CallId,
    /// What sort of call it is.
    pub kind: CallKind,
    /// The name of what is called.
    pub name: String,
    /// Its arguments for people, cut short.
    pub arguments: String,
    /// The source file of the call.
    pub file: String,
    /// The line of the call.
    pub line: u32,
    /// How it stands.
    pub status: CallStatus,
    /// How many attempts are recorded.
    pub attempts: u32,
    /// Whether its value is one that an equal call left: see `#[task(cache)]`.
    pub cached: bool,
    /// The place of its newest record.
    pub seq: Seq,
    /// When its newest record was made.
    pub at: SystemTime,
    /// When its last attempt began, or its wait; `None`: that is not on record.
    pub started: Option<SystemTime>,
    /// How long its last attempt took, or its wait; `None`: it is not over.
    pub took: Option<Duration>,
    /// How many bytes its arguments have in canonical form.
    pub arguments_bytes: usize,
    /// How many bytes its recorded outcome has; 0: there is none.
    pub outcome_bytes: usize,
    /// How it was answered, if it is a question that was.
    pub how: Option<AnswerKind>,
    /// Who answered it, if they said so.
    pub by: Option<String>,
}

/// How a call stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallStatus {
    /// It has a value; as JSON text.
    Value(String),
    /// It failed, and its retries are used up.
    Failed(Failure),
    /// An attempt failed, and another one will be made.
    Retrying {
        /// The attempt's error.
        error: String,
    },
    /// It waits for an answer.
    Asking,
    /// It asked, and the run has not come to the answer yet; as JSON text, `null` if the question was cancelled.
    Answered(String),
    /// It asked, and its question was dropped unanswered, as a race's loser.
    Withdrawn,
    /// Its body, which may run at most once, has begun, and left no outcome: it runs, or is in doubt.
    InDoubt,
    /// It waits for a moment.
    Waiting {
        /// When it is over.
        until: SystemTime,
    },
    /// It failed and was opened again by a resume.
    Reopened,
}

/// The calls and questions of a run.
pub(super) struct Survey {
    pub(super) calls: Vec<CallState>,
    pub(super) questions: Vec<SurveyedQuestion>,
    /// The calls whose bodies, which may run at most once, have begun, and whether they have an outcome.
    pub(super) begun: Vec<(Doubt, bool)>,
}

/// A question on record.
pub(super) struct SurveyedQuestion {
    pub(super) question: Question,
    /// Its call's place in the list.
    pub(super) call: usize,
    /// Whether it has an outcome, or the code dropped it.
    pub(super) is_over: bool,
}

impl SurveyedQuestion {
    /// Whether the run waits for its answer.
    pub(super) fn is_open(&self) -> bool {
        !self.is_over
    }
}

impl Survey {
    /// Looks through a run's records.
    pub(super) fn of(records: &[(Seq, Record)]) -> Self {
        let mut survey = Self { calls: Vec::new(), questions: Vec::new(), begun: Vec::new() };
        let mut places: HashMap<CallId, usize> = HashMap::new();
        let mut asked: HashMap<CallId, usize> = HashMap::new();
        // Questions that a stop of the run withdrew; a resume after its deadline asks them again.
        let mut cut: Vec<usize> = Vec::new();
        let mut timed_out = false;
        for (seq, record) in records {
            match record {
                Record::Outcome(outcome) => {
                    let state = survey.note(&mut places, &outcome.call, *seq, outcome.at_ms);
                    state.end(outcome);
                    survey.doubt(outcome.call.id, |doubt, is_over| (doubt.awaited, *is_over) = (false, true));
                    if let Some(place) = asked.remove(&outcome.call.id) {
                        survey.questions[place].is_over = true;
                    }
                }
                Record::Attempt(Attempt { call, number, error, reopened, at_ms, .. }) => {
                    let state = survey.note(&mut places, call, *seq, *at_ms);
                    state.attempts = *number;
                    state.status = CallStatus::Retrying { error: error.clone() };
                    survey.reopen(&places, reopened);
                }
                Record::Begin(Begin { call, number, at_ms }) => {
                    survey.note(&mut places, call, *seq, *at_ms).begin(CallStatus::InDoubt, *at_ms);
                    survey.begun.retain(|(doubt, _)| doubt.call != call.id);
                    survey.begun.push((Doubt::begun(call, *number), false));
                }
                Record::Wait(Wait { call, what: Waited::InDoubt(doubted), at_ms }) => {
                    survey.note(&mut places, call, *seq, *at_ms).status = CallStatus::InDoubt;
                    survey.doubt(call.id, |doubt, _| {
                        doubt.awaited = true;
                        (doubt.expects, doubt.why) = (Some(doubted.expects.clone()), doubted.why.clone());
                    });
                }
                Record::Wait(Wait { call, what, at_ms }) if survey.is_in_doubt(call.id) => {
                    survey.note(&mut places, call, *seq, *at_ms);
                    survey.doubt(call.id, |doubt, _| match what {
                        Waited::Refused { reason } => doubt.refused = Some(reason.clone()),
                        Waited::Withdrawn => doubt.awaited = false,
                        Waited::Answer(_) | Waited::Until { .. } | Waited::InDoubt(_) => {}
                    });
                }
                Record::Wait(Wait { call, what, at_ms }) => {
                    let state = survey.note(&mut places, call, *seq, *at_ms);
                    match what {
                        Waited::Answer(question) => {
                            state.begin(CallStatus::Asking, *at_ms);
                            let question = Question {
                                id: call.id,
                                key: call.name.clone().into_owned(),
                                asked: question.clone(),
                                refused: None,
                            };
                            asked.insert(call.id, survey.questions.len());
                            let call = places[&call.id];
                            survey.questions.push(SurveyedQuestion { question, call, is_over: false });
                        }
                        Waited::Refused { reason } => {
                            state.status = CallStatus::Asking;
                            if let Some(place) = asked.get(&call.id) {
                                survey.questions[*place].question.refused = Some(reason.clone());
                            }
                        }
                        Waited::Withdrawn => {
                            state.status = CallStatus::Withdrawn;
                            if let Some(place) = asked.remove(&call.id) {
                                survey.questions[place].is_over = true;
                            }
                        }
                        Waited::InDoubt(_) => {}
                        Waited::Until { due_ms } => {
                            state.begin(CallStatus::Waiting { until: moment(*due_ms) }, *at_ms);
                        }
                    }
                }
                Record::Again(Again { reopened, .. }) => survey.reopen(&places, reopened),
                Record::Resume(Resume { reopened, .. }) => {
                    survey.reopen(&places, reopened);
                    if std::mem::take(&mut timed_out) {
                        survey.withdraw(&places, &std::mem::take(&mut cut), false);
                    }
                }
                Record::Cancel(_) => {
                    cut = (0..survey.questions.len()).filter(|place| survey.questions[*place].is_open()).collect();
                    survey.withdraw(&places, &cut, true);
                }
                Record::End(End { how, .. }) => timed_out = matches!(how, Ended::TimedOut { .. }),
                Record::Start(_) | Record::Unread(_) | Record::Emitted(_) | Record::Update(_) => {}
            }
        }
        survey
    }

    fn is_in_doubt(&self, call: CallId) -> bool {
        self.begun.iter().any(|(doubt, is_over)| doubt.call == call && !is_over)
    }

    fn doubt(&mut self, call: CallId, change: impl FnOnce(&mut Doubt, &mut bool)) {
        if let Some((doubt, is_over)) = self.begun.iter_mut().find(|(doubt, _)| doubt.call == call) {
            change(doubt, is_over);
        }
    }

    /// The calls in doubt, but for those that the inbox has a settlement of.
    fn doubts(&self, inbox: &[(CallId, Entry)]) -> Vec<Doubt> {
        let is_settled = |doubt: &Doubt| {
            inbox.iter().any(|(call, entry)| *call == doubt.call && matches!(entry.state, EntryState::Answered(_)))
        };
        let open = self.begun.iter().filter(|(doubt, is_over)| !is_over && !is_settled(doubt));
        open.map(|(doubt, _)| doubt.clone()).collect()
    }

    fn note(&mut self, places: &mut HashMap<CallId, usize>, call: &CallInfo, seq: Seq, at_ms: u64) -> &mut CallState {
        let place = *places.entry(call.id).or_insert(self.calls.len());
        if place == self.calls.len() {
            self.calls.push(CallState {
                id: call.id,
                kind: call.kind,
                name: call.name.clone().into_owned(),
                arguments: call.preview.clone(),
                file: call.file.clone().into_owned(),
                line: call.line,
                status: CallStatus::Reopened,
                attempts: 0,
                cached: false,
                seq,
                at: moment(at_ms),
                started: None,
                took: None,
                arguments_bytes: call.length as usize,
                outcome_bytes: 0,
                how: None,
                by: None,
            });
        }
        let state = &mut self.calls[place];
        (state.seq, state.at) = (seq, moment(at_ms));
        state
    }

    /// Withdraws these questions, or asks them again.
    fn withdraw(&mut self, places: &HashMap<CallId, usize>, questions: &[usize], withdrawn: bool) {
        for question in questions {
            let asked = &mut self.questions[*question];
            asked.is_over = withdrawn;
            if let Some(place) = places.get(&asked.question.id) {
                self.calls[*place].status = if withdrawn { CallStatus::Withdrawn } else { CallStatus::Asking };
            }
        }
    }

    fn reopen(&mut self, places: &HashMap<CallId, usize>, reopened: &[CallId]) {
        for call in reopened {
            if let Some(place) = places.get(call) {
                self.calls[*place].status = CallStatus::Reopened;
            }
            self.doubt(*call, |_, is_over| *is_over = false);
        }
    }

    /// The questions that are not over: open ones, and those that the inbox has answers to.
    fn pending(&mut self, inbox: Vec<(CallId, Entry)>) -> (Vec<Question>, Vec<AnswerState>) {
        let mut answers: HashMap<CallId, Answer> = inbox
            .into_iter()
            .filter_map(|(question, entry)| match entry.state {
                EntryState::Answered(answer) => Some((question, answer)),
                EntryState::Open | EntryState::Taken(..) => None,
            })
            .collect();
        let (mut open, mut answered) = (Vec::new(), Vec::new());
        for SurveyedQuestion { question, call, is_over } in std::mem::take(&mut self.questions) {
            if is_over {
                continue;
            }
            let Some(Answer { value, how }) = answers.remove(&question.id) else {
                open.push(question);
                continue;
            };
            let value = value.map(|value| value.to_json());
            let call = &mut self.calls[call];
            call.status = CallStatus::Answered(value.clone().unwrap_or_else(|| "null".to_owned()));
            (call.how, call.by) = (Some(how.kind), how.by.clone());
            answered.push(AnswerState { question, value, how: how.kind, by: how.by, at: moment(how.at_ms) });
        }
        (open, answered)
    }
}

impl CallState {
    /// It waits from here on.
    fn begin(&mut self, status: CallStatus, at_ms: u64) {
        (self.status, self.started, self.took) = (status, Some(moment(at_ms)), None);
    }

    /// It has an outcome.
    fn end(&mut self, outcome: &Outcome) {
        let Outcome { recorded, attempts, at_ms, took_ms, cached, answered, .. } = outcome;
        (self.attempts, self.cached) = (*attempts, *cached);
        let waited = self.started.filter(|_| matches!(self.status, CallStatus::Asking | CallStatus::Waiting { .. }));
        let took = match waited {
            Some(began) => moment(*at_ms).duration_since(began).unwrap_or_default(),
            None => Duration::from_millis((*took_ms).into()),
        };
        self.started = waited.or_else(|| Some(moment(at_ms.saturating_sub((*took_ms).into()))));
        self.took = Some(took);
        (self.status, self.outcome_bytes) = match &**recorded {
            Recorded::Value(value) => (CallStatus::Value(value.to_json()), value.bytes.len()),
            Recorded::Failure(failure) => (CallStatus::Failed(failure.clone()), size(failure)),
        };
        if let Some(Answered { kind, by, .. }) = answered {
            (self.how, self.by) = (Some(*kind), by.clone());
        }
    }
}

/// How many bytes a failure takes: its typed form, and its messages.
fn size(failure: &Failure) -> usize {
    let typed = failure.typed.as_ref().map_or(0, |typed| typed.bytes.len());
    typed + failure.messages().iter().map(String::len).sum::<usize>()
}

/// Which attempt of the entrypoint the newest of these records are of.
fn attempt(records: &[(Seq, Record)]) -> u32 {
    let newest = records.iter().rev().find_map(|(_, record)| match record {
        Record::Again(again) => Some(again.number + 1),
        Record::Resume(_) => Some(1),
        _ => None,
    });
    newest.unwrap_or(1)
}

impl Thread {
    /// What the thread is doing, from its journal; `None` if it has never run.
    ///
    /// # Errors
    ///
    /// [`RunError::Checkpoint`] if the store cannot be read, [`RunError::Corrupt`] if the journal is damaged.
    pub async fn state(&self) -> Result<Option<ThreadState>, RunError> {
        let checkpointer = self.runtime.checkpointer();
        let Some((head, _)) = storage::head(checkpointer, &self.id).await? else { return Ok(None) };
        let records = storage::load_run(checkpointer, &self.id, head.run).await?;
        let inbox = storage::inbox(checkpointer, &self.id).await?;
        self.state_of(head, &records, inbox).await.map(Some)
    }

    /// What these records of a run say of it, with the head and the answers that the thread had by then.
    pub(super) async fn state_of(
        &self,
        head: Head,
        records: &[(Seq, Record)],
        inbox: Vec<(CallId, Entry)>,
    ) -> Result<ThreadState, RunError> {
        let checkpointer = self.runtime.checkpointer();
        let saved = self.kept(head.saved).await?;
        let output = records.last().and_then(|(_, record)| record.output()).cloned().map(RecordedValue);
        let seq = records.last().map_or(Seq(0), |(seq, _)| *seq);
        let (input, started) = match records.first() {
            Some((_, Record::Start(start))) => (start.input.to_json(), moment(start.at_ms)),
            Some((_, Record::Update(Update { input, at_ms, .. }))) => {
                (input.as_ref().map(|(input, _)| input.to_json()).unwrap_or_default(), moment(*at_ms))
            }
            _ => (String::new(), moment(head.created_ms)),
        };
        let mut survey = Survey::of(records);
        let doubts = if head.status.is_unfinished() { survey.doubts(&inbox) } else { Vec::new() };
        let (questions, answered) = if head.status.is_unfinished() && head.status != Status::Failed {
            survey.pending(inbox)
        } else {
            (Vec::new(), Vec::new())
        };
        Ok(ThreadState {
            thread: self.id.clone(),
            status: head.status,
            driven: checkpointer.is_leased(&self.id),
            entrypoint: head.entrypoint,
            version: head.version,
            run: head.run,
            attempt: attempt(records),
            input,
            started,
            reason: head.reason,
            due: head.due_ms.map(moment),
            questions,
            answered,
            doubts,
            calls: survey.calls,
            checkpoint: CheckpointId { run: head.run, seq },
            tags: head.tags,
            saved,
            output,
        })
    }
}
