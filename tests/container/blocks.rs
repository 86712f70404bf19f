//! Malformed bodies of the codecs, under a checksum that is right: each the right kind of fault.

use crate::support::{Record, Way, read, records, to_u64, write};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::{Fault, Result};
use datafusion_ifile::ifile::{Lengths, ReadOptions, SegmentOptions};

/// A segment around a body, checksum included.
fn segment(flag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = [b"TIF", &[flag][..], body].concat();
    bytes.extend_from_slice(&crc32fast::hash(body).to_be_bytes());
    bytes
}

fn read_all(codec: Codec, bytes: &[u8], raw: Option<usize>) -> Vec<Result<Vec<Record>>> {
    let lengths = match raw {
        Some(raw) => Lengths::both(to_u64(raw), to_u64(bytes.len())),
        None => Lengths::part(to_u64(bytes.len())),
    };
    [Way::Memory, Way::Streaming, Way::Verified, Way::Spooled]
        .into_iter()
        .map(|way| read(way, bytes, lengths, ReadOptions::new(codec)))
        .collect()
}

fn assert_fault(codec: Codec, body: &[u8], raw: Option<usize>, expected: impl Fn(&Fault) -> bool) {
    for result in read_all(codec, &segment(1, body), raw) {
        let error = result.expect_err("the body is malformed");
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert!(expected(fault), "{codec} {body:?}: {error}");
    }
}

fn chunk(codec: Codec, raw: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    datafusion_ifile::codec::Compressor::new(codec).unwrap().compress(raw, &mut out).unwrap();
    out
}

