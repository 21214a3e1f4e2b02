//! What entrypoints and tasks do on a thread that nothing disturbs. Each test names its line in the list of behaviours.

use std::collections::BTreeMap;

use durably::{Final, IfUnfinished, Outcome, RunError, Runtime, TaskCall, entrypoint, interrupt, resource, task};
use futures::future::join_all;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tests::{Ledger, World, block_on, in_every_mode, on_every_checkpointer};
use tokio::sync::watch::Sender;

use crate::watch::Watch;

fn open(world: &World, ledger: &Ledger, watch: &Watch) -> Runtime {
    world.open(|builder| builder.resource(ledger.clone()).observer(watch.clone()))
}

fn note(effect: &str) {
    resource::<Ledger>().note(effect);
}

#[task]
async fn twice(text: String) -> String {
    note("twice");
    text.repeat(2)
}

#[entrypoint]
async fn ask_about(numbers: Vec<u32>) -> Vec<String> {
    let doubled = join_all(numbers.iter().map(|number| twice(number.to_string()))).await;
    let answer: String = interrupt("question", "anything to add?").await;
    doubled.into_iter().map(|text| text + &answer).collect()
}

/// Line 1.
#[test]
fn parallel_tasks_then_a_question_then_its_answer() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let thread = open(&world, &ledger, &watch).thread("t").unwrap();
            let paused = thread.invoke(ask_about(vec![0, 1])).await.unwrap();
            let [question] = paused.questions() else { panic!("{paused:?}") };
            assert_eq!((question.key(), question.payload().as_str()), ("question", "\"anything to add?\""));
            let mut updates = watch.updates();
            updates[..2].sort();
            assert_eq!(updates, ["twice 00", "twice 11", "ask_about interrupted"]);
            thread.answer("question", "answer").await.unwrap();
        }
        let thread = open(&world, &ledger, &watch).thread("t").unwrap();
        let outcome = thread.resume(ask_about).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["00answer", "11answer"]);
        assert_eq!(ledger.count("twice"), 2);
        assert_eq!(watch.updates(), ["question answer", "ask_about completed"]);
    });
}

#[task]
async fn map(number: u32) -> String {
    note("map");
    let text = decimal(number).await;
    doubled(text).await
}

#[task]
async fn decimal(number: u32) -> String {
    note("decimal");
    number.to_string()
}

#[entrypoint]
async fn doubled(text: String) -> String {
    twice(text).await
}

#[entrypoint]
async fn map_all(numbers: Vec<u32>) -> Vec<String> {
    let mapped = join_all(numbers.iter().map(|number| map(*number))).await;
    let answer: String = interrupt("question", "").await;
    mapped.into_iter().map(|text| text + &answer).collect()
}

/// Line 2.
#[test]
fn tasks_and_entrypoints_within_tasks_are_not_repeated_after_a_question() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        {
            let thread = open(&world, &ledger, &watch).thread("t").unwrap();
            let paused = thread.invoke(map_all(vec![0, 1])).await.unwrap();
            assert_eq!(paused.questions().len(), 1);
            thread.answer("question", "answer").await.unwrap();
        }
        let thread = open(&world, &ledger, &watch).thread("t").unwrap();
        let outcome = thread.resume(map_all).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), ["00answer", "11answer"]);
        let counts = ["map", "decimal", "twice"].map(|effect| ledger.count(effect));
        assert_eq!(counts, [2, 2, 2]);
    });
}

#[task]
async fn foo(text: String) -> String {
    text + "foo"
}

#[task]
async fn bar(text: String) -> String {
    text + "bar"
}

#[task]
async fn baz(text: String) -> String {
    text + "baz"
}

#[entrypoint]
async fn in_turn(text: String) -> String {
    baz(bar(foo(text).await).await).await
}

/// Line 3.
#[test]
fn sequential_tasks_are_recorded_and_handed_on_in_their_order() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        let thread = open(&world, &ledger, &watch).thread("t").unwrap();
        let _ = thread.invoke(in_turn("a".to_owned())).await.unwrap();
        let expected = [
            "began in_turn 1",
            "started foo 1",
            "recorded foo",
            "released foo afoo",
            "started bar 1",
            "recorded bar",
            "released bar afoobar",
            "started baz 1",
            "recorded baz",
            "released baz afoobarbaz",
            "stopped in_turn completed",
        ];
        assert_eq!(watch.take(), expected);
        assert_eq!(thread.resume(in_turn).await.unwrap(), Outcome::Completed("afoobarbaz".to_owned()));
        assert!(watch.take().is_empty(), "the last value again runs nothing");
    });
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Seen {
    previous: Option<Box<Seen>>,
    current: BTreeMap<String, String>,
}

