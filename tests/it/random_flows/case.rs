//! One random flow: driven once, then again from every prefix of what it committed, and from some prefixes of that.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use durably::{
    CallId, CallState, CallStatus, CheckpointId, Durability, Outcome, RunError, Runtime, Status, StreamEvent, Thread,
    ThreadState,
    checkpoint::{Commit, MemoryCheckpointer},
    testing::FaultyCheckpointer,
};

use super::{
    flow::{Call, Fault, Step, flow},
    lab::Lab,
    make::{Kind, children},
    told::{self, Reader},
};

/// How often a run may pause, or be resumed after a failure; more is a run that does not come on.
const PAUSES: usize = 200;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
enum End {
    Completed(Vec<String>),
    Failed(Fault),
}

/// What a drive came to, over all its pauses.
struct Driven {
    before: Option<ThreadState>,
    end: End,
    after: ThreadState,
    commits: Vec<Commit>,
    /// What a reader was told by this drive and by those before it, which it came back to.
    told: Vec<StreamEvent>,
}

/// One flow and what its processes share.
pub(super) struct Case<'a> {
    flow: &'a Step,
    kind: Kind,
    lab: Lab,
    durability: Durability,
    /// How long a drive may take.
    limit: Duration,
    /// How many prefixes were driven.
    pub(super) cuts: usize,
}

impl<'a> Case<'a> {
    pub(super) fn new(flow: &'a Step, kind: Kind, seed: u64, limit: Duration) -> Self {
        let lab = Lab::new(seed);
        let durability = match lab.below(8) {
            0 => Durability::Async,
            1 => Durability::Exit,
            _ => Durability::Sync,
        };
        Self { flow, kind, lab, durability, limit, cuts: 0 }
    }

    /// Checks everything that holds of any flow; what does not, as a message.
    pub(super) async fn check(&mut self) -> Result<(), String> {
        let live = self.drive(&[], &[]).await.map_err(|error| format!("live: {error}"))?;
        self.check_started(&live)?;
        Self::check_detached(&live)?;
        for cut in 0..=live.commits.len() {
            self.check_cut(&live.commits, &live, cut, 1).await?;
        }
        if let End::Failed(_) = live.end {
            self.lab.mend(true);
            self.check_mended(live).await?;
        }
        Ok(())
    }

    /// Forks the run at every one of its records, on its own thread or on another, and goes on with each fork.
    pub(super) async fn check_forks(&mut self) -> Result<(), String> {
        let live = self.drive(&[], &[]).await.map_err(|error| format!("live: {error}"))?;
        self.check_started(&live)?;
        let records = live.after.checkpoint.seq().get();
        for seq in 0..=records {
            self.cuts += 1;
            let place = |error: String| format!("forked at record {seq} of {records}: {error}");
            let (runtime, recorder) = self.open(&live.commits);
            let thread = runtime.thread("t").unwrap();
            let at: CheckpointId = format!("1.{seq}").parse().unwrap();
            let fork = thread.fork(at).discard_unfinished();
            let fork = if self.lab.below(2) == 0 { fork.to("other") } else { fork };
            let forked = fork.await.map_err(|error| place(error.to_string()))?;
            let reader = Reader::of_fork(&forked, &self.lab);
            let driven = tokio::time::timeout(self.limit, self.drive_thread(&forked, &recorder, reader)).await;
            let driven = driven.unwrap_or_else(|_| Err("it hangs".to_owned())).map_err(place)?;
            self.check_started(&driven).map_err(place)?;
            Self::check_detached(&driven).map_err(place)?;
            let before = driven.before.as_ref().expect("a fork has run");
            let complete = before.status != Status::Failed && same_outcomes(&before.calls, &live.after.calls);
            if complete && driven.end != live.end {
                return Err(place(format!("was {:?}\n  goes on as {:?}", live.end, driven.end)));
            }
            // What it was forked from is as it was.
            let source = thread.state_at(at).await.map_err(|error| place(error.to_string()))?;
            if source.calls != before.calls {
                return Err(place(format!("its source has {:?}, it had {:?}", source.calls, before.calls)));
            }
        }
        Ok(())
    }

