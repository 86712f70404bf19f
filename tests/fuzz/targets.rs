//! What the fuzz targets do with their bytes. Shared with the test that replays their corpus.

#![allow(dead_code, unreachable_pub, reason = "each target uses one of these")]

use datafusion_ifile::codec::{Codec, Compressor, Decompressor};
use datafusion_ifile::error::Result;
use datafusion_ifile::ifile::{
    Lengths, RawBound, ReadOptions, SegmentOptions, SegmentReader, SegmentSlice, SegmentWriter,
    SpillIndex, UncheckedIndex, WriteScratch,
};
use std::io::Cursor;

type Record = (Vec<u8>, Vec<u8>);

const CODECS: [Codec; 5] = [Codec::None, Codec::Snappy, Codec::Lz4, Codec::ZSTD, Codec::DEFLATE];

/// Raw bytes that a reader may use for a segment before it is given up as a bomb.
const RECORD_CAP: u64 = 1 << 20;

/// Drains any of the readers, which end in an error or at the end.
macro_rules! drain {
    ($reader:expr) => {
        $reader.and_then(|mut reader| {
            let mut records: Vec<Record> = vec![];
            while let Some(record) = reader.next_record()? {
                records.push((record.key.to_vec(), record.value.to_vec()));
            }
            Ok(records)
        })
    };
}

/// The first byte says how the rest is read. All ways to read it agree, and what they read is written and
/// read again to the same records.
pub fn segment(data: &[u8]) {
    let Some((&how, bytes)) = data.split_first() else {
        return;
    };
    let how = usize::from(how);
    let codec = CODECS[how % CODECS.len()];
    let part = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let lengths =
        [Lengths::UNKNOWN, Lengths::part(part), Lengths::both(part.saturating_sub(4), part)]
            [how / 8 % 3];
    let options = ReadOptions::new(codec)
        .with_codec_buffer(if how & 0x40 == 0 { 256 * 1024 } else { 100 })
        .with_raw_allowed(how & 0x80 != 0)
        .with_window_log_max(20)
        .with_record_cap(RECORD_CAP)
        .with_buffer(16);
    let memory = drain!(SegmentSlice::open(bytes, lengths, options.clone()));
    let streaming = drain!(SegmentReader::self_checked(bytes, lengths, options.clone()));
    let verified = drain!(SegmentReader::verified(Cursor::new(bytes), lengths, options.clone()));
    let spooled = drain!(SegmentReader::spooled(bytes, lengths, options));
    // Without lengths, memory takes all of its bytes as the segment, the others what it delimits.
    assert_same(&streaming, &verified);
    assert_same(&verified, &spooled);
    if memory.is_ok() || lengths != Lengths::UNKNOWN {
        assert_same(&memory, &streaming);
    }
    if let Ok(records) = verified {
        write_again(codec, &records);
    }
}

fn assert_same(one: &Result<Vec<Record>>, other: &Result<Vec<Record>>) {
    match (one, other) {
        (Ok(one), Ok(other)) => assert!(one == other, "two ways to read differ"),
        (Err(_), Err(_)) => {}
        _ => panic!("two ways to read differ: {one:?}, {other:?}"),
    }
}

fn write_again(codec: Codec, records: &[Record]) {
    for options in [SegmentOptions::new(codec), SegmentOptions::tez(codec).with_runs(true)] {
        let mut scratch = WriteScratch::new(options).expect("the options are valid");
        let mut bytes = vec![];
        let mut writer = SegmentWriter::new(&mut bytes, &mut scratch, RawBound::UNKNOWN)
            .expect("memory takes everything");
        for (key, value) in records {
            writer.append(key, value).expect("memory takes everything");
        }
        let summary = writer.finish().expect("memory takes everything");
        let lengths = Lengths::both(summary.raw_length, summary.part_length);
        let read = drain!(SegmentSlice::open(&bytes, lengths, ReadOptions::new(codec)));
        assert!(read.expect("it was written by us") == records);
    }
}

/// An index that is accepted is written back to the same bytes.
pub fn index(data: &[u8]) {
    let Ok(unchecked) = UncheckedIndex::parse(data, Some("index")) else {
        return;
    };
    if let Ok(index) = unchecked.validate(1 << 40) {
        let mut bytes = vec![];
        SpillIndex::new(index.entries().to_vec()).encode(&mut bytes).expect("lengths fit");
        assert!(bytes == data);
        drop(index.check_contiguous(1 << 40));
    }
}

/// Decoding never gives another length than asked for; a round trip gives the same bytes.
pub fn codec(codec: Codec, data: &[u8]) {
    let mut decoder = Decompressor::new();
    for len in [0, 1, data.len(), 3 * data.len() + 7, 100_000] {
        let mut out = vec![];
        match decoder.decompress(codec, data, len, &mut out) {
            Ok(()) => assert_eq!(out.len(), len),
            Err(_) => assert!(out.is_empty()),
        }
    }
    let mut stored = vec![];
    let mut encoder = Compressor::new(codec).expect("the codec is there");
    let written = encoder.compress(data, &mut stored).expect("nothing is refused");
    assert!(written <= encoder.bound(data.len()));
    let mut out = vec![];
    decoder.decompress(codec, &stored, data.len(), &mut out).expect("it was written by us");
    assert!(out == data);
}
