//! What users of shuffles have met, as far as the container is concerned.

use crate::support::{Noise, Record, append_all, records, to_u64, write, write_with};
use datafusion_ifile::codec::{Codec, Compressor};
use datafusion_ifile::error::Place;
use datafusion_ifile::ifile::{RawBound, SegmentOptions, SpillWriter, WriteScratch};

#[test]
fn case_24_framing_is_at_most_a_hundredth_of_the_bytes() {
    // 200 outputs of 1 M rows of about 100 bytes, compressed by half: 40 blocks of 64 KiB in each.
    let mut noise = Noise::new(1);
    let block = noise.bytes(64 * 1024);
    let mut scratch = WriteScratch::new(SegmentOptions::new(Codec::None)).unwrap();
    let mut data = vec![];
    let mut spill = SpillWriter::new(&mut data, &mut scratch, 200, Place::default());
    let mut payload = 0;
    for _ in 0..200 {
        spill
            .partition(RawBound::UNKNOWN, |writer| {
                (0..4).try_for_each(|_| {
                    payload += block.len();
                    writer.append(&[], &block)
                })
            })
            .unwrap();
    }
    let (index, _) = spill.finish().unwrap();
    let mut index_bytes = vec![];
    index.encode(&mut index_bytes).unwrap();
    let framing = data.len() + index_bytes.len() - payload;
    assert!(framing * 100 <= payload, "{framing} bytes of framing for {payload}");
    // Header, checksum, markers, and 6 bytes per block; 24 bytes in the index.
    assert_eq!(framing, 200 * (4 + 4 + 2 + 4 * 5 + 24) + 8);
}

#[test]
fn case_24_key_value_segments_spend_a_block_header_per_block() {
    let stream = records(20_000, 92, 2);
    for codec in [Codec::Snappy, Codec::Lz4] {
        let (_, summary) = write(&stream, SegmentOptions::new(codec));
        let blocks = summary.raw_length / 200_000 + 1;
        let framing = 8 + 8 * blocks;
        assert!(framing * 100 <= summary.part_length, "{codec}");
    }
}

#[test]
fn case_25_levels_differ() {
    let mut noise = Noise::new(3);
    let words: Vec<Vec<u8>> = (0..400).map(|len| noise.bytes(2 + len % 9)).collect();
    let text: Vec<u8> =
        (0..30_000).flat_map(|_| words[noise.below(400).min(noise.below(400))].clone()).collect();
    let stored: Vec<usize> = [1, 3, 9]
        .into_iter()
        .map(|level| {
            let mut out = vec![];
            Compressor::new(Codec::Zstd { level }).unwrap().compress(&text, &mut out).unwrap()
        })
        .collect();
    assert!(stored[0] != stored[1] && stored[1] != stored[2], "{stored:?}");
    assert!(stored[2] < stored[0], "{stored:?}");
}

#[test]
fn case_25_states_are_built_once_and_tiny_blocks_are_stored_raw() {
    for codec in [Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::DEFLATE] {
        let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
        let stream: Vec<Record> = vec![(vec![1], vec![2])];
        write_with(&stream, &mut scratch, RawBound::UNKNOWN);
        let held = scratch.held_bytes();
        for _ in 0..1_000 {
            let (sink, summary) = write_with(&stream, &mut scratch, RawBound::UNKNOWN);
            assert!(!summary.compressed, "{codec}");
            assert_eq!(to_u64(sink.bytes.len()), summary.raw_length + 4);
        }
        assert_eq!(scratch.held_bytes(), held, "{codec}");
    }
    let mut spill_scratch = WriteScratch::new(SegmentOptions::new(Codec::Lz4)).unwrap();
    let mut data = vec![];
    let mut spill = SpillWriter::new(&mut data, &mut spill_scratch, 1, Place::default());
    let entry =
        spill.partition(RawBound::UNKNOWN, |writer| append_all(writer, &records(1, 4, 1))).unwrap();
    assert_eq!(entry.part_length, entry.raw_length + 4);
}
