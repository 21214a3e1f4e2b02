//! An entrypoint that waits for what is not recorded is told so, with the remedy; a question cannot be swallowed.

use std::{
    future::{Future, IntoFuture, poll_fn},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use durably::{Outcome, RunError, Runtime, Status, Thread, entrypoint, interrupt, task};
use futures::{FutureExt, StreamExt, future::join_all, join};
use tests::{block_on, in_every_mode, on_every_checkpointer, pends};
use tokio::sync::{Notify, mpsc, oneshot};

/// What comes from outside of the run, once.
struct Outside<T>(Mutex<Option<T>>);

impl<T> Outside<T> {
    fn new(it: T) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(it))))
    }

    fn take(&self) -> T {
        self.0.lock().unwrap().take().expect("it is taken once")
    }
}

fn take<T: Send + 'static>() -> T {
    durably::resource::<Arc<Outside<T>>>().take()
}

/// A body that keeps the run alive until it is let go.
#[task]
async fn lives() -> u32 {
    durably::resource::<Arc<Notify>>().notified().await;
    1
}

#[entrypoint(allow(timer))]
async fn sleeps() -> u32 {
    let (lived, ()) = join!(lives(), tokio::time::sleep(Duration::from_millis(1)));
    lived
}

#[entrypoint(allow(timer))]
async fn sleeps_alone() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[entrypoint]
async fn yields() -> u32 {
    let (lived, ()) = join!(lives(), tokio::task::yield_now());
    lived
}

#[entrypoint]
async fn yields_alone() {
    tokio::task::yield_now().await;
}

/// Says that the entrypoint waits.
#[derive(Default)]
struct Began(Notify);

#[entrypoint]
async fn receives() -> u32 {
    let mut channel = take::<mpsc::Receiver<u32>>();
    let began = async {
        durably::resource::<Arc<Began>>().0.notify_one();
        lives().await
    };
    let (received, lived) = join!(channel.recv(), began);
    lived + received.unwrap()
}

#[entrypoint]
async fn receives_alone() -> u32 {
    take::<mpsc::Receiver<u32>>().recv().await.unwrap()
}

#[entrypoint]
async fn receives_once() -> u32 {
    let once = take::<oneshot::Receiver<u32>>();
    let (lived, received) = join!(lives(), once);
    lived + received.unwrap()
}

/// Says why the run did not come to an end, and how it can.
async fn check_refused(thread: &Thread, error: &RunError) {
    assert!(matches!(error, RunError::ForeignWake { .. } | RunError::Stalled { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("not recorded") && message.contains("#[task]"), "{message}");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!((state.status, state.reason), (Status::Stuck, Some(message)));
}

#[test]
fn a_timer_in_an_entrypoint_is_refused() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Arc::new(Notify::new())));
        let thread = runtime.thread("beside").unwrap();
        check_refused(&thread, &thread.invoke(sleeps()).await.unwrap_err()).await;
        let thread = runtime.thread("alone").unwrap();
        check_refused(&thread, &thread.invoke(sleeps_alone()).await.unwrap_err()).await;
    });
}

#[test]
fn yielding_to_the_scheduler_in_an_entrypoint_is_refused() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.resource(Arc::new(Notify::new())));
        // On the pool, where tokio puts the wake off; elsewhere it comes at once and is the entrypoint's own.
        let thread = runtime.thread("beside").unwrap();
        check_refused(&thread, &thread.invoke(yields()).start().await.unwrap_err()).await;
        let thread = runtime.thread("alone").unwrap();
        check_refused(&thread, &thread.invoke(yields_alone()).start().await.unwrap_err()).await;
    });
}

