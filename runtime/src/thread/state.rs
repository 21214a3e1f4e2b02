//! What a thread is doing: its status, its open questions, each call of its current or last run.

use std::{
    collections::{BTreeMap, HashMap},
    time::SystemTime,
};

use super::{
    Thread,
    saved::{Kept, RecordedValue},
};
use crate::{
    CallId, CallKind, CheckpointId, Failure, Question, RunError, RunNo, Status, ThreadId,
    environment::moment,
    id::Seq,
    journal::{Attempt, CallInfo, Outcome, Record, Resume, Update, Wait, Waited},
    output::Recorded,
    storage::{self, Head},
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
    /// The run's input, as JSON text: the list of the entrypoint's parameters.
    pub input: String,
    /// When the run was started.
    pub started: SystemTime,
    /// Why the thread is stuck or failed.
    pub reason: Option<String>,
    /// When the nearest sleep of a run that sleeps ends, also of one that waits for an answer too.
    pub due: Option<SystemTime>,
    /// The open questions, in the order in which they were asked.
    pub questions: Vec<Question>,
    /// The calls that the journal has, in the order of their first records.
    pub calls: Vec<CallState>,
    /// The record that this is the state after: the newest one of the run, unless another was asked for.
    pub checkpoint: CheckpointId,
    /// What the thread was marked with by its invokes.
    pub tags: BTreeMap<String, String>,
    pub(super) saved: Kept,
    pub(super) output: Option<RecordedValue>,
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
    /// The place of its newest record.
    pub seq: Seq,
    /// When its newest record was made.
    pub at: SystemTime,
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
    /// It asked, and its question was dropped unanswered, as a race's loser.
    Withdrawn,
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
}

/// A question, open or answered.
pub(super) struct SurveyedQuestion {
    pub(super) question: Question,
    pub(super) answer: Option<crate::value::Payload>,
    /// Whether the code dropped it unanswered.
    pub(super) withdrawn: bool,
}

impl SurveyedQuestion {
    /// Whether it can be answered.
    pub(super) fn is_open(&self) -> bool {
        self.answer.is_none() && !self.withdrawn
    }
}

impl Survey {
    /// Looks through a run's records.
    pub(super) fn of(records: &[(Seq, Record)]) -> Self {
        let mut survey = Self { calls: Vec::new(), questions: Vec::new() };
        let mut places: HashMap<CallId, usize> = HashMap::new();
        let mut asked: HashMap<CallId, usize> = HashMap::new();
        for (seq, record) in records {
            match record {
                Record::Outcome(Outcome { call, recorded, attempts, at_ms, .. }) => {
                    let state = survey.note(&mut places, call, *seq, *at_ms);
                    state.attempts = *attempts;
                    state.status = match &**recorded {
                        Recorded::Value(value) => CallStatus::Value(value.to_json()),
                        Recorded::Failure(failure) => CallStatus::Failed(failure.clone()),
                    };
                    if let (Some(place), Recorded::Value(value)) = (asked.get(&call.id), &**recorded) {
                        survey.questions[*place].answer = Some(value.clone());
                    }
                }
                Record::Attempt(Attempt { call, number, error, reopened, at_ms, .. }) => {
                    let state = survey.note(&mut places, call, *seq, *at_ms);
                    state.attempts = *number;
                    state.status = CallStatus::Retrying { error: error.clone() };
                    survey.reopen(&places, reopened);
                }
                Record::Wait(Wait { call, what, at_ms }) => {
                    let status = match what {
                        Waited::Answer { payload, .. } => {
                            let key = call.name.clone().into_owned();
                            let question = Question { id: call.id, key, payload: payload.clone(), refused: None };
                            asked.insert(call.id, survey.questions.len());
                            survey.questions.push(SurveyedQuestion { question, answer: None, withdrawn: false });
                            CallStatus::Asking
                        }
                        Waited::Refused { reason } => {
                            if let Some(place) = asked.get(&call.id) {
                                survey.questions[*place].question.refused = Some(reason.clone());
                            }
                            CallStatus::Asking
                        }
                        Waited::Withdrawn => {
                            if let Some(place) = asked.remove(&call.id) {
                                survey.questions[place].withdrawn = true;
                            }
                            CallStatus::Withdrawn
                        }
                        Waited::Until { due_ms } => CallStatus::Waiting { until: moment(*due_ms) },
                    };
                    survey.note(&mut places, call, *seq, *at_ms).status = status;
                }
                Record::Resume(Resume { reopened, .. }) => survey.reopen(&places, reopened),
                Record::Start(_) | Record::Unread(_) | Record::End(_) | Record::Update(_) => {}
            }
        }
        survey
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
                seq,
                at: moment(at_ms),
            });
        }
        let state = &mut self.calls[place];
        (state.seq, state.at) = (seq, moment(at_ms));
        state
    }

    fn reopen(&mut self, places: &HashMap<CallId, usize>, reopened: &[CallId]) {
        for call in reopened {
            if let Some(place) = places.get(call) {
                self.calls[*place].status = CallStatus::Reopened;
            }
        }
    }
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
        self.state_of(head, &records).await.map(Some)
    }

    /// What these records of a run say of it, with the head that the thread had by then.
    pub(super) async fn state_of(&self, head: Head, records: &[(Seq, Record)]) -> Result<ThreadState, RunError> {
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
        let Survey { calls, questions } = Survey::of(records);
        let questions = if head.status.is_unfinished() && head.status != Status::Failed {
            questions.into_iter().filter(SurveyedQuestion::is_open).map(|asked| asked.question).collect()
        } else {
            Vec::new()
        };
        Ok(ThreadState {
            thread: self.id.clone(),
            status: head.status,
            driven: checkpointer.is_leased(&self.id),
            entrypoint: head.entrypoint,
            version: head.version,
            run: head.run,
            input,
            started,
            reason: head.reason,
            due: head.due_ms.map(moment),
            questions,
            calls,
            checkpoint: CheckpointId { run: head.run, seq },
            tags: head.tags,
            saved,
            output,
        })
    }
}
