//! What is wanted of the figures, as ratios of what was measured in the same run.

use crate::report::Report;

/// Says for each target whether the figures of this run meet it; one that was not measured is left out.
pub(crate) fn judge(report: &mut Report) {
    report.say("\ntarget                                                                     wanted       measured");
    for target in targets(report) {
        let Target { what, wanted, measured, met } = target;
        let verdict = if met { "met" } else { "MISSED" };
        report.say(&format!("{what:<72} {wanted:>9} {measured:>14.2}  {verdict}"));
    }
}

struct Target {
    what: String,
    wanted: String,
    measured: f64,
    met: bool,
}

fn targets(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut at_most = |what: &str, wanted: f64, measured: Option<f64>| {
        if let Some(measured) = measured {
            targets.push(Target {
                what: what.into(),
                wanted: format!("<= {wanted}"),
                measured,
                met: measured <= wanted,
            });
        }
    };
    let n = |workload: &str, mode: &str, metric: &str| report.sizes(workload, mode, metric);
    let last = |workload, mode, metric| {
        let n = *n(workload, mode, metric).last()?;
        report.of(workload, mode, n, metric)
    };
    let ratio = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
    // How much more a step takes at the largest size than at the smallest.
    let growth = |workload: &'static str, mode: &'static str, metric: &'static str| {
        let sizes = n(workload, mode, metric);
        let of = |n: usize| report.of(workload, mode, n, metric);
        let (first, last) = (sizes.first()?, sizes.last()?);
        if first == last { None } else { ratio(of(*last), of(*first)) }
    };
    let step = |mode| last("W1", mode, "a step");
    at_most("T1 W1, sync: times sled's own barrier", 1.3, ratio(step("sync"), step("sled alone")));
    at_most("T1 W1, sync: times append and sync", 4.0, ratio(step("sync"), step("append and sync")));
    at_most("T3 W3, memory: us a replayed step", 1.0, last("W3", "memory", "a replayed step"));
    at_most(
        "T3 W3, memory, in parallel: us a replayed step",
        1.0,
        last("W3", "memory, in parallel", "a replayed step"),
    );
    at_most("T3 W3, memory: growth", 1.3, growth("W3", "memory", "a replayed step"));
    at_most("T3 W3, sled: us a replayed step, with opening", 2.5, last("W3", "sled", "a replayed step, with opening"));
    at_most("T4 W4, join_all: growth", 1.3, growth("W4", "memory, join_all", "a step"));
    at_most("T4 W4, FuturesUnordered: growth", 1.3, growth("W4", "memory, unordered", "a step"));
    at_most("T4 W4, bounded: growth", 1.3, growth("W4", "memory, bounded(256)", "a step"));
    at_most("T5 W6, memory: us a step", 1.5, last("W6", "memory", "a step"));
    at_most("T5 W6, exit: us a step", 2.0, last("W6", "memory, exit", "a step"));
    at_most("T5 W6, memory: growth", 1.3, growth("W6", "memory", "a step"));
    at_most("T6 ms from start to first durable step", 15.0, last("W5", "sync", "process start to first durable step"));
    at_most("T6 MiB of memory", 20.0, last("W5", "sync", "peak memory"));
    at_most("T7 disk bytes a step", 900.0, last("W5", "sync", "disk bytes a step"));
    at_most("T8 s to open after a clean close", 2.0, last("W7", "sled", "open after a clean close"));
    at_most("T8 ms to resume one, p99", 5.0, last("W7", "sled", "resume one, p99"));
    at_most("T8 ms for a page by status", 5.0, last("W7", "sled", "a page of 100 by status"));
    let mut at_least = |what: &str, wanted: f64, measured: Option<f64>| {
        if let Some(measured) = measured {
            targets.push(Target {
                what: what.into(),
                wanted: format!(">= {wanted}"),
                measured,
                met: measured >= wanted,
            });
        }
    };
    let steps = |mode| last("W2", mode, "steps");
    at_least("T2 W2, sync: steps/s", 40_000.0, steps("sync"));
    at_least("T2 W2, sync: share of sled's own barrier", 0.7, ratio(steps("sync"), steps("sled alone")));
    at_least("T4 W4, sync, join_all: steps/s", 40_000.0, last("W4", "sync, join_all", "steps"));
    at_least("T4 W4, sync, FuturesUnordered: steps/s", 40_000.0, last("W4", "sync, FuturesUnordered", "steps"));
    targets
}
