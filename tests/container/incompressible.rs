//! Bodies that do not shrink are stored raw, as long as nothing of them has left the scratch.

use crate::support::{Way, noise_of, read, records, to_u64, write, write_with};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::ifile::{Lengths, RawBound, ReadOptions, SegmentOptions, WriteScratch};

const CODECS: [(Codec, usize); 4] = [
    (Codec::Snappy, 218_422),
    (Codec::Lz4, 261_100),
    (Codec::ZSTD, 262_144),
    (Codec::DEFLATE, 262_144),
];

#[test]
fn i16_noise_within_a_block_is_stored_raw() {
    for (codec, max_input) in CODECS {
        for raw in [2, 30, 1_000, max_input - 1, max_input] {
            let stream = if raw == 2 { vec![] } else { noise_of(raw, 1) };
            let (bytes, summary) = write(&stream, SegmentOptions::new(codec));
            assert!(!summary.compressed, "{codec} {raw}");
            assert_eq!(bytes, write(&stream, SegmentOptions::new(Codec::None)).0, "{codec} {raw}");
            assert_eq!(summary.part_length, summary.raw_length + 4);
            let lengths = Lengths::both(summary.raw_length, summary.part_length);
            let read = read(Way::Streaming, &bytes, lengths, ReadOptions::new(codec)).unwrap();
            assert!(read == stream, "{codec} {raw}");
        }
    }
}

#[test]
fn i16_beyond_a_block_a_segment_stays_compressed() {
    for (codec, max_input) in CODECS {
        let stream = noise_of(max_input + 1, 2);
        let (bytes, summary) = write(&stream, SegmentOptions::new(codec));
        assert!(summary.compressed, "{codec}");
        assert_eq!(bytes[3], 1);
        assert!(summary.part_length > summary.raw_length + 4, "{codec}");
    }
}

#[test]
fn i16_what_shrinks_is_compressed_and_never_larger() {
    for (codec, _) in CODECS {
        for count in [1, 2, 3, 5, 10, 100] {
            let stream = records(count, 40, 3);
            let (_, summary) = write(&stream, SegmentOptions::new(codec));
            assert!(summary.part_length <= summary.raw_length + 4, "{codec} {count}");
            assert_eq!(summary.compressed, summary.part_length < summary.raw_length + 4);
        }
        assert!(write(&records(100, 40, 3), SegmentOptions::new(codec)).1.compressed);
    }
}

#[test]
fn i16_the_option_can_be_off_and_tez_has_it_off() {
    for (codec, _) in CODECS {
        for options in [
            SegmentOptions::tez(codec),
            SegmentOptions::new(codec).with_store_incompressible_raw(false),
        ] {
            assert!(write(&noise_of(1_000, 4), options).1.compressed, "{codec}");
            assert!(write(&[], options).1.compressed, "{codec}");
        }
    }
}

#[test]
fn i16_the_bound_has_no_say() {
    for (codec, max_input) in CODECS {
        for raw in [1_000, max_input] {
            let stream = noise_of(raw, 5);
            for bound in [7, 500, to_u64(raw), 1 << 40] {
                let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
                let (_, summary) = write_with(&stream, &mut scratch, RawBound::exact(bound));
                assert!(!summary.compressed, "{codec} {raw} {bound}");
            }
        }
    }
}
