//! Random flows, and smaller ones that may fail in the same way.

use super::{
    dice::Dice,
    flow::{Call, Step},
};

/// What kinds of flows are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// With anything in them.
    Any,
    /// In which a failure ends the run at once, so that the mended run must end well.
    Strict,
}

/// How large a flow gets.
const CALLS: usize = 14;
const DEPTH: usize = 4;

/// Makes a flow.
pub(super) fn flow(dice: &mut Dice, kind: Kind) -> Step {
    let left = dice.below(CALLS) + 2;
    let mut maker = Maker { dice, kind, left, tag: 0, in_body: false };
    let mut steps = Vec::new();
    while maker.left > 0 {
        steps.push(maker.step(DEPTH));
    }
    Step::Seq(steps)
}

struct Maker<'a> {
    dice: &'a mut Dice,
    kind: Kind,
    left: usize,
    tag: u32,
    in_body: bool,
}

impl Maker<'_> {
    fn step(&mut self, depth: usize) -> Step {
        let leaf = depth == 0 || self.left < 2 || self.dice.one_in(3);
        let (strict, roll) = (self.kind == Kind::Strict, self.dice.below(if leaf { 16 } else { 13 }));
        if leaf {
            self.left = self.left.saturating_sub(1);
            return match roll {
                7 | 8 if !strict => Step::Handled(self.call(depth)),
                9 if !strict => Step::Detached(Call { retried: false, spawned: false, ..self.call(0) }),
                10 if !strict => Step::Equal(self.call(0), self.dice.below(3) + 2),
                11 => Step::Now,
                12 => [Step::Random, Step::Patched][self.dice.below(2)].clone(),
                13 => Step::Sleep([0, 3, 100_000][self.dice.below(3)]),
                5 | 15 => Step::Tell(u32::try_from(self.dice.below(4)).unwrap()),
                14 => Step::Ask(u32::try_from(self.dice.below(3)).unwrap()),
                _ => Step::Task(self.call(depth)),
            };
        }
        let depth = depth - 1;
        match roll {
            0 if !strict => Step::Join(self.some(depth)),
            0..=2 => Step::TryJoin(self.some(depth)),
            3 | 4 => Step::Select(self.pairs(depth)),
            5 | 6 => Step::Unordered(self.pairs(depth)),
            7 => Step::Buffered(self.dice.below(3) + 1, self.some(depth)),
            8 => Step::Bounded(self.dice.below(3) + 1, self.some(depth)),
            9 => Step::Gate(self.dice.below(2) + 1, self.some(depth)),
            10 => Step::Channel(self.some(depth), Box::new(self.step(depth))),
            11 => Step::Nested(Box::new(self.sequence(depth))),
            _ => Step::Branch(u8::try_from(self.dice.below(2)).unwrap(), Box::new(self.sequence(depth))),
        }
    }

    fn some(&mut self, depth: usize) -> Vec<Step> {
        (0..self.dice.below(3) + 2).map(|_| self.step(depth)).collect()
    }

    fn sequence(&mut self, depth: usize) -> Step {
        Step::Seq((0..=self.dice.below(3)).map(|_| self.step(depth)).collect())
    }

    fn pairs(&mut self, depth: usize) -> Vec<(Step, Step)> {
        (0..self.dice.below(3) + 2)
            .map(|_| {
                let then = if self.dice.one_in(2) { Step::Seq(Vec::new()) } else { self.step(depth) };
                (self.step(depth), then)
            })
            .collect()
    }

    fn call(&mut self, depth: usize) -> Call {
        self.tag += 1;
        let tag = self.tag;
        let inner = depth > 0 && self.left > 0 && self.dice.one_in(5);
        let before = self.in_body;
        self.in_body = true;
        let inner = inner.then(|| Box::new(self.step(depth - 1)));
        self.in_body = before;
        let fails = if self.dice.one_in(10) { u32::try_from(self.dice.below(4)).unwrap() } else { 0 };
        Call { tag, inner, fails, retried: self.dice.one_in(4), spawned: self.dice.one_in(4) }
    }
}

