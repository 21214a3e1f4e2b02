//! The inbox: an answer costs a look at its question, however many are open; its rows follow the journal.

use std::sync::Arc;

use durably::{
    AnswerError, CallStatus, Cancellation, IfUnfinished, Outcome, RunError, Runtime, Status, ThreadId,
    checkpoint::{Checkpointer, Commit, Expect, Key, MemoryCheckpointer},
    entrypoint, interrupt, task,
};
use futures::future::join_all;
use tests::{Counting, block_on, in_every_mode, on_every_checkpointer, size};

#[entrypoint]
async fn asks_many(many: u32) -> u64 {
    let answers = join_all((0..many).map(|n| interrupt::<u32>(format!("q{n}"), &n))).await;
    answers.into_iter().map(u64::from).sum()
}

/// Ten thousand are open in the full size.
#[test]
fn an_answer_to_one_of_many_open_questions_reads_and_writes_a_few_rows() {
    block_on(async {
        let many = u32::try_from(size(1000).min(10_000)).unwrap();
        let counting = Counting::new();
        let thread = Runtime::builder().shared_checkpointer(counting.clone()).thread("t").unwrap();
        let paused = thread.invoke(asks_many(many)).await.unwrap();
        assert_eq!(paused.questions().len(), many as usize);
        let touched = || counting.read() + counting.written();
        touched();
        let mut most = 0;
        for (n, question) in (0..many).zip(paused.questions()) {
            if n % 2 == 0 {
                thread.answer(question.id(), n).await.unwrap();
            } else {
                thread.answer(question.key(), n).await.unwrap();
            }
            most = most.max(touched());
        }
        assert!(most <= 12, "an answer moved {most} rows");
        let expected = (0..u64::from(many)).sum();
        assert_eq!(thread.resume(asks_many).await.unwrap(), Outcome::Completed(expected));
        // Nothing is left of them.
        let id = ThreadId::new("t").unwrap();
        let after_records = Key::Answer { question: (0, 0), chunk: 0 };
        assert_eq!(counting.scan(&id, after_records, Key::LAST).await.unwrap(), []);
    });
}

#[task]
async fn keeps_alive() {
    let gate = durably::resource::<[Arc<tokio::sync::Notify>; 2]>();
    gate[0].notify_one();
    gate[1].notified().await;
}

#[entrypoint]
async fn asks_many_beside_a_body(many: u32) -> u64 {
    let asks = join_all((0..many).map(|n| interrupt::<u32>(format!("q{n}"), &n)));
    let (answers, ()) = futures::join!(asks, keeps_alive());
    answers.into_iter().map(u64::from).sum()
}

/// A run that is driven takes each answer as it comes, and does not look through all its waits for it.
#[test]
fn many_answers_to_a_driven_run_are_taken_as_they_come() {
    block_on(async {
        let many = u32::try_from(size(1000).min(10_000)).unwrap();
        let gate: [Arc<tokio::sync::Notify>; 2] = std::array::from_fn(|_| Arc::default());
        let runtime = Runtime::builder().resource(gate.clone()).memory();
        let thread = runtime.thread("t").unwrap();
        let run = thread.invoke(asks_many_beside_a_body(many)).start();
        gate[0].notified().await;
        let mut n = 0;
        while n < many {
            match thread.answer(format!("q{n}"), n).await {
                Ok(()) => n += 1,
                // It is being asked.
                Err(AnswerError::NoPendingInterrupt { .. } | AnswerError::UnknownInterrupt { .. }) => {
                    tokio::task::yield_now().await;
                }
                Err(other) => panic!("{other}"),
            }
        }
        gate[1].notify_one();
        assert_eq!(run.await.unwrap(), Outcome::Completed((0..u64::from(many)).sum()));
    });
}

#[entrypoint]
async fn asks_or_fails(fails: bool) -> anyhow::Result<bool> {
    if fails {
        durably::select! {
            _ = interrupt::<bool>("q", &()) => {}
            () = durably::sleep(std::time::Duration::ZERO) => {}
        }
        anyhow::bail!("it failed with its question open");
    }
    Ok(interrupt("q", &()).await)
}

