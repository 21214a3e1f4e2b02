//! Names and equal calls: what may share a name, what may not, and that equal calls are calls of their own.

use durably::{Outcome, RunError, Runtime, Status, entrypoint, interrupt, task};
use futures::join;
use serde::{Serialize, de::DeserializeOwned};
use tests::{Ledger, block_on, in_every_mode};

#[task(skip(ledger))]
async fn poll_status(ledger: &Ledger, order: u32) -> u32 {
    ledger.note(format!("poll {order}"));
    ledger.count(&format!("poll {order}"))
}

#[entrypoint]
async fn polls_until(times: u32) -> Vec<u32> {
    let ledger = durably::resource::<Ledger>();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| *last < times) {
        seen.push(poll_status(&ledger, 7).await);
    }
    let _: () = interrupt("pause", &()).await;
    seen.push(poll_status(&ledger, 7).await);
    seen
}

#[test]
fn equal_calls_in_a_loop_each_run_and_each_answer_for_themselves_on_replay() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let open = || world.open(|builder| builder.resource(ledger.clone()));
        {
            let outcome = open().thread("t").unwrap().invoke(polls_until(4)).await.unwrap();
            assert_eq!(outcome.questions().len(), 1);
        }
        {
            // Asked again without an answer: nothing runs.
            let outcome = open().thread("t").unwrap().resume(polls_until).await.unwrap();
            assert_eq!((outcome.questions().len(), ledger.total()), (1, 4));
        }
        let thread = open().thread("t").unwrap();
        thread.answer("pause", ()).await.unwrap();
        let outcome = thread.resume(polls_until).await.unwrap();
        assert_eq!(outcome, Outcome::Completed(vec![1, 2, 3, 4, 5]));
    });
}

#[task(skip(ledger))]
async fn down(ledger: &Ledger, n: u32) -> u32 {
    ledger.note("down");
    if n == 0 { 0 } else { 1 + Box::pin(down(ledger, n - 1)).await + Box::pin(down(ledger, n - 1)).await }
}

#[entrypoint]
async fn recursion() -> u32 {
    let ledger = durably::resource::<Ledger>();
    let (one, two) = join!(down(&ledger, 3), down(&ledger, 3));
    one + two
}

#[test]
fn a_task_that_calls_itself_runs_once_for_each_call() {
    block_on(async {
        let ledger = Ledger::default();
        let runtime = Runtime::builder().resource(ledger.clone()).memory();
        let outcome = runtime.thread("t").unwrap().invoke(recursion()).await.unwrap();
        assert_eq!(outcome, Outcome::Completed(14));
        assert_eq!(ledger.total(), 30);
    });
}

mod one {
    #[durably::task]
    pub(super) async fn charge(cents: u32) -> u32 {
        cents
    }

    #[durably::entrypoint]
    pub(super) async fn child(cents: u32) -> u32 {
        charge(cents).await
    }
}

mod two {
    #[durably::task]
    pub(super) async fn charge(cents: u32) -> u32 {
        cents + 1
    }

    #[durably::task(name = "two.charge")]
    pub(super) async fn charge_by_another_name(cents: u32) -> u32 {
        charge_plainly(cents)
    }

    fn charge_plainly(cents: u32) -> u32 {
        cents + 1
    }

    #[durably::entrypoint]
    pub(super) async fn child(cents: u32) -> u32 {
        super::one::charge(cents).await
    }
}

#[entrypoint]
async fn two_tasks_of_one_name() -> u32 {
    one::charge(1).await + two::charge(1).await
}

#[entrypoint]
async fn two_entrypoints_of_one_name() -> u32 {
    one::child(1).await + two::child(1).await
}

#[entrypoint]
async fn two_tasks_of_two_names() -> u32 {
    one::charge(1).await + two::charge_by_another_name(1).await
}

