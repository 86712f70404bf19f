//! Segments out of files and streams: ranges, several in a row, sources that trickle or fail.

use crate::support::{CODECS, Record, Trickle, drain, records, to_u64, write};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::{Fault, IFileError};
use datafusion_ifile::ifile::{
    IndexEntry, Lengths, ReadOptions, ReadScratch, SegmentOptions, SegmentReader, SegmentSlice,
};
use std::io::{Cursor, Read, Write};

fn options(codec: Codec) -> ReadOptions {
    ReadOptions::new(codec).with_codec_buffer(300)
}

fn several(codec: Codec) -> (Vec<u8>, Vec<(IndexEntry, Vec<Record>)>) {
    let mut bytes = vec![];
    let mut segments = vec![];
    for seed in 0..6 {
        let stream = records(usize::try_from(seed).unwrap() * 7, 33, seed);
        let (segment, summary) = write(&stream, SegmentOptions::tez(codec).with_codec_buffer(300));
        segments.push((IndexEntry::of(to_u64(bytes.len()), &summary), stream));
        bytes.extend_from_slice(&segment);
    }
    (bytes, segments)
}

#[test]
fn i10_segments_in_a_row_are_read_however_the_source_trickles() {
    for codec in CODECS {
        let (bytes, segments) = several(codec);
        for step in [1, 2, 7, 1000] {
            for known in [false, true] {
                let lengths = |entry: IndexEntry| {
                    if known { Lengths::from(entry) } else { Lengths::UNKNOWN }
                };
                let source = Trickle { bytes: &bytes, step };
                let mut reader =
                    SegmentReader::self_checked(source, lengths(segments[0].0), options(codec))
                        .unwrap();
                for (index, (entry, expected)) in segments.iter().enumerate() {
                    if index > 0 {
                        assert!(reader.next_segment(lengths(*entry), Some(9)).unwrap());
                    }
                    let mut found = vec![];
                    while let Some(record) = reader.next_record().unwrap() {
                        found.push((record.key.to_vec(), record.value.to_vec()));
                    }
                    assert_eq!(found, *expected, "{codec} step {step} segment {index}");
                    assert_eq!(reader.position(), entry.end_offset());
                }
                assert!(!reader.next_segment(Lengths::UNKNOWN, None).unwrap());
            }
        }
    }
}

#[test]
fn i10_a_segment_is_read_to_its_end_before_the_next() {
    let (bytes, segments) = several(Codec::None);
    let lengths = Lengths::from(segments[1].0);
    let start = usize::try_from(segments[1].0.start_offset).unwrap();
    let mut reader =
        SegmentReader::self_checked(&bytes[start..], lengths, options(Codec::None)).unwrap();
    let error = reader.next_segment(Lengths::UNKNOWN, None).unwrap_err();
    assert!(matches!(error, IFileError::Usage(_)), "{error}");
    assert!(reader.next_record().unwrap().is_some());
}

#[test]
fn i1_a_range_of_a_file_is_read_without_the_rest() {
    for codec in CODECS {
        let (bytes, segments) = several(codec);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        for (entry, expected) in segments.iter().rev() {
            for buffer in [16, 100, 1 << 16] {
                let options = options(codec).with_buffer(buffer);
                let reader = SegmentReader::range(&file, *entry, options.clone()).unwrap();
                assert_eq!(drain!(reader).unwrap(), *expected);
                let start = usize::try_from(entry.start_offset).unwrap();
                let slice =
                    SegmentSlice::open(&bytes[start..], Lengths::from(*entry), options).unwrap();
                assert_eq!(drain!(slice).unwrap(), *expected);
            }
        }
    }
}

#[test]
fn i1_faults_name_the_offset_in_the_file() {
    let (mut bytes, segments) = several(Codec::None);
    let entry = segments[3].0;
    let magic = usize::try_from(entry.start_offset).unwrap();
    bytes[magic] = b'X';
    let options = options(Codec::None).with_file("a.data").with_partition(3);
    let error = SegmentReader::range(Cursor::new(&bytes), entry, options).map(|_| ()).unwrap_err();
    assert_eq!(error.fault(), Some(&Fault::Magic { found: *b"XIF" }));
    let place = error.place().unwrap();
    assert_eq!((place.offset, place.partition), (entry.start_offset, Some(3)));
    let text = format!(
        "corrupt data (a.data, partition 3, offset {magic}): \
         expected magic 54 49 46, found 58 49 46"
    );
    assert_eq!(error.to_string(), text);
}

#[test]
fn i11_one_scratch_serves_readers_of_any_codec() {
    let mut scratch = ReadScratch::default();
    for _ in 0..2 {
        for codec in CODECS {
            let (bytes, segments) = several(codec);
            let mut source = Cursor::new(bytes);
            let mut held = 0;
            for (round, (entry, expected)) in segments.iter().chain(&segments).enumerate() {
                let reader = SegmentReader::range_in(scratch, source, *entry, options(codec));
                let mut reader = reader.unwrap();
                let mut found = vec![];
                while let Some(record) = reader.next_record().unwrap() {
                    found.push((record.key.to_vec(), record.value.to_vec()));
                }
                assert_eq!(found, *expected, "{codec}");
                (source, scratch) = reader.into_parts();
                if round >= segments.len() {
                    assert!(scratch.held_bytes() <= held, "{codec}");
                }
                held = held.max(scratch.held_bytes());
            }
        }
    }
}

struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::other("device is gone")),
            len => Ok(len),
        }
    }
}

#[test]
fn an_error_of_the_source_keeps_its_cause_and_place() {
    let (bytes, _) = write(&records(10, 30, 1), SegmentOptions::new(Codec::None));
    let source = Failing(&bytes[..100]);
    let options = options(Codec::None).with_base_offset(1_000);
    let reader =
        SegmentReader::self_checked(source, Lengths::part(to_u64(bytes.len())), options).unwrap();
    let error = drain!(reader).unwrap_err();
    let IFileError::Io { action: "read segment", place, source } = &error else {
        panic!("{error}");
    };
    assert_eq!(place.offset, 1_100);
    assert_eq!(source.to_string(), "device is gone");
}
