//! One case of an exploration: in which mode and order the flow runs, and what goes wrong in which process. As text, so
//! that a failing case can be run again alone.

use std::{fmt, str::FromStr};

use crate::Durability;

/// What ends a process, or a drive in it. Operations and polls are counted from 1 in each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// It dies before this commit.
    Before(u64),
    /// It dies after this commit, which is applied and not answered.
    After(u64),
    /// From this commit on nothing reaches the store; it dies when nothing goes on any more.
    Held(u64),
    /// It loses its lease before this commit.
    Fenced(u64),
    /// It dies before this poll of the run.
    Killed(u64),
    /// The run's future is dropped before this poll, and the run is resumed in the same process.
    Dropped(u64),
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) durability: Durability,
    /// Which of the bodies that are about to end ends next, choice by choice; `None`: they end as they come.
    pub(super) order: Option<Vec<usize>>,
    /// What goes wrong in the first process, in the second, and so on; after that nothing does.
    pub(super) crashes: Vec<Crash>,
}

impl Case {
    /// Nothing goes wrong.
    pub(super) fn plain(durability: Durability) -> Self {
        Self { durability, order: None, crashes: Vec::new() }
    }

    pub(super) fn with(&self, crash: Crash) -> Self {
        let mut case = self.clone();
        case.crashes.push(crash);
        case
    }

    pub(super) fn ordered(&self, order: Vec<usize>) -> Self {
        Self { order: Some(order), ..self.clone() }
    }

    /// Cases that are simpler than this one, and may fail like it.
    pub(super) fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        for place in 0..self.crashes.len() {
            let mut case = self.clone();
            case.crashes.remove(place);
            simpler.push(case);
        }
        if let Some(order) = &self.order {
            simpler.push(Self { order: None, ..self.clone() });
            if let Some(last) = order.iter().rposition(|choice| *choice > 0) {
                simpler.push(Self { order: Some(order[..last].to_vec()), ..self.clone() });
            }
        }
        if self.durability != Durability::Sync {
            simpler.push(Self { durability: Durability::Sync, ..self.clone() });
        }
        simpler
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(nth) => write!(f, "before:{nth}"),
            Self::After(nth) => write!(f, "after:{nth}"),
            Self::Held(nth) => write!(f, "held:{nth}"),
            Self::Fenced(nth) => write!(f, "fenced:{nth}"),
            Self::Killed(nth) => write!(f, "killed:{nth}"),
            Self::Dropped(nth) => write!(f, "dropped:{nth}"),
        }
    }
}

impl Crash {
    /// The same for people.
    pub(super) fn told(self) -> String {
        match self {
            Self::Before(nth) => format!("the process dies before commit {nth}"),
            Self::After(nth) => format!("the process dies after commit {nth}"),
            Self::Held(nth) => format!("nothing from commit {nth} on reaches the store before the process dies"),
            Self::Fenced(nth) => format!("the lease is lost before commit {nth}"),
            Self::Killed(nth) => format!("the process dies before poll {nth} of the run"),
            Self::Dropped(nth) => format!("the run's future is dropped before its poll {nth}"),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.durability {
            Durability::Sync => "sync",
            Durability::Async => "async",
            Durability::Exit => "exit",
        })?;
        if let Some(order) = &self.order {
            let choices: Vec<String> = order.iter().map(usize::to_string).collect();
            write!(f, " order={}", if choices.is_empty() { "0".to_owned() } else { choices.join(".") })?;
        }
        self.crashes.iter().try_for_each(|crash| write!(f, " {crash}"))
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let durability = match words.next() {
            Some("sync") => Durability::Sync,
            Some("async") => Durability::Async,
            Some("exit") => Durability::Exit,
            other => return Err(format!("a case begins with sync, async or exit, not with {:?}", other.unwrap_or(""))),
        };
        let mut case = Self::plain(durability);
        for word in words {
            if let Some(order) = word.strip_prefix("order=") {
                let choices: Result<Vec<usize>, _> = order.split('.').map(str::parse).collect();
                case.order = Some(choices.map_err(|_| format!("{word:?} is no order: it is numbers and dots"))?);
                continue;
            }
            let unknown = || format!("{word:?} is no crash, such as before:3 or killed:7");
            let (what, nth) = word.split_once(':').ok_or_else(unknown)?;
            let nth: u64 = nth.parse().map_err(|_| unknown())?;
            case.crashes.push(match what {
                "before" => Crash::Before(nth),
                "after" => Crash::After(nth),
                "held" => Crash::Held(nth),
                "fenced" => Crash::Fenced(nth),
                "killed" => Crash::Killed(nth),
                "dropped" => Crash::Dropped(nth),
                _ => return Err(unknown()),
            });
        }
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_back_from_its_text() {
        for text in
            ["sync", "async order=1.0.2 before:3", "exit after:1 killed:7 dropped:2", "sync order=0 held:4 fenced:1"]
        {
            assert_eq!(text.parse::<Case>().expect("a case").to_string(), text);
        }
        for text in ["", "sink", "sync before", "sync before:x", "sync order=a", "sync burnt:3"] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }
}
