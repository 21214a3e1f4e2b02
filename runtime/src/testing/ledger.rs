//! What the bodies of a flow did to the outside, over all processes of a case: the fake receiver of its effects.

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{id::CallId, scope::Ambient};

/// How often an effect may happen, whatever crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EffectKind {
    /// It may happen again after a crash: reading, computing, writing the same again.
    AtLeastOnce,
    /// It may be lost, but never happens again.
    AtMostOnce,
    /// It happens exactly as often as without crashes.
    ExactlyOnce,
}

/// The effects of a flow, by name, over all processes of one case of [`explore`](super::explore()): what the outside saw.
///
/// It is a resource of the explored runtime: a task's body, or the fake of a service that it calls, writes down what it does.
///
/// ```
/// use durably::{resource, task, testing::Ledger};
///
/// #[task]
/// async fn charge(cents: u64) -> u64 {
///     // A receiver that does a request once if it comes with the same key again:
///     resource::<Ledger>().received("charge", durably::idempotency_key().as_deref());
///     cents
/// }
///
/// let ledger = Ledger::default();
/// ledger.received("charge", Some("order 42"));
/// ledger.received("charge", Some("order 42"));
/// assert_eq!(ledger.count("charge"), 1);
/// # let _ = charge;
/// ```
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    effects: BTreeMap<String, Effect>,
    outside: Option<String>,
    own: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    processes: u32,
}

/// What is known of one effect.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) kind: EffectKind,
    pub(super) count: u32,
    keys: BTreeSet<String>,
    /// How often it happened in each call, where it happened in one: by run and call; and in which attempts.
    pub(super) calls: BTreeMap<(u32, CallId), Vec<u32>>,
}

impl Ledger {
    /// An effect that may happen again after a crash.
    pub fn at_least_once(&self, effect: impl Into<String>) {
        self.note(effect.into(), EffectKind::AtLeastOnce);
    }

    /// An effect that must never happen again, and may be lost.
    pub fn at_most_once(&self, effect: impl Into<String>) {
        self.note(effect.into(), EffectKind::AtMostOnce);
    }

    /// An effect that must happen exactly as often as it does without crashes: a payment.
    pub fn exactly_once(&self, effect: impl Into<String>) {
        self.note(effect.into(), EffectKind::ExactlyOnce);
    }

    /// A request of a receiver that does a request once if it comes with the same key again: counted once for each key.
    /// Without a key it is as [`exactly_once`](Self::exactly_once).
    pub fn received(&self, effect: impl Into<String>, key: Option<&str>) {
        let effect = effect.into();
        let Some(key) = key else { return self.note(effect, EffectKind::ExactlyOnce) };
        let mut state = self.state();
        let entry = state.effects.entry(effect).or_insert_with(|| Effect::of(EffectKind::ExactlyOnce));
        if entry.keys.insert(key.to_owned()) {
            entry.count += 1;
        }
    }

    /// How often an effect happened.
    #[must_use]
    pub fn count(&self, effect: &str) -> u32 {
        self.state().effects.get(effect).map_or(0, |effect| effect.count)
    }

    /// All effects and how often each happened, in order of their names.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, u32> {
        self.state().effects.iter().map(|(name, effect)| (name.clone(), effect.count)).collect()
    }

    /// In the how-manieth process of the case the flow is, from 1; 0 outside of an exploration.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.state().processes
    }

    /// A thing of your own that lives as long as the case, over all its processes: a fake bank, a mailbox.
    #[must_use]
    pub fn own<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut state = self.state();
        let own = state.own.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // It is kept by its type.
        Arc::clone(own).downcast().unwrap_or_default()
    }

    pub(super) fn begin_process(&self) {
        self.state().processes += 1;
    }

    pub(super) fn effects(&self) -> BTreeMap<String, Effect> {
        self.state().effects.clone()
    }

    /// The first effect that came from an entrypoint's own code.
    pub(super) fn outside(&self) -> Option<String> {
        self.state().outside.clone()
    }

    /// Whether this call had any effect.
    pub(super) fn knows(&self, run: u32, call: CallId) -> bool {
        self.state().effects.values().any(|effect| effect.calls.contains_key(&(run, call)))
    }

    fn note(&self, name: String, kind: EffectKind) {
        let here = Ambient::current();
        let mut state = self.state();
        let call = match &here {
            Some(Ambient { run, body: Some((slot, attempt)), .. }) => {
                run.call_id(*slot).map(|id| ((run.no.get(), id), *attempt))
            }
            Some(Ambient { body: None, .. }) => {
                state.outside.get_or_insert_with(|| name.clone());
                None
            }
            None => None,
        };
        let effect = state.effects.entry(name).or_insert_with(|| Effect::of(kind));
        effect.count += 1;
        if let Some((call, attempt)) = call {
            effect.calls.entry(call).or_default().push(attempt);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Effect {
    fn of(kind: EffectKind) -> Self {
        Self { kind, count: 0, keys: BTreeSet::new(), calls: BTreeMap::new() }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ledger").field(&self.all()).finish()
    }
}

impl fmt::Display for EffectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeastOnce => "at least once",
            Self::AtMostOnce => "at most once",
            Self::ExactlyOnce => "exactly once",
        })
    }
}
