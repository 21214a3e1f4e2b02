//! Records for people: a line of text each, and a JSON object each. Readable without the Rust types that were recorded.

#[cfg(feature = "testing")]
use super::CallSketch;
use super::{
    CallInfo, Record,
    record::{Ended, Waited, Why},
};
use crate::{id::CallId, output::Recorded, value::Payload};

/// How much of a value a line shows.
#[cfg(feature = "testing")]
const SHOWN: usize = 120;

impl Record {
    /// The record as a line of text.
    #[cfg(feature = "testing")]
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Start(start) => {
                format!("the run begins: entrypoint {:?} with {}", start.entrypoint, start.input.preview(SHOWN))
            }
            Self::Outcome(outcome) => {
                let call = told(&outcome.call);
                match &*outcome.recorded {
                    Recorded::Value(value) => format!("{call} gave {}", value.preview(SHOWN)),
                    Recorded::Failure(failure) => format!("{call} failed: {failure}"),
                }
            }
            Self::Attempt(attempt) => {
                format!("{} failed in attempt {}: {}", told(&attempt.call), attempt.number, attempt.error)
            }
            Self::Begin(begin) => format!("{} begins, at most once, attempt {}", told(&begin.call), begin.number),
            Self::Wait(wait) => {
                let call = told(&wait.call);
                match &wait.what {
                    Waited::Answer(asked) => format!("{call} asks {}", asked.payload.preview(SHOWN)),
                    Waited::Until { due_ms } => format!("{call} waits until {due_ms} ms"),
                    Waited::Refused { reason } => format!("{call} got an answer that was refused: {reason}"),
                    Waited::Withdrawn => format!("{call} was withdrawn"),
                    Waited::InDoubt(doubt) => match &doubt.why {
                        Some(why) => format!("{call} is in doubt: {why}"),
                        None => format!("{call} is in doubt"),
                    },
                }
            }
            Self::Resume(resume) => format!("the run goes on; calls opened again: {}", resume.reopened.len()),
            Self::Unread(unread) => format!("{} was woken, and nobody looked", told(&unread.call)),
            Self::Emitted(emitted) => format!("the code tells its readers {}", emitted.value.preview(SHOWN)),
            Self::Again(again) => {
                format!("the run fails in attempt {}, and begins anew: {}", again.number, again.error)
            }
            Self::End(end) => match &end.how {
                Ended::Completed { output, .. } => format!("the run ends with {}", output.preview(SHOWN)),
                Ended::Failed { failure: Recorded::Failure(failure), .. } => format!("the run fails: {failure}"),
                Ended::Failed { failure: Recorded::Value(_), .. } => "the run fails".to_owned(),
                Ended::Panicked { message, .. } => format!("the run panics: {message}"),
                Ended::Unclean { message, .. } => format!("a clean-up fails: {message}"),
                Ended::TimedOut { limit_ms, .. } => format!("the run took longer than {limit_ms} ms"),
                Ended::Cancelled { .. } => "the run was cancelled".to_owned(),
                Ended::Discarded => "the run was given up".to_owned(),
                Ended::Continued => "the run goes on as a new one".to_owned(),
            },
            Self::Cancel(cancel) => match &cancel.why {
                Why::Asked { reason: Some(reason) } => format!("the run is cancelled: {reason}"),
                Why::Asked { reason: None } => "the run is cancelled".to_owned(),
                Why::TimedOut { limit_ms } => format!("the run is stopped: it took longer than {limit_ms} ms"),
            },
            Self::Update(update) => format!("the saved value was set to {}", update.value.preview(SHOWN)),
        }
    }

    /// The record's fields as the inside of a JSON object.
    pub(crate) fn json_fields(&self) -> String {
        let mut json = Fields::default();
        match self {
            Self::Start(start) => {
                json.text("kind", "start")
                    .text("entrypoint", &start.entrypoint)
                    .number("version", start.version.into());
                json.value("input", &start.input).number("at_ms", start.at_ms);
            }
            Self::Outcome(outcome) => {
                json.text("kind", "outcome").call(&outcome.call).number("attempts", outcome.attempts.into());
                json.recorded(&outcome.recorded).number("at_ms", outcome.at_ms);
                json.number("took_ms", outcome.took_ms.into());
            }
            Self::Attempt(attempt) => {
                json.text("kind", "attempt").call(&attempt.call).number("attempt", attempt.number.into());
                json.text("error", &attempt.error).number("at_ms", attempt.at_ms).number("next_ms", attempt.next_ms);
            }
            Self::Begin(begin) => {
                json.text("kind", "begin").call(&begin.call).number("attempt", begin.number.into());
                json.number("at_ms", begin.at_ms);
            }
            Self::Wait(wait) => {
                json.text("kind", "wait").call(&wait.call);
                match &wait.what {
                    Waited::Answer(asked) => {
                        json.text("for", "answer").value("payload", &asked.payload).text("expects", &asked.expects);
                        if let Some(schema) = &asked.schema {
                            json.value("schema", schema);
                        }
                        if let Some(deadline) = &asked.deadline {
                            json.number("due_ms", deadline.due_ms).value("default", &deadline.default);
                        }
                    }
                    Waited::Until { due_ms } => {
                        json.text("for", "moment").number("due_ms", *due_ms);
                    }
                    Waited::Refused { reason } => {
                        json.text("for", "another answer").text("refused", reason);
                    }
                    Waited::Withdrawn => {
                        json.text("for", "nothing");
                    }
                    Waited::InDoubt(doubt) => {
                        json.text("for", "settlement").text("expects", &doubt.expects);
                        if let Some(why) = &doubt.why {
                            json.text("why", why);
                        }
                    }
                }
                json.number("at_ms", wait.at_ms);
            }
            Self::Resume(resume) => {
                json.text("kind", "resume").ids("reopened", &resume.reopened).number("at_ms", resume.at_ms);
            }
            Self::Unread(unread) => {
                json.text("kind", "unread").call(&unread.call).number("ahead", unread.ahead.into());
            }
            Self::Emitted(emitted) => {
                json.text("kind", "emitted").value("value", &emitted.value).number("at_ms", emitted.at_ms);
            }
            Self::Again(again) => {
                json.text("kind", "again").number("attempt", again.number.into()).text("error", &again.error);
                json.ids("reopened", &again.reopened).number("at_ms", again.at_ms).number("next_ms", again.next_ms);
            }
            Self::End(end) => {
                json.text("kind", "end").ended(&end.how).number("at_ms", end.at_ms);
            }
            Self::Cancel(cancel) => {
                json.text("kind", "cancel");
                match &cancel.why {
                    Why::Asked { reason } => {
                        if let Some(reason) = reason {
                            json.text("reason", reason);
                        }
                    }
                    Why::TimedOut { limit_ms } => {
                        json.number("limit_ms", *limit_ms);
                    }
                }
                json.number("at_ms", cancel.at_ms);
            }
            Self::Update(update) => {
                json.text("kind", "update").text("entrypoint", &update.entrypoint);
                json.number("version", update.version.into()).value("value", &update.value);
                if let Some(output) = &update.output {
                    json.value("output", output);
                }
                json.number("at_ms", update.at_ms);
            }
        }
        json.0
    }
}

