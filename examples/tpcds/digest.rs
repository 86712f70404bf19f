//! A digest of a result that does not depend on the order of its rows.
//!
//! Each row becomes 64 bits; the digest is two sums over differently mixed rows, modulo 2^64. Equal multisets
//! have equal digests. Floats count with nine significant digits, because their sums depend on the order of
//! addition: two results on either side of a rounding step differ in the digest and need a comparison of rows.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use serde::{Deserialize, Serialize};

use crate::Result;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    pub(crate) rows: u64,
    sum_a: u64,
    sum_b: u64,
}

const COLUMN_SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const NULL_HASH: u64 = 0x6a09_e667_f3bc_c908;
const SUM_A_SEED: u64 = 0xbb67_ae85_84ca_a73b;
const SUM_B_SEED: u64 = 0x3c6e_f372_fe94_f82b;

impl Digest {
    /// Adds the rows of `batch`.
    ///
    /// # Errors
    ///
    /// Fails when a column has a type that cannot be hashed.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut rows = vec![0_u64; batch.num_rows()];
        let mut seed = COLUMN_SEED;
        for column in batch.columns() {
            seed = mix(seed ^ COLUMN_SEED);
            for (row, hash) in rows.iter_mut().zip(hash_column(column)?) {
                *row = mix(row.rotate_left(5) ^ hash ^ seed);
            }
        }
        for row in rows {
            self.rows += 1;
            self.sum_a = self.sum_a.wrapping_add(mix(row ^ SUM_A_SEED));
            self.sum_b = self.sum_b.wrapping_add(mix(row ^ SUM_B_SEED));
        }
        Ok(())
    }
}

fn hash_column(column: &ArrayRef) -> Result<Vec<u64>> {
    let canonical = match column.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let floats = cast(column, &DataType::Float64)?;
            let rounded: Float64Array =
                floats.as_primitive::<Float64Type>().unary(round_to_nine_digits);
            Arc::new(rounded)
        }
        _ => Arc::clone(column),
    };
    let mut hashes = vec![0; canonical.len()];
    create_hashes([&canonical], &RandomState::with_seed(COLUMN_SEED), &mut hashes)?;
    // A null leaves its hash as it was, which would make it invisible.
    if let Some(nulls) = canonical.logical_nulls() {
        for (hash, valid) in hashes.iter_mut().zip(nulls.iter()) {
            if !valid {
                *hash = NULL_HASH;
            }
        }
    }
    Ok(hashes)
}

fn round_to_nine_digits(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    if !value.is_finite() {
        return if value.is_nan() { f64::NAN } else { value };
    }
    format!("{value:.8e}").parse().unwrap_or(value)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringViewArray};

    use super::*;

    fn digest(batches: &[RecordBatch]) -> Digest {
        let mut digest = Digest::default();
        for batch in batches {
            digest.add(batch).unwrap();
        }
        digest
    }

    fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
        RecordBatch::try_from_iter(columns.iter().map(|(n, c)| (*n, Arc::clone(c)))).unwrap()
    }

    fn ints(values: [[Option<i32>; 3]; 3]) -> RecordBatch {
        let column =
            |i: usize| Arc::new(Int32Array::from_iter(values.map(|row| row[i]))) as ArrayRef;
        batch(&[("a", column(0)), ("b", column(1)), ("c", column(2))])
    }

    const X: [Option<i32>; 3] = [Some(7), None, Some(1)];
    const Y: [Option<i32>; 3] = [Some(8), Some(2), Some(3)];
    const Z: [Option<i32>; 3] = [None, None, None];

    #[test]
    fn order_and_batches_do_not_count() {
        let one = ints([X, Y, Z]);
        let other = ints([Z, X, Y]);
        assert_eq!(digest(std::slice::from_ref(&one)), digest(&[other]));
        assert_eq!(digest(&[one.slice(2, 1), one.slice(0, 2)]), digest(&[one]));
    }

    #[test]
    fn a_value_in_another_column_counts() {
        let moved = [Some(7), Some(1), None];
        assert_ne!(digest(&[ints([X, Y, Z])]), digest(&[ints([moved, Y, Z])]));
    }

    #[test]
    fn a_doubled_row_counts() {
        assert_ne!(digest(&[ints([X, X, Y])]), digest(&[ints([X, Y, Y])]));
        assert_eq!(digest(&[ints([X, X, Y])]).rows, 3);
    }

    #[test]
    fn null_is_not_empty() {
        let strings =
            |v: Option<&str>| batch(&[("s", Arc::new(StringViewArray::from(vec![v])) as ArrayRef)]);
        assert_ne!(digest(&[strings(None)]), digest(&[strings(Some(""))]));
    }

    #[test]
    fn the_last_digits_of_floats_do_not_count() {
        let floats = |v: f64| batch(&[("f", Arc::new(Float64Array::from(vec![v])) as ArrayRef)]);
        assert_eq!(digest(&[floats(0.1 + 0.2)]), digest(&[floats(0.3)]));
        assert_eq!(digest(&[floats(-0.0)]), digest(&[floats(0.0)]));
        assert_ne!(digest(&[floats(0.300_000_1)]), digest(&[floats(0.3)]));
        assert_ne!(digest(&[floats(f64::INFINITY)]), digest(&[floats(f64::NEG_INFINITY)]));
    }
}
