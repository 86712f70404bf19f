//! Writers are sized to a bound: no buffer is larger than the bound asks for, none grows while it holds.

use crate::support::{CODECS, Noise, Record, append_all, noise_of, to_u64, write, write_with};
use datafusion_ifile::codec::{Codec, Compressor};
use datafusion_ifile::error::Place;
use datafusion_ifile::ifile::{
    RawBound, RecordCounts, SegmentOptions, SpillWriter, WriteBuffer, WriteScratch,
};

/// Raw streams of the sizes that partitions of a spill have, and the edges of one block.
const RAW: [usize; 9] = [2, 24, 127, 128, 2_200, 22_000, 65_534, 65_535, 200_000];

fn counts(records: &[Record]) -> RecordCounts {
    let mut counts = RecordCounts::default();
    for (key, value) in records {
        counts.add(key.len(), value.len());
    }
    counts
}

#[test]
fn i15_an_exact_bound_gives_buffers_of_exactly_its_size() {
    for codec in [Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::DEFLATE] {
        for raw in RAW {
            let records = if raw == 2 { vec![] } else { noise_of(raw, 1) };
            let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
            let bound = RawBound::exact(to_u64(4 + raw));
            let (sink, summary) = write_with(&records, &mut scratch, bound);
            assert_eq!(summary.raw_length, bound.raw_length(), "{codec} {raw}");
            // Header, body, and the checksum that a raw body is stored with.
            assert_eq!(scratch.block_bytes(), 4 + raw + 4, "{codec} {raw}");
            // Header, block header, the most the codec can make of it, checksum.
            let bound = Compressor::new(codec).unwrap().bound(raw);
            assert_eq!(scratch.stored_bytes(), 4 + 8 + bound + 4, "{codec} {raw}");
            assert_eq!(scratch.growths(), 0, "{codec} {raw}");
            assert_eq!(sink.writes.len(), 1, "{codec} {raw}");
        }
    }
}

#[test]
fn i15_the_write_buffer_without_a_codec_is_sized_too() {
    for raw in RAW {
        let records = if raw == 2 { vec![] } else { noise_of(raw, 1) };
        let mut scratch = WriteScratch::new(SegmentOptions::new(Codec::None)).unwrap();
        let bound = RawBound::exact(to_u64(4 + raw));
        write_with(&records, &mut scratch, bound);
        assert_eq!(scratch.block_bytes(), (4 + raw + 4).min(WriteBuffer::MAX), "{raw}");
        assert_eq!((scratch.stored_bytes(), scratch.growths()), (0, 0), "{raw}");
    }
}

#[test]
fn i15_a_bound_beyond_the_codec_buffer_falls_back_to_it() {
    for (codec, max_input) in [(Codec::Snappy, 218_422), (Codec::Lz4, 261_100)] {
        let records = noise_of(3 * max_input, 2);
        let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
        write_with(&records, &mut scratch, RawBound::exact(to_u64(4 + 3 * max_input)));
        assert_eq!(scratch.block_bytes(), 4 + max_input, "{codec}");
        assert_eq!(scratch.growths(), 0, "{codec}");
    }
}

#[test]
fn i15_bounds_from_counts_hold_for_every_width_of_length() {
    for key_len in [0, 1, 127, 128, 255, 256] {
        for value_len in [0, 1, 112, 127, 128, 255, 256, 65_535, 65_536, 65_664, 131_072] {
            let mut noise = Noise::new(3);
            let records: Vec<Record> =
                (0..3).map(|_| (noise.bytes(key_len), noise.bytes(value_len))).collect();
            let bound = RawBound::records(counts(&records));
            let mut scratch = WriteScratch::new(SegmentOptions::new(Codec::Lz4)).unwrap();
            let (_, summary) = write_with(&records, &mut scratch, bound);
            let what = format!("{key_len} {value_len}: {bound:?} {summary:?}");
            assert!(bound.raw_length() >= summary.raw_length, "{what}");
            // At most what the longest possible vints take more than the real ones.
            assert!(bound.raw_length() <= summary.raw_length + 3 * 8, "{what}");
            assert_eq!(scratch.growths(), 0, "{what}");
        }
    }
}

