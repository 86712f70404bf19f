//! Block bytes to rows.

mod bytes;
mod dictionary;
mod joined;
mod leaf;
mod nested;
mod runs;
mod union;

pub(crate) use joined::Joined;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};

use super::error::{BlockError, BlockResult};
use super::header::{self, BlockHeader, HEADER_LEN};
use super::source::{Nulls, Source, unknown};
use super::{sizes, tags, types};
use crate::codec::{Codec, Decompressor};

/// What a reader accepts, checked from a block's header before anything is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Rows per block.
    pub max_rows: usize,
    /// Bytes of the arrays of one block.
    pub max_decoded_bytes: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { max_rows: 1 << 20, max_decoded_bytes: 1 << 30 }
    }
}

/// Turns blocks into rows of one schema; built once per reader.
pub struct BlockDecoder {
    schema: SchemaRef,
    fingerprint: u64,
    limits: DecodeLimits,
    decompressor: Decompressor,
    raw: Vec<u8>,
}

impl std::fmt::Debug for BlockDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockDecoder").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl BlockDecoder {
    /// A decoder that gives batches of exactly `schema`.
    ///
    /// # Errors
    /// If the schema has a type that blocks cannot carry.
    pub fn try_new(schema: SchemaRef, limits: DecodeLimits) -> BlockResult<Self> {
        if let Some(reason) = types::why_not(&schema) {
            return Err(BlockError::Schema(reason));
        }
        let fingerprint = types::schema_fingerprint(&schema);
        Ok(Self { schema, fingerprint, limits, decompressor: Decompressor::new(), raw: Vec::new() })
    }

    /// Checks the [`schema_fingerprint`](super::schema_fingerprint) that came with some blocks: types,
    /// zones and nullability are not part of a block.
    ///
    /// # Errors
    /// [`BlockError::Fingerprint`] if it is not that of this decoder's schema.
    pub fn check_fingerprint(&self, found: u64) -> BlockResult<()> {
        let expected = self.fingerprint;
        if found == expected { Ok(()) } else { Err(BlockError::Fingerprint { expected, found }) }
    }

    /// The rows of the block that is exactly `bytes`.
    ///
    /// # Errors
    /// If the bytes are not one intact block of this schema, or it exceeds the limits. No bytes make it panic.
    pub fn decode(&mut self, bytes: &[u8]) -> BlockResult<RecordBatch> {
        let schema = SchemaRef::clone(&self.schema);
        self.read(bytes, |source, rows| {
            let columns = schema.fields().iter().map(|field| node(source, field.data_type(), rows));
            let columns = columns.collect::<BlockResult<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(RecordBatch::try_new_with_options(SchemaRef::clone(&schema), columns, &options)?)
        })
    }

    /// Checks the block that is exactly `bytes` and gives its body and number of rows to `work`,
    /// which reads all of it.
    fn read<R>(
        &mut self,
        bytes: &[u8],
        work: impl FnOnce(&mut Source<'_>, usize) -> BlockResult<R>,
    ) -> BlockResult<R> {
        let header = BlockHeader::parse(bytes)?;
        let rows = self.check_limits(&header)?;
        let (packed, plain) = split_body(bytes, &header)?;
        let packed = match header::codec_of(header.codec)? {
            None if header.raw_bytes != header.stored_bytes => {
                return Err(BlockError::Invalid("stored length without a codec"));
            }
            None => packed,
            Some(codec) => {
                decompress(&mut self.decompressor, codec, packed, header.raw_bytes, &mut self.raw)?
            }
        };
        let mut source = Source::new(packed, plain, u64::from(header.decoded_bytes));
        let result = work(&mut source, rows)?;
        source.end()?;
        Ok(result)
    }

    /// Bytes of scratch and codec state.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.raw.capacity() + self.decompressor.state_bytes()
    }

    /// Holds a header against the limits, and gives its rows.
    pub(crate) fn check_limits(&self, header: &BlockHeader) -> BlockResult<usize> {
        self.limits.check(header)
    }
}

impl DecodeLimits {
    /// Holds a header against the limits; returns the rows.
    pub(crate) fn check(&self, header: &BlockHeader) -> BlockResult<usize> {
        let within = |what, found: u32, limit: usize| match usize::try_from(found) {
            Ok(found) if found <= limit => Ok(found),
            _ => Err(BlockError::Limit { what, found: u64::from(found), limit: limit as u64 }),
        };
        within("decoded bytes", header.decoded_bytes, self.max_decoded_bytes)?;
        within("packed bytes", header.raw_bytes, self.max_decoded_bytes)?;
        within("rows", header.rows, self.max_rows)
    }
}

