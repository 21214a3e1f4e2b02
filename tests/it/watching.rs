//! Readers that come, go and come back: without a gap, without repetition, over drives and processes.

use std::sync::Arc;

use durably::{
    Durability, EventNo, IfUnfinished, RunError, StreamEvent, StreamMode, Streamed, Watch, emit, entrypoint, interrupt,
    task,
};
use futures::FutureExt as _;
use tests::{World, in_every_mode, on_every_checkpointer};
use tokio::sync::Notify;

use crate::streams::{Gate, all, gated, journal, line, soon};

const TOLD: [StreamMode; 3] = [StreamMode::Values, StreamMode::Updates, StreamMode::Custom];

/// The next events of a watch.
async fn next(watch: &mut Watch, count: usize) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(soon(watch.next()).await.unwrap().unwrap());
    }
    events
}

/// What a watch tells until nobody drives its thread.
async fn rest(watch: Watch) -> Vec<StreamEvent> {
    let mut watch = watch.until_rest();
    let mut events = Vec::new();
    while let Some(event) = soon(watch.next()).await {
        events.push(event.unwrap());
    }
    events
}

fn lines(events: &[StreamEvent]) -> Vec<String> {
    events.iter().map(line).collect()
}

/// A process that was cut off while it waited at its gate, and what a reader had read until then.
async fn cut_off_at_the_gate(world: &World) -> Vec<StreamEvent> {
    let runtime = world.open(|builder| builder.resource(Gate::default()));
    let thread = runtime.thread("t").unwrap();
    let mut run = thread.invoke(gated()).stream(TOLD);
    let read = vec![soon(run.next()).await.unwrap(), soon(run.next()).await.unwrap()];
    assert_eq!(lines(&read), ["foo \"foo\"", "emit \"between\""]);
    run.abort();
    assert!(matches!(run.outcome().await, Err(RunError::Aborted { .. })));
    read
}

#[test]
fn a_reader_comes_back_after_a_restart_and_goes_on_with_whoever_drives_the_run() {
    for durability in [Durability::Sync, Durability::Async] {
        on_every_checkpointer(async |world| {
            let world = world.with(durability);
            let read = cut_off_at_the_gate(&world).await;
            assert!(read.iter().all(|event| event.recorded));
            // Where it was cut off: after one of them, or before both.
            for after in [None, Some(read[0].number), Some(read[1].number)] {
                let had = after.map_or(0, |after| read.iter().filter(|event| event.number <= after).count());
                let gate = Gate::default();
                let runtime = world.open(|builder| builder.resource(gate.clone()).entrypoint(gated));
                let thread = runtime.thread("t").unwrap();
                let mut watch = thread.watch(TOLD, after);
                // Before anybody drives it: what the journal has.
                assert_eq!(next(&mut watch, 2 - had).await, read[had..]);
            }
            let gate = Gate::default();
            let runtime = world.open(|builder| builder.resource(gate.clone()).entrypoint(gated));
            let thread = runtime.thread("t").unwrap();
            let mut watch = thread.watch(TOLD, read[1].number);
            let driven = runtime.recover().await.unwrap();
            assert_eq!(driven.len(), 1);
            gate.0.notify_one();
            let told = next(&mut watch, 4).await;
            assert_eq!(lines(&told), ["through 7", "gated \"foo 7\"", "value \"foo 7\"", "stopped completed"]);
            assert_eq!(told.iter().filter(|event| event.recorded).count(), 3);
        });
    }
}

