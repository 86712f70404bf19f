//! Flips, cuts and lies: typed errors, and never a panic.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;

use super::generate::{self, NESTED_KINDS, Rng};
use super::{CODECS, batch, encode};
use crate::block::{BlockDecoder, BlockError, BlockHeader, DecodeLimits, HEADER_LEN};
use crate::codec::Codec;

fn decoder(batch: &RecordBatch) -> BlockDecoder {
    let limits = DecodeLimits { max_rows: 100_000, max_decoded_bytes: 16 << 20 };
    BlockDecoder::try_new(batch.schema(), limits).unwrap()
}

/// The block with a checksum that holds again.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let head: &[u8; HEADER_LEN] = bytes.first_chunk().unwrap();
    let crc = BlockHeader::checksum(head, &bytes[HEADER_LEN..]);
    bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn sample(seed: u64, rows: usize) -> RecordBatch {
    let mut rng = Rng(seed);
    let mut types = generate::leaf_types();
    types.extend((0..NESTED_KINDS).map(|kind| generate::nested_type(&mut rng, kind, 1)));
    let fields: Vec<Field> =
        types.into_iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t, true)).collect();
    let columns =
        fields.iter().map(|f| generate::array(&mut rng, f.data_type(), rows, true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn every_flipped_bit_is_found() {
    for (seed, codec) in CODECS.into_iter().enumerate() {
        let batch = sample(seed as u64, 20);
        let mut bytes = encode(&batch, codec);
        let mut decoder = decoder(&batch);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(decoder.decode(&bytes).is_err(), "byte {at}, bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert_eq!(decoder.decode(&bytes).unwrap().num_rows(), 20);
    }
}

#[test]
fn every_cut_is_found() {
    for (seed, codec) in CODECS.into_iter().enumerate() {
        let batch = sample(seed as u64, 20);
        let bytes = encode(&batch, codec);
        let mut decoder = decoder(&batch);
        for len in 0..bytes.len() {
            let wanted = if len < HEADER_LEN { HEADER_LEN } else { bytes.len() - HEADER_LEN };
            match decoder.decode(&bytes[..len]) {
                Err(BlockError::Truncated { wanted: w, .. }) => assert_eq!(w, wanted as u64),
                other => panic!("cut at {len}: {other:?}"),
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(decoder.decode(&longer), Err(BlockError::Trailing { part: "body", left: 1 }));
    }
}

/// Whoever can forge a checksum gets an error or some rows, but no panic and no allocation beyond the limits.
#[test]
fn flips_under_a_valid_checksum_do_not_panic() {
    for (seed, rows) in [(1, 1), (2, 7), (3, 70)] {
        let batch = sample(seed, rows);
        for codec in [Codec::None, Codec::Lz4] {
            let bytes = encode(&batch, codec);
            let mut decoder = decoder(&batch);
            for at in (0..HEADER_LEN - 4).chain(HEADER_LEN..bytes.len()) {
                for value in [bytes[at] ^ 1, bytes[at] ^ 0x80, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] = value;
                    if let Ok(rows) = decoder.decode(&resealed(bytes)) {
                        for column in rows.columns() {
                            column.to_data().validate_full().unwrap();
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn cuts_under_a_valid_header_do_not_panic() {
    for seed in 0..6 {
        let batch = sample(seed, 40);
        let bytes = encode(&batch, Codec::None);
        let mut decoder = decoder(&batch);
        for len in HEADER_LEN..bytes.len() {
            let mut header = BlockHeader::parse(&bytes).unwrap();
            header.raw_bytes = (len - HEADER_LEN) as u32;
            header.stored_bytes = header.raw_bytes;
            header.plain_bytes = 0;
            let cut = [&header.to_bytes()[..], &bytes[HEADER_LEN..len]].concat();
            assert!(decoder.decode(&resealed(cut)).is_err(), "cut at {len}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn noise_under_a_valid_checksum_does_not_panic(seed: u64, edits in 1usize..20) {
        let mut rng = Rng(seed);
        let data_type = generate::random_type(&mut rng, 3);
        let array = generate::array(&mut rng, &data_type, 50, true);
        let batch = batch(vec![("c", array)]);
        let mut bytes = encode(&batch, Codec::None);
        for _ in 0..edits {
            let at = 4 + rng.below(bytes.len() - 4);
            bytes[at] = rng.next() as u8;
        }
        let mut header = BlockHeader::parse(&bytes).unwrap();
        header.rows = rng.below(200) as u32;
        header.decoded_bytes = 1 << 20;
        header.stored_bytes = (bytes.len() - HEADER_LEN) as u32;
        header.raw_bytes = header.stored_bytes;
        header.plain_bytes = 0;
        bytes[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        if let Ok(rows) = decoder(&batch).decode(&resealed(bytes)) {
            rows.column(0).to_data().validate_full().unwrap();
        }
    }

    #[test]
    fn any_bytes_are_refused(mut bytes: Vec<u8>) {
        let batch = batch(vec![("c", Arc::new(Int64Array::from(vec![1])))]);
        let mut decoder = decoder(&batch);
        prop_assert!(decoder.decode(&bytes).is_err());
        bytes.splice(0..0, *b"IB\x01\x00");
        prop_assert!(decoder.decode(&bytes).is_err());
    }
}

#[test]
fn a_foreign_start_version_or_codec_is_named() {
    let batch = batch(vec![("c", Arc::new(Int64Array::from(vec![1, 2, 3])))]);
    let bytes = encode(&batch, Codec::None);
    let mut decoder = decoder(&batch);
    let mut with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        decoder.decode(&resealed(bytes))
    };
    assert_eq!(with(0, b'X'), Err(BlockError::Magic(*b"XB")));
    assert_eq!(with(2, 9), Err(BlockError::Version(9)));
    assert_eq!(with(3, 77), Err(BlockError::Codec(77)));
    let tag = with(HEADER_LEN, 0x2a);
    assert_eq!(tag, Err(BlockError::Encoding { data_type: DataType::Int64, tag: 0x2a }));
}

#[test]
fn rows_and_bytes_are_refused_before_they_are_decoded() {
    // A constant column: four billion rows would be as short.
    let batch = batch(vec![("c", Arc::new(Int64Array::from(vec![7; 1000])))]);
    let bytes = encode(&batch, Codec::None);
    assert!(bytes.len() < HEADER_LEN + 8);
    let with = |max_rows, max_decoded_bytes| {
        let limits = DecodeLimits { max_rows, max_decoded_bytes };
        BlockDecoder::try_new(batch.schema(), limits).unwrap().decode(&bytes).map(|b| b.num_rows())
    };
    assert_eq!(with(1000, 8000), Ok(1000));
    assert_eq!(with(999, 8000), Err(BlockError::Limit { what: "rows", found: 1000, limit: 999 }));
    let too_many = BlockError::Limit { what: "decoded bytes", found: 8000, limit: 7999 };
    assert_eq!(with(1000, 7999), Err(too_many));

    let mut header = BlockHeader::parse(&bytes).unwrap();
    header.rows = u32::MAX;
    let lie = resealed([&header.to_bytes()[..], &bytes[HEADER_LEN..]].concat());
    let limits = DecodeLimits { max_rows: usize::MAX, max_decoded_bytes: usize::MAX };
    let found = BlockDecoder::try_new(batch.schema(), limits).unwrap().decode(&lie);
    let wanted = u64::from(u32::MAX) * 8;
    assert_eq!(found, Err(BlockError::Limit { what: "decoded bytes", found: wanted, limit: 8000 }));
}

#[test]
fn invalid_utf8_is_refused() {
    let batch = batch(vec![("c", Arc::new(StringArray::from(vec!["abc"])))]);
    let mut bytes = encode(&batch, Codec::None);
    let at = bytes.windows(3).position(|w| w == b"abc").unwrap();
    bytes[at + 1] = 0xff;
    let found = decoder(&batch).decode(&resealed(bytes));
    assert!(matches!(found, Err(BlockError::Arrow(_))), "{found:?}");
}
