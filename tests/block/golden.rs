use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion_ifile::Codec;
use datafusion_ifile::block::{BlockDecoder, BlockEncoder, DecodeLimits};

fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "i",
            Arc::new(Int64Array::from(vec![Some(1000), None, Some(1300), Some(1001), Some(1000)])),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![Some("a"), Some("bc"), None, Some(""), Some("def")])),
        ),
        ("b", Arc::new(BooleanArray::from(vec![true, true, true, true, true]))),
        ("f", Arc::new(Float64Array::from(vec![1.5, 1.5, 1.5, 1.5, 1.5]))),
        ("n", Arc::new(Int64Array::from(vec![None, None, None, None, None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// Version 1, byte for byte.
const VERSION_1: &str = concat!(
    // Magic, version, no codec, rows, decoded bytes, raw, stored and plain length, checksum.
    "49420100",
    "05000000",
    "9b000000",
    "2b000000",
    "2b000000",
    "00000000",
    "fb7b34f3",
    // Words with a bitmap: two bytes from a minimum of two bytes.
    "811d",
    "42e803",
    "00000000",
    "2c0101000000",
    // Bytes with a bitmap: lengths of one byte, then all values.
    "861b",
    "010102000003",
    "00616263646566",
    // Bits that are all true, words that are all 1.5, and nothing but nulls.
    "0521",
    "0180000000000000f83f",
    "40",
);

#[test]
fn version_1_is_written_and_read() {
    let batch = batch();
    let mut encoder = BlockEncoder::try_new(batch.schema(), Codec::None).unwrap();
    let mut block = Vec::new();
    encoder.encode(&batch, 0, 5, &mut block).unwrap();
    assert_eq!(hex::encode(&block), VERSION_1);
    let mut decoder = BlockDecoder::try_new(batch.schema(), DecodeLimits::default()).unwrap();
    assert_eq!(decoder.decode(&hex::decode(VERSION_1).unwrap()).unwrap(), batch);
}
