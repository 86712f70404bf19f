//! The malformed files each end in the right kind of error.

use crate::golden::{self, list, number, read, text};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::{Fault, IFileError, LengthField, Result};
use datafusion_ifile::ifile::{Lengths, ReadOptions, SegmentReader, SegmentSlice, UncheckedIndex};
use std::io::Cursor;

fn slice(bytes: &[u8], part: u64) -> Result<u64> {
    let mut reader = SegmentSlice::open(bytes, Lengths::part(part), ReadOptions::new(Codec::None))?;
    while reader.next_record()?.is_some() {}
    Ok(reader.summary().unwrap().records)
}

fn verified(bytes: &[u8], part: u64) -> Result<u64> {
    let options = ReadOptions::new(Codec::None).with_buffer(16);
    let mut reader = SegmentReader::verified(Cursor::new(bytes), Lengths::part(part), options)?;
    while reader.next_record()?.is_some() {}
    Ok(reader.summary().unwrap().records)
}

fn streaming(bytes: &[u8], part: u64) -> Result<u64> {
    let options = ReadOptions::new(Codec::None);
    let mut reader = SegmentReader::self_checked(bytes, Lengths::part(part), options)?;
    while reader.next_record()?.is_some() {}
    Ok(reader.summary().unwrap().records)
}

/// What must become of a file.
enum Expected {
    /// It is read to its end.
    Fine,
    /// This fault.
    Fault(Fault),
    /// The outcome of Tez's reader, for files of another set than the one in the repository.
    AsTez,
}

fn expected(name: &str) -> Expected {
    match fault_of(name) {
        Some(fault) => Expected::Fault(fault),
        None if name.contains("rle_vend_rle")
            || name.contains("ok_two")
            || name.contains("long_stream") =>
        {
            Expected::Fine
        }
        None => Expected::AsTez,
    }
}

/// The fault that a file of the repository's set must end in.
fn fault_of(name: &str) -> Option<Fault> {
    let key = LengthField::Key;
    let value = LengthField::Value;
    Some(match name.trim_start_matches("neg/").trim_end_matches(".ifile") {
        "bad_magic" => Fault::Magic { found: *b"THF" },
        "lowercase_magic" => Fault::Magic { found: *b"tif" },
        "header_truncated" => Fault::HeaderTruncated { found: 2 },
        "zero_bytes" => Fault::HeaderTruncated { found: 0 },
        "header_only" => Fault::PartLength { expected: 8, found: 4 },
        "header_plus_crc_no_eof" | "no_eof_markers" => Fault::MissingEof,
        "flip_key_byte"
        | "flip_checksum"
        | "truncated_mid_value"
        | "truncated_1_byte"
        | "trailing_after_checksum" => Fault::Checksum { expected: 0, found: 0 },
        "short_stream_body" => Fault::UnexpectedEnd { what: "", expected: 0, found: 0 },
        "neg_key_len" => Fault::NegativeLength { field: key, found: -5 },
        "neg_val_len" => Fault::NegativeLength { field: value, found: -5 },
        "eof_key_only" => Fault::HalfEof { found: 5 },
        "rle_first" => Fault::RunWithoutKey,
        "rle_no_vend_eof" => Fault::RunNotClosed,
        "rle_vend_no_run" => Fault::RunEndOutsideRun,
        "key_too_long" => Fault::LengthBeyondData { field: key, limit: 10, found: 100 },
        "vint_overflow" => Fault::VintRange { found: 1 << 33 },
        _ => return None,
    })
}

/// Same variant; for variants whose numbers hang on the file's bytes, only that.
fn agrees(found: &Fault, expected: &Fault) -> bool {
    match expected {
        Fault::Checksum { .. } | Fault::UnexpectedEnd { .. } => {
            std::mem::discriminant(found) == std::mem::discriminant(expected)
        }
        _ => found == expected,
    }
}

#[test]
fn malformed_segments_end_in_the_right_fault() {
    for negative in list(&golden::manifest(), "negative") {
        let name = text(negative, "file");
        if text(negative, "kind") != "negative_ifile" {
            continue;
        }
        let bytes = read(name);
        let part = number(negative, "length_passed_to_reader");
        for (mode, read) in [
            ("memory", slice as fn(&[u8], u64) -> Result<u64>),
            ("verified", verified),
            ("streaming", streaming),
        ] {
            let found = read(&bytes, part);
            let fine = match expected(name) {
                Expected::Fine => true,
                Expected::Fault(_) => false,
                Expected::AsTez => text(negative, "reader_outcome") == "ok",
            };
            if fine {
                let records = u64::try_from(list(negative, "reader_records_before_outcome").len());
                assert_eq!(found.unwrap(), records.unwrap(), "{name} {mode}");
                continue;
            }
            let error = found.expect_err(name);
            let fault = error.fault().unwrap_or_else(|| panic!("{name} {mode}: {error}"));
            if let Expected::Fault(expected) = expected(name) {
                let early = mode == "streaming" && matches!(expected, Fault::Checksum { .. });
                assert!(agrees(fault, &expected) || early, "{name} {mode}: {error}");
            }
            let place = error.place().unwrap();
            assert!(place.offset <= u64::try_from(bytes.len()).unwrap(), "{name} {mode}: {error}");
        }
    }
}

/// Indexes whose outcome is known better than by Tez's reader, which ignores spare bytes.
const OF_THE_REPOSITORY: [&str; 7] = [
    "index_ok.index",
    "index_zero_partitions.index",
    "index_flip.index",
    "index_crc_flip.index",
    "index_truncated_100.index",
    "index_no_crc.index",
    "index_extra.index",
];

#[test]
fn x3_malformed_indexes_end_in_the_right_fault() {
    for negative in list(&golden::manifest(), "negative") {
        let name = text(negative, "file");
        if text(negative, "kind") != "negative_index" {
            continue;
        }
        let parsed = UncheckedIndex::parse(&read(name), Some(name));
        let fault = parsed.as_ref().err().and_then(IFileError::fault);
        match (name.trim_start_matches("neg/"), fault) {
            ("index_ok.index", None) => {
                let index = parsed.unwrap().validate(423).unwrap();
                let found: Vec<_> = index
                    .entries()
                    .iter()
                    .map(|entry| [entry.start_offset, entry.raw_length, entry.part_length])
                    .collect();
                let expected: Vec<[u64; 3]> =
                    serde_json::from_value(negative["entries"].clone()).unwrap();
                assert_eq!(found, expected);
            }
            ("index_zero_partitions.index", None) => {
                assert_eq!(parsed.unwrap().validate(0).unwrap().entries(), []);
            }
            ("index_flip.index" | "index_crc_flip.index", Some(Fault::Checksum { .. })) => {}
            (
                "index_truncated_100.index",
                Some(Fault::IndexLength { expected: 80, found: 100 }),
            ) => {}
            ("index_no_crc.index", Some(Fault::IndexLength { expected: 104, found: 120 })) => {}
            ("index_extra.index", Some(Fault::IndexLength { expected: 128, found: 132 })) => {}
            (name, _) if OF_THE_REPOSITORY.contains(&name) => panic!("{name}: {parsed:?}"),
            (_, found) => assert_eq!(found.is_none(), text(negative, "outcome") == "ok", "{name}"),
        }
    }
}
