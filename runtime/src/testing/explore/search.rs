//! Which cases are tried, in which order, and what is held against each.

use std::collections::BTreeMap;

use super::{
    Explore, ExploreError, Explored, Finding, Lived,
    case::{Case, Crash},
    checked,
    orders::following,
    process::End,
};
use crate::{
    Definition, Durability,
    testing::{EffectKind, Ledger, ledger::Effect},
};

/// How many orders are gone through with crashes in them.
const ORDERS_WITH_CRASHES: usize = 6;

/// How many simpler cases are tried after a failing one was found.
const SIMPLER: usize = 64;

/// What the flow does without faults.
struct Oracle {
    end: End,
    effects: BTreeMap<String, Effect>,
}

impl<D: Definition> Explore<'_, D> {
    pub(super) fn search(&self) -> Result<Explored, Box<ExploreError>> {
        let mut explored = Explored::default();
        let (oracle, first) = self.oracle(&mut explored)?;
        if let Some(only) = &self.only {
            let case = only
                .parse::<Case>()
                .map_err(|why| Box::new(ExploreError::of(&Case::plain(Durability::Sync), Finding::NoSuchCase(why))))?;
            self.tried(&oracle, &case, &mut explored)?;
            return Ok(explored);
        }
        let mut seconds = Vec::new();
        let mut singles: Vec<Case> = Vec::new();
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            let plain = Case::plain(durability);
            let lived = match durability {
                Durability::Sync => None,
                _ => Some(self.tried(&oracle, &plain, &mut explored)?),
            };
            let life = lived.as_ref().map_or(&first.lives[0], |lived| &lived.lives[0]);
            singles.extend(crashes(life.commits, life.polls).into_iter().map(|crash| plain.with(crash)));
        }
        for case in drawn(singles, self.cases) {
            let lived = self.tried(&oracle, &case, &mut explored)?;
            if let [_, second, ..] = lived.lives.as_slice() {
                seconds.push((case, second.commits, second.polls));
            }
        }
        self.orders_of(&oracle, &mut explored)?;
        let pairs: Vec<Case> = seconds
            .into_iter()
            .flat_map(|(case, commits, polls)| crashes(commits, polls).into_iter().map(move |crash| case.with(crash)))
            .collect();
        for case in drawn(pairs, self.pairs) {
            self.tried(&oracle, &case, &mut explored)?;
        }
        Ok(explored)
    }

    /// Runs the flow without faults, twice.
    fn oracle(&self, explored: &mut Explored) -> Result<(Oracle, Lived), Box<ExploreError>> {
        let plain = Case::plain(Durability::Sync);
        let mut ends = Vec::new();
        let mut first = None;
        for _ in 0..2 {
            let lived = self.lived(&plain, false, explored);
            let end = match &lived.came {
                Ok(end) => end.clone(),
                Err(finding) => return Err(self.told(&plain, finding.clone(), explored)),
            };
            let oracle = Oracle { end: end.clone(), effects: lived.ledger.effects() };
            self.held_against(&oracle, &plain, &lived).map_err(|finding| self.told(&plain, finding, explored))?;
            ends.push(end);
            first.get_or_insert((oracle, lived));
        }
        if self.flow.compares_outcomes && ends[0] != ends[1] {
            let finding = Finding::NotRepeatable { first: ends[0].told(), second: ends[1].told() };
            return Err(self.told(&plain, finding, explored));
        }
        Ok(first.expect("it was run"))
    }

    /// Tries orders in which bodies end: all, or as many as are wanted; then crashes in some of them.
    fn orders_of(&self, oracle: &Oracle, explored: &mut Explored) -> Result<(), Box<ExploreError>> {
        let plain = Case::plain(Durability::Sync);
        let mut tried = Vec::new();
        let mut next = (self.orders > 0).then(Vec::new);
        let mut chance = self.seed;
        let mut all = true;
        while let Some(order) = next.take() {
            let lived = self.tried(oracle, &plain.ordered(order), explored)?;
            let life = &lived.lives[0];
            explored.orders += 1;
            let made: Vec<usize> = life.made.iter().map(|(choice, _)| *choice).collect();
            tried.push((made, life.commits));
            next = following(&life.made);
            if next.is_some() && tried.len() >= self.orders {
                (all, next) = (false, None);
            } else if next.is_some() && tried.len() >= self.orders.div_ceil(2) {
                // There may be many more: what is left is drawn from everywhere.
                all = false;
                next = Some((0..life.made.len() + 4).map(|_| number(&mut chance)).collect());
            }
        }
        explored.all_orders = all;
        let step = tried.len().div_ceil(ORDERS_WITH_CRASHES).max(1);
        let mut cases = Vec::new();
        // The first one is the order in which the bodies come by themselves, more or less.
        for (order, commits) in tried.into_iter().skip(1).step_by(step) {
            let ordered = plain.ordered(order);
            for nth in 1..=commits {
                cases.extend([Crash::Before(nth), Crash::After(nth)].map(|crash| ordered.with(crash)));
            }
        }
        for case in drawn(cases, self.cases) {
            self.tried(oracle, &case, explored)?;
        }
        Ok(())
    }

    /// Lives a case, and holds it against the oracle.
    fn tried(&self, oracle: &Oracle, case: &Case, explored: &mut Explored) -> Result<Lived, Box<ExploreError>> {
        let lived = self.lived(case, false, explored);
        match self.held_against(oracle, case, &lived) {
            Ok(()) => Ok(lived),
            Err(finding) => Err(self.simplest(oracle, case.clone(), finding, explored)),
        }
    }

    fn lived(&self, case: &Case, keeps_journal: bool, explored: &mut Explored) -> Lived {
        let lived = self.flow.case(case, keeps_journal);
        explored.cases += 1;
        explored.processes += lived.lives.len();
        explored.crashes += case.crashes.len() - lived.unreached.min(case.crashes.len());
        lived
    }

    /// What a case shows that must not be.
    fn held_against(&self, oracle: &Oracle, case: &Case, lived: &Lived) -> Result<(), Finding> {
        if let Some(effect) = lived.ledger.outside() {
            return Err(Finding::OutsideOfTask { effect });
        }
        let end = lived.came.clone()?;
        if self.flow.compares_outcomes && end != oracle.end {
            return Err(Finding::Outcome { expected: oracle.end.told(), found: end.told() });
        }
        let crashes = u32::try_from(case.crashes.len()).unwrap_or(u32::MAX);
        check_effects(oracle, &lived.ledger, crashes, self.flow.compares_outcomes)?;
        match &self.flow.check {
            Some(check) => checked::<D>(check, &end, &lived.ledger),
            None => Ok(()),
        }
    }

    /// Leaves out of a failing case what it does not need to fail.
    fn simplest(
        &self,
        oracle: &Oracle,
        mut case: Case,
        mut finding: Finding,
        explored: &Explored,
    ) -> Box<ExploreError> {
        let mut left = SIMPLER;
        'simpler: loop {
            for simpler in case.simpler() {
                if left == 0 {
                    break 'simpler;
                }
                left -= 1;
                if let Err(other) = self.held_against(oracle, &simpler, &self.flow.case(&simpler, false)) {
                    (case, finding) = (simpler, other);
                    continue 'simpler;
                }
            }
            break;
        }
        self.told(&case, finding, explored)
    }

    /// A failing case, with what happened in it.
    fn told(&self, case: &Case, finding: Finding, explored: &Explored) -> Box<ExploreError> {
        let mut error = ExploreError::of(case, finding);
        let lived = self.flow.case(case, true);
        error.journal = lived.journal;
        error.steps = case.crashes.iter().map(|crash| crash.told()).collect();
        if !error.steps.is_empty() {
            error.steps.push("then the run goes on to its end".to_owned());
        }
        let effects = lived.ledger.all();
        if !effects.is_empty() {
            let counts: Vec<String> = effects.iter().map(|(effect, count)| format!("{effect} {count}")).collect();
            error.steps.push(format!("the ledger: {}", counts.join(", ")));
        }
        error.explored = *explored;
        Box::new(error)
    }
}