    /// Goes on from what a crash after `cut` commits leaves, and from some crashes of that.
    async fn check_cut(
        &mut self,
        commits: &[Commit],
        oracle: &Driven,
        cut: usize,
        deeper: usize,
    ) -> Result<(), String> {
        self.cuts += 1;
        let place = |error: String| format!("after {cut} of {} commits: {error}", commits.len());
        let driven = self.drive(&commits[..cut], &oracle.told).await.map_err(place)?;
        self.check_started(&driven).map_err(place)?;
        Self::check_detached(&driven).map_err(place)?;
        let complete = driven
            .before
            .as_ref()
            .is_some_and(|before| before.status != Status::Failed && same_outcomes(&before.calls, &oracle.after.calls));
        if complete && driven.end != oracle.end {
            return Err(place(format!("was {:?}\n  replays as {:?}", oracle.end, driven.end)));
        }
        if deeper > 0 && (!driven.commits.is_empty()) && self.lab.below(3) == 0 {
            let whole: Vec<Commit> = commits[..cut].iter().chain(&driven.commits).cloned().collect();
            let between = cut + self.lab.below(driven.commits.len());
            for again in [between, whole.len() - 1] {
                Box::pin(self.check_cut(&whole, &driven, again, deeper - 1)).await.map_err(place)?;
            }
        }
        Ok(())
    }

    /// Goes on after a failure when what failed is mended.
    async fn check_mended(&mut self, live: Driven) -> Result<(), String> {
        let place = |error: String| format!("mended: {error}");
        let mut commits = live.commits;
        let driven = self.drive(&commits, &live.told).await.map_err(place)?;
        self.check_started(&driven).map_err(place)?;
        Self::check_detached(&driven).map_err(place)?;
        let from = commits.len();
        commits.extend(driven.commits.iter().cloned());
        if let End::Failed(fault) = &driven.end {
            // Nothing fails any more: this can only be a failure that was got past, and so not opened again.
            let recorded =
                |call: &CallState| tag(call) == Some(fault.tag) && matches!(call.status, CallStatus::Failed(_));
            if self.kind == Kind::Strict || !driven.after.calls.iter().any(recorded) {
                return Err(place(format!("{fault:?} was not opened again")));
            }
        }
        for cut in from..=commits.len() {
            self.check_cut(&commits, &driven, cut, 0).await.map_err(place)?;
        }
        Ok(())
    }

    /// Drives the flow on what these commits leave, over all its pauses, to its end.
    async fn drive(&self, commits: &[Commit], seen: &[StreamEvent]) -> Result<Driven, String> {
        match tokio::time::timeout(self.limit, self.drive_on(commits, seen)).await {
            Ok(driven) => driven,
            Err(_) => Err("it hangs".to_owned()),
        }
    }

    async fn drive_on(&self, commits: &[Commit], seen: &[StreamEvent]) -> Result<Driven, String> {
        let (runtime, recorder) = self.open(commits);
        let thread = runtime.thread("t").unwrap();
        let reader = Reader::back(&thread, &self.lab, seen, told::records(commits));
        self.drive_thread(&thread, &recorder, reader).await
    }

    /// A runtime on what these commits leave.
    fn open(&self, commits: &[Commit]) -> (Runtime, Arc<FaultyCheckpointer>) {
        let store = MemoryCheckpointer::replay(commits).reopen();
        let recorder = Arc::new(FaultyCheckpointer::new(Arc::new(store)));
        let runtime = Runtime::builder()
            .resource(self.lab.clone())
            .observer(self.lab.clone())
            .clock(self.lab.clone())
            .durability(self.durability)
            .shared_checkpointer(recorder.clone());
        (runtime, recorder)
    }

