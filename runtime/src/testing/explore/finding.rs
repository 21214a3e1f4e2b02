//! What an exploration finds, and how much it has looked at.

use std::fmt;

use super::case::Case;
use crate::{RunError, testing::EffectKind};

/// How much an exploration has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// Cases: runs of the flow from its start to its end, over all their crashes.
    pub cases: usize,
    /// Crashes, fencings and drops: one or two a case.
    pub crashes: usize,
    /// Processes that the cases took.
    pub processes: usize,
    /// Orders in which bodies ended.
    pub orders: usize,
    /// Whether these are all orders that there are.
    pub all_orders: bool,
}

impl std::ops::AddAssign for Explored {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.crashes += other.crashes;
        self.processes += other.processes;
        self.orders += other.orders;
        self.all_orders &= other.all_orders;
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crashes in {} cases, {} processes, {} orders{}",
            self.crashes,
            self.cases,
            self.processes,
            self.orders,
            if self.all_orders { " (all there are)" } else { "" }
        )
    }
}

/// What is wrong with a flow.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// It came to another outcome than without crashes.
    Outcome {
        /// Without crashes: the value as JSON text, or the failure.
        expected: String,
        /// In this case.
        found: String,
    },
    /// Two runs without any crash came to different outcomes, so that none can be compared.
    NotRepeatable {
        /// Of the first one.
        first: String,
        /// Of the second one.
        second: String,
    },
    /// An effect happened more often or less often than its kind allows.
    Effect {
        /// Its name in the ledger.
        effect: String,
        /// Its kind.
        kind: EffectKind,
        /// How often it happened without crashes.
        expected: u32,
        /// How often it happened in this case.
        found: u32,
    },
    /// An effect that must happen once was repeated by a retry of one call.
    RepeatedByRetry {
        /// Its name in the ledger.
        effect: String,
        /// The attempts in which it happened.
        attempts: Vec<u32>,
    },
    /// An effect came from the entrypoint's own code, which runs again with every replay.
    OutsideOfTask {
        /// Its name in the ledger.
        effect: String,
    },
    /// The run did not come to an end.
    Run(RunError),
    /// It waits for something that never comes, and nothing else goes on.
    Hangs,
    /// It paused again and again without an end.
    Restless,
    /// It asked something that no answer was given for.
    Unanswered {
        /// The keys of the open questions.
        questions: Vec<String>,
    },
    /// The explorer's answer was not taken.
    Answer(String),
    /// It paused in a way that the explorer cannot go on from.
    Paused(String),
    /// The user's own check failed, with this message.
    Check(String),
    /// A runner that had lost its lease came to an end of the run all the same.
    NotFenced,
    /// The text given to [`Explore::case`](super::Explore::case) is no case.
    NoSuchCase(String),
}

/// A case in which a flow does not keep its promise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExploreError {
    /// The case, for [`Explore::case`](super::Explore::case).
    pub case: String,
    /// What is wrong.
    pub finding: Finding,
    /// What happened in the case, step by step.
    pub steps: Vec<String>,
    /// What the journal had when the last process began, a line a record.
    pub journal: Vec<String>,
    /// How much was looked at before.
    pub explored: Explored,
}

impl ExploreError {
    pub(super) fn of(case: &Case, finding: Finding) -> Self {
        let explored = Explored::default();
        Self { case: case.to_string(), finding, steps: Vec::new(), journal: Vec::new(), explored }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outcome { expected, found } => write!(
                f,
                "the outcome differs: it is {found}, and without crashes {expected}; something that is not recorded has a part in it (a resource or a skipped argument that changed, a static, a clock)"
            ),
            Self::NotRepeatable { first, second } => write!(
                f,
                "two runs without any crash come to different outcomes, {first} and {second}: make the flow's world the same for each run, or leave the outcome to a check of your own with `.outcome_may_differ()`"
            ),
            Self::Effect { effect, kind, expected, found } => {
                let (found_so, expected_so) = (times(*found), times(*expected));
                write!(f, "effect {effect:?} ({kind}) happened {found_so}, and without crashes {expected_so}; ")?;
                f.write_str(match (kind, found > expected) {
                    (EffectKind::AtLeastOnce | EffectKind::ExactlyOnce, false) => {
                        "it was lost: is it in a task, and is that task awaited?"
                    }
                    (EffectKind::AtLeastOnce, true) => {
                        "it is repeated by every replay: do it in a task, so that it is recorded"
                    }
                    (EffectKind::AtMostOnce | EffectKind::ExactlyOnce, _) => {
                        "its task was cut off before its outcome was recorded, and ran again: send `durably::idempotency_key()` with it, or make the task at most once"
                    }
                })
            }
            Self::RepeatedByRetry { effect, attempts } => {
                let attempts: Vec<String> = attempts.iter().map(u32::to_string).collect();
                write!(
                    f,
                    "effect {effect:?} was repeated by a retry: it happened in attempts {}; retry only what is known not to have happened (`retry_on`), or send `durably::idempotency_key()` with it",
                    attempts.join(" and ")
                )
            }
            Self::OutsideOfTask { effect } => write!(
                f,
                "effect {effect:?} happened outside of a task, in an entrypoint's own code, which runs again with every replay: move it into a #[task]"
            ),
            Self::Run(error) => write!(f, "the run did not come to its end: {error}"),
            Self::Hangs => f.write_str(
                "the run hangs: it waits, and neither a body nor a timer nor an answer is there that could go on",
            ),
            Self::Restless => f.write_str("the run pauses again and again without coming to its end"),
            Self::Unanswered { questions } => {
                write!(
                    f,
                    "the run asks {}, and no answer was given for that: add `.answer(key, value)`",
                    questions.join(", ")
                )
            }
            Self::Answer(error) => write!(f, "the answer was not taken: {error}"),
            Self::Paused(how) => write!(f, "the run paused as {how}, from which the explorer cannot go on"),
            Self::Check(message) => write!(f, "the check failed: {message}"),
            Self::NotFenced => f.write_str("a runner that had lost its lease came to the run's end all the same"),
            Self::NoSuchCase(why) => write!(f, "no such case: {why}"),
        }
    }
}

/// How often, in words.
fn times(count: u32) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.finding)?;
        write!(f, "\n  case {:?}; run it alone with `.case({:?})`", self.case, self.case)?;
        for step in &self.steps {
            write!(f, "\n  {step}")?;
        }
        if !self.journal.is_empty() {
            f.write_str("\n  the journal at the last start:")?;
            self.journal.iter().try_for_each(|line| write!(f, "\n    {line}"))?;
        }
        write!(f, "\n  found after {}", self.explored)
    }
}

impl std::error::Error for ExploreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.finding {
            Finding::Run(error) => Some(error),
            _ => None,
        }
    }
}