/// A question goes with its run, in the same step: by its end, by being discarded, by being withdrawn.
#[test]
fn no_question_outlives_its_run() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let error = thread.invoke(asks_or_fails(true)).await.unwrap_err();
        assert!(matches!(error, RunError::Failed(_)), "{error}");
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!((state.status, state.questions.len()), (Status::Failed, 0));
        assert!(state.calls.iter().any(|call| call.status == CallStatus::Withdrawn), "{:?}", state.calls);
        assert!(thread.answer("q", true).await.is_err());
        let invoke = thread.invoke(asks_or_fails(false)).if_unfinished(IfUnfinished::Discard);
        let old = invoke.await.unwrap().questions()[0].id();
        thread.answer(old, true).await.unwrap();
        let invoke = thread.invoke(asks_or_fails(false)).if_unfinished(IfUnfinished::Discard);
        assert_eq!(invoke.await.unwrap().questions()[0].id(), old, "the same question of another run");
        assert_eq!(thread.state().await.unwrap().unwrap().answered, []);
        thread.answer(old, false).await.unwrap();
        assert_eq!(thread.resume(asks_or_fails).await.unwrap(), Outcome::Completed(false));
    });
}

/// A journal that came without its inbox, as a copy of its records does, has its questions again once it is resumed.
#[test]
fn a_journal_without_its_inbox_is_given_one_when_it_is_resumed() {
    block_on(async {
        let store = MemoryCheckpointer::new();
        let thread = Runtime::builder().checkpointer(store.clone()).thread("t").unwrap();
        let paused = thread.invoke(asks_many(3)).await.unwrap();
        let id = ThreadId::new("t").unwrap();
        let lost = durably::checkpoint::Change::RemoveRange(Key::Answer { question: (0, 0), chunk: 0 }, Key::LAST);
        store.commit(Commit { thread: id, expect: Vec::<Expect>::new(), changes: vec![lost] }).await.unwrap();
        assert!(matches!(thread.answer("q0", 1).await.unwrap_err(), AnswerError::NoPendingInterrupt { .. }));
        assert_eq!(thread.resume(asks_many).await.unwrap(), paused);
        thread.answers([("q0", 1), ("q1", 1), ("q2", 1)]).await.unwrap();
        assert_eq!(thread.resume(asks_many).await.unwrap(), Outcome::Completed(3));
    });
}

#[entrypoint]
async fn asks_and_cleans_up_by_asking() -> bool {
    durably::defer(async || {
        let _: bool = interrupt("undo?", &()).await;
    });
    interrupt("go on?", &()).await
}

/// A run that was stopped from outside asks only what its clean-up asks: its own question is withdrawn with the stop, and
/// an answer to it, stored before, answers nothing.
#[test]
fn a_stopped_run_has_no_question_but_those_of_its_clean_up() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        for answered in [false, true] {
            let thread = runtime.thread(format!("{answered}")).unwrap();
            let old = thread.invoke(asks_and_cleans_up_by_asking()).await.unwrap().questions()[0].id();
            if answered {
                thread.answer(old, true).await.unwrap();
            }
            assert_eq!(thread.cancel().await.unwrap(), Cancellation::Requested);
            let paused = thread.resume(asks_and_cleans_up_by_asking).await.unwrap();
            assert_eq!(paused.questions()[0].key(), "undo?", "{paused:?}");
            if answered {
                // The answer may have come to the run before the stop, which then has nothing left to stop.
                let state = thread.state().await.unwrap().unwrap();
                assert!(state.answered.is_empty() && state.questions.len() == 1, "{state:?}");
            } else {
                let error = thread.answer(old, true).await.unwrap_err();
                assert!(matches!(&error, AnswerError::UnknownInterrupt { known, .. } if known.len() == 1), "{error}");
            }
            thread.answer("undo?", true).await.unwrap();
            let _ = thread.resume(asks_and_cleans_up_by_asking).await.unwrap();
            assert!(!thread.state().await.unwrap().unwrap().status.is_unfinished());
        }
    });
}