fn be(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

fn len(bytes: &[u8]) -> [u8; 4] {
    be(i32::try_from(bytes.len()).unwrap())
}

const RAW: &[u8] = &[1, 2, 7, 8, 9, 0xff, 0xff];

#[test]
fn i8_lengths_of_blocks_and_chunks_are_positive_and_capped() {
    for codec in [Codec::Snappy, Codec::Lz4] {
        let chunk = chunk(codec, RAW);
        for raw in [0, -1, i32::MIN] {
            let body = [&be(raw)[..], &len(&chunk), &chunk].concat();
            assert_fault(
                codec,
                &body,
                None,
                |fault| matches!(fault, Fault::BlockLength { found, .. } if *found == raw),
            );
        }
        for stored in [0, -1, i32::MIN, 262_145, i32::MAX] {
            let body = [&be(7)[..], &be(stored), &chunk].concat();
            assert_fault(codec, &body, None, |fault| {
                *fault == Fault::ChunkLength { limit: 262_144, found: stored }
            });
        }
    }
}

#[test]
fn i8_chunks_decode_to_the_raw_length_of_their_block() {
    for codec in [Codec::Snappy, Codec::Lz4] {
        let chunk = chunk(codec, RAW);
        // The block says less than its chunk holds.
        let body = [&be(6)[..], &len(&chunk), &chunk].concat();
        assert_fault(codec, &body, None, |fault| {
            matches!(fault, Fault::ChunkRawLength { .. } | Fault::Decompress { .. })
        });
        // The block says more, and nothing follows.
        let body = [&be(8)[..], &len(&chunk), &chunk].concat();
        assert_fault(codec, &body, None, |fault| matches!(fault, Fault::UnexpectedEnd { .. }));
        // The chunk says more than the body has.
        let body = [&be(7)[..], &be(100), &chunk].concat();
        assert_fault(codec, &body, None, |fault| matches!(fault, Fault::UnexpectedEnd { .. }));
        // The body ends inside a length.
        for cut in [1, 3, 4, 6, 8] {
            let body = [&be(7)[..], &len(&chunk), &chunk].concat();
            assert_fault(codec, &body[..cut], None, |fault| {
                matches!(fault, Fault::UnexpectedEnd { .. })
            });
        }
    }
}

#[test]
fn i8_a_chunk_larger_than_the_codec_buffer_is_refused() {
    let stream = records(100, 100, 1);
    for codec in [Codec::Snappy, Codec::Lz4] {
        let (bytes, summary) = write(&stream, SegmentOptions::tez(codec));
        for lengths in [
            Lengths::part(summary.part_length),
            Lengths::both(summary.raw_length, summary.part_length),
        ] {
            let options = ReadOptions::new(codec).with_codec_buffer(1024);
            let error = read(Way::Memory, &bytes, lengths, options).unwrap_err();
            let fault = error.fault().unwrap();
            let is_it = matches!(fault, Fault::ChunkLength { .. } | Fault::ChunkRawLength { .. });
            assert!(is_it, "{codec} {error}");
        }
    }
}

#[test]
fn i4_blocks_after_the_end_of_the_stream_are_refused() {
    for codec in [Codec::Snappy, Codec::Lz4] {
        let (end, more) = (chunk(codec, RAW), chunk(codec, &[0, 0]));
        let block = [&be(7)[..], &len(&end), &end].concat();
        let body = [&block[..], &be(2), &len(&more), &more].concat();
        let trailing = |fault: &Fault| matches!(fault, Fault::TrailingBytes { .. });
        assert_fault(codec, &body, None, trailing);
        // In the same block.
        let long = chunk(codec, &[RAW, &[0, 0]].concat());
        let body = [&be(9)[..], &len(&long), &long].concat();
        assert_fault(codec, &body, None, trailing);
        // In a chunk of their own.
        let body = [&be(9)[..], &len(&end), &end, &len(&more), &more].concat();
        assert_fault(codec, &body, None, trailing);
    }
}

#[test]
fn i9_nothing_follows_a_frame_or_stream_in_its_body() {
    for codec in [Codec::ZSTD, Codec::DEFLATE] {
        let frame = chunk(codec, RAW);
        let trailing = |fault: &Fault| matches!(fault, Fault::TrailingBytes { .. });
        assert_fault(codec, &[&frame[..], &[0]].concat(), None, trailing);
        assert_fault(codec, &[&frame[..], &frame[..]].concat(), None, trailing);
        assert_fault(codec, &chunk(codec, &[RAW, &[0, 0]].concat()), None, trailing);
        // A cut frame, with all of its records or without.
        for cut in 0..frame.len() {
            assert_fault(codec, &frame[..cut], None, |fault| {
                matches!(
                    fault,
                    Fault::UnexpectedEnd { .. } | Fault::MissingEof | Fault::Decompress { .. }
                )
            });
        }
    }
}

#[test]
fn i7_exactly_the_raw_length_is_decoded() {
    for codec in [Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::DEFLATE] {
        let (bytes, summary) = write(&records(50, 30, 2), SegmentOptions::tez(codec));
        let right = usize::try_from(summary.raw_length).unwrap();
        assert!(read_all(codec, &bytes, Some(right)).into_iter().all(|result| result.is_ok()));
        for wrong in [0, 4, 6, right - 1, right + 1, right + 100, 2 * right] {
            for result in read_all(codec, &bytes, Some(wrong)) {
                let error = result.expect_err("the length is wrong");
                let is_it = matches!(
                    error.fault(),
                    Some(
                        Fault::DecodedLength { .. }
                            | Fault::ChunkRawLength { .. }
                            | Fault::LengthBeyondData { .. }
                            | Fault::Decompress { .. }
                    )
                );
                assert!(is_it, "{codec} {wrong}: {error}");
            }
        }
    }
}

#[test]
fn i2_the_flag_has_to_agree_with_the_codec() {
    let (raw, summary) = write(&records(5, 10, 3), SegmentOptions::new(Codec::None));
    let both = Lengths::both(summary.raw_length, summary.part_length);
    let part = Lengths::part(summary.part_length);
    let fault = |codec, lengths, bytes: &[u8], allow| {
        let options = ReadOptions::new(codec).with_raw_allowed(allow);
        read(Way::Memory, bytes, lengths, options).map_err(|error| error.fault().cloned())
    };
    let refused = Some(Fault::RawWithCodec { codec: "lz4" });
    assert_eq!(fault(Codec::Lz4, part, &raw, false), Err(refused));
    assert!(fault(Codec::Lz4, part, &raw, true).is_ok());
    assert!(fault(Codec::Lz4, both, &raw, false).is_ok());
    let off_by_one = Lengths::both(summary.raw_length + 1, summary.part_length);
    let wrong = fault(Codec::Lz4, off_by_one, &raw, true).unwrap_err();
    assert!(matches!(wrong, Some(Fault::DecodedLength { .. })), "{wrong:?}");
    let wrong = fault(Codec::None, off_by_one, &raw, false).unwrap_err();
    assert!(matches!(wrong, Some(Fault::DecodedLength { .. })), "{wrong:?}");
    let compressed = segment(1, &raw[4..raw.len() - 4]);
    let refused = Some(Fault::CompressedWithoutCodec);
    assert_eq!(fault(Codec::None, part, &compressed, true), Err(refused));
    for flag in [2, 0x81, 0xff] {
        let refused = Some(Fault::Flag { found: flag });
        let bytes = segment(flag, &raw[4..raw.len() - 4]);
        assert_eq!(fault(Codec::Lz4, part, &bytes, true), Err(refused));
    }
}