#[test]
fn what_stands_after_the_last_outcome_is_told_once_also_if_the_run_is_cut_off_there() {
    in_every_mode(async |world| {
        let read = cut_off_at_the_gate(&world).await;
        // In exit mode a crash takes all of it back, and it was told as what is not recorded.
        let kept = world.durability != Durability::Exit;
        assert_eq!(read.iter().map(|event| event.recorded).collect::<Vec<_>>(), [kept, kept]);
        let gate = Gate::default();
        let runtime = world.open(|builder| builder.resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        gate.0.notify_one();
        let (told, _) = all(thread.resume(gated).stream(TOLD)).await;
        let expected = ["foo \"foo\"", "emit \"between\"", "through 7", "gated \"foo 7\"", "value \"foo 7\""];
        assert_eq!(told, if kept { &expected[2..] } else { &expected });
        // And in the journal once in every mode, by which a reader that comes back forgets what was not recorded.
        assert_eq!(lines(&rest(thread.watch(TOLD, None)).await), expected);
        let after = rest(thread.watch(TOLD, read[1].number)).await;
        assert_eq!(lines(&after), if kept { &expected[2..] } else { &expected });
    });
}

#[test]
fn one_who_begins_to_watch_a_run_in_its_midst_is_told_all_of_it_once() {
    in_every_mode(async |world| {
        let gate = Gate::default();
        let runtime = world.open(|builder| builder.resource(gate.clone()));
        let thread = runtime.thread("t").unwrap();
        let mut run = thread.invoke(gated()).stream(TOLD);
        let first = vec![soon(run.next()).await.unwrap(), soon(run.next()).await.unwrap()];
        // Two of them; a third one wants something else.
        let mut watch = thread.watch(TOLD, None);
        let mut other = thread.watch(TOLD, None);
        let mut tasks = thread.watch(StreamMode::Tasks, None);
        let early = next(&mut watch, 2).await;
        assert_eq!(lines(&early), lines(&first));
        assert_eq!(lines(&next(&mut other, 1).await), lines(&first[..1]));
        if world.durability != Durability::Exit {
            assert_eq!(early, first);
            assert_eq!(lines(&next(&mut tasks, 1).await), ["end foo \"foo\""]);
        }
        gate.0.notify_one();
        let mut told = Vec::new();
        while let Some(event) = soon(run.next()).await {
            told.push(event);
        }
        let expected = ["through 7", "gated \"foo 7\"", "value \"foo 7\"", "stopped completed"];
        assert_eq!(lines(&told), expected[..3]);
        assert_eq!(lines(&next(&mut watch, 4).await), expected);
        assert_eq!(lines(&next(&mut other, 5).await)[1..], expected);
        // Nothing is left, and nothing comes again.
        assert!(rest(watch).await.is_empty());
    });
}

#[test]
fn one_who_watches_is_told_of_every_drive() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let mut watch = thread.watch(TOLD, None);
        let mut custom = thread.watch(StreamMode::Custom, None);
        // They begin before there is a thread.
        let drive = async { drop(thread.invoke(asks_on(1)).await.unwrap()) };
        let (told, told_too, ()) = futures::join!(next(&mut watch, 3), next(&mut custom, 1), drive);
        assert_eq!(lines(&told), ["emit 1", "more? 1", "stopped interrupted"]);
        assert_eq!(lines(&told_too), ["emit 1"]);
        thread.answer("more", 5).await.unwrap();
        let _ = thread.resume(asks_on).await.unwrap();
        let told = next(&mut watch, 4).await;
        assert_eq!(lines(&told), ["emit 6", "asks_on 6", "value 6", "stopped completed"]);
        let _ = thread.invoke(asks_on(2)).await.unwrap();
        assert_eq!(lines(&next(&mut watch, 3).await), ["emit 2", "more? 2", "stopped interrupted"]);
        // The run is given up for another one.
        let _ = thread.invoke(asks_on(3)).if_unfinished(IfUnfinished::Discard).await.unwrap();
        assert_eq!(lines(&next(&mut watch, 3).await), ["emit 3", "more? 3", "stopped interrupted"]);
        let told = rest(custom).await;
        let customs: Vec<String> =
            told.iter().filter(|event| matches!(event.what, Streamed::Custom { .. })).map(line).collect();
        assert_eq!(customs, ["emit 6", "emit 2", "emit 3"]);
        let custom = thread.watch(StreamMode::Custom, EventNo::BEGINNING);
        let told = rest(custom).await;
        assert_eq!(lines(&told), ["emit 1", "emit 6", "emit 2", "emit 3"]);
        assert!(told.is_sorted_by(|one, other| one.number < other.number));
        assert_eq!(journal(&thread, StreamMode::Custom).await, ["emit 3"]);
    });
}

#[entrypoint]
async fn asks_on(n: u32) -> u32 {
    emit(&n);
    let more: u32 = interrupt("more", &n).await;
    emit(&(n + more));
    n + more
}

#[test]
fn the_end_of_a_run_that_is_given_up_is_told_before_the_next_one() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(asks_on(1)).await.unwrap();
        let before = rest(thread.watch(StreamMode::Checkpoints, None)).await;
        assert_eq!(lines(&before), ["0 start", "1 emitted", "2 wait"]);
        let mut watch = thread.watch(StreamMode::Checkpoints, before[2].number);
        let (told, ()) = futures::join!(next(&mut watch, 5), async {
            let _ = thread.invoke(asks_on(2)).if_unfinished(IfUnfinished::Discard).await.unwrap();
        });
        let told: Vec<String> = told.iter().map(|event| format!("{} {}", event.number.run(), line(event))).collect();
        let expected = ["1 3 end", "2 0 start", "2 1 emitted", "2 2 wait", "2 stopped interrupted"];
        assert_eq!(told, expected);
    });
}

#[entrypoint]
async fn again_and_again(n: u32) -> u32 {
    emit(&n);
    if n < 3 { durably::continue_as_new(again_and_again(n + 1)).await } else { n }
}

#[test]
fn a_run_that_goes_on_as_a_new_one_is_told_through() {
    in_every_mode(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let mut watch = thread.watch([StreamMode::Checkpoints, StreamMode::Custom], None);
        let (told, outcome) =
            all(thread.invoke(again_and_again(1)).stream([StreamMode::Checkpoints, StreamMode::Custom])).await;
        assert_eq!(outcome.unwrap().completed(), Some(3));
        let mut expected = Vec::new();
        for n in 1..=3 {
            let parts = ["0 start".to_owned(), format!("emit {n}"), "1 emitted".to_owned(), "2 end".to_owned()];
            expected.extend(parts);
        }
        assert_eq!(told, expected);
        expected.push("stopped completed".to_owned());
        assert_eq!(lines(&next(&mut watch, 13).await), expected);
    });
}

