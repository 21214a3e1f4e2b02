//! What an entrypoint's code tells its readers: each telling is recorded once, and not told again on replay.

use super::{Emitted, Journal, Record, Scope, Then, call};
use crate::{id::CallId, value::Payload};

impl Journal {
    /// An entrypoint's code tells something; whether it is new. What was told before, in whatever process, is found by
    /// where it stands, what it is and how often the same was told there: nothing depends on when, so that code that
    /// tells more or other things than it did is no divergence.
    pub(crate) fn emit(&mut self, scope: &Scope, digest: &[u8; 32], value: Payload, at_ms: u64) -> bool {
        let base = call::told(scope.id, digest);
        let told = self.scopes.entry(scope.id).or_default().emits.entry(base).or_default();
        let id = CallId { base, ordinal: *told };
        *told += 1;
        if !self.emitted.insert(id) {
            return false;
        }
        let within = self.within(*scope);
        self.append(Record::Emitted(Emitted { id, within, value, at_ms }), Then::Nothing, false);
        true
    }
}