#[test]
fn a_channel_from_outside_is_refused() {
    on_every_checkpointer(async |world| {
        let (sender, receiver) = mpsc::channel::<u32>(1);
        let began = Arc::new(Began::default());
        let build = |builder: durably::RuntimeBuilder| {
            builder.resource(Arc::new(Notify::new())).resource(Outside::new(receiver)).resource(began.clone())
        };
        let runtime = world.open(build);
        let thread = runtime.thread("beside").unwrap();
        let send = async {
            began.0.notified().await;
            sender.send(1).await.unwrap();
        };
        let (outcome, ()) = join!(thread.invoke(receives()).into_future(), send);
        check_refused(&thread, &outcome.unwrap_err()).await;

        let (_sender, receiver) = mpsc::channel::<u32>(1);
        drop((thread, runtime));
        let runtime = world.open(|builder| builder.resource(Arc::new(Notify::new())).resource(Outside::new(receiver)));
        let thread = runtime.thread("alone").unwrap();
        check_refused(&thread, &thread.invoke(receives_alone()).await.unwrap_err()).await;
    });
}

#[test]
fn a_oneshot_from_a_thread_of_the_system_is_refused() {
    block_on(async {
        let (sender, receiver) = oneshot::channel::<u32>();
        let runtime = Runtime::builder().resource(Arc::new(Notify::new())).resource(Outside::new(receiver)).memory();
        let thread = runtime.thread("t").unwrap();
        let mut run = Box::pin(thread.invoke(receives_once()).into_future());
        assert!(futures::poll!(&mut run).is_pending());
        std::thread::spawn(move || sender.send(1)).join().unwrap().unwrap();
        check_refused(&thread, &run.await.unwrap_err()).await;
    });
}

#[task]
async fn sends() -> u32 {
    let sender = take::<oneshot::Sender<u32>>();
    pends(2).await;
    sender.send(1).unwrap();
    std::future::pending().await
}

#[entrypoint]
async fn hears_a_body() -> u32 {
    let once = take::<oneshot::Receiver<u32>>();
    durably::select! {
        never = sends() => never,
        received = once => received.unwrap(),
    }
}

/// On replay the body does not run, and so the entrypoint would not hear it. Found with this: the poll in which the
/// entrypoint was woken by the body was also the one in which it returned, and nobody looked.
#[test]
fn a_body_that_talks_to_its_entrypoint_beside_its_outcome_is_refused_also_if_the_entrypoint_returns_at_once() {
    in_every_mode(async |world| {
        let (sender, receiver) = oneshot::channel::<u32>();
        let runtime = world.open(|builder| builder.resource(Outside::new(sender)).resource(Outside::new(receiver)));
        let thread = runtime.thread("t").unwrap();
        let error = thread.invoke(hears_a_body()).await.unwrap_err();
        assert!(matches!(error, RunError::ForeignWake { .. }), "{error}");
        check_refused(&thread, &error).await;
    });
}

