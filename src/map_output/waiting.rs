//! Rows that wait as batches, for the types that slabs do not hold.
//!
//! Each batch is grouped by partition with one gather while it is in the cache. When the rows become blocks, those of a
//! partition are its part of each batch, one after another.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::encoded::Encoded;
use crate::block::{BlockEncoder, BlockSlice, logical_bytes};
use crate::memory::Permit;
use crate::partition::Grouped;

/// A batch whose rows lie by partition.
struct GroupedBatch {
    batch: RecordBatch,
    /// Partition, first row and rows, ascending.
    runs: Vec<(usize, usize, usize)>,
    /// Runs before this one have become blocks.
    next: usize,
    bytes_per_row: usize,
}

/// Batches that wait to become blocks.
pub(super) struct Waiting {
    encoder: BlockEncoder,
    batches: Vec<GroupedBatch>,
    /// Buffers of all batches, by address: slices and dictionaries share them.
    buffers: HashSet<usize>,
    held_bytes: usize,
    block_rows: usize,
    block_bytes: usize,
}

impl Waiting {
    pub(super) fn new(encoder: BlockEncoder, block_rows: usize, block_bytes: usize) -> Self {
        Self {
            encoder,
            batches: Vec::new(),
            buffers: HashSet::new(),
            held_bytes: 0,
            block_rows,
            block_bytes,
        }
    }

    /// Bytes that the batches hold.
    pub(super) fn batch_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes that the batches and the encoder hold.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes + self.encoder.held_bytes()
    }

    /// Takes the rows of `batch`: those of `grouped`, or all of them for `partition`.
    pub(super) fn push(
        &mut self,
        batch: &RecordBatch,
        grouped: Option<&Grouped<'_>>,
        partition: usize,
    ) -> Result<()> {
        let grouped = match grouped {
            Some(grouped) => gather(batch, grouped)?,
            None => whole(batch, partition)?,
        };
        let columns = grouped.batch.columns().iter();
        let bytes: usize = columns.map(|column| self.newly_held(&column.to_data())).sum();
        self.held_bytes += bytes + size_of_val(grouped.runs.as_slice());
        self.batches.push(grouped);
        Ok(())
    }

    /// Bytes of the buffers of `data` that no other array here has.
    fn newly_held(&mut self, data: &ArrayData) -> usize {
        let nulls = data.nulls().map(NullBuffer::buffer);
        let mut new = |buffer: &Buffer| match self.buffers.insert(buffer.data_ptr().addr().get()) {
            true => buffer.capacity(),
            false => 0,
        };
        let own: usize = data.buffers().iter().chain(nulls).map(&mut new).sum();
        own + data.child_data().iter().map(|child| self.newly_held(child)).sum::<usize>()
    }

    /// Turns all rows into blocks, partition after partition. `room` is what was reserved for the blocks.
    pub(super) fn encode(&mut self, encoded: &mut Encoded, room: &mut Permit) -> Result<()> {
        let mut batches = std::mem::take(&mut self.batches);
        let mut parts: Vec<(usize, usize, usize)> = Vec::with_capacity(batches.len());
        for partition in 0..encoded.partitions() {
            parts.clear();
            for (at, grouped) in batches.iter_mut().enumerate() {
                match grouped.runs.get(grouped.next) {
                    Some(&(of, start, rows)) if of == partition => {
                        parts.push((at, start, rows));
                        grouped.next += 1;
                    }
                    _ => {}
                }
            }
            if !parts.is_empty() {
                self.encode_partition(partition, &batches, &parts, encoded, room)?;
            }
        }
        self.buffers.clear();
        self.held_bytes = 0;
        Ok(())
    }

    /// Encodes the rows of a partition, as many at a time as a block takes.
    fn encode_partition(
        &mut self,
        partition: usize,
        batches: &[GroupedBatch],
        parts: &[(usize, usize, usize)],
        encoded: &mut Encoded,
        room: &mut Permit,
    ) -> Result<()> {
        let mut slices: Vec<BlockSlice<'_>> = Vec::with_capacity(parts.len());
        let (mut rows, mut bytes) = (0, 0);
        for &(at, mut offset, mut left) in parts {
            let Some(GroupedBatch { batch, bytes_per_row, .. }) = batches.get(at) else { continue };
            while left > 0 {
                let by_bytes = self.block_bytes.saturating_sub(bytes) / (*bytes_per_row).max(1);
                let len = left.min(self.block_rows - rows).min(by_bytes);
                if len > 0 || rows == 0 {
                    let len = len.max(1);
                    slices.push(BlockSlice { batch, offset, len });
                    (rows, bytes) = (rows + len, bytes + len * bytes_per_row);
                    (offset, left) = (offset + len, left - len);
                }
                if left > 0 || rows >= self.block_rows {
                    self.encode_slices(partition, &slices, encoded, room)?;
                    slices.clear();
                    (rows, bytes) = (0, 0);
                }
            }
        }
        self.encode_slices(partition, &slices, encoded, room)
    }

    fn encode_slices(
        &mut self,
        partition: usize,
        slices: &[BlockSlice<'_>],
        encoded: &mut Encoded,
        room: &mut Permit,
    ) -> Result<()> {
        if slices.is_empty() {
            return Ok(());
        }
        let rows = slices.iter().map(|slice| slice.len).sum();
        let encoder = &mut self.encoder;
        let written = encoded.push(partition, rows, room, |out| encoder.encode_slices(slices, out));
        match (written, slices.split_at(slices.len() / 2)) {
            (Ok(()), _) => Ok(()),
            (Err(error), ([], _)) => Err(error.into()),
            // Together their dictionaries may have more values than keys can count.
            (Err(_), (first, second)) => {
                self.encode_slices(partition, first, encoded, room)?;
                self.encode_slices(partition, second, encoded, room)
            }
        }
    }
}

