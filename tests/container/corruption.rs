//! Flipped and missing bytes end in an error that says where, or change nothing; never in wrong records.

use crate::support::{CODECS, Record, WAYS, Way, append_all, drain, read, records, to_u64, write};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::Place;
use datafusion_ifile::ifile::{
    Lengths, RawBound, ReadOptions, SegmentOptions, SegmentReader, SpillWriter, UncheckedIndex,
    WriteMode, WriteScratch,
};
use std::io::Cursor;

/// Small segments of every kind: raw, blocks of one and several chunks, frames, runs.
fn small_segments() -> Vec<(Codec, Vec<u8>, Vec<Record>, Lengths)> {
    let mut segments = vec![];
    let streams: [Vec<Record>; 4] = [
        vec![],
        vec![(vec![1, 2, 3], vec![4; 5]), (vec![1, 2, 3], vec![9]), (vec![1, 2, 3], vec![])],
        records(6, 20, 1),
        vec![(vec![], vec![]), (vec![], vec![0xff; 150])],
    ];
    for codec in CODECS {
        for stream in &streams {
            for runs in [false, true] {
                for mode in [WriteMode::Buffered, WriteMode::Unbuffered] {
                    for raw in [false, true] {
                        let options = SegmentOptions::tez(codec)
                            .with_codec_buffer(64)
                            .with_runs(runs)
                            .with_mode(mode)
                            .with_store_incompressible_raw(raw);
                        let (bytes, summary) = write(stream, options);
                        let lengths = Lengths::both(summary.raw_length, summary.part_length);
                        segments.push((codec, bytes, stream.clone(), lengths));
                    }
                }
            }
        }
    }
    segments
}

fn check(way: Way, bytes: &[u8], lengths: Lengths, options: ReadOptions, expected: &[Record]) {
    match read(way, bytes, lengths, options) {
        Ok(records) => assert_eq!(records, expected, "{way:?} {bytes:02x?}"),
        Err(error) => {
            let place = error.place().unwrap_or_else(|| panic!("{error}"));
            assert!(place.offset <= to_u64(bytes.len()) + 4, "{error}");
            assert_eq!(place.file.as_deref(), Some("spill.data"), "{error}");
            assert_eq!(place.partition, Some(7), "{error}");
        }
    }
}

fn options(codec: Codec) -> ReadOptions {
    ReadOptions::new(codec).with_codec_buffer(64).with_file("spill.data").with_partition(7)
}

#[test]
fn i3_every_flipped_bit_is_an_error_or_changes_nothing() {
    for (codec, bytes, expected, lengths) in small_segments() {
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[at] ^= 1 << bit;
                for way in WAYS {
                    check(way, &broken, lengths, options(codec), &expected);
                    let part = Lengths::part(to_u64(broken.len()));
                    check(way, &broken, part, options(codec), &expected);
                }
            }
        }
    }
}

#[test]
fn i3_every_truncation_is_an_error() {
    for (codec, bytes, expected, lengths) in small_segments() {
        for cut in 0..bytes.len() {
            for way in WAYS {
                let broken = &bytes[..cut];
                let part = Lengths::part(to_u64(cut));
                for lengths in [lengths, part, Lengths::UNKNOWN] {
                    let result = read(way, broken, lengths, options(codec));
                    assert!(result.is_err(), "{codec} {way:?} cut at {cut} of {bytes:02x?}");
                    check(way, broken, lengths, options(codec), &expected);
                }
            }
        }
    }
}

#[test]
fn case_29_flips_and_cuts_of_a_spill_name_file_partition_and_offset() {
    for codec in CODECS {
        let mut scratch = WriteScratch::new(SegmentOptions::tez(codec)).unwrap();
        let mut data = vec![];
        let mut spill = SpillWriter::new(&mut data, &mut scratch, 40, Place::default());
        let stream = |partition: usize| records(partition % 9, 50, to_u64(partition));
        for partition in 0..40 {
            let records = stream(partition);
            if records.is_empty() {
                spill.skip().unwrap();
                continue;
            }
            spill.partition(RawBound::UNKNOWN, |writer| append_all(writer, &records)).unwrap();
        }
        let (index, _) = spill.finish().unwrap();
        let mut index_bytes = vec![];
        index.encode(&mut index_bytes).unwrap();
        for at in (0..index_bytes.len()).step_by(97).chain([index_bytes.len() - 1]) {
            let mut broken = index_bytes.clone();
            broken[at] ^= 0x10;
            let error = UncheckedIndex::parse(&broken, Some("spill.index")).unwrap_err();
            assert_eq!(error.place().unwrap().file.as_deref(), Some("spill.index"));
        }
        for cut in (0..index_bytes.len()).step_by(8) {
            // The first 8 bytes are those of an index of no partitions, which this data is not of.
            let index = UncheckedIndex::parse(&index_bytes[..cut], Some("spill.index"))
                .and_then(|index| index.validate(to_u64(data.len())))
                .and_then(|index| index.check_contiguous(to_u64(data.len())));
            assert!(index.is_err(), "cut at {cut}");
        }
        for at in (0..data.len()).step_by(97) {
            let mut broken = data.clone();
            broken[at] ^= 0x10;
            let mut failed = 0;
            for (partition, entry) in index.entries().iter().enumerate() {
                if !entry.has_segment() {
                    continue;
                }
                let number = u32::try_from(partition).unwrap();
                let options =
                    ReadOptions::new(codec).with_file("spill.data").with_partition(number);
                let range = SegmentReader::range(Cursor::new(&broken), *entry, options);
                match range.and_then(|reader| drain!(reader)) {
                    Ok(found) => assert_eq!(found, stream(partition), "{codec} flip at {at}"),
                    Err(error) => {
                        failed += 1;
                        let place = error.place().unwrap();
                        assert_eq!(place.partition, Some(number));
                        let range = entry.start_offset..=entry.end_offset();
                        assert!(range.contains(&place.offset), "{error}");
                    }
                }
            }
            assert_eq!(failed, 1, "{codec} flip at {at}");
        }
        let unchecked = UncheckedIndex::parse(&index_bytes, None).unwrap();
        for entry in index.entries().iter().filter(|entry| entry.has_segment()) {
            // Cut the data file at each boundary: the index no longer fits it.
            let cut = unchecked.clone().validate(entry.end_offset() - 1);
            assert!(cut.is_err());
        }
        assert_eq!(unchecked.validate(to_u64(data.len())).unwrap(), index);
    }
}

#[test]
fn i3_a_streaming_reader_ends_in_an_error_if_the_checksum_fails() {
    let stream = records(2_000, 50, 3);
    let (mut bytes, summary) = write(&stream, SegmentOptions::new(Codec::None));
    // A byte of a value: nothing but the checksum can tell.
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    let lengths = Lengths::part(summary.part_length);
    let mut reader =
        SegmentReader::self_checked(&bytes[..], lengths, ReadOptions::new(Codec::None)).unwrap();
    let mut count = 0;
    let error = loop {
        match reader.next_record() {
            Ok(Some(_)) => count += 1,
            Ok(None) => panic!("the end was reported"),
            Err(error) => break error,
        }
    };
    assert_eq!(count, 2_000);
    assert!(error.to_string().contains("expected checksum"), "{error}");
    assert!(reader.next_record().is_err(), "and stays an error");
    let options = ReadOptions::new(Codec::None).with_buffer(64);
    let verified = SegmentReader::verified(Cursor::new(&bytes), lengths, options);
    assert!(verified.is_err(), "a verifying reader hands out nothing");
}
