//! One process of a case: it opens the store, drives the flow as far as it is let, and dies or comes to the flow's end.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep};

use super::{Flow, World, case::Crash, finding::Finding, idle::Unhurried, orders::Orders};
use crate::{
    AnswerError, CheckpointError, Definition, Doubt, Durability, Outcome, Question, RunError, Runtime, SettleError,
    Settlement, Status, Thread,
    environment::moment,
    storage,
    testing::{Fault, FaultyCheckpointer},
    value::Payload,
};

/// How often a run may pause; more is a run that does not come on.
const PAUSES: usize = 1_000;

/// When nothing else has happened until then, nothing does: longer than anything waits in memory.
const FOR_EVER: Duration = Duration::from_secs(2 * 365 * 24 * 3600);

/// What a flow came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Completed(Payload),
    Failed(String),
    Cancelled,
}

impl End {
    pub(super) fn told(&self) -> String {
        match self {
            Self::Completed(value) => value.preview(500),
            Self::Failed(reason) => format!("the failure \"{reason}\""),
            Self::Cancelled => "a cancelled run".to_owned(),
        }
    }
}

/// How a process ended.
pub(super) enum Came {
    /// The flow is at its end.
    Ended(End),
    /// As it was told to.
    Died,
    /// Something is wrong.
    Found(Finding),
}

/// What a process was.
pub(super) struct Life {
    pub(super) came: Came,
    pub(super) commits: u64,
    pub(super) polls: u64,
    /// The choices of the order of bodies' ends.
    pub(super) made: Vec<(usize, usize)>,
}

/// What one process is told.
pub(super) struct Told<'a> {
    pub(super) durability: Durability,
    pub(super) order: Option<&'a [usize]>,
    pub(super) crash: Option<Crash>,
    /// Whether runs that were cut off are driven on by their entrypoints' names.
    pub(super) recovers: bool,
}

/// Lives one process on a tokio runtime of its own, whose clock moves only when nothing else does.
pub(super) fn live<D: Definition>(flow: &Flow<'_, D>, world: &mut World, told: &Told<'_>) -> Life {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let tokio = tokio.expect("a tokio runtime can be had");
    tokio.block_on(async {
        let store = match world.store.take() {
            None => flow.backend.open().await,
            Some(store) => match flow.backend.reopen(store).await {
                Some(store) => store,
                None => panic!("the backend of an exploration is one that can be reopened"),
            },
        };
        world.store = Some(store.clone());
        if world.keeps_journal {
            world.journal = super::journal_of(&store).await;
        }
        world.ledger.begin_process();
        let mut faulty = FaultyCheckpointer::new(Arc::new(Unhurried(store)));
        faulty = match told.crash {
            Some(Crash::Before(nth)) => faulty.at(nth, Fault::StopBefore),
            Some(Crash::After(nth)) => faulty.at(nth, Fault::StopAfter),
            Some(Crash::Held(nth)) => faulty.at(nth, Fault::Hold),
            Some(Crash::Fenced(nth)) => faulty.at(nth, Fault::Fence),
            Some(Crash::Killed(_) | Crash::Dropped(_)) | None => faulty,
        };
        let faulty = Arc::new(faulty);
        let orders = told.order.map(Orders::new);
        let mut builder = Runtime::builder().resource(world.ledger.clone()).definition::<D>();
        builder = (flow.build)(builder, &world.ledger).durability(told.durability).clock(world.clock.clone());
        if let Some(orders) = orders.clone() {
            builder = builder.gate(Arc::new(move || orders.hold()));
        }
        let runtime = builder.shared_checkpointer(faulty.clone());
        let (came, polls) = run(flow, world, told, &runtime, &faulty, orders.as_ref()).await;
        let made = orders.map(|orders| orders.made()).unwrap_or_default();
        Life { came, commits: faulty.commits(), polls, made }
    })
}

