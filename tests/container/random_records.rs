//! Any records, any options: what is written is read.

use crate::support::{Record, WAYS, read, write};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::ifile::{Lengths, ReadOptions, SegmentOptions, WriteMode};
use proptest::collection::vec;
use proptest::prelude::*;

fn records() -> impl Strategy<Value = Vec<Record>> {
    let key = prop_oneof![
        3 => vec(0_u8..3, 0..3),
        1 => vec(any::<u8>(), 0..300),
    ];
    let value = prop_oneof![
        4 => vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 0_usize..3_000).prop_map(|(byte, len)| std::vec![byte; len]),
        1 => vec(any::<u8>(), 0..2_000),
    ];
    vec((key, value), 0..60)
}

fn codecs() -> impl Strategy<Value = Codec> {
    prop_oneof![
        Just(Codec::None),
        Just(Codec::Snappy),
        Just(Codec::Lz4),
        (-3_i32..8).prop_map(|level| Codec::Zstd { level }),
        (0_u32..10).prop_map(|level| Codec::Deflate { level }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i1_what_is_written_is_read(
        stream in records(),
        codec in codecs(),
        codec_buffer in prop_oneof![40_usize..200, 1_000_usize..5_000, Just(256 * 1024)],
        runs in any::<bool>(),
        unbuffered in any::<bool>(),
        store_raw in any::<bool>(),
        buffer in prop_oneof![16_usize..100, Just(64 * 1024)],
    ) {
        let mode = if unbuffered { WriteMode::Unbuffered } else { WriteMode::Buffered };
        let options = SegmentOptions::new(codec)
            .with_codec_buffer(codec_buffer)
            .with_runs(runs)
            .with_mode(mode)
            .with_store_incompressible_raw(store_raw);
        let (bytes, summary) = write(&stream, options);
        let read_options =
            ReadOptions::new(codec).with_codec_buffer(codec_buffer).with_buffer(buffer);
        let both = Lengths::both(summary.raw_length, summary.part_length);
        let part = Lengths::part(summary.part_length);
        for way in WAYS {
            prop_assert!(read(way, &bytes, both, read_options.clone()).unwrap() == stream);
            for lengths in [part, Lengths::UNKNOWN] {
                let options = read_options.clone().with_raw_allowed(!summary.compressed);
                prop_assert!(read(way, &bytes, lengths, options).unwrap() == stream);
            }
        }
    }
}