    async fn drive_thread(
        &self,
        thread: &Thread,
        recorder: &FaultyCheckpointer,
        mut reader: Reader<'_>,
    ) -> Result<Driven, String> {
        let before = thread.state().await.map_err(|error| error.to_string())?;
        let mut outcome = match &before {
            None => reader.while_it_runs(thread.invoke(flow(self.flow.clone()))).await,
            Some(_) => reader.while_it_runs(thread.resume(flow)).await,
        };
        for _ in 0..PAUSES {
            let end = match outcome {
                Ok(Outcome::Completed(trace)) => End::Completed(trace),
                Err(RunError::Failed(failure)) => End::Failed(failure.decode().unwrap().unwrap()),
                Ok(Outcome::Interrupted(questions)) => {
                    let state = thread.state().await.map_err(|error| error.to_string())?.unwrap();
                    let asked: BTreeSet<CallId> = questions.iter().map(durably::Question::id).collect();
                    let shown: Vec<CallId> = state.questions.iter().map(durably::Question::id).collect();
                    // What a race's loser asked is still shown.
                    let distinct: BTreeSet<CallId> = shown.iter().copied().collect();
                    if distinct.len() != shown.len() || !distinct.is_superset(&asked) {
                        return Err(format!("asks {questions:?}, shows {:?}", state.questions));
                    }
                    // Some of them, in any order.
                    for _ in 0..=self.lab.below(questions.len()) {
                        let question = &questions[self.lab.below(questions.len())];
                        let answer = question.decode::<u32>().unwrap() + 100;
                        thread.answer(question.id(), answer).await.map_err(|error| error.to_string())?;
                    }
                    outcome = reader.while_it_runs(thread.resume(flow)).await;
                    continue;
                }
                Ok(Outcome::Sleeping { until }) => {
                    self.lab.set_clock(until);
                    outcome = reader.while_it_runs(thread.resume(flow)).await;
                    continue;
                }
                Ok(other) => return Err(format!("{other:?}")),
                Err(error) => return Err(error.to_string()),
            };
            let after = thread.state().await.map_err(|error| error.to_string())?.unwrap();
            let told = reader.told()?;
            let (End::Completed(trace) | End::Failed(Fault { trace, .. })) = &end;
            told::check(thread, &told, &after, trace).await?;
            return Ok(Driven { before, end, after, commits: recorder.recorded(), told });
        }
        Err("it pauses again and again".to_owned())
    }

    /// No body began whose outcome was on record.
    fn check_started(&self, driven: &Driven) -> Result<(), String> {
        let started = self.lab.take_started()?;
        let Some(before) = &driven.before else { return Ok(()) };
        let strictly = before.status != Status::Failed && !retries(self.flow);
        let recorded: BTreeSet<CallId> = before
            .calls
            .iter()
            .filter(|call| match call.status {
                CallStatus::Value(_) => true,
                // A failure is opened again when its run is resumed, or what it stands in is made again.
                CallStatus::Failed(_) => strictly,
                _ => false,
            })
            .map(|call| call.id)
            .collect();
        match started.intersection(&recorded).next() {
            None => Ok(()),
            Some(id) => {
                let call = before.calls.iter().find(|call| call.id == *id);
                Err(format!("a body runs again: {call:?}"))
            }
        }
    }

    /// What was detached has an outcome.
    fn check_detached(driven: &Driven) -> Result<(), String> {
        let End::Completed(trace) = &driven.end else { return Ok(()) };
        for line in trace {
            let Some(detached) = line.strip_prefix("detached ") else { continue };
            let made = trace.iter().filter(|other| *other == line).count();
            let ended = |call: &&CallState| {
                tag(call).is_some_and(|tag| tag.to_string() == detached)
                    && matches!(call.status, CallStatus::Value(_) | CallStatus::Failed(_))
            };
            let recorded = driven.after.calls.iter().filter(ended).count();
            if recorded < made {
                return Err(format!("{made} detached calls of task {detached} were made, {recorded} are recorded"));
            }
        }
        Ok(())
    }
}

/// Whether two journals have the same outcomes, whatever else was noted.
fn same_outcomes(some: &[CallState], others: &[CallState]) -> bool {
    let outcomes = |calls: &[CallState]| -> Vec<(CallId, CallStatus)> {
        let ended = |call: &&CallState| matches!(call.status, CallStatus::Value(_) | CallStatus::Failed(_));
        calls.iter().filter(ended).map(|call| (call.id, call.status.clone())).collect()
    };
    outcomes(some) == outcomes(others)
}

/// The tag of a task's call.
fn tag(call: &CallState) -> Option<u32> {
    call.arguments.strip_prefix("tag=")?.split(',').next()?.parse().ok()
}

fn retries(step: &Step) -> bool {
    let own = match step {
        Step::Task(Call { retried, .. })
        | Step::Handled(Call { retried, .. })
        | Step::Equal(Call { retried, .. }, _) => *retried,
        _ => false,
    };
    own || children(step).into_iter().any(retries)
}