/// A call as a divergence shows it, without its place.
#[cfg(feature = "testing")]
fn told(call: &CallInfo) -> String {
    let CallSketch { kind, name, arguments, ordinal, .. } = CallSketch::from(call);
    let which = if ordinal > 0 { format!(" number {}", u64::from(ordinal) + 1) } else { String::new() };
    format!("{} {name:?}({arguments}){which}", kind.word())
}

/// A text as JSON.
pub(crate) fn json_text(text: &str) -> String {
    Payload::encode(text).map_or_else(|_| "null".to_owned(), |text| text.to_json())
}

/// The fields of a JSON object, one after another.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0.extend([comma, "\"", name, "\":", json]);
        self
    }

    fn text(&mut self, name: &str, text: &str) -> &mut Self {
        self.raw(name, &json_text(text))
    }

    fn number(&mut self, name: &str, number: u64) -> &mut Self {
        self.raw(name, &number.to_string())
    }

    fn ids(&mut self, name: &str, calls: &[CallId]) -> &mut Self {
        let calls: Vec<String> = calls.iter().map(|id| format!("\"{id}\"")).collect();
        self.raw(name, &format!("[{}]", calls.join(",")))
    }

    fn value(&mut self, name: &str, value: &Payload) -> &mut Self {
        self.raw(name, &value.to_json())
    }

    fn recorded(&mut self, recorded: &Recorded) -> &mut Self {
        match recorded {
            Recorded::Value(value) => self.value("value", value),
            Recorded::Failure(failure) => {
                let messages: Vec<String> = failure.messages().iter().map(|message| json_text(message)).collect();
                self.raw("failure", &format!("[{}]", messages.join(",")));
                match &failure.typed {
                    Some(typed) => self.value("error", typed),
                    None => self,
                }
            }
        }
    }

    fn call(&mut self, call: &CallInfo) -> &mut Self {
        self.text("call", &call.id.to_string()).text("what", call.kind.word()).text("name", &call.name);
        self.text("arguments", &call.preview).text("file", &call.file).number("line", call.line.into())
    }

    fn ended(&mut self, how: &Ended) -> &mut Self {
        match how {
            Ended::Completed { output, save } => {
                self.text("how", "completed").value("output", output);
                if let Some(save) = save {
                    self.value("save", save);
                }
            }
            Ended::Failed { failure, .. } => {
                self.text("how", "failed").recorded(failure);
            }
            Ended::Panicked { message, .. } => {
                self.text("how", "panicked").text("message", message);
            }
            Ended::Unclean { message, .. } => {
                self.text("how", "unclean").text("message", message);
            }
            Ended::TimedOut { limit_ms, .. } => {
                self.text("how", "timed out").number("limit_ms", *limit_ms);
            }
            Ended::Cancelled { reason } => {
                self.text("how", "cancelled");
                if let Some(reason) = reason {
                    self.text("reason", reason);
                }
            }
            Ended::Discarded => {
                self.text("how", "discarded");
            }
            Ended::Continued => {
                self.text("how", "continued");
            }
        }
        self
    }
}
