//! Runs of values that share a key.

use crate::support::{CODECS, Record, WAYS, read, to_u64, write};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::error::Fault;
use datafusion_ifile::ifile::{
    Lengths, ReadOptions, SegmentOptions, SegmentReader, SegmentSlice, WriteMode,
};

fn options() -> SegmentOptions {
    SegmentOptions::tez(Codec::None).with_runs(true)
}

fn record(key: &[u8], value: &[u8]) -> Record {
    (key.to_vec(), value.to_vec())
}

fn body(stream: &[Record]) -> Vec<u8> {
    let (bytes, summary) = write(stream, options());
    assert_eq!(summary.raw_length, to_u64(bytes.len() - 4));
    bytes[4..bytes.len() - 4].to_vec()
}

#[test]
fn i5_a_run_opens_at_the_first_repeat_and_closes_before_the_next_key() {
    let stream = [
        record(b"a", b"1"),
        record(b"a", b"2"),
        record(b"a", b""),
        record(b"b", b"3"),
        record(b"c", b"4"),
        record(b"c", b"5"),
    ];
    let expected = b"\x01\x01a1\xfe\x012\x00\xfd\x01\x01b3\x01\x01c4\xfe\x015\xfd\xff\xff";
    assert_eq!(body(&stream), expected);
}

#[test]
fn i5_empty_keys_never_make_a_run() {
    let stream = [record(b"", b"1"), record(b"", b"2")];
    assert_eq!(body(&stream), b"\x00\x011\x00\x012\xff\xff");
}

#[test]
fn i5_a_writer_without_runs_never_compares_keys() {
    let stream = [record(b"a", b"1"), record(b"a", b"2")];
    let (bytes, _) = write(&stream, SegmentOptions::tez(Codec::None));
    assert_eq!(&bytes[4..bytes.len() - 4], b"\x01\x01a1\x01\x01a2\xff\xff");
}

#[test]
fn i5_runs_read_back_with_their_key_across_slices_and_buffers() {
    let mut stream = vec![];
    for key in 0_u8..20 {
        for value in 0..=key % 7 {
            stream.push((vec![key; 40], vec![value; 60 * usize::from(key % 3)]));
        }
    }
    for codec in CODECS {
        for mode in [WriteMode::Buffered, WriteMode::Unbuffered] {
            let options = SegmentOptions::tez(codec).with_runs(true).with_mode(mode);
            let (bytes, summary) = write(&stream, options.with_codec_buffer(128));
            assert_eq!(summary.records, to_u64(stream.len()));
            let lengths = Lengths::both(summary.raw_length, summary.part_length);
            for way in WAYS {
                for buffer in [16, 50, 4096] {
                    let options =
                        ReadOptions::new(codec).with_codec_buffer(128).with_buffer(buffer);
                    assert_eq!(read(way, &bytes, lengths, options).unwrap(), stream, "{codec}");
                }
            }
        }
    }
}

#[test]
fn i5_records_say_whether_they_are_in_a_run() {
    let stream = [record(b"k", b"1"), record(b"k", b"2"), record(b"l", b"3")];
    let (bytes, _) = write(&stream, options());
    let read_options = ReadOptions::new(Codec::None);
    let mut slice = SegmentSlice::open(&bytes, Lengths::UNKNOWN, read_options.clone()).unwrap();
    let mut reader =
        SegmentReader::self_checked(&bytes[..], Lengths::UNKNOWN, read_options).unwrap();
    for expected in [false, true, false] {
        assert_eq!(slice.next_record().unwrap().unwrap().in_run, expected);
        assert_eq!(reader.next_record().unwrap().unwrap().in_run, expected);
    }
}

#[test]
fn i5_broken_runs_are_refused() {
    let faults: [(&[u8], Fault); 6] = [
        (b"\xfe\x011\xfd\xff\xff", Fault::RunWithoutKey),
        (b"\x01\x01a1\xfd\xff\xff", Fault::RunEndOutsideRun),
        (b"\x01\x01a1\xfe\xfd\xff\xff", Fault::EmptyRun),
        (b"\x01\x01a1\xfe\x012\xff\xff", Fault::RunNotClosed),
        (b"\x01\x01a1\xfe\xff\xff", Fault::RunNotClosed),
        (b"\x01\x01a1\xfe\x012\xfd\xfd\xff\xff", Fault::RunEndOutsideRun),
    ];
    for (body, expected) in faults {
        let mut bytes = [b"TIF\0", body].concat();
        bytes.extend_from_slice(&crc32fast::hash(body).to_be_bytes());
        for way in WAYS {
            for lengths in [Lengths::part(to_u64(bytes.len())), Lengths::UNKNOWN] {
                let error = read(way, &bytes, lengths, ReadOptions::new(Codec::None)).unwrap_err();
                assert_eq!(error.fault(), Some(&expected), "{body:02x?} {way:?}: {error}");
            }
        }
    }
}
