//! What the container allocates, by a counting allocator. All of it is one test, since the count is that of
//! the process.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use datafusion_ifile::codec::{Codec, Compressor, Decompressor};
use datafusion_ifile::error::Place;
use datafusion_ifile::ifile::{
    IndexEntry, RawBound, ReadOptions, ReadScratch, SegmentOptions, SegmentReader, SpillWriter,
    WriteScratch,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::io::Cursor;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocated() -> usize {
    GLOBAL.stats().bytes_allocated
}

fn live() -> usize {
    let stats = GLOBAL.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

const PARTITIONS: usize = 1009;

fn spill(scratch: &mut WriteScratch, data: &mut Vec<u8>, value: &[u8]) -> Vec<IndexEntry> {
    data.clear();
    let mut spill = SpillWriter::new(data, scratch, PARTITIONS, Place::default());
    for _ in 0..PARTITIONS {
        let bound = RawBound::exact(u64::try_from(value.len() + 20).unwrap());
        spill.partition(bound, |writer| writer.append(&[1, 2], value)).unwrap();
    }
    spill.finish().unwrap().0.entries().to_vec()
}

/// I18: the second spill allocates its index and nothing else.
fn later_spills_allocate_nothing(codec: Codec, value: &[u8]) {
    let mut scratch = WriteScratch::new(SegmentOptions::tez(codec)).unwrap();
    let mut data = Vec::new();
    spill(&mut scratch, &mut data, value);
    let before = allocated();
    let entries = spill(&mut scratch, &mut data, value);
    let bytes = allocated() - before;
    // The index, and the copy of it that this test takes.
    let index = 2 * PARTITIONS * size_of::<IndexEntry>();
    assert!(bytes <= index, "{codec} {}: {bytes} bytes", value.len());

    let mut read_scratch = ReadScratch::default();
    let mut source = Cursor::new(data);
    for (index, entry) in entries.iter().enumerate() {
        let before = allocated();
        let options = ReadOptions::new(codec);
        let mut reader = SegmentReader::range_in(read_scratch, source, *entry, options).unwrap();
        assert_eq!(reader.next_record().unwrap().unwrap().value, value);
        assert!(reader.next_record().unwrap().is_none());
        (source, read_scratch) = reader.into_parts();
        let bytes = allocated() - before;
        assert!(index == 0 || bytes == 0, "{codec} reads {index} with {bytes} bytes");
    }
}

/// C3: a state reports at least what it holds, and not much more.
fn states_report_what_they_hold(codec: Codec, data: &[u8]) {
    let mut stored = Vec::with_capacity(2 * data.len() + 100);
    let before = live();
    let mut encoder = Compressor::new(codec).unwrap();
    encoder.compress(data, &mut stored).unwrap();
    let held = live() - before + size_of_val(&encoder);
    let reported = encoder.state_bytes() + size_of_val(&encoder);
    assert!(reported >= held, "{codec} holds {held}, reports {reported}");
    assert!(reported <= held + held / 4, "{codec} holds {held}, reports {reported}");

    let mut out = vec![0; data.len()];
    let before = live();
    let mut decoder = Decompressor::new();
    decoder.decompress_into(codec, &stored, &mut out).unwrap();
    let held = live() - before;
    let reported = decoder.state_bytes();
    assert!(reported >= held, "{codec} decoder holds {held}, reports {reported}");
    assert!(reported <= held + held / 4, "{codec} decoder holds {held}, reports {reported}");
}

#[test]
fn i18_and_c3_hold_by_the_allocator() {
    let value: Vec<u8> = (0..22_000_u32).map(|n| n.to_le_bytes()[n as usize % 2]).collect();
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 1 }, Codec::DEFLATE]
    {
        for len in [12, 2_200, 22_000] {
            later_spills_allocate_nothing(codec, &value[..len]);
        }
    }
    // A Zstandard context is outside of Rust's allocator; the library measures it itself.
    for codec in [Codec::Snappy, Codec::Lz4, Codec::DEFLATE] {
        states_report_what_they_hold(codec, &value);
    }
}