fn decompress<'a>(
    decompressor: &mut Decompressor,
    codec: Codec,
    packed: &[u8],
    raw_bytes: u32,
    raw: &'a mut Vec<u8>,
) -> BlockResult<&'a [u8]> {
    let raw_len = usize::try_from(raw_bytes).map_err(|_| BlockError::Invalid("raw length"))?;
    if raw.len() < raw_len {
        raw.resize(raw_len, 0);
    }
    let raw = raw.get_mut(..raw_len).ok_or(BlockError::Invalid("raw length"))?;
    decompressor
        .decompress_into(codec, packed, raw)
        .map_err(|e| BlockError::Decompress(e.to_string()))?;
    Ok(raw)
}

/// The packed and the plain part, after lengths and checksum held.
fn split_body<'a>(bytes: &'a [u8], header: &BlockHeader) -> BlockResult<(&'a [u8], &'a [u8])> {
    let Some((head, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(BlockError::Invalid("header length"));
    };
    let wanted = u64::from(header.stored_bytes) + u64::from(header.plain_bytes);
    let left = body.len() as u64;
    if wanted > left {
        return Err(BlockError::Truncated { part: "body", wanted, left });
    }
    if wanted < left {
        return Err(BlockError::Trailing { part: "body", left: left - wanted });
    }
    let found = BlockHeader::checksum(head, body);
    if found != header.crc {
        return Err(BlockError::Checksum { expected: header.crc, found });
    }
    let stored =
        usize::try_from(header.stored_bytes).map_err(|_| BlockError::Invalid("stored length"))?;
    body.split_at_checked(stored).ok_or(BlockError::Invalid("stored length"))
}

/// Reads the node of `rows` rows of `data_type`.
fn node(source: &mut Source<'_>, data_type: &DataType, rows: usize) -> BlockResult<ArrayRef> {
    let (tag, nulls) = source.tag(rows)?;
    if tag == tags::EMPTY {
        return empty(source, data_type, &nulls, rows);
    }
    match data_type {
        DataType::Struct(fields) => nested::structs(source, data_type, fields, tag, nulls, rows),
        DataType::List(field) => nested::list::<i32>(source, data_type, field, tag, nulls, rows),
        DataType::LargeList(field) => {
            nested::list::<i64>(source, data_type, field, tag, nulls, rows)
        }
        DataType::ListView(field) => {
            nested::list_view::<i32>(source, data_type, field, tag, nulls, rows)
        }
        DataType::LargeListView(field) => {
            nested::list_view::<i64>(source, data_type, field, tag, nulls, rows)
        }
        DataType::FixedSizeList(field, size) => {
            nested::fixed_list(source, data_type, (field, *size), tag, nulls, rows)
        }
        DataType::Map(field, sorted) => {
            nested::map(source, data_type, (field, *sorted), tag, nulls, rows)
        }
        DataType::Dictionary(key, value) => {
            dictionary::dictionary(source, data_type, (key, value), tag, nulls, rows)
        }
        DataType::RunEndEncoded(ends, values) => {
            runs::runs(source, data_type, (ends.data_type(), values.data_type()), tag, &nulls, rows)
        }
        DataType::Union(fields, mode) => {
            union::union(source, data_type, (fields, *mode), tag, &nulls, rows)
        }
        _ => leaf::leaf(source, data_type, tag, nulls, rows),
    }
}

/// No rows, a null column, or null rows of a type without children of the same length.
fn empty(
    source: &mut Source<'_>,
    data_type: &DataType,
    nulls: &Nulls,
    rows: usize,
) -> BlockResult<ArrayRef> {
    match (nulls, data_type) {
        (Nulls::None, DataType::Null) => Ok(new_null_array(data_type, rows)),
        (Nulls::None, _) if rows == 0 => Ok(new_empty_array(data_type)),
        (
            Nulls::All,
            DataType::Null
            | DataType::Struct(_)
            | DataType::FixedSizeList(_, _)
            | DataType::RunEndEncoded(_, _)
            | DataType::Union(_, _),
        ) => Err(unknown(data_type, tags::EMPTY)),
        (Nulls::All, _) => {
            source.charge(sizes::null_leaf_bytes(data_type, rows))?;
            Ok(new_null_array(data_type, rows))
        }
        _ => Err(unknown(data_type, tags::EMPTY)),
    }
}