#[entrypoint]
async fn never_rests() {
    poll_fn::<(), _>(|cx| {
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn an_entrypoint_that_never_comes_to_rest_is_refused() {
    block_on(async {
        let runtime = Runtime::builder().memory();
        let thread = runtime.thread("t").unwrap();
        let error = thread.invoke(never_rests()).await.unwrap_err();
        assert!(matches!(error, RunError::Unsettled { .. }), "{error}");
        assert!(error.to_string().contains("yield_now"), "{error}");
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Stuck);
    });
}

// ---- questions cannot be swallowed ----

#[task]
async fn quick() -> u32 {
    1
}

#[entrypoint(allow(timer))]
async fn under_a_timeout() -> Option<u32> {
    tokio::time::timeout(Duration::from_secs(3600), interrupt::<u32>("ask", &())).await.ok()
}

#[entrypoint]
async fn under_a_question_mark() -> anyhow::Result<u32> {
    async fn asks() -> anyhow::Result<u32> {
        Ok(interrupt("ask", &()).await)
    }
    Ok(asks().await.or_else(|_| anyhow::Ok(0))?)
}

#[allow(clippy::manual_unwrap_or, reason = "a user writes it so")]
#[entrypoint]
async fn under_ok_and_match() -> u32 {
    let asked: Result<u32, std::fmt::Error> = async { Ok(interrupt("ask", &()).await) }.await;
    match asked.ok() {
        Some(answer) => answer,
        None => 100,
    }
}

#[entrypoint]
async fn under_catch_unwind() -> u32 {
    AssertUnwindSafe(interrupt::<u32>("ask", &())).catch_unwind().await.unwrap_or(0)
}

#[entrypoint]
async fn in_a_race_with_a_question() -> u32 {
    quick().await;
    durably::select! {
        answer = interrupt::<u32>("ask", &()) => answer,
        answer = interrupt::<u32>("or ask", &()) => answer + 100,
    }
}

#[entrypoint]
async fn in_a_stream() -> u32 {
    let mut asked = futures::stream::iter(0..3).map(|n| interrupt::<u32>("ask", &n)).buffered(1);
    asked.next().await.unwrap()
}

#[task]
async fn swallows() -> anyhow::Result<u32> {
    let asked: anyhow::Result<u32> = async { anyhow::Ok(interrupt::<u32>("ask", &()).await) }.await;
    Ok(asked.unwrap_or(0))
}

#[entrypoint]
async fn in_a_task() -> u32 {
    swallows().await.unwrap_or(0)
}

#[test]
fn a_question_pauses_the_run_under_every_kind_of_error_handling() {
    macro_rules! check {
        ($runtime:ident: $($entrypoint:ident)*) => {$(
            println!(stringify!($entrypoint));
            let thread = $runtime.thread(stringify!($entrypoint)).unwrap();
            let outcome = thread.invoke($entrypoint()).await.unwrap();
            assert!(matches!(outcome, Outcome::Interrupted(_)), "{outcome:?}");
            assert_eq!(outcome.questions()[0].key(), "ask");
            thread.answer(outcome.questions()[0].id(), 42).await.unwrap();
            let output = format!("{:?}", thread.resume($entrypoint).await.unwrap().completed().unwrap());
            assert!(output == "42" || output == "Some(42)", "{output}");
        )*};
    }
    in_every_mode(async |world| {
        let runtime = world.runtime();
        check!(runtime: under_a_timeout under_a_question_mark under_ok_and_match under_catch_unwind
            in_a_race_with_a_question in_a_stream in_a_task);
    });
}

#[entrypoint]
async fn raced_by_a_task() -> u32 {
    let answer = durably::select! {
        answer = interrupt::<u32>("ask", &()) => answer,
        quick = quick() => quick,
    };
    answer + interrupt::<u32>("then", &()).await
}

/// The one way past a question is an outcome on record that came first, and a replay goes the same way.
#[test]
fn a_question_that_lost_a_race_is_gone_and_stays_gone() {
    in_every_mode(async |world| {
        {
            let runtime = world.runtime();
            let outcome = runtime.thread("t").unwrap().invoke(raced_by_a_task()).await.unwrap();
            let keys: Vec<&str> = outcome.questions().iter().map(durably::Question::key).collect();
            assert_eq!(keys, ["then"]);
        }
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        thread.answer("then", 1).await.unwrap();
        assert_eq!(thread.resume(raced_by_a_task).await.unwrap(), Outcome::Completed(2));
    });
}

#[entrypoint]
async fn many_questions() -> u32 {
    join_all((0..5_u32).map(|n| interrupt::<u32>(format!("q{n}"), &n))).await.iter().sum()
}

#[test]
fn a_question_that_is_asked_again_has_its_id_and_runs_nothing() {
    in_every_mode(async |world| {
        let first = { world.runtime().thread("t").unwrap().invoke(many_questions()).await.unwrap() };
        let again = { world.runtime().thread("t").unwrap().resume(many_questions).await.unwrap() };
        assert_eq!(first, again);
        assert_eq!(first.questions().len(), 5);
    });
}

/// The future type that a caller names.
#[allow(dead_code, reason = "asserted by the compiler")]
fn an_invocation_is_send(thread: &Thread) -> impl Future + Send {
    thread.invoke(many_questions()).into_future()
}