/// All single crashes of a process that commits and is polled so often.
fn crashes(commits: u64, polls: u64) -> Vec<Crash> {
    let at_commit = |nth| [Crash::Before(nth), Crash::After(nth), Crash::Held(nth), Crash::Fenced(nth)];
    let at_poll = |nth| [Crash::Killed(nth), Crash::Dropped(nth)];
    // The simplest come first: the first that fails is told of.
    (1..=commits).flat_map(at_commit).chain((1..=polls).flat_map(at_poll)).collect()
}

/// So many at most, evenly drawn.
fn drawn(cases: Vec<Case>, most: usize) -> Vec<Case> {
    if most == 0 {
        return Vec::new();
    }
    let (all, most) = (cases.len(), most.min(cases.len()));
    let mut taken = 0;
    let wanted = |place: usize| {
        // Every all/most-th, spread over the whole.
        let wanted = (place + 1) * most / all > taken;
        taken += usize::from(wanted);
        wanted
    };
    let mut wanted = wanted;
    cases.into_iter().enumerate().filter(|(place, _)| wanted(*place)).map(|(_, case)| case).collect()
}

/// Whether each effect happened as often as its kind allows.
fn check_effects(oracle: &Oracle, ledger: &Ledger, crashes: u32, strictly: bool) -> Result<(), Finding> {
    let effects = ledger.effects();
    for (name, effect) in &effects {
        if effect.kind == EffectKind::AtLeastOnce {
            continue;
        }
        // Once for each call, whatever it is retried for.
        if let Some(attempts) = effect
            .calls
            .values()
            .find(|attempts| attempts.len() > 1 && attempts.windows(2).all(|pair| pair[0] < pair[1]))
        {
            return Err(Finding::RepeatedByRetry { effect: name.clone(), attempts: attempts.clone() });
        }
        if let Some(attempts) = effect.calls.values().find(|attempts| attempts.len() > 1) {
            let found = effect.count;
            let expected = found - u32::try_from(attempts.len()).unwrap_or(1) + 1;
            return Err(Finding::Effect { effect: name.clone(), kind: effect.kind, expected, found });
        }
    }
    if !strictly {
        return Ok(());
    }
    let names: std::collections::BTreeSet<&String> = oracle.effects.keys().chain(effects.keys()).collect();
    for name in names {
        let expected = oracle.effects.get(name).map_or(0, |effect| effect.count);
        let found = effects.get(name).map_or(0, |effect| effect.count);
        let known = effects.get(name).or_else(|| oracle.effects.get(name)).expect("it is named by one of them");
        let holds = match known.kind {
            // Each process may begin anew what the one before had not recorded, and in a lazy mode that is everything.
            EffectKind::AtLeastOnce => found >= expected && found <= expected.saturating_mul(crashes.saturating_add(1)),
            EffectKind::AtMostOnce => found <= expected,
            EffectKind::ExactlyOnce => found == expected,
        };
        if !holds {
            return Err(Finding::Effect { effect: name.clone(), kind: known.kind, expected, found });
        }
    }
    Ok(())
}

/// The next of a row of seeded numbers (splitmix64).
fn number(seed: &mut u64) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *seed;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((word ^ (word >> 31)) >> 33).unwrap_or_default()
}
