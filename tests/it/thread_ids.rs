//! Thread ids are data: any text of 1 to 512 bytes is a thread of its own, and none reaches another's records.

use std::collections::{BTreeMap, BTreeSet};

use durably::{
    Outcome, Runtime, ThreadId, ThreadIdError,
    checkpoint::{Change, Commit, Key},
    entrypoint, interrupt, task,
};
use tests::{Chance, on_every_checkpointer, size};

/// Pieces that have broken the keys of other stores.
const PIECES: &[&str] = &[
    "a",
    "b",
    "c",
    "/",
    ":",
    "|",
    "%",
    "_",
    "..",
    ".",
    "\0",
    "\u{1}",
    "\n",
    "\t",
    " ",
    "'",
    "\"",
    "\\",
    ";",
    "--",
    "{",
    "}",
    "12:{a",
    "a}",
    "$",
    "*",
    "?",
    "[",
    "]",
    "\u{feff}",
    "\u{202e}",
    "\u{200d}",
    "é",
    "e\u{301}",
    "ß",
    "ss",
    "İ",
    "ı",
    "\u{10ffff}",
    "\u{ff}",
    "\u{7f}",
    "𝄞",
    "한",
    "%2F",
    "%00",
    "nul",
    "C:",
    "~",
    "0",
    "00",
    "true",
    "null",
    "now",
];

/// Ids that are close to each other, and so are easily taken for each other.
fn hostile_pair(chance: &mut Chance) -> (String, String) {
    let word = |chance: &mut Chance| -> String { (0..=chance.below(4)).map(|_| *chance.pick(PIECES)).collect() };
    let (one, two, glue) = (word(chance), word(chance), *chance.pick(PIECES));
    match chance.below(7) {
        // `a/b` + `c` and `a` + `b/c`.
        0 => (format!("{one}{glue}{two}"), format!("{one}{two}{glue}")),
        1 => (format!("{one}{glue}"), one),
        2 => (format!("{glue}{one}"), one),
        3 => (one.to_uppercase(), one),
        4 => (one.repeat(2), one),
        5 => {
            let mut long: String = one.repeat(600);
            while long.len() > ThreadId::MAX_BYTES - 4 {
                long.pop();
            }
            (format!("{long}a"), format!("{long}b"))
        }
        _ => (one, two),
    }
}

#[test]
fn a_name_is_any_text_of_1_to_512_bytes_and_nothing_else() {
    for length in [1, 2, 511, 512] {
        assert_eq!(ThreadId::new("x".repeat(length)).unwrap().as_str().len(), length);
    }
    assert_eq!(ThreadId::new(""), Err(ThreadIdError::Empty));
    for length in [513, 514, 1 << 20] {
        assert_eq!(ThreadId::new("x".repeat(length)), Err(ThreadIdError::TooLong { bytes: length }));
    }
    // In bytes, not in characters.
    assert_eq!(ThreadId::new("é".repeat(257)), Err(ThreadIdError::TooLong { bytes: 514 }));
}

