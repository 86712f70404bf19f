//! Memory is bounded by what is configured and by what really arrives.

use crate::support::{Noise, Record, Trickle, WAYS, drain, read, records, to_u64, write};
use datafusion_ifile::codec::{Codec, Decompressor};
use datafusion_ifile::error::{Fault, IFileError, LengthField};
use datafusion_ifile::ifile::{Lengths, ReadOptions, SegmentOptions, SegmentReader, SegmentSlice};

#[test]
fn i11_a_claimed_length_allocates_nothing() {
    // A key of 2 GiB - 1, and three bytes of it.
    let body = [0x8c, 0x7f, 0xff, 0xff, 0xff, 0, 1, 2, 3];
    let mut bytes = [b"TIF\0", &body[..]].concat();
    bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    for lengths in [Lengths::UNKNOWN, Lengths::part(to_u64(bytes.len()))] {
        let options = ReadOptions::new(Codec::None);
        let mut reader = SegmentReader::self_checked(&bytes[..], lengths, options).unwrap();
        let error = reader.next_record().unwrap_err();
        let is_it = matches!(
            error.fault(),
            Some(Fault::LengthBeyondData { field: LengthField::Key, found: 0x7fff_ffff, .. })
        );
        assert!(is_it, "{error}");
        assert!(reader.held_bytes() <= 64 * 1024, "{}", reader.held_bytes());
    }
}

#[test]
fn i11_a_block_that_claims_much_allocates_a_slice() {
    for codec in [Codec::Snappy, Codec::Lz4] {
        // A block of 2 GiB - 1 whose only chunk is rubbish.
        let body = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0x7f];
        let mut bytes = [b"TIF\x01", &body[..]].concat();
        bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
        let lengths = Lengths::part(to_u64(bytes.len()));
        let mut reader =
            SegmentReader::self_checked(&bytes[..], lengths, ReadOptions::new(codec)).unwrap();
        assert!(reader.next_record().is_err());
        assert!(reader.held_bytes() <= 512 * 1024, "{}", reader.held_bytes());
    }
}

#[test]
fn i11_streaming_holds_a_buffer_and_a_record() {
    let stream = records(20_000, 100, 1);
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::ZSTD] {
        let options = SegmentOptions::tez(codec).with_codec_buffer(16 * 1024);
        let (bytes, summary) = write(&stream, options);
        let source = Trickle { bytes: &bytes, step: 1000 };
        let options = ReadOptions::new(codec).with_codec_buffer(16 * 1024).with_buffer(4096);
        let lengths = Lengths::both(summary.raw_length, summary.part_length);
        let mut reader = SegmentReader::self_checked(source, lengths, options).unwrap();
        let mut most = 0;
        while reader.next_record().unwrap().is_some() {
            most = most.max(reader.held_bytes());
        }
        // A Zstandard context has tables of its own.
        let limit = if codec == Codec::ZSTD { 400 * 1024 } else { 80 * 1024 };
        assert!(most <= limit, "{codec}: {most} bytes for a stream of {}", summary.raw_length);
    }
}

#[test]
fn i11_records_are_capped() {
    let stream: Vec<Record> = vec![(vec![1; 10], vec![2; 90]), (vec![1; 10], vec![2; 91])];
    for codec in [Codec::None, Codec::Lz4] {
        let (bytes, summary) = write(&stream, SegmentOptions::tez(codec));
        let lengths = Lengths::part(summary.part_length);
        for way in WAYS {
            let options = ReadOptions::new(codec).with_record_cap(101);
            assert_eq!(read(way, &bytes, lengths, options).unwrap(), stream);
            let options = ReadOptions::new(codec).with_record_cap(100);
            let error = read(way, &bytes, lengths, options).unwrap_err();
            assert_eq!(error.fault(), Some(&Fault::RecordTooLong { limit: 100, found: 101 }));
        }
    }
}

#[test]
fn i11_zstd_windows_are_capped() {
    // Two blocks, so that the frame is a stream with a window of its own.
    let options = SegmentOptions::tez(Codec::ZSTD).with_codec_buffer(1 << 20);
    let mut noise = Noise::new(1);
    let stream: Vec<Record> = (0..3).map(|_| (vec![], noise.bytes(1 << 20))).collect();
    let (bytes, _) = write(&stream, options);
    let lengths = Lengths::part(to_u64(bytes.len()));
    for way in WAYS {
        let options = ReadOptions::new(Codec::ZSTD).with_window_log_max(20);
        assert!(read(way, &bytes, lengths, options).unwrap() == stream);
        let options = ReadOptions::new(Codec::ZSTD).with_window_log_max(19);
        let error = read(way, &bytes, lengths, options).unwrap_err();
        assert!(matches!(error.fault(), Some(Fault::Decompress { codec: "zstd", .. })), "{error}");
    }
    for bad in [9, 32] {
        let options = ReadOptions::new(Codec::ZSTD).with_window_log_max(bad);
        let error = SegmentSlice::open(&bytes, lengths, options).map(|_| ()).unwrap_err();
        assert!(matches!(error, IFileError::Config { .. }), "{error}");
    }
}

#[test]
fn i11_a_stream_that_cannot_be_read_twice_is_held_up_to_a_cap() {
    let stream = records(100, 100, 2);
    let (bytes, summary) = write(&stream, SegmentOptions::new(Codec::None));
    for lengths in [Lengths::UNKNOWN, Lengths::part(summary.part_length)] {
        let cap = summary.part_length;
        let options = ReadOptions::new(Codec::None).with_spool_cap(cap);
        let reader = SegmentReader::spooled(&bytes[..], lengths, options).unwrap();
        assert_eq!(drain!(reader).unwrap(), stream);
        let options = ReadOptions::new(Codec::None).with_spool_cap(cap - 1);
        let error = SegmentReader::spooled(&bytes[..], lengths, options).map(|_| ()).unwrap_err();
        assert!(matches!(error, IFileError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn c2_a_decompressor_never_writes_beyond_the_length_it_is_given() {
    let data: Vec<u8> = records(50, 40, 3).into_iter().flat_map(|record| record.1).collect();
    let mut state = Decompressor::new();
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::DEFLATE] {
        let mut stored = vec![];
        datafusion_ifile::codec::Compressor::new(codec)
            .unwrap()
            .compress(&data, &mut stored)
            .unwrap();
        let mut out = vec![9];
        state.decompress(codec, &stored, data.len(), &mut out).unwrap();
        assert!(out[0] == 9 && out[1..] == data);
        for wrong in [0, 1, data.len() - 1, data.len() + 1, 2 * data.len()] {
            let mut out = vec![9];
            let error = state.decompress(codec, &stored, wrong, &mut out).unwrap_err();
            assert!(error.fault().is_some(), "{codec} {wrong}: {error}");
            assert_eq!(out, [9], "{codec} {wrong}");
        }
        for cut in 0..stored.len().min(40) {
            let mut out = vec![];
            assert!(state.decompress(codec, &stored[..cut], data.len(), &mut out).is_err());
        }
        // The state is as good as new after all of that.
        let mut out = vec![];
        state.decompress(codec, &stored, data.len(), &mut out).unwrap();
        assert!(out == data, "{codec}");
    }
}