#[entrypoint]
async fn remember(current: BTreeMap<String, String>, #[previous] previous: Option<Seen>) -> Seen {
    Seen { previous: previous.map(Box::new), current }
}

fn input(a: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("a".to_owned(), a.to_owned())])
}

/// Line 5, and line 4 for a thread that is new.
#[test]
fn previous_is_the_whole_result_of_the_run_before() {
    in_every_mode(async |world| {
        let mut before = None;
        for a in ["1", "2", "3"] {
            // A new process each time.
            let thread = world.runtime().thread("t").unwrap();
            let seen = thread.invoke(remember(input(a))).await.unwrap().completed().unwrap();
            let expected = Seen { previous: before.map(Box::new), current: input(a) };
            assert_eq!(seen, expected);
            before = Some(seen);
        }
    });
}

#[entrypoint]
async fn collect(message: String, #[previous] previous: Option<Vec<String>>) -> Final<usize, Vec<String>> {
    let mut all = previous.unwrap_or_default();
    saw(&all).await;
    let value = all.len();
    all.push(message);
    Final { value, save: all }
}

#[task]
async fn saw(previous: &[String]) {
    note(&format!("saw {}", previous.join(",")));
}

/// Lines 7 and 8: the value and what is saved have types of their own.
#[test]
fn final_gives_one_value_and_saves_another() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        for (message, value) in [("hello", 0_usize), ("goodbye", 1), ("definitely", 2)] {
            let thread = open(&world, &ledger, &watch).thread("t").unwrap();
            let given = thread.invoke(collect(message.to_owned())).await.unwrap();
            assert_eq!(given, Outcome::Completed(value));
            assert_eq!(thread.resume(collect).await.unwrap(), Outcome::Completed(value));
        }
        let seen: Vec<String> = ledger.all().into_keys().collect();
        assert_eq!(seen, ["saw ", "saw hello", "saw hello,goodbye"]);
    });
}

#[entrypoint]
async fn nothing_in() -> u32 {
    note("body");
    7
}

#[entrypoint]
async fn number(n: u32) -> u32 {
    note("body");
    n
}

#[entrypoint]
async fn word(text: String) -> String {
    note("body");
    text
}

#[entrypoint]
async fn table(entries: BTreeMap<String, u32>) -> usize {
    note("body");
    entries.len()
}

#[entrypoint]
async fn list(items: Vec<u32>) -> usize {
    note("body");
    items.len()
}

#[entrypoint]
async fn unit(it: ()) {
    note("body");
    assert_eq!(it, ());
}

#[entrypoint]
async fn maybe(it: Option<u32>) -> Option<u32> {
    note("body");
    it
}

/// Lines 10 and 15.
#[test]
fn empty_and_zero_and_unit_and_none_and_no_arguments_are_inputs() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let runtime = open(&world, &ledger, &Watch::default());
        let thread = |name: &str| runtime.thread(name).unwrap();
        let outcome = thread("none").invoke(nothing_in()).await.unwrap();
        assert_eq!(outcome.completed(), Some(7));
        assert_eq!(thread("0").invoke(number(0)).await.unwrap().completed(), Some(0));
        assert_eq!(thread("text").invoke(word(String::new())).await.unwrap().completed(), Some(String::new()));
        assert_eq!(thread("{}").invoke(table(BTreeMap::new())).await.unwrap().completed(), Some(0));
        assert_eq!(thread("[]").invoke(list(vec![])).await.unwrap().completed(), Some(0));
        assert_eq!(thread("()").invoke(unit(())).await.unwrap().completed(), Some(()));
        assert_eq!(thread("null").invoke(maybe(None)).await.unwrap().completed(), Some(None));
        assert_eq!(ledger.count("body"), 7);
        assert_eq!(thread("null").resume(maybe).await.unwrap().completed(), Some(None));
        assert_eq!(ledger.count("body"), 7, "a resume is no run with an empty input");
    });
}

