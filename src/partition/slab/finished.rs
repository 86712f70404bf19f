//! What leaves the slabs: the rows of one partition.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;

use super::chunk::Chunk;
use super::narrow::{Narrow, SlabScratch, to_array};
use super::native::Native;
use crate::block::{BlockEncoder, BlockInfo, BlockResult};

#[derive(Debug)]
pub(super) enum SlabColumn {
    /// The column of the same number in the chunks.
    Narrow {
        native: Native,
        nulls: bool,
    },
    Array(ArrayRef),
}

/// Rows of one partition, narrowed.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(super) columns: Vec<SlabColumn>,
    pub(super) chunks: Vec<Chunk>,
    pub(super) rows: usize,
    pub(super) held_bytes: usize,
}

impl Slab {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes that the rows take as Arrow arrays.
    pub(crate) fn arrow_bytes(&self) -> usize {
        let bytes = |column: &SlabColumn| match column {
            SlabColumn::Narrow { native, .. } => self.rows * native.bytes() + self.rows / 8,
            SlabColumn::Array(array) => array.get_buffer_memory_size(),
        };
        self.columns.iter().map(bytes).sum()
    }

    fn narrow(&self, column: usize, native: Native, nulls: bool) -> Narrow<'_> {
        Narrow { chunks: &self.chunks, column, native, nulls }
    }

    /// Appends a block with rows `start..start + len` to `out`.
    ///
    /// # Errors
    /// As [`BlockEncoder::encode`].
    pub(crate) fn encode(
        &self,
        schema: &Schema,
        encoder: &mut BlockEncoder,
        scratch: &mut SlabScratch,
        start: usize,
        len: usize,
        out: &mut Vec<u8>,
    ) -> BlockResult<BlockInfo> {
        let rows = start..start + len;
        encoder.begin();
        for (index, (column, field)) in self.columns.iter().zip(schema.fields()).enumerate() {
            match column {
                SlabColumn::Narrow { native, nulls } => {
                    self.narrow(index, *native, *nulls).encode(rows.clone(), encoder, scratch)?;
                }
                SlabColumn::Array(array) => {
                    encoder.put_array(field.data_type(), array.as_ref(), rows.clone())?;
                }
            }
        }
        encoder.finish(len, out)
    }

    /// One batch of `schema` with the rows of all `slabs`.
    ///
    /// # Errors
    /// Nulls where the schema has none, or offsets that overflow.
    pub(crate) fn join(schema: &SchemaRef, slabs: &[&Slab]) -> Result<RecordBatch> {
        let rows = slabs.iter().map(|slab| slab.rows).sum();
        let mut arrays = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            arrays.push(join_column(slabs, index, field.data_type(), rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), arrays, &options)?)
    }
}

fn join_column(
    slabs: &[&Slab],
    index: usize,
    data_type: &DataType,
    rows: usize,
) -> Result<ArrayRef> {
    let mut narrow = Vec::with_capacity(slabs.len());
    let mut arrays: Vec<&dyn Array> = Vec::new();
    for slab in slabs {
        match slab.columns.get(index) {
            Some(SlabColumn::Narrow { native, nulls }) => {
                narrow.push(slab.narrow(index, *native, *nulls));
            }
            Some(SlabColumn::Array(array)) if slabs.len() == 1 => {
                return Ok(ArrayRef::clone(array));
            }
            Some(SlabColumn::Array(array)) => arrays.push(array.as_ref()),
            None => {}
        }
    }
    match arrays.is_empty() {
        true => to_array(&narrow, data_type, rows),
        false => Ok(concat(&arrays)?),
    }
}
