//! Random flows, cut after every commit: what was recorded does not run again, and is seen again in the same order.
//!
//! `DURABLY_SEED` runs one case again, `DURABLY_SIZE` makes the tests so many times larger.

mod case;
mod dice;
mod flow;
mod lab;
mod make;
mod told;

use std::time::Duration;

use case::Case;
use dice::Dice;
use flow::Step;
use make::Kind;

/// How many prefixes each test drives by default.
const CUTS: usize = 6_000;

#[test]
fn any_flow_replays_from_every_prefix_of_its_journal() {
    check(Kind::Any);
}

#[test]
fn a_failed_flow_ends_well_once_it_is_mended() {
    check(Kind::Strict);
}

#[test]
fn any_flow_goes_on_from_a_fork_at_every_record() {
    check_all(Kind::Any, CUTS / 4, true);
}

fn check(kind: Kind) {
    check_all(kind, CUTS, false);
}

fn check_all(kind: Kind, enough: usize, forks: bool) {
    let (first, only) = dice::first_seed();
    let (mut cuts, mut seed) = (0, first);
    while cuts < enough * dice::size() {
        let flow = make::flow(&mut Dice::new(seed), kind);
        match try_case(&flow, (kind, forks), seed, Duration::from_secs(20)) {
            Ok(more) => cuts += more,
            Err(error) => {
                println!("DURABLY_SEED={seed} ({kind:?}): {error}\n  of {flow:?}");
                let (small, error) = shrunk(flow, error, (kind, forks), seed);
                panic!("DURABLY_SEED={seed} ({kind:?}): {error}\n  of the smaller flow {small:?}");
            }
        }
        if only {
            break;
        }
        seed = seed.wrapping_add(1);
    }
    println!("{cuts} cuts of {} flows from seed {first}", seed.wrapping_sub(first));
}

/// Runs a case on one thread, so that it is the same again from the same seed.
fn try_case(flow: &Step, (kind, forks): (Kind, bool), seed: u64, limit: Duration) -> Result<usize, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut case = Case::new(flow, kind, seed, limit);
    runtime.block_on(async { if forks { case.check_forks().await } else { case.check().await } })?;
    Ok(case.cuts)
}

/// Leaves out what is not needed for the case to fail.
fn shrunk(mut flow: Step, mut error: String, kind: (Kind, bool), seed: u64) -> (Step, String) {
    let mut tries = 3_000;
    'smaller: loop {
        for less in make::smaller(&flow) {
            for seed in seed..seed.wrapping_add(4) {
                if tries == 0 {
                    return (flow, error);
                }
                tries -= 1;
                if let Err(other) = try_case(&less, kind, seed, Duration::from_secs(1)) {
                    (flow, error) = (less, other);
                    continue 'smaller;
                }
            }
        }
        return (flow, error);
    }
}
