//! The process that the crash tests kill: runs a flow on a store on disk, and writes down what happens.
//!
//! `victim run FOLDER LEDGER FLOW [COMMIT WHEN]` goes on with the flow, and prints `open`, then what it gives. It aborts itself
//! at that commit: `before` it is made, once it is `queued`, or `after` it is durable.
//! `victim open FOLDER` opens the store, says `open` or `locked`, and keeps it until its input ends.

use std::{
    env, fmt,
    fs::{File, OpenOptions},
    io::{Read, Write},
    process::abort,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use durably::{
    CallKind, CheckpointError, EntrypointFn, Event, Observer, Outcome, RunError, Runtime,
    checkpoint::{Checkpointer, Commit, SledCheckpointer, Ticket},
    entrypoint, task,
    testing::Delegate,
};

/// What outlives the process: a line for each start and end of an effect, and for each value that was handed on.
struct Ledger(File);

impl Ledger {
    fn note(&self, what: &str, effect: &str) {
        // One write to the end of the file: a kill leaves it whole or not at all.
        (&self.0).write_all(format!("{what} {effect}\n").as_bytes()).expect("the ledger is written");
    }
}

impl Observer for Ledger {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Released { call, replayed: false, value: Some(value), .. } = event
            && call.kind == CallKind::Task
            && let Ok(effect) = value.decode::<String>()
        {
            self.note("handed-on", &effect);
        }
    }
}

/// An effect; gives its identity.
#[task]
async fn effect(n: u32) -> String {
    let key = durably::idempotency_key().unwrap_or_default();
    let effect = format!("{n}-{}", key.get(..16).unwrap_or_default());
    let ledger = durably::resource::<Arc<Ledger>>();
    ledger.note("start", &effect);
    tokio::task::yield_now().await;
    ledger.note("end", &effect);
    effect
}

#[task]
async fn around(n: u32) -> String {
    let inner = [effect(n).await, effect(n + 1).await];
    inner.join("+")
}

#[entrypoint]
async fn chain() -> Vec<String> {
    let mut log = Vec::new();
    for n in 0..8 {
        log.push(effect(n).await);
    }
    log
}

#[entrypoint]
async fn fan() -> Vec<String> {
    let mut log = durably::bounded(8, (0..8).map(effect)).await;
    let (one, two) = tokio::join!(effect(8).spawn(), effect(8).spawn());
    log.extend([one, two, effect(9).await]);
    log
}

#[entrypoint]
async fn equal() -> Vec<String> {
    let mut log = Vec::new();
    for _ in 0..8 {
        log.push(effect(0).await);
    }
    log
}

#[entrypoint]
async fn pair(n: u32) -> Vec<String> {
    vec![effect(n).await, effect(n).await]
}

#[entrypoint]
async fn nested() -> Vec<String> {
    let mut log = pair(1).await;
    log.push(around(2).await);
    let (one, two) = tokio::join!(pair(1), around(2));
    log.extend(one);
    log.push(two);
    log
}

/// When the process ends itself.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Before,
    Queued,
    After,
}

/// A store on disk under which the process dies.
struct Deadly {
    inner: SledCheckpointer,
    at: Option<(usize, When)>,
    commits: AtomicUsize,
}

impl fmt::Debug for Deadly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadly").finish_non_exhaustive()
    }
}

impl Delegate for Deadly {
    fn inner(&self) -> &dyn Checkpointer {
        &self.inner
    }

    fn commit(&self, commit: Commit) -> Ticket {
        let nth = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let Some((_, when)) = self.at.filter(|(at, _)| *at == nth) else { return self.inner.commit(commit) };
        if when == When::Before {
            abort();
        }
        let ticket = self.inner.commit(commit);
        if when == When::Queued {
            abort();
        }
        let (acknowledge, unanswered) = Ticket::pending();
        tokio::spawn(async move {
            let _ = ticket.await;
            let _kept = acknowledge;
            abort();
        });
        unanswered
    }
}

/// Goes on with the thread's run, or starts it.
macro_rules! go_on {
    ($runtime:ident, $name:ident: $($entrypoint:ident)*) => {
        match $name.as_str() {
            $(stringify!($entrypoint) => {
                let thread = $runtime.thread("t").expect("a legal name");
                match thread.resume(named($entrypoint)).await {
                    Err(RunError::NothingToResume { .. }) => thread.invoke($entrypoint()).await,
                    outcome => outcome,
                }
            })*
            other => panic!("there is no flow {other}"),
        }
    };
}

fn named<A, F: EntrypointFn<A>>(entrypoint: F) -> F {
    entrypoint
}

fn run(mut arguments: impl Iterator<Item = String>) {
    let mut next = || arguments.next();
    let (folder, ledger, flow) = (next().expect("a folder"), next().expect("a ledger"), next().expect("a flow"));
    let at = next().map(|nth| {
        let when = match next().as_deref() {
            Some("before") => When::Before,
            Some("queued") => When::Queued,
            _ => When::After,
        };
        (nth.parse().expect("a number"), when)
    });
    let file = OpenOptions::new().append(true).create(true).open(ledger).expect("the ledger opens");
    let ledger = Arc::new(Ledger(file));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = tokio.expect("a tokio runtime").block_on(async {
        let inner = SledCheckpointer::open(folder).expect("the store opens");
        println!("open");
        let observer = Ledger(ledger.0.try_clone().expect("a file can be shared"));
        let runtime = Runtime::builder().resource(ledger.clone()).observer(observer).checkpointer(Deadly {
            inner,
            at,
            commits: AtomicUsize::new(0),
        });
        go_on!(runtime, flow: chain fan equal nested)
    });
    match outcome {
        Ok(Outcome::Completed(log)) => println!("{}", log.join(" ")),
        other => panic!("{other:?}"),
    }
}

fn main() {
    let mut arguments = env::args().skip(1);
    match arguments.next().as_deref() {
        Some("run") => run(arguments),
        Some("open") => {
            let store = SledCheckpointer::open(arguments.next().expect("a folder"));
            match &store {
                Ok(_) => println!("open"),
                Err(CheckpointError::Locked { .. }) => println!("locked"),
                Err(other) => println!("{other}"),
            }
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        other => panic!("run or open, not {other:?}"),
    }
}
