//! Each verb on a thread in each state: the table of the design, cell by cell, and what lists and recovers threads.

use std::{
    future::IntoFuture,
    sync::Arc,
    time::{Duration, SystemTime},
};

use durably::{
    AnswerError, Clock, Durability, IfUnfinished, Outcome, RunError, Runtime, Status, Thread,
    checkpoint::{BoxFuture, MemoryCheckpointer},
    entrypoint, interrupt, resource, task,
    testing::FaultyCheckpointer,
};
use tests::{HandClock, Ledger, World, block_on, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

use crate::watch::cut;

/// What a process of these tests has.
#[derive(Clone, Debug)]
struct Place {
    ledger: Ledger,
    clock: HandClock,
    hung: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Place {
    fn new() -> Self {
        let (hung, go_on) = (Arc::default(), Arc::default());
        Self { ledger: Ledger::default(), clock: HandClock::default(), hung, go_on }
    }

    fn open(&self, world: &World) -> Runtime {
        world.open(|builder| {
            builder.resource(self.clone()).clock(self.clock.clone()).entrypoint(job).entrypoint(other_job)
        })
    }
}

fn mended() -> bool {
    resource::<Place>().ledger.count("mended") > 0
}

#[task]
async fn does(what: &str) -> anyhow::Result<String> {
    let place = resource::<Place>();
    place.ledger.note(what);
    match what {
        "hanging" if !mended() => {
            place.hung.notify_one();
            place.go_on.notified().await;
        }
        "broken" => anyhow::ensure!(mended(), "it is broken"),
        _ => {}
    }
    Ok(what.to_owned())
}

/// Comes to the state that it is told to come to.
#[entrypoint]
async fn job(state: String) -> anyhow::Result<String> {
    does("before").await?;
    match state.as_str() {
        "failed" => drop(does("broken").await?),
        "interrupted" => drop(interrupt::<String>("go on?", &state).await),
        "sleeping" => durably::sleep(Duration::from_secs(3600)).await,
        "crashed" => drop(does("hanging").await?),
        // As if its code awaited something that is not recorded, until somebody mended it.
        "stuck" if !mended() => std::future::pending().await,
        _ => {}
    }
    does("after").await
}

#[entrypoint]
async fn other_job(state: String) -> anyhow::Result<String> {
    does(&state).await
}

const UNFINISHED: [&str; 6] = ["failed", "interrupted", "sleeping", "drained", "crashed", "stuck"];

/// Brings the thread into a state, and ends that process.
async fn bring(world: &World, place: &Place, state: &str) {
    let runtime = place.open(world);
    let thread = runtime.thread("t").unwrap();
    let run = thread.invoke(job(state.to_owned()));
    match state {
        "fresh" => return,
        "crashed" => cut(run, place.hung.notified()).await,
        "drained" => {
            runtime.drain();
            assert_eq!(run.await.unwrap(), Outcome::Drained);
        }
        "failed" | "stuck" => drop(run.await.unwrap_err()),
        _ => assert_eq!(run.await.unwrap().word(), state),
    }
    place.ledger.clear();
    place.ledger.note("mended");
    place.clock.forward(Duration::from_secs(1800));
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Invoke(IfUnfinished),
    InvokeOther,
    InvokeOtherInput,
    Resume,
    ResumeOther,
    Answer,
}

/// What a verb gives on a thread in a state, and what it runs, in words.
async fn cell(world: World, state: &str, verb: Verb) -> String {
    let place = Place::new();
    bring(&world, &place, state).await;
    let thread = place.open(&world).thread("t").unwrap();
    let outcome = match verb {
        Verb::Invoke(choice) => thread.invoke(job(state.to_owned())).if_unfinished(choice).await,
        Verb::InvokeOther => thread.invoke(other_job("other".to_owned())).await,
        Verb::InvokeOtherInput => thread.invoke(job("x".to_owned())).if_unfinished(IfUnfinished::Resume).await,
        Verb::Resume => thread.resume(job).await,
        Verb::ResumeOther => thread.resume(other_job).await,
        Verb::Answer => match thread.answer("go on?", "yes").await {
            Ok(()) => return "answered".to_owned(),
            Err(AnswerError::NoPendingInterrupt { status, .. }) => {
                return format!("waits for no answer: {}", status.map_or("fresh".to_owned(), |it| it.to_string()));
            }
            Err(error) => panic!("{error}"),
        },
    };
    let said = match outcome {
        Ok(outcome) => outcome.word().to_owned(),
        Err(RunError::Unfinished { status, .. }) => format!("unfinished: {status}"),
        Err(error) => error.kind().to_owned(),
    };
    let ran: Vec<String> = place.ledger.all().into_keys().filter(|effect| effect != "mended").collect();
    [vec![said], ran].concat().join(" ")
}

#[track_caller]
fn check(state: &str, verb: Verb, expected: &str) {
    on_every_checkpointer(async |world| {
        let found = cell(world, state, verb).await;
        assert_eq!(found, expected, "{verb:?} on a thread that is {state}");
    });
}

#[test]
fn every_verb_on_a_fresh_thread() {
    check("fresh", Verb::Invoke(IfUnfinished::Refuse), "completed after before");
    check("fresh", Verb::Invoke(IfUnfinished::Discard), "completed after before");
    check("fresh", Verb::Invoke(IfUnfinished::Resume), "completed after before");
    check("fresh", Verb::InvokeOther, "completed other");
    check("fresh", Verb::Resume, "nothing to resume");
    check("fresh", Verb::ResumeOther, "nothing to resume");
    check("fresh", Verb::Answer, "waits for no answer: fresh");
}

#[test]
fn every_verb_on_a_completed_thread() {
    check("completed", Verb::Invoke(IfUnfinished::Refuse), "completed after before");
    check("completed", Verb::Invoke(IfUnfinished::Discard), "completed after before");
    check("completed", Verb::Invoke(IfUnfinished::Resume), "completed after before");
    check("completed", Verb::InvokeOtherInput, "completed after before");
    check("completed", Verb::InvokeOther, "wrong entrypoint");
    check("completed", Verb::Resume, "completed");
    check("completed", Verb::ResumeOther, "wrong entrypoint");
    check("completed", Verb::Answer, "waits for no answer: completed");
}

#[test]
fn an_invoke_on_an_unfinished_thread_is_refused() {
    for state in UNFINISHED {
        // A crash leaves it as it was.
        let status = if state == "crashed" { "running" } else { state };
        check(state, Verb::Invoke(IfUnfinished::Refuse), &format!("unfinished: {status}"));
        check(state, Verb::InvokeOther, "wrong entrypoint");
    }
}

#[test]
fn an_invoke_that_discards_starts_from_nothing() {
    let discards = Verb::Invoke(IfUnfinished::Discard);
    check("failed", discards, "completed after before broken");
    check("interrupted", discards, "interrupted before");
    check("sleeping", discards, "sleeping before");
    check("drained", discards, "completed after before");
    check("crashed", discards, "completed after before hanging");
    check("stuck", discards, "completed after before");
}

#[test]
fn a_resume_goes_on_and_so_does_an_invoke_that_resumes() {
    for verb in [Verb::Resume, Verb::Invoke(IfUnfinished::Resume)] {
        check("failed", verb, "completed after broken");
        check("interrupted", verb, "interrupted");
        check("sleeping", verb, "sleeping");
        check("drained", verb, "completed after before");
        check("crashed", verb, "completed after hanging");
        check("stuck", verb, "completed after");
    }
}

#[test]
fn an_invoke_that_resumes_wants_the_same_input_and_a_resume_the_same_entrypoint() {
    for state in UNFINISHED {
        check(state, Verb::InvokeOtherInput, "input mismatch");
        check(state, Verb::ResumeOther, "wrong entrypoint");
    }
}

#[test]
fn an_answer_is_taken_only_where_its_question_is_open() {
    check("interrupted", Verb::Answer, "answered");
    check("failed", Verb::Answer, "waits for no answer: failed");
    check("sleeping", Verb::Answer, "waits for no answer: sleeping");
    check("drained", Verb::Answer, "waits for no answer: drained");
    check("crashed", Verb::Answer, "waits for no answer: running");
    check("stuck", Verb::Answer, "waits for no answer: stuck");
}

#[test]
fn a_discard_by_another_entrypoint_gives_the_thread_over() {
    on_every_checkpointer(async |world| {
        let place = Place::new();
        bring(&world, &place, "failed").await;
        let thread = place.open(&world).thread("t").unwrap();
        let invoke = thread.invoke(other_job("other".to_owned())).if_unfinished(IfUnfinished::Discard);
        assert_eq!(invoke.await.unwrap().completed().unwrap(), "other");
        assert!(matches!(thread.resume(job).await, Err(RunError::WrongEntrypoint { .. })));
    });
}

#[entrypoint]
async fn asks_beside_a_body() -> anyhow::Result<String> {
    let (answer, _) = tokio::join!(interrupt::<String>("go on?", &()), does("hanging"));
    Ok(answer)
}

/// Drives until the question is open and the body beside it hangs.
async fn until_both(thread: &Thread, place: &Place) {
    place.hung.notified().await;
    while thread.state().await.unwrap().is_none_or(|state| state.questions.is_empty()) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_question_that_was_open_at_a_crash_can_be_answered_before_the_resume() {
    in_every_mode(async |world| {
        let place = Place::new();
        {
            let thread = place.open(&world).thread("t").unwrap();
            cut(thread.invoke(asks_beside_a_body()), until_both(&thread, &place)).await;
        }
        place.ledger.note("mended");
        let thread = place.open(&world).thread("t").unwrap();
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.driven, state.questions.len()), (Status::Running, false, 1));
        thread.answer("go on?", "yes").await.unwrap();
        assert_eq!(thread.resume(asks_beside_a_body).await.unwrap().completed().unwrap(), "yes");
    });
}

#[test]
fn a_thread_that_is_driven_is_busy_or_waited_for_and_takes_answers() {
    in_every_mode(async |world| {
        let place = Place::new();
        let thread = place.open(&world).thread("t").unwrap();
        let driven = thread.invoke(asks_beside_a_body()).start();
        until_both(&thread, &place).await;
        assert!(thread.state().await.unwrap().unwrap().driven);
        let busy = |error: RunError| assert!(matches!(error, RunError::Busy { .. }), "{error}");
        busy(thread.invoke(asks_beside_a_body()).await.unwrap_err());
        busy(thread.invoke(asks_beside_a_body()).if_unfinished(IfUnfinished::Discard).await.unwrap_err());
        busy(thread.resume(asks_beside_a_body).await.unwrap_err());
        busy(thread.resume(other_job).await.unwrap_err());
        let waits = thread.resume(asks_beside_a_body).wait().start();
        thread.answer("go on?", "yes").await.unwrap();
        place.go_on.notify_one();
        let expected = Outcome::Completed("yes".to_owned());
        assert_eq!(driven.await.unwrap(), expected, "the answer reached the run that was going on");
        assert_eq!(waits.await.unwrap(), expected);
        assert_eq!(place.ledger.count("hanging"), 1);
    });
}

#[entrypoint]
async fn counts(#[previous] previous: Option<u32>) -> anyhow::Result<u32> {
    does("hanging").await?;
    Ok(previous.unwrap_or_default() + 1)
}

/// Line 103 of the list of behaviours.
#[test]
fn of_three_invokes_at_once_one_runs_and_the_others_are_told_or_queue() {
    on_every_checkpointer(async |world| {
        let place = Place::new();
        let thread = place.open(&world).thread("t").unwrap();
        let three: Vec<_> = (0..3).map(|_| thread.invoke(counts()).start()).collect();
        place.hung.notified().await;
        while three.iter().filter(|one| one.is_finished()).count() < 2 {
            tokio::task::yield_now().await;
        }
        place.go_on.notify_one();
        let (mut completed, mut busy) = (0, 0);
        for one in three {
            match one.await {
                Ok(outcome) => completed += outcome.completed().unwrap(),
                Err(RunError::Busy { .. }) => busy += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((completed, busy, place.ledger.count("hanging")), (1, 2, 1));
        place.ledger.note("mended");
        let queued: Vec<_> = (0..3).map(|_| thread.invoke(counts()).wait().start()).collect();
        let mut values = Vec::new();
        for one in queued {
            values.extend(one.await.unwrap().completed());
        }
        values.sort_unstable();
        assert_eq!(values, [2, 3, 4]);
    });
}

#[test]
fn threads_are_listed_by_status_with_their_reasons() {
    on_every_checkpointer(async |world| {
        let place = Place::new();
        let runtime = place.open(&world);
        for state in ["completed", "failed", "interrupted", "sleeping", "stuck"] {
            let _ = runtime.thread(state).unwrap().invoke(job(state.to_owned())).await;
        }
        runtime.drain();
        let _ = runtime.thread("drained").unwrap().invoke(job("drained".to_owned())).await.unwrap();
        runtime.undrain();
        let crashed = runtime.thread("crashed").unwrap();
        cut(crashed.invoke(job("crashed".to_owned())), place.hung.notified()).await;
        for status in Status::ALL {
            let listed = runtime.threads().status(status).limit(10).await.unwrap().threads;
            let names: Vec<&str> = listed.iter().map(|thread| thread.thread.as_str()).collect();
            let expected = match status {
                Status::Running => vec!["crashed"],
                Status::Interrupted => vec!["interrupted"],
                Status::Sleeping => vec!["sleeping"],
                Status::Drained => vec!["drained"],
                Status::Completed => vec!["completed"],
                Status::Failed => vec!["failed"],
                Status::Stuck => vec!["stuck"],
                _ => vec![],
            };
            assert_eq!(names, expected, "{status}");
            for thread in listed {
                assert_eq!(thread.entrypoint, "job");
                assert_eq!(thread.reason.is_some(), matches!(status, Status::Failed | Status::Stuck), "{thread:?}");
            }
        }
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = runtime.threads().limit(2).after(after).await.unwrap();
            assert!(page.threads.len() <= 2);
            all.extend(page.threads.into_iter().map(|thread| thread.thread));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 7);
    });
}

#[test]
fn recover_drives_on_what_was_cut_off_and_nothing_else() {
    in_every_mode(async |world| {
        let place = Place::new();
        {
            let runtime = place.open(&world);
            for state in ["completed", "failed", "interrupted", "sleeping", "stuck"] {
                let _ = runtime.thread(state).unwrap().invoke(job(state.to_owned())).await;
            }
            for name in ["crashed 1", "crashed 2"] {
                let thread = runtime.thread(name).unwrap();
                cut(thread.invoke(job("crashed".to_owned())), place.hung.notified()).await;
            }
        }
        place.ledger.note("mended");
        let runtime = place.open(&world);
        let mut recovered = Vec::new();
        for run in runtime.recover().await.unwrap() {
            let name = run.thread().as_str().to_owned();
            recovered.push((name, run.outcome_as::<String>().await.unwrap().completed().unwrap()));
        }
        recovered.sort();
        let expected = ["crashed 1", "crashed 2"].map(|name| (name.to_owned(), "after".to_owned()));
        assert_eq!(recovered, expected);
        for (name, status) in [("failed", Status::Failed), ("stuck", Status::Stuck), ("sleeping", Status::Sleeping)] {
            assert_eq!(runtime.thread(name).unwrap().state().await.unwrap().unwrap().status, status);
        }
        assert!(runtime.recover().await.unwrap().is_empty());
    });
}

/// Whether it was answered within an hour.
#[entrypoint]
async fn asks_for_an_hour() -> bool {
    durably::select! {
        answer = interrupt::<bool>("go on?", &()) => answer,
        () = durably::sleep(Duration::from_secs(3600)) => false,
    }
}

/// A clock as tokio's is: what waits for a moment that has passed still waits a little, here until it is let go.
#[derive(Clone)]
struct LateClock {
    clock: HandClock,
    reached: Arc<Notify>,
    let_go: Arc<Notify>,
}

impl Clock for LateClock {
    fn now(&self) -> SystemTime {
        self.clock.now()
    }

    fn sleep_until(&self, moment: SystemTime) -> BoxFuture<'static, ()> {
        let Self { clock, reached, let_go } = self.clone();
        Box::pin(async move {
            reached.notify_one();
            let_go.notified().await;
            clock.sleep_until(moment).await;
        })
    }
}

#[test]
fn where_every_sleep_parks_a_sleep_that_is_over_ends() {
    on_every_checkpointer(async |world| {
        let place = Place::new();
        let late = LateClock { clock: place.clock.clone(), reached: Arc::default(), let_go: Arc::default() };
        let runtime = world.open(|b| b.resource(place.clone()).clock(late.clone()).park_after(Duration::ZERO));
        let thread = runtime.thread("t").unwrap();
        assert_eq!(thread.invoke(job("sleeping".to_owned())).await.unwrap().word(), "sleeping");
        late.reached.notified().await;
        place.clock.forward(Duration::from_secs(3601));
        let lets_go = async {
            late.reached.notified().await;
            late.let_go.notify_one();
        };
        let (outcome, ()) = tokio::join!(thread.resume(job).into_future(), lets_go);
        assert_eq!(outcome.unwrap(), Outcome::Completed("after".to_owned()));
    });
}

#[test]
fn run_due_drives_on_what_has_slept_long_enough_and_nothing_else() {
    in_every_mode(async |world| {
        let place = Place::new();
        let open = || {
            world.open(|b| {
                b.resource(place.clone()).clock(place.clock.clone()).entrypoint(job).entrypoint(asks_for_an_hour)
            })
        };
        {
            let runtime = open();
            for state in ["completed", "failed", "interrupted", "sleeping", "stuck"] {
                let _ = runtime.thread(state).unwrap().invoke(job(state.to_owned())).await;
            }
            let asks = runtime.thread("asks").unwrap().invoke(asks_for_an_hour()).await.unwrap();
            assert_eq!(asks.questions().len(), 1);
        }
        let runtime = open();
        place.clock.forward(Duration::from_secs(3599));
        assert!(runtime.run_due().await.unwrap().is_empty());
        place.clock.forward(Duration::from_secs(2));
        let mut outcomes = Vec::new();
        for run in runtime.run_due().await.unwrap() {
            let name = run.thread().as_str().to_owned();
            outcomes.push((name, run.outcome().await.unwrap().completed().unwrap()));
        }
        outcomes.sort();
        let expected =
            [("asks", "false"), ("sleeping", "\"after\"")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(outcomes, expected);
        assert!(runtime.run_due().await.unwrap().is_empty());
    });
}

#[test]
fn recover_refuses_an_entrypoint_that_it_does_not_know_before_it_drives_anything() {
    on_every_checkpointer(async |world| {
        let place = Place::new();
        {
            let thread = place.open(&world).thread("t").unwrap();
            cut(thread.invoke(counts()), place.hung.notified()).await;
        }
        match place.open(&world).recover().await.unwrap_err() {
            RunError::UnknownEntrypoint { name, known } => {
                assert_eq!((name.as_str(), known), ("counts", vec!["job".to_owned(), "other_job".to_owned()]));
            }
            other => panic!("{other}"),
        }
    });
}

/// How many commits a run takes.
fn commits(drive: impl AsyncFnOnce(Thread)) -> u64 {
    let store = Arc::new(FaultyCheckpointer::new(Arc::new(MemoryCheckpointer::new())));
    let runtime = Runtime::builder().resource(Place::new()).shared_checkpointer(store.clone());
    block_on(drive(runtime.thread("t").unwrap()));
    store.commits()
}

#[test]
fn durability_is_chosen_by_the_call() {
    let call = || job("completed".to_owned());
    let by_default = commits(async |thread| drop(thread.invoke(call()).await.unwrap()));
    assert_eq!(by_default, 4, "start, two outcomes, end");
    let at_exit = commits(async |thread| drop(thread.invoke(call()).durability(Durability::Exit).await.unwrap()));
    assert_eq!(at_exit, 2, "start, and everything else at the end");
    let resumed = commits(async |thread| {
        let hung = async || {
            while thread.state().await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        };
        cut(thread.invoke(job("crashed".to_owned())).durability(Durability::Exit), hung()).await;
        let resume = thread.resume(job).durability(Durability::Exit);
        cut(resume, std::future::ready(())).await;
    });
    assert_eq!(resumed, 1, "the start");
}