/// Drives the flow until it ends or the process does.
async fn run<D: Definition>(
    flow: &Flow<'_, D>,
    world: &World,
    told: &Told<'_>,
    runtime: &Runtime,
    faulty: &Arc<FaultyCheckpointer>,
    orders: Option<&Orders>,
) -> (Came, u64) {
    let began = Drive { flow, world, runtime };
    let mut drive: Pin<Box<dyn Future<Output = Result<End, Finding>> + '_>> = Box::pin(began.drive(told.recovers));
    let mut polls = 0;
    let mut time = Time::new(world);
    let mut stopped = pin!(faulty.stopped());
    let mut for_ever = pin!(tokio::time::sleep(FOR_EVER));
    let mut next_end: Option<Pin<Box<Sleep>>> = None;
    let came = poll_fn(|cx| {
        loop {
            time.pass();
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Came::Died);
            }
            match told.crash {
                Some(Crash::Killed(nth)) if polls + 1 == nth => {
                    polls += 1;
                    return Poll::Ready(Came::Died);
                }
                Some(Crash::Dropped(nth)) if polls + 1 == nth => {
                    polls += 1;
                    drive = Box::pin(began.drive(false));
                }
                _ => {}
            }
            polls += 1;
            if let Poll::Ready(end) = drive.as_mut().poll(cx) {
                return Poll::Ready(match (end, told.crash) {
                    (Ok(end), _) => Came::Ended(end),
                    (
                        Err(Finding::Run(RunError::Checkpoint(CheckpointError::Fenced { .. }))),
                        Some(Crash::Fenced(_)),
                    ) => Came::Died,
                    (Err(finding), _) => Came::Found(finding),
                });
            }
            if faulty.is_stopped() {
                return Poll::Ready(Came::Died);
            }
            if time.poll_due(cx) {
                continue;
            }
            if let Some(orders) = orders
                && orders.poll_any(cx)
            {
                // Its turn comes when nothing else goes on.
                let sleep = next_end.get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(1))));
                if sleep.as_mut().poll(cx).is_ready() {
                    next_end = None;
                    orders.choose();
                    continue;
                }
            } else {
                next_end = None;
            }
            if for_ever.as_mut().poll(cx).is_ready() {
                return Poll::Ready(match told.crash {
                    Some(Crash::Held(_)) => Came::Died,
                    _ => Came::Found(Finding::Hangs),
                });
            }
            return Poll::Pending;
        }
    })
    .await;
    (came, polls)
}

/// Has the flow's clock go with tokio's.
struct Time<'a> {
    world: &'a World,
    began: Instant,
    passed: Duration,
    due: Option<(std::time::SystemTime, Pin<Box<Sleep>>)>,
    another: Pin<Box<dyn Future<Output = ()> + 'a>>,
}

impl<'a> Time<'a> {
    fn new(world: &'a World) -> Self {
        let another = Box::pin(world.clock.another_sleep());
        Self { world, began: Instant::now(), passed: Duration::ZERO, due: None, another }
    }

    fn pass(&mut self) {
        let now = Duration::from_millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        // What a run slept through has not passed for tokio; only what passes here goes on.
        if now > self.passed && now < FOR_EVER {
            self.world.clock.advance(now.saturating_sub(self.passed));
            self.passed = now;
        }
    }

    /// Waits for the nearest sleep of the flow; whether it is over.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> bool {
        while self.another.as_mut().poll(cx).is_ready() {
            self.another = Box::pin(self.world.clock.another_sleep());
        }
        let Some(due) = self.world.clock.next_due() else {
            self.due = None;
            return false;
        };
        if self.due.as_ref().is_none_or(|(known, _)| *known != due) {
            let left = due.duration_since(crate::Clock::now(&self.world.clock)).unwrap_or(Duration::ZERO);
            let left = left.saturating_add(Duration::from_millis(1));
            self.due = Some((due, Box::pin(tokio::time::sleep(left.min(FOR_EVER / 2)))));
        }
        let over = self.due.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_ready());
        if over {
            self.due = None;
        }
        over
    }
}

struct Drive<'a, D: Definition> {
    flow: &'a Flow<'a, D>,
    world: &'a World,
    runtime: &'a Runtime,
}

