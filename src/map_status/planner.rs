//! What an adaptive planner asks of statuses.

use std::ops::Range;

use super::status::MapStatus;
use crate::error::{IFileError, Result};

/// Bytes and rows of each partition, over all map outputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionTotals {
    /// Stored bytes; upper bounds where statuses have codes.
    pub bytes: Vec<u64>,
    /// Rows, where every status has them.
    pub rows: Option<Vec<u64>>,
}

impl PartitionTotals {
    /// The totals of `statuses`, which have the same partitions.
    ///
    /// # Errors
    /// [`IFileError::Usage`] if they have not.
    pub fn of<'a>(statuses: impl IntoIterator<Item = &'a MapStatus>) -> Result<Self> {
        let mut totals: Option<Self> = None;
        for status in statuses {
            let (bytes, rows) = (status.sizes.to_vec(), &status.columns.rows);
            let Some(sum) = &mut totals else {
                totals = Some(Self { bytes, rows: rows.clone() });
                continue;
            };
            if sum.bytes.len() != bytes.len() {
                return Err(IFileError::Usage("total statuses of different partition counts"));
            }
            add(&mut sum.bytes, &bytes);
            match (&mut sum.rows, rows) {
                (Some(sum), Some(rows)) => add(sum, rows),
                (sum, _) => *sum = None,
            }
        }
        Ok(totals.unwrap_or_default())
    }
}

fn add(sums: &mut [u64], values: &[u64]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(*value);
    }
}

/// Joins neighbouring partitions, in their order, to groups of at most `target` bytes; a partition that is larger has a
/// group of its own. Every partition is in exactly one group.
#[must_use]
pub fn coalesce(bytes: &[u64], target: u64) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut held = 0_u64;
    for (partition, &size) in bytes.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if held.saturating_add(size) <= target => {
                group.end = partition + 1;
                held = held.saturating_add(size);
            }
            _ => {
                groups.push(partition..partition + 1);
                held = size;
            }
        }
    }
    groups
}

/// Partitions larger than `factor` times the median and than `least` bytes.
#[must_use]
pub fn skewed(bytes: &[u64], factor: u64, least: u64) -> Vec<usize> {
    let mut sorted = bytes.to_vec();
    let middle = sorted.len() / 2;
    if sorted.is_empty() {
        return Vec::new();
    }
    let (_, median, _) = sorted.select_nth_unstable(middle);
    let floor = median.saturating_mul(factor).max(least);
    let large = |(partition, &size): (usize, &u64)| (size > floor).then_some(partition);
    bytes.iter().enumerate().filter_map(large).collect()
}

/// Map outputs of one partition that a reader takes, by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapRange {
    /// Positions among the map outputs.
    pub maps: Range<usize>,
    /// Their bytes.
    pub bytes: u64,
}

/// Splits a skewed partition among readers, by its size in each map output: ranges of about `target` bytes. A rest of less
/// than a fifth of the target joins the range before. Every map output is in exactly one range.
#[must_use]
pub fn split(sizes: &[u64], target: u64) -> Vec<MapRange> {
    let mut ranges: Vec<MapRange> = Vec::new();
    for group in coalesce(sizes, target) {
        let bytes = sizes.iter().take(group.end).skip(group.start);
        let bytes = bytes.fold(0_u64, |sum, size| sum.saturating_add(*size));
        match ranges.last_mut() {
            Some(last) if bytes < target / 5 => {
                last.maps.end = group.end;
                last.bytes = last.bytes.saturating_add(bytes);
            }
            _ => ranges.push(MapRange { maps: group, bytes }),
        }
    }
    ranges
}
