//! Rows to block bytes.

mod bytes;
mod dictionary;
mod leaf;
mod nested;
mod runs;
mod union;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};

use super::bits;
use super::error::{BlockError, BlockResult};
use super::header::{BlockHeader, HEADER_LEN, MAX_BODY};
use super::sample::Sampler;
use super::sink::{Sink, Validity};
use super::table::Table;
use super::types;
use crate::codec::{Codec, Compressor};

/// Packed parts below this length are stored as they are: the codec's set-up would cost more than it saves.
const MIN_COMPRESSED: usize = 256;

/// What one call of [`BlockEncoder::encode`] appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Rows in the block.
    pub rows: u32,
    /// Length that the block has without its codec.
    pub raw_bytes: usize,
    /// Length of the block.
    pub stored_bytes: usize,
}

/// Turns rows into blocks; built once per task, with scratch and codec state that all blocks share.
pub struct BlockEncoder {
    schema: SchemaRef,
    /// The last batch schema that was compared with `schema`.
    checked: SchemaRef,
    codec: Codec,
    compressor: Option<Compressor>,
    body: Body,
}

impl std::fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockEncoder").field("codec", &self.codec).finish_non_exhaustive()
    }
}

impl BlockEncoder {
    /// An encoder for batches of `schema`.
    ///
    /// # Errors
    /// If the schema has a type that blocks cannot carry, or the codec cannot be set up.
    pub fn try_new(schema: SchemaRef, codec: Codec) -> BlockResult<Self> {
        if let Some(reason) = types::why_not(&schema) {
            return Err(BlockError::Schema(reason));
        }
        let compressor = match codec {
            Codec::None => None,
            codec => Some(Compressor::new(codec).map_err(|e| BlockError::Compress(e.to_string()))?),
        };
        let body = Body::new(Sampler::new(codec));
        Ok(Self { checked: Arc::clone(&schema), schema, codec, compressor, body })
    }

    /// Appends one block with the rows `[offset, offset + len)` of `batch` to `out`.
    ///
    /// On an error `out` is as it was.
    ///
    /// # Errors
    /// If the batch is of another schema, has no such rows, has nulls where the schema forbids
    /// them, or the rows are more than one block can hold.
    pub fn encode(
        &mut self,
        batch: &RecordBatch,
        offset: usize,
        len: usize,
        out: &mut Vec<u8>,
    ) -> BlockResult<BlockInfo> {
        self.check_schema(batch)?;
        let Some(end) = offset.checked_add(len).filter(|end| *end <= batch.num_rows()) else {
            return Err(BlockError::Limit {
                what: "rows of the batch",
                found: offset.saturating_add(len) as u64,
                limit: batch.num_rows() as u64,
            });
        };
        self.body.sink.clear();
        for (column, field) in batch.columns().iter().zip(self.schema.fields()) {
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(BlockError::Schema(format!(
                    "nulls in the required column {:?}",
                    field.name()
                )));
            }
            self.body.node(column.as_ref(), offset..end)?;
        }
        let start = out.len();
        let result = self.seal(len, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Bytes of scratch and codec state.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.body.held_bytes() + self.compressor.as_ref().map_or(0, Compressor::state_bytes)
    }

    fn check_schema(&mut self, batch: &RecordBatch) -> BlockResult<()> {
        let found = batch.schema_ref();
        if Arc::ptr_eq(found, &self.schema) || Arc::ptr_eq(found, &self.checked) {
            return Ok(());
        }
        if let Some(reason) = types::difference(&self.schema, found) {
            return Err(BlockError::Schema(reason));
        }
        self.checked = Arc::clone(found);
        Ok(())
    }

