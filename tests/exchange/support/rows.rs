//! Test data, and rows in a form that can be compared.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::row::{RowConverter, SortField};

/// `rows` rows of a number `k` and a text `s` that depends on it.
pub(crate) fn numbered(start: i64, rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + rows));
    let texts =
        (start..start + rows).map(|k| format!("value {}", k.wrapping_mul(0x9E37_79B9) % 1_000_003));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    RecordBatch::try_from_iter([("k", numbers), ("s", texts)]).unwrap()
}

/// A well mixed number out of another (SplitMix64).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Rows `start..start + rows` of `columns` columns of 64-bit noise, which no encoding shrinks. The
/// first column is `k`.
pub(crate) fn noise(start: u64, rows: usize, columns: u64) -> RecordBatch {
    let column = |column: u64| -> (String, ArrayRef) {
        let name = if column == 0 { "k".to_owned() } else { format!("c{column}") };
        let values =
            (start..start + rows as u64).map(|row| mixed(row * columns + column).cast_signed());
        (name, Arc::new(Int64Array::from_iter_values(values)))
    };
    RecordBatch::try_from_iter((0..columns).map(column)).unwrap()
}

fn encoded(batch: &RecordBatch) -> Vec<Vec<u8>> {
    if batch.num_columns() == 0 {
        return vec![Vec::new(); batch.num_rows()];
    }
    let fields =
        batch.schema().fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
    let rows = RowConverter::new(fields).unwrap().convert_columns(batch.columns()).unwrap();
    rows.iter().map(|row| row.as_ref().to_vec()).collect()
}

/// The rows in the order they have.
pub(crate) fn rows_in_order<'a>(
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> Vec<Vec<u8>> {
    batches.into_iter().flat_map(encoded).collect()
}

/// The rows as a multiset.
pub(crate) fn multiset<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Vec<Vec<u8>> {
    let mut rows = rows_in_order(batches);
    rows.sort_unstable();
    rows
}

/// The rows of every output as a multiset.
pub(crate) fn multisets(parts: &[Vec<RecordBatch>]) -> Vec<Vec<Vec<u8>>> {
    parts.iter().map(multiset).collect()
}

/// Number of rows and sum of their hashes: equal for equal multisets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) rows: usize,
    sum: u64,
}

impl Digest {
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows();
        for row in encoded(batch) {
            let mut hasher = DefaultHasher::new();
            row.hash(&mut hasher);
            self.sum = self.sum.wrapping_add(hasher.finish());
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, sum: self.sum.wrapping_add(other.sum) }
    }

    pub(crate) fn of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Self {
        let mut digest = Self::default();
        batches.into_iter().for_each(|batch| digest.add(batch));
        digest
    }
}

/// The digest of every output.
pub(crate) fn digests(parts: &[Vec<RecordBatch>]) -> Vec<Digest> {
    parts.iter().map(Digest::of).collect()
}

/// Column `k` of all rows, in the order they have.
pub(crate) fn keys<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Vec<i64> {
    let key = |batch: &'a RecordBatch| {
        batch.column_by_name("k").unwrap().as_any().downcast_ref::<Int64Array>().unwrap().values()
    };
    batches.into_iter().flat_map(|batch| key(batch).to_vec()).collect()
}

/// Column `k` of all rows, sorted.
pub(crate) fn sorted_keys(batches: impl IntoIterator<Item = RecordBatch>) -> Vec<i64> {
    let batches: Vec<_> = batches.into_iter().collect();
    let mut keys = keys(&batches);
    keys.sort_unstable();
    keys
}