impl<D: Definition> Drive<'_, D> {
    /// Takes the flow from wherever it is to its end.
    async fn drive(&self, recovers: bool) -> Result<End, Finding> {
        let thread = self.runtime.thread("explored").expect("a legal name");
        if recovers {
            for recovered in self.runtime.recover().await.map_err(Finding::Run)? {
                // What it comes to is read from the thread.
                let _ = recovered.outcome().await;
            }
        }
        for _ in 0..PAUSES {
            let head = storage::head(self.runtime.checkpointer(), thread.id())
                .await
                .map_err(|error| Finding::Run(error.into()))?;
            let outcome = match head.map(|(head, _)| head) {
                None => thread.invoke((self.flow.call)()).wait().recorded().await,
                Some(head) if head.status == Status::Failed => {
                    return Ok(End::Failed(head.reason.unwrap_or_default()));
                }
                Some(head) if head.status == Status::Cancelled => return Ok(End::Cancelled),
                Some(_) => thread.resume_definition::<D>().wait().drive().await,
            };
            match outcome {
                Ok(Outcome::Completed(value)) => return Ok(End::Completed(value)),
                Ok(Outcome::Interrupted(questions)) => self.answer(&thread, &questions).await?,
                Ok(Outcome::Sleeping { until }) => self.world.clock.advance_to(until),
                Ok(Outcome::InDoubt(doubts)) => self.settle(&thread, &doubts).await?,
                Ok(other @ Outcome::Drained) => return Err(Finding::Paused(other.word().to_owned())),
                // Written down in the thread's head, as after a crash.
                Ok(Outcome::Cancelled)
                | Err(
                    RunError::Failed(_)
                    | RunError::Panicked { .. }
                    | RunError::Cancelled { .. }
                    | RunError::TimedOut { .. },
                ) => {}
                Err(error) => return Err(Finding::Run(error)),
            }
        }
        Err(Finding::Restless)
    }

    /// Settles as the user says; else by the ledger, which knows a call without an effect.
    async fn settle(&self, thread: &Thread, doubts: &[Doubt]) -> Result<(), Finding> {
        let head = storage::head(self.runtime.checkpointer(), thread.id()).await;
        let run = head.map_err(|error| Finding::Run(error.into()))?.map_or(0, |(head, _)| head.run.get());
        for doubt in doubts {
            let said = self.flow.settles.as_ref().and_then(|settles| settles(doubt, &self.world.ledger));
            let settlement = match said {
                Some(settlement) => settlement,
                None if !self.world.ledger.knows(run, doubt.call) => Settlement::did_not(),
                None => {
                    return Err(Finding::Unanswered { questions: vec![format!("what became of {:?}", doubt.task)] });
                }
            };
            match thread.settle(doubt.call, settlement).await {
                Ok(()) => {}
                Err(SettleError::Run(error)) => return Err(Finding::Run(error)),
                Err(error) => return Err(Finding::Answer(error.to_string())),
            }
        }
        Ok(())
    }

    async fn answer(&self, thread: &Thread, questions: &[Question]) -> Result<(), Finding> {
        let mut answered = false;
        for question in questions {
            for answer in &self.flow.answers {
                let Some(answer) = answer(thread, question) else { continue };
                match answer.await {
                    // Or a sleep beside it was over first, or an earlier process has given it.
                    Ok(()) | Err(AnswerError::NoPendingInterrupt { .. } | AnswerError::UnknownInterrupt { .. }) => {}
                    Err(AnswerError::Run(error)) => return Err(Finding::Run(error)),
                    Err(error) => return Err(Finding::Answer(error.to_string())),
                }
                answered = true;
                break;
            }
        }
        if answered {
            return Ok(());
        }
        let head = storage::head(self.runtime.checkpointer(), thread.id()).await;
        if let Some((head, _)) = head.map_err(|error| Finding::Run(error.into()))?
            && let Some(due_ms) = head.due_ms
        {
            // Nobody answers: then the sleep beside it ends.
            self.world.clock.advance_to(moment(due_ms));
            return Ok(());
        }
        Err(Finding::Unanswered { questions: questions.iter().map(|asked| format!("{:?}", asked.key())).collect() })
    }
}
