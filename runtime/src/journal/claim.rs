//! Claims: a call made by the code gets its identity, and what the journal has of it.

use super::{Call, CallKind, CallSketch, ClaimError, Family, Journal, NewCall, Order, Scope, Slot, Stage, call};
use crate::{id::CallId, output::Recorded};

impl Journal {
    /// Claims a call: fixes its identity, and finds what the journal has of it.
    pub(crate) fn claim(&mut self, scope: &Scope, new: NewCall) -> Result<Slot, ClaimError> {
        if !self.is_current(scope) {
            return Err(ClaimError::Stale);
        }
        let family = self.family(scope, &new)?;
        let digest = new.arguments.digest();
        let base = call::base(family, &digest);
        for passed in std::mem::take(&mut self.scopes.entry(scope.id).or_default().unpassed) {
            // And with it whatever failed within.
            self.restart_scope(call::body_scope_id(passed));
        }
        let state = self.scopes.entry(scope.id).or_default();
        let ordinal = state.ordinals.entry(base).or_default();
        let id = CallId { base, ordinal: *ordinal };
        *ordinal += 1;
        let NewCall { kind, name, arguments, location, .. } = new;
        let mut call = Call {
            id,
            kind,
            name,
            scope: *scope,
            digest,
            arguments,
            location,
            stage: Stage::Waiting,
            replayed: false,
            attempts: 0,
            next_ms: 0,
            loaded: self.loaded_calls.get(&id).copied(),
            asked: false,
            begun: false,
            cached: false,
            dropped: false,
            in_flight: false,
            answered: None,
        };
        let mut recorded = None;
        if let Some(loaded) = call.loaded {
            let entry = &self.loaded[loaded as usize];
            if entry.info.digest != call.digest || entry.info.name != call.name || entry.info.kind != call.kind {
                let pair = (CallSketch::from(&entry.info), CallSketch::from(&call.info(None, Vec::new())));
                return Err(ClaimError::Collision(Box::new(pair)));
            }
            (call.attempts, call.next_ms) = (entry.attempts, entry.next_ms);
            call.replayed = entry.outcome.is_some();
            (call.asked, call.begun) = (entry.asked, entry.begun);
            recorded = entry.outcome.as_ref().map(|(recorded, _)| recorded.clone());
        }
        if matches!(recorded.as_deref(), Some(Recorded::Failure(_))) {
            state.unseen.insert(id);
        }
        let waits = match (scope.order, &recorded) {
            (Order::AtOnce, Some(recorded)) => {
                call.stage = Stage::Released(recorded.clone());
                None
            }
            (Order::AtOnce, None) => {
                call.stage = Stage::Ready;
                None
            }
            (Order::Released(_), Some(_)) => None,
            (Order::Released(frame), None) if self.frames[frame.0 as usize].replaying == 0 => {
                call.stage = Stage::Ready;
                None
            }
            (Order::Released(frame), None) => Some(frame),
        };
        let loaded = call.loaded;
        if call.asked || call.kind == CallKind::Interrupt {
            for owner in self.owners(scope) {
                if let Some(owner) = self.calls.get_mut(owner) {
                    owner.asked = true;
                }
            }
        }
        let slot = self.calls.insert(call);
        if let Some(loaded) = loaded {
            let entry = &mut self.loaded[loaded as usize];
            (entry.claimed, entry.holder) = (true, Some(slot));
        }
        if let Some(frame) = waits {
            self.frames[frame.0 as usize].waiting.push(slot);
        }
        Ok(slot)
    }

    /// Whether the attempts of all bodies that this scope stands in are the ones that run.
    pub(crate) fn is_current(&self, scope: &Scope) -> bool {
        let mut scope = *scope;
        while let Some((owner, attempt)) = scope.owner {
            match self.calls.get(owner) {
                Some(call) if call.is_working(attempt) => scope = call.scope,
                _ => return false,
            }
        }
        true
    }

    /// The calls whose bodies this scope stands in, the innermost first.
    pub(crate) fn owners(&self, scope: &Scope) -> Vec<Slot> {
        let next = |owner: Option<(Slot, u32)>| owner.map(|(owner, _)| owner);
        std::iter::successors(next(scope.owner), |slot| next(self.calls.get(*slot)?.scope.owner)).collect()
    }

    /// Whether a body that this scope stands in is gone, so that the calls made there are about to go too.
    pub(crate) fn is_orphaned(&self, scope: &Scope) -> bool {
        let mut owner = scope.owner;
        while let Some((slot, _)) = owner {
            match self.calls.get(slot) {
                Some(call) => owner = call.scope.owner,
                None => return true,
            }
        }
        false
    }

    /// What calls of one name in a scope have in common. The last one is kept: loops call the same again.
    fn family(&mut self, scope: &Scope, new: &NewCall) -> Result<u128, ClaimError> {
        let known = self.scopes.entry(scope.id).or_default().family.as_ref();
        if let Some(family) = known
            && (family.kind, family.definition) == (new.kind, new.definition)
            && family.name == new.name
        {
            return Ok(family.id);
        }
        self.check_definition(new)?;
        let id = call::family(scope.id, new.kind, &new.name);
        let family = Family { kind: new.kind, name: new.name.clone(), definition: new.definition, id };
        self.scopes.entry(scope.id).or_default().family = Some(family);
        Ok(id)
    }

    fn check_definition(&mut self, new: &NewCall) -> Result<(), ClaimError> {
        let Some(second) = new.definition else { return Ok(()) };
        // Names are borrowed from the program almost always, so that this clones no string.
        let first = *self.definitions.entry((new.kind, new.name.clone())).or_insert(second);
        if first == second {
            return Ok(());
        }
        Err(ClaimError::TwoDefinitions { kind: new.kind, name: new.name.clone().into_owned(), first, second })
    }
}
