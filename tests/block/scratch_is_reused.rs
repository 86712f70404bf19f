use std::sync::Arc;

use arrow::array::{Decimal128Array, Int64Array, RecordBatch, StringArray};
use datafusion_ifile::Codec;
use datafusion_ifile::block::BlockEncoder;

/// A spill of 1,009 tiny partitions needs no more memory than its first blocks.
#[test]
fn a_spill_of_many_tiny_partitions_allocates_nothing_new() {
    let rows = 1009 * 10;
    let batch = RecordBatch::try_from_iter(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows)) as _),
        (
            "price",
            Arc::new(Decimal128Array::from_iter_values((0..rows).map(|i| i128::from(i * 7 % 1000))))
                as _,
        ),
        (
            "name",
            Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("name {}", i % 13))))
                as _,
        ),
    ])
    .unwrap();
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 1 }] {
        let mut encoder = BlockEncoder::try_new(batch.schema(), codec).unwrap();
        let mut out = Vec::with_capacity(1 << 20);
        encoder.encode(&batch, 0, 100, &mut out).unwrap();
        let held = encoder.held_bytes();
        let mut raw = 0;
        for partition in 0..1009 {
            raw += encoder.encode(&batch, partition * 10, 10, &mut out).unwrap().raw_bytes;
        }
        assert_eq!(encoder.held_bytes(), held, "{codec:?}");
        assert!(raw < 1009 * 160, "{raw} bytes");
        assert!(out.capacity() == 1 << 20);
    }
}
