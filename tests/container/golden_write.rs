//! What the golden files hold is written back: byte for byte without a codec, block for block with one
//! that has blocks, and to the same raw stream always.

use crate::golden::{self, Record, codec, in_order, list, number, read, size, text};
use datafusion_ifile::codec::Codec;
use datafusion_ifile::ifile::{
    IndexEntry, Lengths, RawBound, ReadOptions, SegmentOptions, SegmentSlice, SegmentSummary,
    SegmentWriter, SpillIndex, WriteMode, WriteScratch,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

const MODES: [WriteMode; 2] = [WriteMode::Buffered, WriteMode::Unbuffered];

fn options(file: &Value, mode: WriteMode) -> SegmentOptions {
    SegmentOptions::tez(codec(file))
        .with_codec_buffer(golden::codec_buffer(file))
        .with_runs(file["rle"].as_bool().unwrap())
        .with_mode(mode)
}

fn write(records: &[Record], options: SegmentOptions) -> (Vec<u8>, SegmentSummary) {
    let mut scratch = WriteScratch::new(options).unwrap();
    let mut bytes = vec![];
    let mut writer = SegmentWriter::new(&mut bytes, &mut scratch, RawBound::UNKNOWN).unwrap();
    for (key, value) in records {
        writer.append(key, value).unwrap();
    }
    let summary = writer.finish().unwrap();
    assert_eq!(summary.part_length, u64::try_from(bytes.len()).unwrap());
    (bytes, summary)
}

/// The raw stream of a segment, as another writer without a codec has it.
fn raw_stream_sha256(bytes: &[u8], file: &Value) -> String {
    let options = ReadOptions::new(codec(file)).with_codec_buffer(golden::codec_buffer(file));
    let mut reader = SegmentSlice::open(bytes, Lengths::UNKNOWN, options).unwrap();
    let mut records = vec![];
    while let Some(record) = reader.next_record().unwrap() {
        records.push((record.key.to_vec(), record.value.to_vec()));
    }
    let runs = file["rle"].as_bool().unwrap();
    let (raw, _) = write(&records, SegmentOptions::tez(Codec::None).with_runs(runs));
    hex::encode(Sha256::digest(&raw[4..raw.len() - 4]))
}

/// Raw lengths of blocks, and of their chunks.
fn blocks(codec: Codec, body: &[u8]) -> Vec<(usize, Vec<usize>)> {
    let take = |at: &mut usize| {
        let len = i32::from_be_bytes(body[*at..*at + 4].try_into().unwrap());
        *at += 4;
        usize::try_from(len).unwrap()
    };
    let mut at = 0;
    let mut blocks = vec![];
    while at < body.len() {
        let raw = take(&mut at);
        let mut left = raw;
        let mut chunks = vec![];
        while left > 0 {
            let len = take(&mut at);
            let chunk = &body[at..at + len];
            at += len;
            let mut out = vec![0; 1 << 25];
            let decoded = match codec {
                Codec::Snappy => snap::raw::decompress_len(chunk).unwrap(),
                _ => lz4_flex::block::decompress_into(chunk, &mut out).unwrap(),
            };
            chunks.push(decoded);
            left -= decoded;
        }
        blocks.push((raw, chunks));
    }
    blocks
}

fn expected_blocks(blocks: &[Value]) -> Vec<(usize, Vec<usize>)> {
    blocks
        .iter()
        .map(|block| {
            let chunks = list(block, "chunk_raw_lens").iter();
            let chunks =
                chunks.map(|raw| usize::try_from(raw.as_u64().unwrap()).unwrap()).collect();
            (size(block, "raw_len"), chunks)
        })
        .collect()
}

fn body(bytes: &[u8]) -> &[u8] {
    &bytes[4..bytes.len() - 4]
}

#[test]
fn i2_segments_are_written_back() {
    for file in list(&golden::manifest(), "files") {
        if text(file, "kind") != "ifile" {
            continue;
        }
        let name = text(file, "file");
        let records: Vec<Record> =
            golden::records(file).into_iter().map(|(record, _)| record).collect();
        for mode in MODES {
            let (bytes, summary) = write(&records, options(file, mode));
            assert_eq!(summary.raw_length, number(file, "raw_length"), "{name} {mode:?}");
            assert_eq!(summary.records, number(file, "records"), "{name}");
            if codec(file) == Codec::None {
                assert!(bytes == read(name), "{name} {mode:?}");
                continue;
            }
            assert_eq!(raw_stream_sha256(&bytes, file), text(file, "raw_stream_sha256"), "{name}");
            let blocks_known = matches!(codec(file), Codec::Snappy | Codec::Lz4);
            if blocks_known && mode == WriteMode::Unbuffered {
                let golden = blocks(codec(file), body(&read(name)));
                assert_eq!(blocks(codec(file), body(&bytes)), golden, "{name}");
                if let Some(count) = file["block_count"].as_u64() {
                    assert_eq!(golden.len(), usize::try_from(count).unwrap(), "{name}");
                } else {
                    assert_eq!(golden, expected_blocks(list(file, "blocks")), "{name}");
                }
            }
            if blocks_known && mode == WriteMode::Buffered {
                let found = blocks(codec(file), body(&bytes));
                let (last, full) = found.split_last().unwrap();
                let max_input = size(file, "max_input_size");
                assert!(full.iter().all(|block| *block == (max_input, vec![max_input])), "{name}");
                assert!(last.0 <= max_input && last.1 == [last.0], "{name}");
            }
        }
    }
}

#[test]
fn x2_spill_files_are_written_back() {
    for file in list(&golden::manifest(), "files") {
        if text(file, "kind") != "spill" {
            continue;
        }
        let name = text(file, "file");
        let all = golden::records(file);
        for mode in MODES {
            let (mut data, mut entries) = (vec![], vec![]);
            for partition in list(file, "partitions") {
                // Of the three ways to be empty, take the one the file has.
                if number(partition, "raw_length") == 0 {
                    let start_offset = number(partition, "start_offset");
                    entries.push(IndexEntry { start_offset, ..IndexEntry::EMPTY });
                    continue;
                }
                let (bytes, summary) = write(&in_order(&all, partition), options(file, mode));
                let start = u64::try_from(data.len()).unwrap();
                assert_eq!(summary.raw_length, number(partition, "raw_length"), "{name}");
                entries.push(IndexEntry::of(start, &summary));
                if codec(file) != Codec::None {
                    let expected = text(partition, "raw_stream_sha256");
                    assert_eq!(raw_stream_sha256(&bytes, file), expected, "{name}");
                }
                let blocks_known = matches!(codec(file), Codec::Snappy | Codec::Lz4);
                if blocks_known && mode == WriteMode::Unbuffered {
                    let start = size(partition, "start_offset");
                    let end = start + size(partition, "part_length");
                    let golden = blocks(codec(file), body(&read(name)[start..end]));
                    assert_eq!(blocks(codec(file), body(&bytes)), golden, "{name}");
                    assert_eq!(golden, expected_blocks(list(partition, "blocks")), "{name}");
                }
                data.extend_from_slice(&bytes);
            }
            let mut index = vec![];
            SpillIndex::new(entries).encode(&mut index).unwrap();
            if codec(file) == Codec::None {
                assert!(data == read(name), "{name}");
                assert!(index == read(text(file, "index_file")), "{name}");
            }
        }
    }
}