    /// Header, packed part and plain part of what `body` holds.
    fn seal(&mut self, rows: usize, out: &mut Vec<u8>) -> BlockResult<BlockInfo> {
        let sink = &self.body.sink;
        let (raw, plain) = (sink.packed.len(), sink.plain.len());
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        let mut codec = Codec::None.wire_id();
        if let Some(compressor) = &mut self.compressor
            && (MIN_COMPRESSED..=MAX_BODY).contains(&raw)
        {
            let stored = compressor
                .compress(&sink.packed, out)
                .map_err(|e| BlockError::Compress(e.to_string()))?;
            if stored < raw {
                codec = self.codec.wire_id();
            } else {
                out.truncate(start + HEADER_LEN);
            }
        }
        if codec == Codec::None.wire_id() {
            out.extend_from_slice(&sink.packed);
        }
        let stored = out.len() - start - HEADER_LEN;
        out.extend_from_slice(&sink.plain);
        let mut header = BlockHeader {
            codec,
            rows: fit(rows, u32::MAX as usize, "rows")?,
            decoded_bytes: u32::try_from(sink.decoded_bytes()).map_err(|_| BlockError::Limit {
                what: "decoded bytes",
                found: sink.decoded_bytes(),
                limit: u64::from(u32::MAX),
            })?,
            raw_bytes: fit(raw, MAX_BODY, "packed bytes")?,
            stored_bytes: fit(stored, MAX_BODY, "stored bytes")?,
            plain_bytes: fit(plain, MAX_BODY, "plain bytes")?,
            crc: 0,
        };
        let (_, body) = out.split_at(start + HEADER_LEN);
        header.crc = BlockHeader::checksum(&header.to_bytes(), body);
        if let Some(head) = out.get_mut(start..start + HEADER_LEN) {
            head.copy_from_slice(&header.to_bytes());
        }
        Ok(BlockInfo {
            rows: header.rows,
            raw_bytes: HEADER_LEN + raw + plain,
            stored_bytes: out.len() - start,
        })
    }
}

fn fit(value: usize, limit: usize, what: &'static str) -> BlockResult<u32> {
    match u32::try_from(value) {
        Ok(fits) if value <= limit => Ok(fits),
        _ => Err(BlockError::Limit { what, found: value as u64, limit: limit as u64 }),
    }
}

/// The body of the block in hand, and scratch that nodes share.
#[derive(Debug, Default)]
struct Body {
    sink: Sink,
    /// Validity of the node in hand.
    mask: Vec<u64>,
    /// Bits of the values of the node in hand.
    words: Vec<u64>,
    /// Lengths of the rows of the node in hand.
    lens: Vec<u32>,
    table: Table,
}

impl Body {
    fn new(sampler: Sampler) -> Self {
        Self { sink: Sink::new(sampler), ..Self::default() }
    }

    fn held_bytes(&self) -> usize {
        self.sink.held_bytes()
            + (self.mask.capacity() + self.words.capacity()) * 8
            + self.lens.capacity() * 4
            + self.table.held_bytes()
    }

    /// Writes the node of `rows` of `array`.
    fn node(&mut self, array: &dyn Array, rows: Range<usize>) -> BlockResult<()> {
        match array.data_type() {
            DataType::Struct(_) => self.structs(array.as_struct(), rows),
            DataType::List(_) => self.list(array.as_list::<i32>(), rows),
            DataType::LargeList(_) => self.list(array.as_list::<i64>(), rows),
            DataType::ListView(_) => self.list_view(array.as_list_view::<i32>(), rows),
            DataType::LargeListView(_) => self.list_view(array.as_list_view::<i64>(), rows),
            DataType::FixedSizeList(_, _) => self.fixed_list(array.as_fixed_size_list(), rows),
            DataType::Map(_, _) => self.map(array.as_map(), rows),
            DataType::Dictionary(key, _) => self.dictionary(array, key, rows),
            DataType::RunEndEncoded(ends, _) => self.runs(array, ends.data_type(), rows),
            DataType::Union(fields, _) => self.union(array.as_union(), fields, rows),
            _ => self.leaf(array, rows),
        }
    }

    /// Calls `write` with the validity of `rows`.
    fn with_validity<R>(
        &mut self,
        nulls: Option<&NullBuffer>,
        rows: &Range<usize>,
        write: impl FnOnce(&mut Self, Validity<'_>) -> R,
    ) -> R {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0 && !rows.is_empty()) else {
            return write(self, Validity::AllValid);
        };
        let mut mask = std::mem::take(&mut self.mask);
        let valid = bits::load(nulls.inner(), rows.start, rows.len(), &mut mask);
        let result = if valid == 0 {
            write(self, Validity::AllNull)
        } else if valid == rows.len() {
            write(self, Validity::AllValid)
        } else {
            write(self, Validity::Mask(&mask))
        };
        self.mask = mask;
        result
    }
}
