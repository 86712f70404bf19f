//! The stored sizes of one map output's partitions.

use super::size_code::{decode_size, decode_sum, encode_size, is_bounded};
use crate::codec::to_u64;

/// Partitions above which outliers get exact entries, and a status stores its empty partitions as a bitmap.
pub const SWITCH_OVER: usize = 2000;

/// Sizes above so many times the median are outliers.
const SKEW: u64 = 5;

/// One in so many partitions may be an outlier with an exact entry.
const OUTLIERS: usize = 100;

/// Stored bytes of each partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockSizes {
    /// One code per partition, and exact sizes of some partitions, ascending.
    Coded {
        /// The codes, see [`encode_size`].
        codes: Vec<u8>,
        /// Partition and size.
        exact: Vec<(u32, u64)>,
    },
    /// The sizes as they are.
    Exact(Vec<u64>),
}

impl BlockSizes {
    /// The code form of `sizes`, with exact entries where a code would say too little.
    #[must_use]
    pub fn coded(sizes: &[u64]) -> Self {
        let codes: Vec<u8> = sizes.iter().map(|&size| encode_size(size)).collect();
        let mut exact = Vec::new();
        let unbounded = codes.contains(&u8::MAX);
        if unbounded || sizes.len() > SWITCH_OVER {
            let floor = if sizes.len() > SWITCH_OVER { outlier_floor(sizes) } else { u64::MAX };
            let kept = |(partition, &size): (usize, &u64)| {
                let wanted = size > floor || !is_bounded(size);
                wanted.then(|| Some((u32::try_from(partition).ok()?, size))).flatten()
            };
            exact = sizes.iter().enumerate().filter_map(kept).collect();
        }
        Self::Coded { codes, exact }
    }

    /// Partitions.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Coded { codes, .. } => codes.len(),
            Self::Exact(sizes) => sizes.len(),
        }
    }

    /// Whether there are no partitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of a partition: never below the true one, 0 only where that is 0. `None` for a partition that does not
    /// exist.
    #[must_use]
    pub fn get(&self, partition: usize) -> Option<u64> {
        match self {
            Self::Coded { codes, exact } => {
                let code = *codes.get(partition)?;
                let key = u32::try_from(partition).ok()?;
                let entry = exact.binary_search_by_key(&key, |entry| entry.0).ok();
                let exact = entry.and_then(|entry| exact.get(entry)).map(|entry| entry.1);
                Some(exact.unwrap_or_else(|| decode_size(code)))
            }
            Self::Exact(sizes) => sizes.get(partition).copied(),
        }
    }

    /// The sizes of all partitions.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u64> {
        match self {
            Self::Coded { codes, exact } => {
                let mut sizes: Vec<u64> = codes.iter().map(|&code| decode_size(code)).collect();
                for &(partition, size) in exact {
                    let slot = usize::try_from(partition).ok().and_then(|at| sizes.get_mut(at));
                    if let Some(slot) = slot {
                        *slot = size;
                    }
                }
                sizes
            }
            Self::Exact(sizes) => sizes.clone(),
        }
    }

    /// Sum of all sizes; an upper bound in code form.
    #[must_use]
    pub fn total(&self) -> u64 {
        match self {
            Self::Coded { codes, exact } if exact.is_empty() => decode_sum(codes),
            other => other.to_vec().iter().fold(0, |sum: u64, &size| sum.saturating_add(size)),
        }
    }
}

/// The size above which an outlier has an exact entry: 5 times the median of the blocks that have bytes, or more
/// where that would be too many entries.
fn outlier_floor(sizes: &[u64]) -> u64 {
    let mut filled: Vec<u64> = sizes.iter().copied().filter(|&size| size > 0).collect();
    if filled.is_empty() {
        return u64::MAX;
    }
    let middle = filled.len() / 2;
    let (_, median, _) = filled.select_nth_unstable(middle);
    let floor = median.saturating_mul(SKEW);
    let mut outliers: Vec<u64> = filled.into_iter().filter(|&size| size > floor).collect();
    let most = sizes.len() / OUTLIERS;
    if outliers.len() <= most {
        return floor;
    }
    // The largest that is left out is the floor: of sizes equal to it none is kept.
    let (_, floor, _) = outliers.select_nth_unstable_by(most, |a, b| b.cmp(a));
    *floor
}

/// Bytes of code form that statuses of a table have in common.
pub(super) fn exact_entries(sizes: &BlockSizes) -> &[(u32, u64)] {
    match sizes {
        BlockSizes::Coded { exact, .. } => exact,
        BlockSizes::Exact(_) => &[],
    }
}

/// Whether exact entries are ascending, exist, and agree with their codes.
pub(super) fn entry_agrees(codes: &[u8], partition: u32, size: u64) -> bool {
    let code = usize::try_from(partition).ok().and_then(|partition| codes.get(partition));
    code.is_some_and(|&code| code == encode_size(size))
}

/// Codes of 255 that have no exact entry.
pub(super) fn unbounded_without_entry(codes: &[u8], exact: &[(u32, u64)]) -> u64 {
    let unbounded = codes.iter().filter(|&&code| code == u8::MAX).count();
    let entries = exact.iter().filter(|(_, size)| !is_bounded(*size)).count();
    to_u64(unbounded.saturating_sub(entries))
}
