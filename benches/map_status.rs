//! Statuses of many map outputs: sizes in bytes and time, beside plain Zstandard and gzip over the same codes.
//!
//! 200,000 map outputs of 10, 100 or 1,000 blocks, sizes uniform in [0, 1 GiB), executors `node{i}` on hosts
//! `node{i}.example.org`:1000. Input are the separate statuses; serializing turns them to columns, deserializing puts all
//! codes into one buffer. Both sides use their buffers again. *Plain* is Zstandard level 1 over the same codes, turned beforehand, in chunks
//! of 1 MiB. Both sides run in turn on one thread; figures are medians of that thread's CPU time,
//! but for one partition, which takes less than a tick of it.
//!
//! `cargo bench --bench map_status -- [--quick]`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a bench stops at its first fault"
)]

#[allow(dead_code, reason = "shared with benches that take more of it")]
mod support;

use std::io::Write;
use std::time::Instant;

use datafusion_ifile::Codec;
use datafusion_ifile::map_status::{
    BlockSizes, Envelope, Location, MapStatus, PartitionColumns, PartitionFunction, Placement,
    StatusRegistry, StatusTable, TableEncoder, TableScratch, encode_table,
};
use support::{Bar, quick, report};

const MIB: f64 = 1024.0 * 1024.0;

/// Numbers that are the same in every run (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn sizes(map: u64, blocks: usize) -> Vec<u64> {
    let mut state = map.wrapping_mul(0x1234_5678_9abc_def1);
    (0..blocks).map(|_| next(&mut state) >> 34).collect()
}

fn status(map: u64, sizes: BlockSizes) -> MapStatus {
    MapStatus {
        map_id: map,
        attempt: 0,
        attempt_id: None,
        epoch: 1,
        location: Location {
            executor: format!("node{map}").into(),
            host: format!("node{map}.example.org").into(),
            port: 1000,
            path: "".into(),
        },
        layout: 1,
        codec: Codec::Lz4,
        schema_fingerprint: 0x1234_5678_9abc,
        placement: Placement {
            function: PartitionFunction::Hash,
            seed: 0,
            count: sizes.len() as u32,
        },
        data_length: None,
        sorted: false,
        sizes,
        columns: PartitionColumns::default(),
    }
}

/// CPU seconds of this thread.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let nanos: f64 = text.split_whitespace().next().and_then(|t| t.parse().ok()).expect("a number");
    nanos / 1e9
}

fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = cpu();
    let result = work();
    times.push(cpu() - start);
    result
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Plain {
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

fn plain(codes: &[u8], out: &mut Plain) {
    let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
    out.bytes = 0;
    for (chunk, slot) in codes.chunks(1 << 20).zip(&mut out.chunks) {
        slot.clear();
        slot.reserve(zstd::zstd_safe::compress_bound(chunk.len()));
        compressor.compress_to_buffer(chunk, slot).unwrap();
        out.bytes += slot.len();
    }
}

fn unplain(stored: &Plain, codes: &mut [u8]) {
    let mut decompressor = zstd::bulk::Decompressor::new().unwrap();
    for (slot, chunk) in codes.chunks_mut(1 << 20).zip(&stored.chunks) {
        decompressor.decompress_to_buffer(chunk, slot).unwrap();
    }
}

fn gzip(codes: &[u8]) -> (usize, f64) {
    let mut times = vec![];
    let len = timed(&mut times, || {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(codes).unwrap();
        encoder.finish().unwrap().len()
    });
    (len, times[0])
}

fn run(maps: usize, blocks: usize, rounds: usize, bars: &mut Vec<Bar>) {
    let make = |map: u64| {
        let sizes = sizes(map, blocks);
        status(map, BlockSizes::coded(&sizes))
    };
    let statuses: Vec<MapStatus> = (0..maps as u64).map(make).collect();
    let mut encoder = TableEncoder::new().unwrap();
    let mut table = Vec::new();
    encoder.encode(&statuses, 1, &mut table).unwrap();
    let (mut codes, mut scratch) = (Vec::new(), TableScratch::default());
    StatusTable::open(&table).unwrap().codes_into(&mut scratch, &mut codes).unwrap();
    let input = codes.clone();
    let mut stored = Plain { chunks: vec![vec![]; input.len().div_ceil(1 << 20)], bytes: 0 };
    let mut unpacked = vec![0; input.len()];
    let [mut write, mut read, mut plain_write, mut plain_read, mut one] = [(); 5].map(|()| vec![]);
    let mut wall = vec![];
    for _ in 0..rounds {
        timed(&mut plain_write, || plain(&input, &mut stored));
        let start = Instant::now();
        timed(&mut write, || encoder.encode(&statuses, 1, &mut table).unwrap());
        wall.push(start.elapsed().as_secs_f64());
        timed(&mut plain_read, || unplain(&stored, &mut unpacked));
        let envelope = Envelope::direct(1, 1, &table);
        timed(&mut read, || {
            let Envelope::Direct { table, .. } = Envelope::parse(&envelope).unwrap() else {
                return;
            };
            StatusTable::open(table).unwrap().codes_into(&mut scratch, &mut codes).unwrap();
        });
        let partition = blocks / 2;
        let start = Instant::now();
        let opened = StatusTable::open(&table).unwrap();
        let sizes = opened.sizes(&mut scratch, partition..partition + 1).unwrap();
        one.push(start.elapsed().as_secs_f64());
        assert_eq!(sizes.len(), maps);
    }
    assert!(unpacked == input && codes == input, "codes come back");
    let (gzip_bytes, gzip_time) = gzip(&input);
    let mib = table.len() as f64 / MIB;
    let [write, read] = [&mut write, &mut read].map(|times| median(times));
    let [plain_write, plain_read] = [&mut plain_write, &mut plain_read].map(|times| median(times));
    let one = median(&mut one) * 1000.0;
    println!(
        "{maps} x {blocks:4}: {mib:8.2} MiB (plain codes {:.2}, gzip {:.2}); serialize {:.1} ms (plain \
         {:.1}, gzip {:.1}; wall {:.1}); deserialize {:.1} ms (plain {:.1}); one partition {one:.2} ms",
        stored.bytes as f64 / MIB,
        gzip_bytes as f64 / MIB,
        write * 1000.0,
        plain_write * 1000.0,
        gzip_time * 1000.0,
        median(&mut wall) * 1000.0,
        read * 1000.0,
        plain_read * 1000.0,
    );
    let with_lengths = |status: &MapStatus| MapStatus {
        data_length: Some(sizes(status.map_id, blocks).iter().sum()),
        ..status.clone()
    };
    let with_lengths: Vec<MapStatus> = statuses.iter().map(with_lengths).collect();
    let with_lengths = encode_table(&with_lengths, 1).unwrap().len() as f64 / MIB;
    let registry = StatusRegistry::default();
    registry.register(1);
    for status in statuses {
        registry.add(1, status).unwrap();
    }
    let reply = registry.reply(1).unwrap();
    let kind = if reply.table.is_some() { "by reference" } else { "direct" };
    println!(
        "{:>14}envelope {kind}: {} bytes; with data lengths {with_lengths:.2} MiB",
        "",
        reply.envelope.len()
    );
    if blocks == 1000 {
        bars.push(Bar::at_most("1000 blocks, MiB", mib, 118.5));
        bars.push(Bar::at_most("serialize / plain zstd-1", write / plain_write, 1.5));
        bars.push(Bar::at_most("deserialize / plain zstd-1", read / plain_read, 1.4));
    }
    if blocks == 10 {
        bars.push(Bar::at_most("10 blocks, MiB", mib, 2.5));
    }
    bars.push(Bar::at_most(format!("one partition of {blocks}, ms"), one, 5.0));
}

/// Exact sizes to codes to a table.
fn from_exact(maps: usize, blocks: usize, rounds: usize, bars: &mut Vec<Bar>) {
    let exact: Vec<Vec<u64>> = (0..maps as u64).map(|map| sizes(map, blocks)).collect();
    let mut times = vec![];
    for _ in 0..rounds {
        let table = timed(&mut times, || {
            let make =
                |(map, sizes): (usize, &Vec<u64>)| status(map as u64, BlockSizes::coded(sizes));
            let statuses: Vec<MapStatus> = exact.iter().enumerate().map(make).collect();
            encode_table(&statuses, 1).unwrap()
        });
        assert!(table.len() > maps);
    }
    let seconds = median(&mut times);
    println!("{maps} x {blocks:4}: from exact sizes {:.1} ms", seconds * 1000.0);
    bars.push(Bar::at_most("from exact sizes, s", seconds, 1.2));
}

fn main() {
    let (maps, rounds) = if quick() { (2000, 1) } else { (200_000, 5) };
    let mut bars = Vec::new();
    for blocks in [10, 100, 1000] {
        run(maps, blocks, rounds, &mut bars);
    }
    from_exact(maps, 1000, rounds.min(3), &mut bars);
    report("map_status", &bars);
}