/// Line 11.
#[test]
fn a_task_outside_of_a_run_panics_with_the_remedy_and_runs_bare_if_asked() {
    block_on(async {
        let panicked = tokio::spawn(async { foo("a".to_owned()).await }).await.unwrap_err().into_panic();
        let message = panicked.downcast_ref::<String>().unwrap();
        for part in ["`foo`", "outside of a run", "#[entrypoint]", "`.bare()`"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(foo("a".to_owned()).bare().await, "afoo");
        let message = tokio::spawn(nothing_in()).await.unwrap_err().into_panic();
        let message = message.downcast_ref::<String>().unwrap().clone();
        assert!(message.contains("`nothing_in` was awaited outside of a run"), "{message}");
    });
}

#[entrypoint]
async fn bare_inside(text: String) -> String {
    foo(text).bare().await
}

/// Line 11: in a run the plain body would be an effect without a record.
#[test]
fn a_bare_task_in_a_run_fails_the_run() {
    block_on(async {
        let thread = Runtime::builder().memory().thread("t").unwrap();
        let error = thread.invoke(bare_inside("a".to_owned())).await.unwrap_err();
        assert!(matches!(&error, RunError::Panicked { message, .. } if message.contains(".bare()")), "{error}");
    });
}

#[derive(Clone, Debug)]
struct Service(String);

trait Greets: Sync {
    #[task(name = "trait-provided")]
    async fn provided(&self, name: &str) -> String {
        format!("provided {name}")
    }

    #[task]
    async fn required(&self, name: &str) -> String;
}

impl Greets for Service {
    #[task(name = "trait-required")]
    async fn required(&self, name: &str) -> String {
        format!("{} {name}", self.0)
    }
}

impl Service {
    #[task(name = "method")]
    async fn greet(&self, name: &str) -> String {
        format!("{}, {name}", self.0)
    }
}

#[task(name = "a name: with/anything")]
async fn free(name: &str) -> String {
    name.to_uppercase()
}

#[task(name = "generic")]
async fn same<T: Serialize + DeserializeOwned + Send + Sync + 'static>(it: T) -> T {
    it
}

#[entrypoint(name = "names.v1")]
async fn names(name: String) -> String {
    let service = resource::<Service>();
    free(&name).await;
    service.greet(&name).await;
    service.provided(&name).await;
    service.required(&name).await;
    same(7_u64).await;
    same(name.clone()).await;
    let unnamed: fn(String) -> TaskCall<'static, String> = foo;
    unnamed(name).await
}

/// Line 12.
#[test]
fn records_carry_the_names_that_were_given_or_the_functions_own() {
    on_every_checkpointer(async |world| {
        let watch = Watch::default();
        {
            let service = Service("Hello".to_owned());
            let runtime = world.open(|builder| builder.resource(service).observer(watch.clone()));
            let _ = runtime.thread("t").unwrap().invoke(names("ada".to_owned())).await.unwrap();
        }
        let expected = [
            "a name: with/anything ADA",
            "method Hello, ada",
            "trait-provided provided ada",
            "trait-required Hello ada",
            "generic 7",
            "generic ada",
            "foo adafoo",
            "names.v1 completed",
        ];
        assert_eq!(watch.updates(), expected);
        let state = world.runtime().thread("t").unwrap().state().await.unwrap().unwrap();
        let recorded: Vec<&str> = state.calls.iter().map(|call| call.name.as_str()).collect();
        let given =
            ["a name: with/anything", "method", "trait-provided", "trait-required", "generic", "generic", "foo"];
        assert_eq!(recorded, given);
        assert_eq!(state.entrypoint, "names.v1");
    });
}

#[task]
async fn positive(n: i32) -> anyhow::Result<u32> {
    anyhow::ensure!(n > 0, "{n} is not positive");
    Ok(n.unsigned_abs())
}

#[entrypoint]
async fn catches(n: i32) -> anyhow::Result<String> {
    positive(n).await?;
    let caught = positive(-n).await.unwrap_err();
    positive(n).await?;
    Ok(format!("done in spite of: {caught}"))
}

/// Line 13.
#[test]
fn a_caught_failure_between_good_calls_is_no_update() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        let thread = open(&world, &ledger, &watch).thread("t").unwrap();
        let outcome = thread.invoke(catches(2)).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), "done in spite of: -2 is not positive");
        assert_eq!(watch.updates(), ["positive 2", "positive 2", "catches completed"]);
    });
}

