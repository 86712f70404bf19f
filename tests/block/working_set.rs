use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use datafusion_ifile::Codec;
use datafusion_ifile::block::{BlockDecoder, BlockEncoder, BlockHeader, DecodeLimits};

fn noise(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

fn batches() -> Vec<RecordBatch> {
    let one = |column: ArrayRef| RecordBatch::try_from_iter(vec![("c", column)]).unwrap();
    let rows = 20_000;
    vec![
        one(Arc::new(Int64Array::from_iter_values((0..rows).map(|i| noise(i) as i64)))),
        one(Arc::new(Float64Array::from_iter_values((0..rows).map(|i| noise(i) as f64)))),
        one(Arc::new(StringViewArray::from_iter_values(
            (0..rows).map(|i| format!("{:x}{i:0>20}", noise(i))),
        ))),
        one(Arc::new(StringViewArray::from_iter_values(
            (0..rows).map(|i| format!("value {}", i % 500)),
        ))),
        one(Arc::new(BinaryArray::from_iter_values(
            (0..rows).map(|i| vec![7u8; (noise(i) % 90) as usize]),
        ))),
    ]
}

/// What is reserved before encoding covers scratch, codec and output.
#[test]
fn encoding_stays_within_its_stated_bound() {
    for batch in batches() {
        for codec in [Codec::None, Codec::Lz4, Codec::Snappy] {
            let mut encoder = BlockEncoder::try_new(batch.schema(), codec).unwrap();
            let state = encoder.held_bytes();
            let mut out = Vec::new();
            encoder.encode(&batch, 0, batch.num_rows(), &mut out).unwrap();
            let used = encoder.held_bytes() - state + out.capacity();
            let bound = BlockEncoder::max_working_bytes(&batch, 0, batch.num_rows());
            assert!(used <= bound, "{used} of {bound} bytes for {:?}, {codec:?}", batch.schema());
        }
    }
}

/// What a header says is enough to decode its block.
#[test]
fn decoded_rows_stay_within_what_the_header_says() {
    for batch in batches() {
        let mut encoder = BlockEncoder::try_new(batch.schema(), Codec::Lz4).unwrap();
        let mut block = Vec::new();
        encoder.encode(&batch, 0, batch.num_rows(), &mut block).unwrap();
        let header = BlockHeader::parse(&block).unwrap();
        let mut decoder = BlockDecoder::try_new(batch.schema(), DecodeLimits::default()).unwrap();
        let decoded = decoder.decode(&block).unwrap();
        assert_eq!(decoded, batch);
        let held: usize = decoded.columns().iter().map(|c| c.get_buffer_memory_size()).sum();
        assert!(held as u64 <= u64::from(header.decoded_bytes) + 64, "{held} bytes, {header:?}");
    }
}
