//! Data files with an index, and writes that fail.

use crate::support::{Sink, append_all, drain, records, to_u64};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::{Fault, IFileError, Place};
use datafusion_ifile::ifile::{
    IndexEntry, RawBound, ReadOptions, SegmentOptions, SegmentReader, SegmentWriter, SpillIndex,
    SpillWriter, UncheckedIndex, WriteScratch,
};
use std::io::Cursor;

#[test]
fn x2_the_three_kinds_of_empty_partition_read_back() {
    let mut scratch = WriteScratch::new(SegmentOptions::new(Codec::Lz4)).unwrap();
    let mut data = vec![];
    let mut spill = SpillWriter::new(&mut data, &mut scratch, 5, Place::default());
    let stream = records(30, 40, 1);
    spill.partition(RawBound::UNKNOWN, |writer| append_all(writer, &stream)).unwrap();
    spill.skip().unwrap();
    spill.partition(RawBound::EMPTY, |_| Ok(())).unwrap();
    spill.partition(RawBound::UNKNOWN, |writer| append_all(writer, &stream)).unwrap();
    let end = spill.offset();
    let (index, _) = spill.finish().unwrap();
    assert_eq!(end, to_u64(data.len()));
    let mut entries = index.entries().to_vec();
    assert_eq!(entries[1], IndexEntry::EMPTY);
    assert_eq!((entries[2].raw_length, entries[2].part_length), (6, 10));
    entries.push(IndexEntry { start_offset: end, ..IndexEntry::EMPTY });
    let index = SpillIndex::new(entries);
    let mut bytes = vec![];
    index.encode(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 5 * 24 + 8);
    let found = UncheckedIndex::parse(&bytes, None).unwrap().validate(end).unwrap();
    assert_eq!(found, index);
    let with_records: Vec<bool> = index.entries().iter().map(IndexEntry::has_records).collect();
    assert_eq!(with_records, [true, false, false, true, false]);
    for entry in index.entries().iter().filter(|entry| entry.has_segment()) {
        let options = ReadOptions::new(Codec::Lz4);
        let found = drain!(SegmentReader::range(Cursor::new(&data), *entry, options).unwrap());
        let expected = if entry.has_records() { &stream[..] } else { &[] };
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn x3_entries_have_to_fit_the_data_file_and_each_other() {
    let parse = |fields: &[[i64; 3]], data_len| {
        let mut bytes: Vec<u8> =
            fields.iter().flatten().flat_map(|field| field.to_be_bytes()).collect();
        bytes.extend_from_slice(&i64::from(crc32fast::hash(&bytes)).to_be_bytes());
        UncheckedIndex::parse(&bytes, Some("f")).unwrap().validate(data_len)
    };
    assert!(parse(&[[0, 100, 104], [104, 100, 104], [0, 0, 0]], 208).is_ok());
    assert!(parse(&[[0, 100, 104], [110, 100, 104]], 214).is_ok(), "a gap is no overlap");
    let fault = |fields: &[[i64; 3]], data_len| {
        let error = parse(fields, data_len).unwrap_err();
        let place = error.place().unwrap().clone();
        (error.fault().unwrap().clone(), place.partition.unwrap(), place.offset)
    };
    let outside = Fault::RangeOutsideFile { limit: 207, found: 208 };
    assert_eq!(fault(&[[0, 100, 104], [104, 100, 104]], 207), (outside, 1, 24));
    let overlap = Fault::RangeOverlap { expected: 104, found: 103 };
    assert_eq!(fault(&[[0, 100, 104], [103, 100, 104]], 300), (overlap, 1, 24));
    for [start, raw, part] in [
        [-1, 100, 104],
        [0, -1, 104],
        [0, 100, -1],
        [0, 0, 104],
        [0, 100, 0],
        [0, 5, 104],
        [0, 100, 8],
        [i64::MIN, i64::MIN, i64::MIN],
    ] {
        let implausible = Fault::IndexEntry { start, raw, part };
        assert_eq!(fault(&[[start, raw, part]], 300), (implausible, 0, 0));
    }
    let outside = Fault::RangeOutsideFile { limit: 300, found: 2 * (i64::MAX.unsigned_abs()) };
    assert_eq!(fault(&[[i64::MAX, 100, i64::MAX]], 300), (outside, 0, 0));
}

#[test]
fn x3_the_high_word_of_the_checksum_is_zero() {
    let bytes = [0, 0, 0, 1, 0, 0, 0, 0];
    let error = UncheckedIndex::parse(&bytes, None).unwrap_err();
    assert!(matches!(error.fault(), Some(Fault::Invalid { expected: 0, found: 1, .. })), "{error}");
}

#[test]
fn a_write_that_fails_keeps_its_cause_and_the_spill_cannot_go_on() {
    for codec in [Codec::None, Codec::Snappy, Codec::ZSTD] {
        for fail_at in 0..4 {
            let sink = Sink { fail_at: Some(fail_at), ..Sink::default() };
            let options = SegmentOptions::tez(codec).with_codec_buffer(1 << 12);
            let mut scratch = WriteScratch::new(options).unwrap();
            let place = Place { file: Some("out.data".into()), partition: None, offset: 50 };
            let mut spill = SpillWriter::new(sink, &mut scratch, 2, place);
            let stream = records(40_000, 12, 7);
            let mut result = Ok(IndexEntry::EMPTY);
            for _ in 0..4 {
                result = spill.partition(RawBound::UNKNOWN, |writer| append_all(writer, &stream));
                if result.is_err() {
                    break;
                }
            }
            let error = result.unwrap_err();
            let IFileError::Io { place, source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.to_string(), "disk is full");
            assert_eq!(place.file.as_deref(), Some("out.data"));
            assert!(place.partition.is_some() && place.offset >= 50, "{error}");
            assert!(spill.skip().is_err() && spill.finish().is_err());
        }
    }
}

#[test]
fn a_segment_whose_write_has_failed_takes_nothing_more() {
    let mut scratch = WriteScratch::new(SegmentOptions::new(Codec::None)).unwrap();
    let sink = Sink { fail_at: Some(0), ..Sink::default() };
    let mut writer = SegmentWriter::new(sink, &mut scratch, RawBound::UNKNOWN).unwrap();
    writer.append(&[], &[1; 100]).unwrap();
    assert!(writer.append(&[], &vec![2; 100_000]).is_err());
    assert!(matches!(writer.append(&[], &[3]), Err(IFileError::Usage(_))));
    assert!(writer.finish().is_err());
    // The scratch is none the worse for it.
    let mut sink = Sink::default();
    let writer = SegmentWriter::new(&mut sink, &mut scratch, RawBound::EMPTY).unwrap();
    writer.finish().unwrap();
    assert_eq!(sink.bytes, *b"TIF\0\xff\xff\xff\xff\0\0");
}