/// The rows of `batch` by partition: one gather.
fn gather(batch: &RecordBatch, grouped: &Grouped<'_>) -> Result<GroupedBatch> {
    let mut order = Vec::with_capacity(batch.num_rows());
    let mut runs = Vec::with_capacity(grouped.len());
    for index in grouped.by_partition() {
        let (partition, rows) = grouped.run(index);
        runs.push((partition, order.len(), rows.len()));
        order.extend_from_slice(rows);
    }
    let order = UInt32Array::from(order);
    with_columns(batch, runs, |column| Ok(compact(&take(column, &order, None)?)))
}

/// All rows of `batch`, for one partition.
fn whole(batch: &RecordBatch, partition: usize) -> Result<GroupedBatch> {
    with_columns(batch, vec![(partition, 0, batch.num_rows())], |column| Ok(compact(column)))
}

fn with_columns(
    batch: &RecordBatch,
    runs: Vec<(usize, usize, usize)>,
    column: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<GroupedBatch> {
    let rows = batch.num_rows();
    let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
    let bytes_per_row = logical_bytes(&batch, 0, rows).div_ceil(rows.max(1));
    Ok(GroupedBatch { batch, runs, next: 0, bytes_per_row })
}

/// Views hold all of the buffers that they point into, whatever part of them: they get buffers of their own.
fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => ArrayRef::clone(array),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;
    use crate::memory::{Ledger, Shares};
    use arrow::array::{DictionaryArray, Int32Array, ListArray, StringArray};
    use arrow::datatypes::Int32Type;
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};

    fn batch(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("c", array)]).unwrap()
    }

    #[test]
    fn buffers_that_slices_and_dictionaries_share_are_charged_once() {
        let lists: Vec<_> = (0..10_000).map(|n| Some(vec![Some(n); 5])).collect();
        let lists = batch(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)));
        let values = StringArray::from_iter_values((0..1000).map(|n| format!("{n:0>100}")));
        let keys = Int32Array::from_iter_values((0..10_000).map(|n| n % 1000));
        let keyed = batch(Arc::new(DictionaryArray::new(keys, Arc::new(values))));
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ledger = Ledger::new("test", &pool, Shares { most: 1.0, headroom: 0.0 });
        for batch in [lists, keyed] {
            let encoder = BlockEncoder::try_new(batch.schema(), Codec::Lz4).unwrap();
            let mut waiting = Waiting::new(encoder, 500, 1 << 20);
            for start in (0..10_000).step_by(100) {
                waiting.push(&batch.slice(start, 100), None, 0).unwrap();
            }
            let (all, runs) = (batch.get_array_memory_size(), 100 * 3 * size_of::<usize>());
            assert!(waiting.batch_bytes() <= all + runs, "{} of {all}", waiting.batch_bytes());
            assert!(waiting.batch_bytes() >= all * 9 / 10, "{} of {all}", waiting.batch_bytes());
            let mut encoded = Encoded::new(&ledger, 1);
            waiting.encode(&mut encoded, &mut ledger.empty()).unwrap();
            assert_eq!(waiting.batch_bytes(), 0);
            assert_eq!(encoded.blocks.of(0).map(|block| block.rows).sum::<usize>(), 10_000);
        }
        assert_eq!(pool.reserved(), 0);
    }
}