/// All flows that are one cut smaller.
pub(super) fn smaller(step: &Step) -> Vec<Step> {
    let mut out: Vec<Step> = children(step).into_iter().cloned().collect();
    if *step != Step::Seq(Vec::new()) {
        out.push(Step::Seq(Vec::new()));
    }
    let parts = |steps: &[Step], make: &dyn Fn(Vec<Step>) -> Step, out: &mut Vec<Step>| {
        for place in 0..steps.len() {
            let mut fewer = steps.to_vec();
            fewer.remove(place);
            out.push(make(fewer));
            for less in smaller(&steps[place]) {
                let mut changed = steps.to_vec();
                changed[place] = less;
                out.push(make(changed));
            }
        }
    };
    let pairs = |branches: &[(Step, Step)], make: &dyn Fn(Vec<(Step, Step)>) -> Step, out: &mut Vec<Step>| {
        for place in 0..branches.len() {
            let mut fewer = branches.to_vec();
            if fewer.len() > 1 {
                fewer.remove(place);
                out.push(make(fewer));
            }
            for less in smaller(&branches[place].0) {
                let mut changed = branches.to_vec();
                changed[place].0 = less;
                out.push(make(changed));
            }
            for less in smaller(&branches[place].1) {
                let mut changed = branches.to_vec();
                changed[place].1 = less;
                out.push(make(changed));
            }
        }
    };
    let calls = |call: &Call, make: &dyn Fn(Call) -> Step, out: &mut Vec<Step>| {
        if let Some(inner) = &call.inner {
            out.push(make(Call { inner: None, ..call.clone() }));
            out.extend(
                smaller(inner).into_iter().map(|less| make(Call { inner: Some(Box::new(less)), ..call.clone() })),
            );
        }
        if call.fails > 0 {
            out.push(make(Call { fails: 0, ..call.clone() }));
        }
        if call.retried {
            out.push(make(Call { retried: false, ..call.clone() }));
        }
        if call.spawned {
            out.push(make(Call { spawned: false, ..call.clone() }));
        }
    };
    match step {
        Step::Seq(steps) => parts(steps, &Step::Seq, &mut out),
        Step::Join(steps) => parts(steps, &Step::Join, &mut out),
        Step::TryJoin(steps) => parts(steps, &Step::TryJoin, &mut out),
        Step::Buffered(limit, steps) => parts(steps, &|steps| Step::Buffered(*limit, steps), &mut out),
        Step::Bounded(limit, steps) => parts(steps, &|steps| Step::Bounded(*limit, steps), &mut out),
        Step::Gate(limit, steps) => parts(steps, &|steps| Step::Gate(*limit, steps), &mut out),
        Step::Channel(steps, after) => {
            parts(steps, &|steps| Step::Channel(steps, after.clone()), &mut out);
            out.extend(smaller(after).into_iter().map(|less| Step::Channel(steps.clone(), Box::new(less))));
        }
        Step::Select(branches) => pairs(branches, &Step::Select, &mut out),
        Step::Unordered(branches) => pairs(branches, &Step::Unordered, &mut out),
        Step::Nested(inner) => out.extend(smaller(inner).into_iter().map(|less| Step::Nested(Box::new(less)))),
        Step::Branch(name, inner) => {
            out.extend(smaller(inner).into_iter().map(|less| Step::Branch(*name, Box::new(less))));
        }
        Step::Task(call) => calls(call, &Step::Task, &mut out),
        Step::Handled(call) => calls(call, &Step::Handled, &mut out),
        Step::Detached(call) => calls(call, &Step::Detached, &mut out),
        Step::Equal(call, times) => calls(call, &|call| Step::Equal(call, *times), &mut out),
        Step::Now | Step::Random | Step::Patched | Step::Sleep(_) | Step::Ask(_) | Step::Tell(_) => {}
    }
    out
}

/// The steps directly within a step.
pub(super) fn children(step: &Step) -> Vec<&Step> {
    match step {
        Step::Seq(steps)
        | Step::Join(steps)
        | Step::TryJoin(steps)
        | Step::Buffered(_, steps)
        | Step::Bounded(_, steps)
        | Step::Gate(_, steps) => steps.iter().collect(),
        Step::Select(branches) | Step::Unordered(branches) => {
            branches.iter().flat_map(|(step, then)| [step, then]).collect()
        }
        Step::Channel(steps, after) => steps.iter().chain([&**after]).collect(),
        Step::Nested(inner) | Step::Branch(_, inner) => vec![inner],
        Step::Task(call) | Step::Handled(call) | Step::Detached(call) | Step::Equal(call, _) => {
            call.inner.as_deref().into_iter().collect()
        }
        Step::Now | Step::Random | Step::Patched | Step::Sleep(_) | Step::Ask(_) | Step::Tell(_) => Vec::new(),
    }
}