#[test]
fn hostile_names_are_threads_of_their_own() {
    let seed = 20_261_130;
    println!("seed {seed}");
    let mut chance = Chance::new(seed);
    let mut names = BTreeSet::new();
    let pairs = size(10_000);
    for _ in 0..pairs {
        let (one, two) = hostile_pair(&mut chance);
        assert_eq!(ThreadId::new(&one).unwrap() == ThreadId::new(&two).unwrap(), one == two);
        names.extend([one, two]);
    }
    println!("{pairs} pairs, {} names", names.len());
    on_every_checkpointer(async |world| {
        let store = world.checkpointer();
        // All at once, so that every one could reach every other; each row names its thread.
        let mut tickets = Vec::new();
        for name in &names {
            let thread = ThreadId::new(name).unwrap();
            let rows = [(Key::Head, name.as_bytes().to_vec()), (record(0), vec![1]), (record(u32::MAX), vec![2])];
            let changes = rows.into_iter().map(|(key, row)| Change::Put(key, row)).collect();
            tickets.push(store.commit(Commit { thread, expect: Vec::new(), changes }));
        }
        for ticket in tickets {
            ticket.await.unwrap();
        }
        let mut gone = BTreeSet::new();
        for (place, name) in names.iter().enumerate() {
            let thread = ThreadId::new(name).unwrap();
            assert_eq!(store.get(&thread, Key::Head).await.unwrap().as_deref(), Some(name.as_bytes()), "{name:?}");
            assert_eq!(store.scan(&thread, record(0), record(u32::MAX)).await.unwrap().len(), 2, "{name:?}");
            if place % 100 == 0 {
                assert!(store.delete_thread(&thread).await.unwrap());
                gone.insert(name);
            }
        }
        for name in &names {
            let head = store.get(&ThreadId::new(name).unwrap(), Key::Head).await.unwrap();
            let left = (!gone.contains(name)).then_some(name.as_bytes());
            assert_eq!(head.as_deref(), left, "{name:?}");
        }
    });
}

fn record(seq: u32) -> Key {
    Key::Record { run: u32::from(seq > 0), seq, chunk: 0 }
}

#[task]
async fn echo(name: String) -> String {
    name
}

#[entrypoint]
async fn asks(name: String) -> String {
    let echoed = echo(name).await;
    let answer: String = interrupt("which?", &echoed).await;
    format!("{echoed}={answer}")
}

#[test]
fn runs_on_hostile_names_are_answered_and_resumed_each_for_itself() {
    let short = ["a:b", "a", "b:c", "a}12:{a", "a\0b", "a/b", "a/b/c", "A", "..", "%", "\u{202e}a", "é", "e\u{301}"];
    let long = ["x".repeat(511), "x".repeat(512), format!("{}y", "x".repeat(511))];
    let names: Vec<String> = short.iter().map(|name| (*name).to_owned()).chain(long).collect();
    on_every_checkpointer(async |world| {
        let thread = |runtime: &Runtime, name: &String| runtime.thread(name).unwrap();
        {
            let runtime = world.runtime();
            for name in &names {
                let outcome = thread(&runtime, name).invoke(asks(name.clone())).await.unwrap();
                assert_eq!(outcome.questions()[0].decode::<String>().unwrap(), *name);
            }
        }
        let runtime = world.runtime();
        for name in names.iter().rev() {
            thread(&runtime, name).answer("which?", format!("answer to {name}")).await.unwrap();
        }
        let mut outputs = BTreeMap::new();
        for name in &names {
            let outcome = thread(&runtime, name).resume(asks).await.unwrap();
            assert_eq!(outcome, Outcome::Completed(format!("{name}=answer to {name}")));
            outputs.insert(name, outcome);
        }
        assert_eq!(outputs.len(), names.len());
        let listed = runtime.threads().limit(1000).await.unwrap();
        let listed: BTreeSet<&str> = listed.threads.iter().map(|summary| summary.thread.as_str()).collect();
        assert_eq!(listed, names.iter().map(String::as_str).collect());
    });
}

/// Keys of idempotency must not meet either: the thread's name is part of them.
#[task]
async fn key() -> Option<String> {
    durably::idempotency_key()
}

#[entrypoint]
async fn keys() -> Option<String> {
    key().await
}

#[test]
fn equal_calls_on_hostile_names_have_keys_of_their_own() {
    tests::block_on(async {
        let runtime = Runtime::builder().memory();
        let mut chance = Chance::new(7);
        let (mut names, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..size(300) {
            let (one, two) = hostile_pair(&mut chance);
            names.extend([one, two]);
        }
        for name in &names {
            let outcome = runtime.thread(name).unwrap().invoke(keys()).await.unwrap();
            seen.insert(outcome.completed().unwrap());
        }
        assert_eq!(seen.len(), names.len());
    });
}
