#![allow(clippy::cast_possible_truncation, reason = "small numbers that tests choose")]

mod cases;
mod corrupt;
pub(crate) mod generate;
mod round_trip;
mod types;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::{BlockDecoder, BlockEncoder, BlockHeader, DecodeLimits};
use crate::codec::Codec;

pub(super) const CODECS: [Codec; 4] =
    [Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 1 }];

pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let rows = columns.first().map_or(0, |(_, column)| column.len());
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

pub(super) fn encode(batch: &RecordBatch, codec: Codec) -> Vec<u8> {
    encode_rows(batch, 0, batch.num_rows(), codec)
}

pub(super) fn encode_rows(batch: &RecordBatch, offset: usize, len: usize, codec: Codec) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = BlockEncoder::try_new(batch.schema(), codec).unwrap();
    let info = encoder.encode(batch, offset, len, &mut out).unwrap();
    assert_eq!(info.stored_bytes, out.len());
    assert_eq!(BlockHeader::parse(&out).unwrap().block_len(), out.len() as u64);
    out
}

pub(super) fn decode(schema: SchemaRef, bytes: &[u8]) -> RecordBatch {
    BlockDecoder::try_new(schema, DecodeLimits::default()).unwrap().decode(bytes).unwrap()
}

/// Asserts that the rows survive, and gives back what was decoded.
pub(super) fn round_trip(
    batch: &RecordBatch,
    offset: usize,
    len: usize,
    codec: Codec,
) -> RecordBatch {
    let bytes = encode_rows(batch, offset, len, codec);
    let decoded = decode(batch.schema(), &bytes);
    assert_eq!(decoded.schema(), batch.schema());
    let expected = batch.slice(offset, len);
    assert_eq!(decoded.num_rows(), len);
    for (i, (found, wanted)) in decoded.columns().iter().zip(expected.columns()).enumerate() {
        found.to_data().validate_full().unwrap();
        assert_eq!(found.data_type(), wanted.data_type());
        assert_eq!(
            found.to_data(),
            wanted.to_data(),
            "column {i} of {}, rows {offset} + {len}",
            batch.schema().field(i).data_type()
        );
    }
    decoded
}
