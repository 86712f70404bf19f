//! Small writes never reach the sink.

use crate::support::{Record, noise_of, records, to_u64, write_with};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::ifile::{RawBound, SegmentOptions, WriteBuffer, WriteMode, WriteScratch};

fn writes(stream: &[Record], options: SegmentOptions) -> Vec<usize> {
    let mut scratch = WriteScratch::new(options).unwrap();
    let (unknown, summary) = write_with(stream, &mut scratch, RawBound::UNKNOWN);
    for bound in [6, summary.raw_length, 1 << 30] {
        let mut scratch = WriteScratch::new(options).unwrap();
        let (sink, _) = write_with(stream, &mut scratch, RawBound::exact(bound));
        // A bound may join the checksum to the last write, or leave it on its own.
        assert!(sink.writes.len().abs_diff(unknown.writes.len()) <= 1);
    }
    unknown.writes
}

#[test]
fn i17_a_segment_that_fits_is_one_write() {
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::DEFLATE] {
        for stream in [vec![], records(1, 10, 1), records(500, 20, 2), records(300, 200, 3)] {
            assert_eq!(writes(&stream, SegmentOptions::tez(codec)).len(), 1, "{codec}");
        }
    }
}

#[test]
fn i17_many_small_records_leave_in_writes_of_64_kib() {
    let stream = records(40_000, 12, 4);
    let writes = writes(&stream, SegmentOptions::new(Codec::None));
    let (last, full) = writes.split_last().unwrap();
    assert_eq!(full.len(), 13);
    assert!(full.iter().all(|len| (WriteBuffer::MAX - 30..=WriteBuffer::MAX).contains(len)));
    assert_eq!(full.iter().sum::<usize>() + last, 4 + 40_000 * 22 + 2 + 4);
}

#[test]
fn i17_a_large_value_bypasses_the_buffer() {
    let value = 100_000;
    let stream: Vec<Record> = vec![(vec![1; 9], vec![2; value]), (vec![], vec![3; 9])];
    // Header, two vints of 1 and 4 bytes, the key; the value; the rest with markers and checksum.
    assert_eq!(
        writes(&stream, SegmentOptions::new(Codec::None)),
        [4 + 5 + 9, value, 2 + 9 + 2 + 4]
    );
}

#[test]
fn i17_a_codec_writes_once_per_block() {
    for (codec, max_input) in [(Codec::Snappy, 218_422), (Codec::Lz4, 261_100)] {
        let stream = records(70_000, 12, 5);
        let raw = 70_000 * 22 + 2;
        let blocks = usize::div_ceil(raw, max_input);
        assert_eq!(writes(&stream, SegmentOptions::tez(codec)).len(), blocks, "{codec}");
    }
    let blocks = usize::div_ceil(70_000 * 22 + 2, 256 * 1024);
    let found = writes(&records(70_000, 12, 5), SegmentOptions::tez(Codec::ZSTD)).len();
    assert!(found <= blocks + 1, "{found}");
}

#[test]
fn i17_the_checksum_of_a_full_raw_block_stands_alone_only_without_room() {
    let options = SegmentOptions::new(Codec::Snappy);
    let stream = noise_of(218_422, 6);
    let mut scratch = WriteScratch::new(options).unwrap();
    let (sink, summary) = write_with(&stream, &mut scratch, RawBound::exact(to_u64(4 + 218_422)));
    assert!(!summary.compressed);
    assert_eq!(sink.writes, [4 + 218_422, 4]);
}

#[test]
fn i14_unbuffered_without_a_codec_is_a_write_per_vint_byte_key_and_value() {
    let options = SegmentOptions::tez(Codec::None).with_mode(WriteMode::Unbuffered);
    let stream: Vec<Record> =
        vec![(vec![1; 3], vec![2; 200]), (vec![], vec![]), (vec![4; 300], vec![5])];
    let expected = [4, 1, 1, 1, 3, 200, 1, 1, 1, 1, 1, 1, 300, 1, 1, 1, 4];
    assert_eq!(writes(&stream, options), expected);
}
