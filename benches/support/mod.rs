//! What the container's benches share: sides interleaved in one process, medians, bars as JSON.

use std::time::{Duration, Instant};

/// A ratio or size, and the limit it is held to.
pub(crate) struct Bar {
    name: String,
    value: f64,
    limit: f64,
}

impl Bar {
    /// A bar that is met at `limit` or below.
    pub(crate) fn at_most(name: impl Into<String>, value: f64, limit: f64) -> Self {
        Self { name: name.into(), value, limit }
    }
}

#[allow(dead_code, reason = "each bench takes what it needs")]
/// Whether `--quick` was given: one small iteration, nothing judged.
pub(crate) fn quick() -> bool {
    std::env::args().any(|arg| arg == "--quick")
}

#[allow(dead_code, reason = "each bench takes what it needs")]
/// Runs the sides in turn, `rounds` times, and returns each side's median time. Every round starts
/// with another side, so that none always follows the same one.
pub(crate) fn medians(rounds: usize, sides: &mut [&mut dyn FnMut()]) -> Vec<Duration> {
    let count = sides.len();
    let mut times = vec![Vec::with_capacity(rounds); count];
    for round in 0..rounds {
        for step in 0..count {
            let side = (round + step) % count;
            let start = Instant::now();
            sides[side]();
            times[side].push(start.elapsed());
        }
    }
    times
        .into_iter()
        .map(|mut side| {
            side.sort_unstable();
            side[side.len() / 2]
        })
        .collect()
}

#[allow(dead_code, reason = "each bench takes what it needs")]
/// The value in the middle; not a number of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the last line: all bars as JSON.
pub(crate) fn report(bench: &str, bars: &[Bar]) {
    let bars: Vec<_> = bars
        .iter()
        .map(|bar| {
            serde_json::json!({
                "name": bar.name,
                "value": (bar.value * 10_000.0).round() / 10_000.0,
                "limit": bar.limit,
                "ok": bar.value <= bar.limit,
            })
        })
        .collect();
    println!("{}", serde_json::json!({ "bench": bench, "bars": bars }));
}