#[task(skip(done))]
async fn tell_many(done: &Arc<Notify>, count: u32) -> u32 {
    (0..count).for_each(|n| emit(&n));
    done.notify_one();
    count
}

#[entrypoint]
async fn many() -> u32 {
    (100..110).for_each(|n| emit(&n));
    tell_many(&durably::resource::<Arc<Notify>>(), 10).await
}

#[test]
fn a_slow_reader_is_told_what_it_missed_and_can_read_what_is_recorded_of_it() {
    on_every_checkpointer(async |world| {
        let done = Arc::new(Notify::new());
        let runtime = world.open(|builder| builder.stream_buffer(4).resource(done.clone()));
        let thread = runtime.thread("t").unwrap();
        let mut run = thread.invoke(many()).stream([StreamMode::Custom, StreamMode::Updates]);
        // The run does not wait for its reader.
        soon(done.notified()).await;
        let _ = soon(thread.resume(many).wait()).await.unwrap();
        let mut told = Vec::new();
        while let Some(event) = soon(run.next()).await {
            told.push(event);
        }
        // 10 of the entrypoint, 10 of the body, two updates.
        assert_eq!(lines(&told), ["emit 100", "emit 101", "emit 102", "emit 103", "missed 18"]);
        let back = rest(thread.watch([StreamMode::Custom, StreamMode::Updates], told[3].number)).await;
        let expected =
            ["emit 104", "emit 105", "emit 106", "emit 107", "emit 108", "emit 109", "tell_many 10", "many 10"];
        assert_eq!(lines(&back), expected);
        // From the place of the loss on, nothing that was lost comes again.
        assert!(rest(thread.watch([StreamMode::Custom, StreamMode::Updates], told[4].number)).await.is_empty());
    });
}

#[test]
fn a_reader_that_reads_nothing_over_many_drives_holds_no_more_than_its_room() {
    on_every_checkpointer(async |world| {
        let runtime = world.open(|builder| builder.stream_buffer(4));
        let thread = runtime.thread("t").unwrap();
        let mut watch = thread.watch(StreamMode::Custom, EventNo::BEGINNING);
        // It joins, and then does not look until all is over.
        assert!(watch.next().now_or_never().is_none());
        for n in 0..40 {
            let _ = thread.invoke(asks_on(n)).if_unfinished(IfUnfinished::Discard).await.unwrap();
        }
        let told = rest(watch).await;
        let mut customs: Vec<u64> = Vec::new();
        for event in &told {
            if let Streamed::Custom { value, .. } = &event.what {
                customs.push(value.decode().unwrap());
            }
        }
        assert!(customs.is_sorted_by(|one, other| one < other), "nothing twice: {customs:?}");
        let missed = told.iter().any(|event| matches!(event.what, Streamed::Missed { .. }));
        assert!(missed || customs.len() >= 40, "a loss that is not told: {customs:?}");
    });
}

#[entrypoint(name = "told")]
async fn told_before(tell: u32) -> u32 {
    emit("a");
    emit("b");
    emit("b");
    interrupt("go on", &tell).await
}

mod changed {
    use super::{emit, entrypoint, interrupt};

    #[entrypoint(name = "told")]
    pub(super) async fn told_after(tell: u32) -> u32 {
        emit("new");
        emit("b");
        emit("b");
        emit("b");
        interrupt("go on", &tell).await
    }
}

#[test]
fn code_that_emits_other_things_than_it_did_is_no_divergence_and_tells_what_is_new() {
    in_every_mode(async |world| {
        {
            let thread = world.runtime().thread("t").unwrap();
            let (told, _) = all(thread.invoke(told_before(1)).stream(StreamMode::Custom)).await;
            assert_eq!(told, ["emit \"a\"", "emit \"b\"", "emit \"b\""]);
        }
        let thread = world.runtime().thread("t").unwrap();
        let (told, outcome) = all(thread.resume(changed::told_after).stream(StreamMode::Custom)).await;
        assert_eq!(told, ["emit \"new\"", "emit \"b\""]);
        assert_eq!(outcome.unwrap().questions().len(), 1);
    });
}

#[test]
fn a_number_that_the_thread_does_not_have_is_an_error() {
    on_every_checkpointer(async |world| {
        let runtime = world.runtime();
        let thread = runtime.thread("t").unwrap();
        let _ = thread.invoke(asks_on(1)).await.unwrap();
        for number in ["1.3.0", "2.0.0", "7.7.7"] {
            let mut watch = thread.watch(StreamMode::Custom, number.parse::<EventNo>().unwrap());
            let error = soon(watch.next()).await.unwrap().unwrap_err();
            assert!(matches!(error, RunError::NoSuchEvent { .. }) && error.to_string().contains(number), "{error}");
            assert!(soon(watch.next()).await.is_none());
        }
        assert!(rest(runtime.thread("other").unwrap().watch(StreamMode::ALL, None)).await.is_empty());
    });
}
