//! Rows to block bytes.

mod bytes;
mod columns;
mod dictionary;
mod leaf;
mod nested;
mod parts;
mod runs;
mod union;
mod words;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};

use super::error::{BlockError, BlockResult};
use super::header::{BlockHeader, HEADER_LEN, MAX_BODY};
use super::sample::Sampler;
use super::sink::{Sink, Validity};
use super::table::Table;
use super::{sizes, tags, types};
use crate::codec::{Codec, Compressor};
use parts::{Part, row_count};

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

/// What the codec of an encoder did since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodecUse {
    /// Time spent compressing.
    pub time: std::time::Duration,
    /// Blocks that did not become smaller, and are stored as they are.
    pub incompressible: usize,
    /// Blocks stored as they are because [`BlockEncoder::refuse_codec`] was called.
    pub refused: usize,
    /// Blocks stored as they are because the codec failed.
    pub failed: usize,
}

/// The rows `[offset, offset + len)` of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BlockSlice<'a> {
    /// The batch.
    pub batch: &'a RecordBatch,
    /// The first row.
    pub offset: usize,
    /// The number of rows.
    pub len: usize,
}

/// Turns rows into blocks; built once per task, with scratch and codec state that all blocks share.
pub struct BlockEncoder {
    schema: SchemaRef,
    /// The last batch schema that was compared with `schema`.
    checked: SchemaRef,
    codec: Codec,
    compressor: Option<Compressor>,
    codec_use: CodecUse,
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
        let (checked, codec_use) = (Arc::clone(&schema), CodecUse::default());
        Ok(Self { checked, schema, codec, compressor, codec_use, body })
    }

    /// Takes the memory that the codec's context needs for blocks of up to `max_len` bytes, so that
    /// [`Self::held_bytes`] has it. A codec that cannot be set up is done without.
    pub fn prepare_codec(&mut self, max_len: usize) {
        // The others have tables of one size.
        if !matches!(self.codec, Codec::Zstd { .. }) {
            return;
        }
        let len = max_len.min(MAX_BODY);
        if self.compressor.as_mut().is_some_and(|compressor| compressor.prepare(len).is_err()) {
            self.compressor = None;
        }
    }

    /// Gives up the codec and its memory: from now on blocks are stored as they are.
    pub fn refuse_codec(&mut self) {
        self.compressor = None;
    }

    /// What the codec did since the last call.
    pub fn take_codec_use(&mut self) -> CodecUse {
        std::mem::take(&mut self.codec_use)
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
        self.encode_slices(&[BlockSlice { batch, offset, len }], out)
    }

    /// Appends one block with the rows of all `slices`, in their order, to `out`.
    ///
    /// On an error `out` is as it was.
    ///
    /// # Errors
    /// As [`Self::encode`]; also if the dictionaries of the slices have more values together than
    /// their keys can count, where fewer slices at a time would do.
    pub fn encode_slices(
        &mut self,
        slices: &[BlockSlice<'_>],
        out: &mut Vec<u8>,
    ) -> BlockResult<BlockInfo> {
        for slice in slices {
            self.check_slice(slice)?;
        }
        self.begin();
        let schema = Arc::clone(&self.schema);
        let mut parts = Vec::with_capacity(slices.len());
        for (i, field) in schema.fields().iter().enumerate() {
            parts.clear();
            for slice in slices {
                let column = slice.batch.column(i).as_ref();
                if !field.is_nullable() && column.null_count() > 0 {
                    return Err(BlockError::Schema(format!(
                        "nulls in the required column {:?}",
                        field.name()
                    )));
                }
                parts.push(Part::new(column, slice.offset..slice.offset + slice.len));
            }
            self.body.node(field.data_type(), &parts)?;
        }
        self.finish(slices.iter().map(|slice| slice.len).sum(), out)
    }

    /// Bytes of scratch and codec state.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.body.held_bytes() + self.compressor.as_ref().map_or(0, Compressor::state_bytes)
    }

    /// The most that encoding these rows needs in scratch, codec buffers and output together.
    #[must_use]
    pub fn max_working_bytes(batch: &RecordBatch, offset: usize, len: usize) -> usize {
        let bytes = sizes::logical_bytes(batch, offset, len);
        Self::working_bytes(batch.num_columns(), len, bytes)
    }

    /// The same for `rows` rows of `columns` columns that have `bytes` logical bytes.
    #[must_use]
    pub fn working_bytes(columns: usize, rows: usize, bytes: usize) -> usize {
        // Body, codec output and block hold the rows once each, plus a little; ids, hashes and
        // masks of the one column in hand are below 48 bytes per row.
        bytes
            .saturating_mul(3)
            .saturating_add(bytes / 2)
            .saturating_add(rows.saturating_mul(48))
            .saturating_add(64 * (columns + 1))
    }

    fn check_slice(&mut self, slice: &BlockSlice<'_>) -> BlockResult<()> {
        let rows = slice.batch.num_rows();
        if slice.offset.checked_add(slice.len).is_none_or(|end| end > rows) {
            let found = slice.offset.saturating_add(slice.len) as u64;
            return Err(BlockError::Limit { what: "rows of the batch", found, limit: rows as u64 });
        }
        let found = slice.batch.schema_ref();
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
        let (raw, plain) = (self.body.sink.packed.len(), self.body.sink.plain.len());
        let start = out.len();
        out.resize(start + HEADER_LEN, 0);
        let codec = match self.compress(out) {
            true => self.codec.wire_id(),
            false => Codec::None.wire_id(),
        };
        let sink = &self.body.sink;
        if codec == Codec::None.wire_id() {
            out.truncate(start + HEADER_LEN);
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

impl BlockEncoder {
    /// Appends the packed part, compressed, and says whether that made it smaller.
    fn compress(&mut self, out: &mut Vec<u8>) -> bool {
        let packed = &self.body.sink.packed;
        if self.codec == Codec::None || !(MIN_COMPRESSED..=MAX_BODY).contains(&packed.len()) {
            return false;
        }
        let Some(compressor) = &mut self.compressor else {
            self.codec_use.refused += 1;
            return false;
        };
        let begun = std::time::Instant::now();
        let outcome = compressor.compress(packed, out);
        self.codec_use.time += begun.elapsed();
        match outcome {
            Ok(stored) if stored < packed.len() => return true,
            Ok(_) => self.codec_use.incompressible += 1,
            Err(error) => {
                log::warn!("a block is stored as it is: {error}");
                self.codec_use.failed += 1;
            }
        }
        false
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
    /// Low halves of decimals of the node in hand.
    lows: Vec<i64>,
    table: Table,
    /// Values of the column in hand, out of those that were numbered before.
    used: bytes::Used,
    /// Whether values of strings are known not to repeat.
    no_repeats: bool,
}

impl Body {
    fn new(sampler: Sampler) -> Self {
        Self { sink: Sink::new(sampler), ..Self::default() }
    }

    fn held_bytes(&self) -> usize {
        self.sink.held_bytes()
            + (self.mask.capacity() + self.words.capacity()) * 8
            + self.lens.capacity() * 4
            + self.lows.capacity() * 8
            + self.table.held_bytes()
            + self.used.held_bytes()
    }

    /// Writes the node of the rows of `parts`, whose arrays have the layout of `data_type`.
    fn node(&mut self, data_type: &DataType, parts: &[Part<'_>]) -> BlockResult<()> {
        let rows = row_count(parts);
        if rows == 0 || data_type == &DataType::Null {
            self.sink.put_tag(tags::EMPTY, Validity::AllValid, 0);
            return Ok(());
        }
        match data_type {
            DataType::Struct(fields) => self.structs(fields, parts),
            DataType::List(field) => self.list::<i32>(field.data_type(), parts),
            DataType::LargeList(field) => self.list::<i64>(field.data_type(), parts),
            DataType::ListView(field) => self.list_view::<i32>(field.data_type(), parts),
            DataType::LargeListView(field) => self.list_view::<i64>(field.data_type(), parts),
            DataType::FixedSizeList(field, _) => self.fixed_list(field.data_type(), parts),
            DataType::Map(field, _) => self.map(field.data_type(), parts),
            DataType::Dictionary(key, value) => self.dictionary(key, value, parts),
            DataType::RunEndEncoded(ends, values) => {
                self.runs(ends.data_type(), values.data_type(), parts)
            }
            DataType::Union(fields, mode) => self.union(fields, *mode, parts),
            _ => self.leaf(data_type, parts, rows),
        }
    }

    /// Calls `write` with the validity of the rows of `parts`.
    fn with_validity<R>(
        &mut self,
        parts: &[Part<'_>],
        write: impl FnOnce(&mut Self, Validity<'_>) -> R,
    ) -> R {
        if parts.iter().all(|part| part.array.null_count() == 0) {
            return write(self, Validity::AllValid);
        }
        let mut mask = std::mem::take(&mut self.mask);
        let valid =
            parts::load_bits(parts, |array| array.nulls().map(NullBuffer::inner), &mut mask);
        let result = if valid == 0 {
            write(self, Validity::AllNull)
        } else if valid == row_count(parts) {
            write(self, Validity::AllValid)
        } else {
            write(self, Validity::Mask(&mask))
        };
        self.mask = mask;
        result
    }

    /// Writes a node of `rows` rows that ends here if they are all null; else its tag, and says so.
    fn open(&mut self, tag: u8, validity: Validity<'_>, rows: usize) -> bool {
        let open = !matches!(validity, Validity::AllNull);
        self.sink.put_tag(if open { tag } else { tags::EMPTY }, validity, rows);
        open
    }
}