#[test]
fn i15_the_bound_of_a_spill_counts_every_buffer() {
    let buffers: Vec<Vec<Record>> =
        vec![noise_of(50, 1), vec![], noise_of(3_000, 2), noise_of(200, 3), noise_of(7, 4)];
    let all: Vec<Record> = buffers.iter().flatten().cloned().collect();
    let bound = RawBound::spill(buffers.iter().map(|buffer| counts(buffer)));
    assert_eq!(bound, RawBound::records(counts(&all)));
    let mut scratch = WriteScratch::new(SegmentOptions::new(Codec::Snappy)).unwrap();
    let (_, summary) = write_with(&all, &mut scratch, bound);
    assert!(bound.raw_length() >= summary.raw_length);
    assert_eq!(scratch.growths(), 0);
    // Leaving out any buffer with records is too little.
    for left_out in [0, 2, 3] {
        let some = buffers.iter().enumerate().filter(|(index, _)| *index != left_out);
        let less = RawBound::spill(some.map(|(_, buffer)| counts(buffer)));
        assert!(less < bound, "without buffer {left_out}");
    }
    let first = RawBound::spill([counts(&buffers[0])]);
    assert!(first.raw_length() < summary.raw_length);
}

#[test]
fn i15_the_bound_of_a_merge_is_the_raw_length_of_all_spills_together() {
    let options = SegmentOptions::new(Codec::Lz4);
    let spills = [noise_of(500, 1), noise_of(9, 2), noise_of(70_000, 3)];
    let raw_lengths = spills.iter().map(|spill| write(spill, options).1.raw_length);
    // A spill without the partition, and one with an empty segment.
    let raw_lengths: Vec<u64> = raw_lengths.chain([0, 6]).collect();
    let bound = RawBound::merge(raw_lengths.iter().copied());
    let merged: Vec<Record> = spills.iter().flatten().cloned().collect();
    let mut scratch = WriteScratch::new(options).unwrap();
    let (_, summary) = write_with(&merged, &mut scratch, bound);
    assert_eq!(bound.raw_length(), summary.raw_length);
    assert_eq!(scratch.block_bytes(), usize::try_from(summary.raw_length).unwrap() + 4);
    assert_eq!(scratch.growths(), 0);
    assert!(RawBound::merge([raw_lengths[0]]).raw_length() < summary.raw_length);
    assert_eq!(RawBound::merge([]), RawBound::EMPTY);
}

#[test]
fn i18_a_spill_is_sized_to_its_partitions_and_shares_one_scratch() {
    for codec in CODECS {
        let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
        let mut data = vec![];
        let mut spill = SpillWriter::new(&mut data, &mut scratch, 3, Place::default());
        let partitions = [noise_of(40, 1), noise_of(900, 2), noise_of(41, 3)];
        let bounds: Vec<RawBound> =
            partitions.iter().map(|records| RawBound::records(counts(records))).collect();
        for (records, bound) in partitions.iter().zip(&bounds) {
            spill.partition(*bound, |writer| append_all(writer, records)).unwrap();
        }
        spill.finish().unwrap();
        let largest = usize::try_from(bounds[1].raw_length()).unwrap();
        assert_eq!(scratch.block_bytes(), largest + 4, "{codec}");
        assert_eq!(scratch.growths(), 0, "{codec}");
    }
}

#[test]
fn i15_runs_have_room_in_their_bound() {
    let records: Vec<Record> = (0..9).map(|row| (vec![row / 2], vec![])).collect();
    let options = SegmentOptions::new(Codec::Snappy).with_runs(true);
    let mut scratch = WriteScratch::new(options).unwrap();
    let bound = RawBound::records(counts(&records)).with_runs(9);
    let (_, summary) = write_with(&records, &mut scratch, bound);
    assert!(bound.raw_length() >= summary.raw_length);
    assert_eq!(scratch.growths(), 0);
}

#[test]
fn c3_states_report_their_memory_before_the_first_segment() {
    for codec in [Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::Zstd { level: 19 }] {
        for raw in [100, 20_000, 1_000_000] {
            let bound = RawBound::exact(to_u64(raw));
            let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
            scratch.prepare(bound).unwrap();
            let before = scratch.held_bytes();
            write_with(&noise_of(raw - 4, 4), &mut scratch, bound);
            assert!(scratch.held_bytes() <= before, "{codec} {raw}");
        }
    }
}

#[test]
fn c3_a_window_bounds_the_memory_of_high_levels() {
    let options = SegmentOptions::new(Codec::Zstd { level: 22 });
    let mut scratch = WriteScratch::new(options).unwrap();
    scratch.prepare(RawBound::UNKNOWN).unwrap();
    let held = scratch.held_bytes();
    assert!(held < 16 << 20, "{held} bytes; a window of the level's own takes 834 MiB");
}
