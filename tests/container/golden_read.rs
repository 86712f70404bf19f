//! Every golden file is read to the exact records, by every mode of the reader.

use crate::golden::{self, Record, codec, in_order, list, number, read, text};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::ifile::{
    IndexEntry, Lengths, ReadOptions, SegmentReader, SegmentSlice, SegmentSummary, UncheckedIndex,
};
use serde_json::Value;
use std::io::Cursor;

/// Drains any of the readers.
macro_rules! drain {
    ($reader:expr) => {{
        let mut reader = $reader;
        let mut records: Vec<Record> = vec![];
        while let Some(record) = reader.next_record().unwrap() {
            records.push((record.key.to_vec(), record.value.to_vec()));
        }
        (records, reader.summary().unwrap())
    }};
}

fn assert_same(name: &str, mode: &str, found: &[Record], expected: &[Record]) {
    assert_eq!(found.len(), expected.len(), "{name}, {mode}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(found == expected, "{name}, {mode}, record {index}");
    }
}

/// Reads a segment in memory, streaming and in two passes, with lengths known in part, in full and not
/// at all.
fn read_all_ways(
    name: &str,
    bytes: &[u8],
    entry: IndexEntry,
    options: &ReadOptions,
    expected: &[Record],
) -> SegmentSummary {
    let lengths = [Lengths::from(entry), Lengths::part(entry.part_length), Lengths::UNKNOWN];
    let mut summaries = vec![];
    for lengths in lengths {
        let mode = format!("{lengths:?}");
        let (records, summary) =
            drain!(SegmentSlice::open(bytes, lengths, options.clone()).unwrap());
        assert_same(name, &format!("memory {mode}"), &records, expected);
        summaries.push(summary);
        for buffer in [16, 64 * 1024] {
            let options = options.clone().with_buffer(buffer);
            let reader = SegmentReader::self_checked(bytes, lengths, options.clone()).unwrap();
            let (records, summary) = drain!(reader);
            assert_same(name, &format!("streaming {mode}"), &records, expected);
            summaries.push(summary);
            let reader = SegmentReader::verified(Cursor::new(bytes), lengths, options).unwrap();
            let (records, summary) = drain!(reader);
            assert_same(name, &format!("verified {mode}"), &records, expected);
            summaries.push(summary);
        }
    }
    for summary in &summaries {
        assert_eq!(*summary, summaries[0], "{name}");
    }
    let summary = summaries[0];
    assert_eq!(IndexEntry::of(entry.start_offset, &summary), entry, "{name}");
    assert_eq!(summary.records, u64::try_from(expected.len()).unwrap(), "{name}");
    summary
}

fn options(file: &Value) -> ReadOptions {
    ReadOptions::new(codec(file)).with_codec_buffer(golden::codec_buffer(file))
}

#[test]
fn i1_single_segments_hold_the_records_of_the_manifest() {
    let manifest = golden::manifest();
    let files = list(&manifest, "files").iter().filter(|file| text(file, "kind") == "ifile");
    let mut count = 0;
    for file in files {
        let name = text(file, "file");
        let expected: Vec<Record> =
            golden::records(file).into_iter().map(|(record, _)| record).collect();
        let entry = IndexEntry {
            start_offset: 0,
            raw_length: number(file, "raw_length"),
            part_length: number(file, "compressed_length"),
        };
        let summary = read_all_ways(name, &read(name), entry, &options(file), &expected);
        assert_eq!(summary.compressed, codec(file) != Codec::None, "{name}");
        count += 1;
    }
    assert!(count > 30, "{count} files");
}

#[test]
fn x1_spill_files_hold_the_records_of_the_manifest() {
    let manifest = golden::manifest();
    let files = list(&manifest, "files").iter().filter(|file| text(file, "kind") == "spill");
    let mut count = 0;
    for file in files {
        let name = text(file, "file");
        let data = read(name);
        let index_name = text(file, "index_file");
        let index = UncheckedIndex::parse(&read(index_name), Some(index_name)).unwrap();
        let index = index.validate(u64::try_from(data.len()).unwrap()).unwrap();
        index.check_contiguous(u64::try_from(data.len()).unwrap()).unwrap();
        let all = golden::records(file);
        assert_eq!(index.entries().len(), list(file, "partitions").len());
        for (entry, partition) in index.entries().iter().zip(list(file, "partitions")) {
            let what = format!("{name} partition {}", number(partition, "partition"));
            assert_eq!(entry.start_offset, number(partition, "start_offset"), "{what}");
            assert_eq!(entry.raw_length, number(partition, "raw_length"), "{what}");
            assert_eq!(entry.part_length, number(partition, "part_length"), "{what}");
            let expected = in_order(&all, partition);
            assert_eq!(entry.has_records(), !expected.is_empty(), "{what}");
            if !entry.has_segment() {
                continue;
            }
            let range = usize::try_from(entry.start_offset).unwrap()
                ..usize::try_from(entry.end_offset()).unwrap();
            read_all_ways(&what, &data[range], *entry, &options(file), &expected);
        }
        count += 1;
    }
    assert!(count > 20, "{count} files");
}

#[test]
fn i10_segments_one_after_another_are_read_from_one_range() {
    let manifest = golden::manifest();
    for file in list(&manifest, "concatenated") {
        let name = text(file, "file");
        let bytes = read(name);
        let segments = list(file, "segments");
        for known in [true, false] {
            let lengths = |segment: &Value| match known {
                true => Lengths::both(
                    number(segment, "raw_length"),
                    number(segment, "compressed_length"),
                ),
                false => Lengths::UNKNOWN,
            };
            let options = ReadOptions::new(Codec::DEFLATE).with_buffer(100);
            let mut reader =
                SegmentReader::verified(Cursor::new(&bytes), lengths(&segments[0]), options)
                    .unwrap();
            for (index, segment) in segments.iter().enumerate() {
                if index > 0 {
                    assert!(reader.next_segment(lengths(segment), None).unwrap());
                }
                assert_eq!(reader.position() - 4, number(segment, "start_offset"));
                while reader.next_record().unwrap().is_some() {}
                let summary = reader.summary().unwrap();
                assert_eq!(summary.records, number(segment, "records"));
                assert_eq!(summary.raw_length, number(segment, "raw_length"));
                assert_eq!(summary.part_length, number(segment, "compressed_length"));
            }
            assert!(!reader.next_segment(Lengths::UNKNOWN, None).unwrap());
        }
    }
}