#[entrypoint]
async fn two_steps(text: String, #[previous] previous: Option<String>) -> String {
    let doubled = twice(text).await;
    let answer: String = interrupt("go on?", &doubled).await;
    format!("{}{doubled}{answer}", previous.unwrap_or_default())
}

/// Line 16.
#[test]
fn two_threads_share_neither_previous_nor_records_nor_questions() {
    in_every_mode(async |world| {
        let (ledger, watch) = (Ledger::default(), Watch::default());
        let runtime = open(&world, &ledger, &watch);
        let (one, two) = (runtime.thread("one").unwrap(), runtime.thread("two").unwrap());
        let _ = one.invoke(two_steps("a".to_owned())).await.unwrap();
        assert!(two.state().await.unwrap().is_none());
        let _ = two.invoke(two_steps("a".to_owned())).await.unwrap();
        assert_eq!(ledger.count("twice"), 2, "equal calls of two threads are two calls");
        one.answer("go on?", "!").await.unwrap();
        let still = two.resume(two_steps).await.unwrap();
        assert_eq!(still.questions().len(), 1, "the other thread's question is open still");
        assert_eq!(one.resume(two_steps).await.unwrap().completed().unwrap(), "aa!");
        two.answer("go on?", "?").await.unwrap();
        assert_eq!(two.resume(two_steps).await.unwrap().completed().unwrap(), "aa?");
        let _ = one.invoke(two_steps("b".to_owned())).await.unwrap();
        one.answer("go on?", "!").await.unwrap();
        assert_eq!(one.resume(two_steps).await.unwrap().completed().unwrap(), "aa!bb!");
        assert_eq!(ledger.count("twice"), 3);
    });
}

#[entrypoint]
async fn counts(n: u32, #[previous] previous: Option<u32>) -> u32 {
    note("counts");
    previous.unwrap_or_default() + n
}

#[entrypoint]
async fn also_counts(n: u32, #[previous] previous: Option<u32>) -> u32 {
    note("also_counts");
    previous.unwrap_or_default() + n
}

/// Line 17: what one entrypoint saved is never another one's `previous`.
#[test]
fn a_thread_belongs_to_its_entrypoint_and_refuses_another() {
    on_every_checkpointer(async |world| {
        let ledger = Ledger::default();
        let thread = open(&world, &ledger, &Watch::default()).thread("t").unwrap();
        assert_eq!(thread.invoke(counts(1)).await.unwrap().completed(), Some(1));
        for choice in [IfUnfinished::Refuse, IfUnfinished::Discard, IfUnfinished::Resume] {
            let refused = thread.invoke(also_counts(1)).if_unfinished(choice).await.unwrap_err();
            let RunError::WrongEntrypoint { recorded, given, .. } = &refused else { panic!("{refused}") };
            assert_eq!((recorded.as_str(), given.as_str()), ("counts", "also_counts"));
        }
        assert!(matches!(thread.resume(also_counts).await, Err(RunError::WrongEntrypoint { .. })));
        assert_eq!(thread.invoke(counts(1)).await.unwrap().completed(), Some(2));
        assert_eq!((ledger.count("counts"), ledger.count("also_counts")), (2, 0));
    });
}

/// Lets leaves end in the order of their turns.
#[derive(Debug)]
struct Turns(Sender<u32>);

#[task]
async fn leaf(of: u32, n: u32) -> u32 {
    let turns = resource::<Turns>();
    // The last one made ends first.
    let mut turn = turns.0.subscribe();
    turn.wait_for(|turn| *turn == 8 - (of * 3 + n)).await.unwrap();
    turns.0.send_modify(|turn| *turn += 1);
    of * 10 + n
}

#[task]
async fn fan(of: u32) -> Vec<u32> {
    join_all((0..3).map(|n| leaf(of, n))).await
}

#[entrypoint]
async fn fan_out() -> Vec<Vec<u32>> {
    join_all((0..3).map(fan)).await
}

/// Line 18.
#[test]
fn a_nested_fan_out_gives_its_results_in_the_order_of_the_calls() {
    in_every_mode(async |world| {
        let thread = world.open(|builder| builder.resource(Turns(Sender::new(0)))).thread("t").unwrap();
        let outcome = thread.invoke(fan_out()).await.unwrap();
        assert_eq!(outcome.completed().unwrap(), [[0, 1, 2], [10, 11, 12], [20, 21, 22]]);
    });
}
