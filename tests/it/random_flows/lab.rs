//! What the bodies of random flows work with: a ledger of what they did, a clock that needs no time, pauses by dice.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use durably::{CallId, CallKind, Clock, Event, Observer};

use super::dice::Dice;

/// What all processes of a case share; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Lab(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    dice: Dice,
    mended: bool,
    unique: u32,
    now_ms: u64,
    /// The calls of tasks whose bodies began since this was last asked.
    started: BTreeSet<CallId>,
    /// The call whose body is about to begin.
    starting: Option<CallId>,
    /// Which call has which idempotency key, over all processes.
    keys: BTreeMap<String, CallId>,
    wrong: Option<String>,
}

impl Lab {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            dice: Dice::new(seed),
            mended: false,
            unique: 0,
            now_ms: 1_000,
            started: BTreeSet::new(),
            starting: None,
            keys: BTreeMap::new(),
            wrong: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body begins.
    pub(super) fn begin(&self, tag: u32, key: &str) {
        let mut state = self.lock();
        let Some(id) = state.starting.take() else {
            state.wrong = Some(format!("the body of task {tag} began without being started"));
            return;
        };
        let known = *state.keys.entry(key.to_owned()).or_insert(id);
        if known != id {
            state.wrong = Some(format!("task {tag}: calls {known} and {id} have one idempotency key"));
        }
    }

    /// The calls of tasks whose bodies began since this was last asked.
    pub(super) fn take_started(&self) -> Result<BTreeSet<CallId>, String> {
        let mut state = self.lock();
        match state.wrong.take() {
            Some(wrong) => Err(wrong),
            None => Ok(std::mem::take(&mut state.started)),
        }
    }

    /// From now on no task fails by itself.
    pub(super) fn mend(&self, mended: bool) {
        self.lock().mended = mended;
    }

    pub(super) fn is_mended(&self) -> bool {
        self.lock().mended
    }

    pub(super) fn unique(&self) -> u32 {
        let mut state = self.lock();
        state.unique += 1;
        state.unique
    }

    pub(super) fn below(&self, bound: usize) -> usize {
        self.lock().dice.below(bound)
    }

    /// Lets others run for a while, or not.
    pub(super) fn pause(&self) -> impl Future<Output = ()> + Send + use<> {
        let turns = match self.below(8) {
            0..=2 => 0,
            3..=6 => self.below(4) + 1,
            _ => self.below(12) + 1,
        };
        async move {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        }
    }

    pub(super) fn set_clock(&self, moment: SystemTime) {
        let now_ms = millis(moment);
        let mut state = self.lock();
        state.now_ms = state.now_ms.max(now_ms);
    }
}

fn millis(moment: SystemTime) -> u64 {
    u64::try_from(moment.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

impl Clock for Lab {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.lock().now_ms)
    }

    fn sleep_until(&self, moment: SystemTime) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (lab, pause) = (self.clone(), self.pause());
        Box::pin(async move {
            pause.await;
            lab.set_clock(moment);
        })
    }
}

impl Observer for Lab {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Started { call, .. } = event
            && call.kind == CallKind::Task
        {
            let mut state = self.lock();
            state.started.insert(call.id);
            state.starting = Some(call.id);
        }
    }
}