#[test]
fn two_definitions_of_one_name_are_refused_with_both_places_and_the_remedy() {
    block_on(async {
        let runtime = Runtime::builder().memory();
        let thread = runtime.thread("tasks").unwrap();
        let error = thread.invoke(two_tasks_of_one_name()).await.unwrap_err();
        assert!(matches!(error, RunError::TwoDefinitions { .. }), "{error}");
        let message = error.to_string();
        for part in ["task \"charge\"", "it::names::one (", "it::names::two (", "`name = \"..\"`"] {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
        assert_eq!(thread.state().await.unwrap().unwrap().status, Status::Stuck);

        let thread = runtime.thread("entrypoints").unwrap();
        let error = thread.invoke(two_entrypoints_of_one_name()).await.unwrap_err();
        assert!(matches!(error, RunError::TwoDefinitions { .. }), "{error}");

        let thread = runtime.thread("named").unwrap();
        assert_eq!(thread.invoke(two_tasks_of_two_names()).await.unwrap(), Outcome::Completed(3));
    });
}

#[task(skip(ledger))]
async fn keep<T>(ledger: &Ledger, value: T) -> T
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    ledger.note("keep");
    value
}

#[entrypoint]
async fn generic_calls() -> (u32, u64, String, Option<u32>, Vec<u32>) {
    let ledger = durably::resource::<Ledger>();
    (
        keep(&ledger, 7_u32).await,
        keep(&ledger, 7_u64).await,
        keep(&ledger, "7".to_owned()).await,
        keep(&ledger, Some(7_u32)).await,
        keep(&ledger, vec![7_u32]).await,
    )
}

#[test]
fn a_generic_task_is_one_definition_and_each_of_its_calls_runs() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let runtime = world.open(|builder| builder.resource(ledger.clone()));
        let outcome = runtime.thread("t").unwrap().invoke(generic_calls()).await.unwrap();
        assert_eq!(outcome, Outcome::Completed((7, 7, "7".to_owned(), Some(7), vec![7])));
        assert_eq!(ledger.total(), 5);
    });
}

/// Tasks named as the crate's own calls are.
mod ours {
    use super::{Ledger, task};

    macro_rules! ours {
        ($($name:ident $text:literal)*) => {
            $(#[task(name = $text, skip(ledger))]
            pub(super) async fn $name(ledger: &Ledger) -> u32 {
                ledger.note($text);
                1
            })*
        };
    }

    ours!(now "now" sleep "sleep" interrupt "interrupt" random "random" uuid "uuid" patched "patched" pause "pause"
        entrypoint "entrypoint" task_ "task");
}

#[entrypoint]
async fn named_like_ours() -> u32 {
    let ledger = durably::resource::<Ledger>();
    let _ = durably::now().await;
    let _ = (durably::random().await, durably::uuid().await, durably::patched("patched").await);
    durably::sleep(std::time::Duration::ZERO).await;
    let sum = ours::now(&ledger).await
        + ours::sleep(&ledger).await
        + ours::interrupt(&ledger).await
        + ours::random(&ledger).await
        + ours::uuid(&ledger).await
        + ours::patched(&ledger).await
        + ours::pause(&ledger).await
        + ours::entrypoint(&ledger).await
        + ours::task_(&ledger).await;
    let _: () = interrupt("pause", &()).await;
    sum + u32::from(durably::patched("pause").await)
}

#[test]
fn tasks_named_like_the_crates_own_calls_are_not_taken_for_them() {
    in_every_mode(async |world| {
        let ledger = Ledger::default();
        let open = || world.open(|builder| builder.resource(ledger.clone()));
        {
            let outcome = open().thread("t").unwrap().invoke(named_like_ours()).await.unwrap();
            assert_eq!(outcome.questions().len(), 1);
        }
        let thread = open().thread("t").unwrap();
        thread.answer("pause", ()).await.unwrap();
        assert_eq!(thread.resume(named_like_ours).await.unwrap(), Outcome::Completed(10));
        assert!(ledger.all().values().all(|times| *times == 1) && ledger.total() == 9, "{:?}", ledger.all());
    });
}
