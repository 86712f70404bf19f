//! Upper bounds of a segment's raw length, from counts that are known before it is written.
//!
//! A writer sizes its block to the bound, so that a small partition costs a small buffer. A bound that
//! turns out too small costs time (the block grows), never a byte of difference.

use super::header::{EMPTY_RAW_LENGTH, HEADER_BYTES};
use crate::codec::to_u64;
use crate::wire::vlong_len;

/// Bytes around every record stream: the header, which counts as raw, and the end-of-stream markers.
const ENVELOPE: u64 = EMPTY_RAW_LENGTH;

const _: () = assert!(ENVELOPE == 4 + 2 && HEADER_BYTES == 4);

/// What a buffer holds of one partition: the counts that a bound is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCounts {
    /// Records.
    pub records: u64,
    /// Bytes of their keys, without lengths.
    pub key_bytes: u64,
    /// Bytes of their values, without lengths.
    pub value_bytes: u64,
}

impl RecordCounts {
    /// Counts one more record.
    pub fn add(&mut self, key_len: usize, value_len: usize) {
        self.records = self.records.saturating_add(1);
        self.key_bytes = self.key_bytes.saturating_add(to_u64(key_len));
        self.value_bytes = self.value_bytes.saturating_add(to_u64(value_len));
    }
}

/// An upper bound of a segment's raw length (header included), or that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawBound(u64);

impl RawBound {
    /// Nothing is known; the writer's buffers grow with what they get.
    pub const UNKNOWN: Self = Self(u64::MAX);

    /// A segment without records.
    pub const EMPTY: Self = Self(ENVELOPE);

    /// A known raw length.
    pub fn exact(raw_length: u64) -> Self {
        Self(raw_length)
    }

    /// One partition of one buffer.
    pub fn records(counts: RecordCounts) -> Self {
        Self::spill([counts])
    }

    /// One partition of a spill, from the counts of *every* buffer that goes into it.
    pub fn spill(buffers: impl IntoIterator<Item = RecordCounts>) -> Self {
        let total = buffers.into_iter().fold(RecordCounts::default(), |sum, one| RecordCounts {
            records: sum.records.saturating_add(one.records),
            key_bytes: sum.key_bytes.saturating_add(one.key_bytes),
            value_bytes: sum.value_bytes.saturating_add(one.value_bytes),
        });
        // No single length is more than the sum of all, so none takes a longer vint.
        let lengths = len_bytes(total.key_bytes).saturating_add(len_bytes(total.value_bytes));
        Self(
            total
                .records
                .saturating_mul(lengths)
                .saturating_add(total.key_bytes)
                .saturating_add(total.value_bytes)
                .saturating_add(ENVELOPE),
        )
    }

    /// One partition of a final merge, from its raw length in *every* spill. Lengths of 0 stand for
    /// spills without the partition.
    pub fn merge(raw_lengths: impl IntoIterator<Item = u64>) -> Self {
        let records = raw_lengths
            .into_iter()
            .fold(0_u64, |sum, raw| sum.saturating_add(raw.saturating_sub(ENVELOPE)));
        Self(records.saturating_add(ENVELOPE))
    }

    /// The same with room for a writer that makes runs: a run of one value takes a byte more than a
    /// record with a one-byte key.
    #[must_use]
    pub fn with_runs(self, records: u64) -> Self {
        Self(self.0.saturating_add(records))
    }

    /// The bound, header included.
    pub fn raw_length(self) -> u64 {
        self.0
    }
}

fn len_bytes(len: u64) -> u64 {
    to_u64(vlong_len(i64::try_from(len).unwrap_or(i64::MAX)))
}
