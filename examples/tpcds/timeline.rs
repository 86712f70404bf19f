//! What one run held, wrote and gave over time.

use std::sync::{Arc, OnceLock};

use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use crate::child::{is_exchange, metric};
use crate::pool::PeakPool;

/// Points that are kept of a run, however long it took.
const POINTS: usize = 240;

/// One look at a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Since the start of the run.
    pub(crate) seconds: f64,
    /// Reserved in the memory pool.
    pub(crate) reserved_bytes: u64,
    /// Blocks that the files of the spill directory take.
    pub(crate) scratch_bytes: u64,
    /// Rows that have left the exchanges.
    pub(crate) rows: u64,
    /// Spills of the exchanges so far.
    pub(crate) spills: u64,
}

/// What the sampler asks besides the file system.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) pool: Arc<PeakPool>,
    /// Set when the query is planned.
    pub(crate) plan: Arc<OnceLock<Arc<dyn ExecutionPlan>>>,
}

impl Watch {
    pub(crate) fn look(&self, seconds: f64, scratch_bytes: u64) -> Point {
        let reserved_bytes = u64::try_from(self.pool.reserved_bytes()).unwrap_or(u64::MAX);
        let mut point = Point { seconds, reserved_bytes, scratch_bytes, ..Point::default() };
        if let Some(plan) = self.plan.get() {
            add_exchanges(plan.as_ref(), &mut point);
        }
        point
    }
}

fn add_exchanges(plan: &dyn ExecutionPlan, point: &mut Point) {
    if is_exchange(plan) {
        let metrics = plan.metrics().unwrap_or_default();
        point.rows += metric(&metrics, "output_rows").unwrap_or(0);
        point.spills += metric(&metrics, "spill_count").unwrap_or(0);
    }
    for child in plan.children() {
        add_exchanges(child.as_ref(), point);
    }
}

/// Keeps the peaks of memory and scratch, and the latest of what only grows.
pub(crate) fn thin(points: &[Point]) -> Vec<Point> {
    let size = points.len().div_ceil(POINTS).max(1);
    let join = |bucket: &[Point]| {
        bucket.iter().copied().reduce(|one, next| Point {
            reserved_bytes: one.reserved_bytes.max(next.reserved_bytes),
            scratch_bytes: one.scratch_bytes.max(next.scratch_bytes),
            ..next
        })
    };
    points.chunks(size).filter_map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_and_the_end() {
        let point = |number: u32| Point {
            seconds: f64::from(number),
            reserved_bytes: if number == 500 { 99 } else { 1 },
            rows: u64::from(number),
            ..Point::default()
        };
        let points: Vec<Point> = (0..1_000).map(point).collect();
        let thin = thin(&points);
        assert!(thin.len() <= POINTS);
        assert_eq!(thin.iter().map(|point| point.reserved_bytes).max(), Some(99));
        assert_eq!(thin.last().map(|point| (point.rows, point.seconds)), Some((999, 999.0)));
    }

    #[test]
    fn short_runs_stay_as_they_are() {
        let points = [Point::default(), Point { rows: 7, ..Point::default() }];
        assert_eq!(thin(&points), points);
        assert!(thin(&[]).is_empty());
    }
}
