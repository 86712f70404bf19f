//! What leaves the slabs: the rows of one partition.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;

use super::narrow::{Narrow, to_array};
use crate::block::{BlockEncoder, BlockInfo, BlockResult};

#[derive(Debug)]
pub(super) enum SlabColumn {
    Narrow(Narrow),
    Array(ArrayRef),
}

/// Rows of one partition, narrowed.
#[derive(Debug)]
pub(crate) struct Slab {
    pub(super) columns: Vec<SlabColumn>,
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
            SlabColumn::Narrow(column) => self.rows * column.value_bytes() + self.rows / 8,
            SlabColumn::Array(array) => array.get_buffer_memory_size(),
        };
        self.columns.iter().map(bytes).sum()
    }

    /// Appends a block with rows `start..start + len` to `out`.
    ///
    /// # Errors
    /// As [`BlockEncoder::encode`].
    pub(crate) fn encode(
        &self,
        schema: &Schema,
        encoder: &mut BlockEncoder,
        start: usize,
        len: usize,
        out: &mut Vec<u8>,
    ) -> BlockResult<BlockInfo> {
        encoder.begin();
        for (column, field) in self.columns.iter().zip(schema.fields()) {
            match column {
                SlabColumn::Narrow(column) => column.encode(encoder, start, len)?,
                SlabColumn::Array(array) => {
                    encoder.put_array(field.data_type(), array.as_ref(), start..start + len)?;
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
            let columns = slabs.iter().filter_map(|slab| slab.columns.get(index)).collect();
            arrays.push(join_column(columns, field.data_type(), rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), arrays, &options)?)
    }
}

fn join_column(columns: Vec<&SlabColumn>, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    let only = columns.len() == 1;
    let mut narrow = Vec::with_capacity(columns.len());
    let mut arrays: Vec<&dyn Array> = Vec::new();
    for column in columns {
        match column {
            SlabColumn::Narrow(part) => narrow.push(part),
            SlabColumn::Array(array) if only => return Ok(ArrayRef::clone(array)),
            SlabColumn::Array(array) => arrays.push(array.as_ref()),
        }
    }
    match arrays.is_empty() {
        true => to_array(&narrow, data_type, rows),
        false => Ok(concat(&arrays)?),
    }
}
