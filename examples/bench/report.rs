//! The figures: kept for the targets, and printed as they come.

use std::time::Duration;

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) workload: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) n: usize,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
}

pub(crate) struct Report {
    json: bool,
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        if !json {
            println!("{:<4} {:<22} {:>9} {:<34} {:>14} unit", "", "mode", "n", "metric", "value");
        }
        Self { json, figures: Vec::new() }
    }

    pub(crate) fn add(
        &mut self,
        (workload, mode, n): (&'static str, &'static str, usize),
        metric: &'static str,
        value: f64,
        unit: &'static str,
    ) {
        let figure = Figure { workload, mode, n, metric, value };
        if self.json {
            println!(
                r#"{{"workload":"{workload}","mode":"{mode}","n":{n},"metric":"{metric}","value":{value},"unit":"{unit}"}}"#
            );
        } else {
            println!("{workload:<4} {mode:<22} {n:>9} {metric:<34} {value:>14.3} {unit}");
        }
        self.figures.push(figure);
    }

    /// What is said beside the figures.
    pub(crate) fn say(&self, text: &str) {
        if !self.json {
            println!("{text}");
        }
    }

    /// A figure that was taken.
    pub(crate) fn of(&self, workload: &str, mode: &str, n: usize, metric: &str) -> Option<f64> {
        let found = self.figures.iter().find(|figure| {
            figure.workload == workload && figure.mode == mode && figure.n == n && figure.metric == metric
        });
        found.map(|figure| figure.value)
    }

    /// The sizes that a figure was taken at, in order.
    pub(crate) fn sizes(&self, workload: &str, mode: &str, metric: &str) -> Vec<usize> {
        let taken = self
            .figures
            .iter()
            .filter(|figure| figure.workload == workload && figure.mode == mode && figure.metric == metric);
        let mut sizes: Vec<usize> = taken.map(|figure| figure.n).collect();
        sizes.sort_unstable();
        sizes
    }
}

/// The middle one of several measurements.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which this share of the values is.
pub(crate) fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
    let place = (count(values.len()) * share) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
