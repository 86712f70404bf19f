//! A segment's bytes depend on its records and options, not on bounds, buffers or history.

use crate::support::{
    CODECS, Record, WAYS, noise_of, read, records, to_u64, words, write, write_with,
};
use datafusion_ifile::codec::{Codec, Compressor};
use datafusion_ifile::ifile::{
    Lengths, RawBound, ReadOptions, SegmentOptions, WriteMode, WriteScratch,
};

fn all_codecs() -> impl Iterator<Item = Codec> {
    let levels = [-7, 1, 2, 5, 7, 9, 12, 13, 19];
    let more = levels.into_iter().map(|level| Codec::Zstd { level });
    CODECS.into_iter().chain(more).chain([Codec::Deflate { level: 1 }, Codec::Deflate { level: 9 }])
}

/// Raw lengths around every edge: of a table, of a block, of several.
fn streams() -> Vec<Vec<Record>> {
    let mut streams = vec![vec![], records(1, 4, 1), records(100, 12, 2), records(3_000, 60, 3)];
    for raw in [65_534, 65_535, 65_536, 218_421, 218_422, 218_423, 261_100, 261_101, 262_145] {
        streams.push(noise_of(raw, to_u64(raw)));
    }
    streams.push(records(30, 40_000, 4));
    for len in [5_000, 20_000, 65_000, 70_000, 250_000, 400_000] {
        streams.push(vec![(vec![], words(len, to_u64(len)))]);
    }
    streams
}

#[test]
fn i12_every_bound_gives_the_same_bytes() {
    for codec in CODECS {
        for mode in [WriteMode::Buffered, WriteMode::Unbuffered] {
            let options = SegmentOptions::new(codec).with_mode(mode);
            for stream in streams() {
                let (expected, summary) = write(&stream, options);
                let raw = summary.raw_length;
                for bound in [0, 6, raw / 2, raw - 1, raw, raw + 1, 2 * raw, 1 << 40, u64::MAX - 1]
                {
                    let mut scratch = WriteScratch::new(options).unwrap();
                    let (sink, _) = write_with(&stream, &mut scratch, RawBound::exact(bound));
                    assert!(sink.bytes == expected, "{codec} {mode:?} raw {raw} bound {bound}");
                }
            }
        }
    }
}

#[test]
fn i12_an_underestimated_bound_reads_back() {
    for codec in CODECS {
        let stream = records(5_000, 100, 9);
        let mut scratch = WriteScratch::new(SegmentOptions::new(codec)).unwrap();
        let (sink, summary) = write_with(&stream, &mut scratch, RawBound::exact(10));
        let lengths = Lengths::both(summary.raw_length, summary.part_length);
        for way in WAYS {
            assert!(read(way, &sink.bytes, lengths, ReadOptions::new(codec)).unwrap() == stream);
        }
    }
}

#[test]
fn i12_history_changes_no_byte() {
    for codec in all_codecs() {
        let options = SegmentOptions::tez(codec);
        let mut streams = streams();
        if matches!(codec, Codec::Zstd { level: 13.. }) {
            // Slow, and without anything to find that the others do not have.
            streams.truncate(6);
            streams.push(vec![(vec![], words(30_000, 1))]);
        }
        let fresh: Vec<Vec<u8>> = streams.iter().map(|stream| write(stream, options).0).collect();
        let mut scratch = WriteScratch::new(options).unwrap();
        // Up, down, and up again: each stream comes after a larger and after a smaller one.
        let up = 0..streams.len();
        for index in up.clone().chain(up.clone().rev()).chain(up) {
            let (sink, _) = write_with(&streams[index], &mut scratch, RawBound::UNKNOWN);
            assert!(sink.bytes == fresh[index], "{codec} stream {index}");
        }
    }
}

#[test]
fn c1_a_used_compressor_gives_the_bytes_of_a_new_one() {
    for codec in all_codecs() {
        let mut used = Compressor::new(codec).unwrap();
        for round in 0..3 {
            for len in [0, 1, 13, 1_000, 16_384, 16_385, 65_534, 65_535, 300_000] {
                let seed = round + to_u64(len);
                let data = &words(len, seed)[..];
                let (mut expected, mut found) = (vec![1, 2], vec![1, 2]);
                Compressor::new(codec).unwrap().compress(data, &mut expected).unwrap();
                let written = used.compress(data, &mut found).unwrap();
                assert_eq!(found.len(), 2 + written);
                assert!(found == expected, "{codec} {len} round {round}");
                assert!(written <= used.bound(len), "{codec} {len}");
            }
        }
    }
}

#[test]
fn i12_streams_of_another_codec_buffer_differ_only_by_it() {
    // The same options, whatever way the records are split into appends of other sizes before.
    let options = SegmentOptions::tez(Codec::ZSTD).with_codec_buffer(1000);
    let stream = records(500, 333, 5);
    let (expected, _) = write(&stream, options);
    let mut scratch = WriteScratch::new(options).unwrap();
    scratch.prepare(RawBound::UNKNOWN).unwrap();
    assert!(write_with(&stream, &mut scratch, RawBound::UNKNOWN).0.bytes == expected);
}
