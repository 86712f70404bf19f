//! One spill of 1,009 partitions: a writer sized to each partition against one that is not, and against
//! an Arrow IPC stream per partition.
//!
//! `cargo bench --bench spill_sizing`, with `-- --quick` for one small iteration that judges nothing.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot go on has failed"
)]

#[path = "spill_sizing/ipc.rs"]
mod ipc;
#[path = "support/mod.rs"]
mod support;
#[path = "spill_sizing/unsized_port.rs"]
mod unsized_port;

use datafusion_ifile::Codec;
use datafusion_ifile::error::Place;
use datafusion_ifile::ifile::{RawBound, RecordCounts, SegmentOptions, SpillWriter, WriteScratch};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use support::{Bar, medians, quick, report};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PARTITIONS: usize = 1009;
const KEY: usize = 8;
/// Two one-byte lengths, the key, the value: 22 bytes.
const VALUE: usize = 12;
const RECORD: usize = 2 + KEY + VALUE;

/// One partition's records.
pub(crate) struct Partition {
    keys: Vec<[u8; KEY]>,
    values: Vec<[u8; VALUE]>,
}

/// The content rule of the golden files: bytes that count up from a start that depends on the record.
fn partition(records: usize, seed: u64) -> Partition {
    let first = usize::try_from(seed).unwrap() * records;
    let byte = |value: usize| value.to_le_bytes()[0];
    let rows = first..first + records;
    let key = |row: usize| std::array::from_fn(|j| byte(31 * row + j));
    let value = |row: usize| std::array::from_fn(|j| byte(17 * row + 3 * j + 101));
    Partition { keys: rows.clone().map(key).collect(), values: rows.map(value).collect() }
}

fn spill_sized(partitions: &[Partition], scratch: &mut WriteScratch, data: &mut Vec<u8>) {
    data.clear();
    let mut spill = SpillWriter::new(data, scratch, partitions.len(), Place::default());
    for partition in partitions {
        let records = u64::try_from(partition.keys.len()).unwrap();
        let bound = RawBound::records(RecordCounts {
            records,
            key_bytes: records * u64::try_from(KEY).unwrap(),
            value_bytes: records * u64::try_from(VALUE).unwrap(),
        });
        spill
            .partition(bound, |segment| {
                let rows = partition.keys.iter().zip(&partition.values);
                rows.into_iter().try_for_each(|(key, value)| segment.append(key, value))
            })
            .unwrap();
    }
    std::hint::black_box(spill.finish().unwrap());
}

struct Size {
    name: &'static str,
    records: usize,
    rounds: usize,
    unsized_limit: f64,
    ipc_limit: f64,
    bytes_limit: f64,
}

const SIZES: [Size; 3] = [
    Size {
        name: "22 B",
        records: 1,
        rounds: 21,
        unsized_limit: 0.02,
        ipc_limit: 0.05,
        bytes_limit: 65_536.0,
    },
    Size {
        name: "2.2 KB",
        records: 100,
        rounds: 21,
        unsized_limit: 0.15,
        ipc_limit: 0.55,
        bytes_limit: 65_536.0,
    },
    Size {
        name: "22 KB",
        records: 1000,
        rounds: 15,
        unsized_limit: 0.60,
        ipc_limit: 0.80,
        bytes_limit: 1_048_576.0,
    },
];

/// What one process measures: medians in milliseconds, and bytes.
#[derive(serde::Serialize, serde::Deserialize)]
struct Cell {
    sized_ms: f64,
    unsized_ms: f64,
    ipc_ms: Option<f64>,
    second_spill_bytes: usize,
}

const CODECS: [Codec; 3] = [Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 1 }];

/// The state of the heap that the unsized side allocates from.
///
/// The system's allocator hands large buffers back to the kernel when they are freed, until a larger
/// one has been freed before: from then on it keeps them. So the first state pays for fresh pages with
/// every partition, the second finds the last partition's memory still in the cache. Which of them a
/// process is in depends on its history, so every cell is measured in a process of its own.
const HEAPS: [&str; 2] = ["new", "used"];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--cell") {
        let index = |ahead: usize| args[at + ahead].parse::<usize>().unwrap();
        let cell = measure(&SIZES[index(1)], CODECS[index(2)], HEAPS[index(3)]);
        println!("{}", serde_json::to_string(&cell).unwrap());
        return;
    }
    println!("one spill of {PARTITIONS} partitions, records of {RECORD} bytes; medians");
    println!(
        "| partition | codec | heap | sized ms | unsized ms | ratio | IPC ms | ratio | 2nd spill allocates |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut bars = vec![];
    for (heap, heap_name) in HEAPS.iter().enumerate() {
        for (index, size) in SIZES.iter().enumerate() {
            for (codec_index, codec) in CODECS.iter().enumerate() {
                let cell = in_a_process([index, codec_index, heap]);
                print_row(size, *codec, heap_name, &cell);
                if *heap_name == "new" {
                    judge(size, *codec, &cell, &mut bars);
                }
            }
        }
    }
    if quick() {
        println!("quick run, nothing is judged");
        return;
    }
    report("spill_sizing", &bars);
}

fn in_a_process(cell: [usize; 3]) -> Cell {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.arg("--cell").args(cell.map(|index| index.to_string()));
    if quick() {
        command.arg("--quick");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn print_row(size: &Size, codec: Codec, heap: &str, cell: &Cell) {
    let ratio = |other: f64| format!("{:.4}", cell.sized_ms / other);
    println!(
        "| {} | {codec} | {heap} | {:.3} | {:.3} | {} | {} | {} | {} B |",
        size.name,
        cell.sized_ms,
        cell.unsized_ms,
        ratio(cell.unsized_ms),
        cell.ipc_ms.map_or("-".into(), |ms| format!("{ms:.3}")),
        cell.ipc_ms.map_or("-".into(), ratio),
        cell.second_spill_bytes,
    );
}

fn judge(size: &Size, codec: Codec, cell: &Cell, bars: &mut Vec<Bar>) {
    let name = codec.name();
    if matches!(codec, Codec::Snappy | Codec::Lz4) {
        let what = format!("{} {name} sized / unsized time", size.name);
        bars.push(Bar::at_most(what, cell.sized_ms / cell.unsized_ms, size.unsized_limit));
    }
    if let Some(ipc_ms) = cell.ipc_ms {
        let what = format!("{} {name} sized / IPC time", size.name);
        bars.push(Bar::at_most(what, cell.sized_ms / ipc_ms, size.ipc_limit));
    }
    let second = f64::from(u32::try_from(cell.second_spill_bytes).unwrap_or(u32::MAX));
    let what = format!("{} {name} bytes allocated by the second spill", size.name);
    bars.push(Bar::at_most(what, second, size.bytes_limit));
}

fn measure(size: &Size, codec: Codec, heap: &str) -> Cell {
    let count = if quick() { 20 } else { PARTITIONS };
    let rounds = if quick() { 1 } else { size.rounds };
    // Stands for the data file: memory of its own, there before the spill.
    let file = || Vec::with_capacity(count * (size.records * RECORD * 2 + 4096));
    let (mut sized_data, mut unsized_data, mut ipc_data) = (file(), file(), file());
    let seeds = 0..u64::try_from(count).unwrap();
    let partitions: Vec<_> = seeds.map(|seed| partition(size.records, seed)).collect();
    if heap == "used" {
        drop(std::hint::black_box(vec![0_u8; 16 << 20]));
    }
    let mut scratch = WriteScratch::new(SegmentOptions::tez(codec)).unwrap();
    // The first spill builds what the later ones reuse.
    spill_sized(&partitions, &mut scratch, &mut sized_data);
    let before = GLOBAL.stats().bytes_allocated;
    spill_sized(&partitions, &mut scratch, &mut sized_data);
    let second_spill_bytes = GLOBAL.stats().bytes_allocated - before;
    let with_ipc = codec == Codec::Lz4 && ipc::AVAILABLE;
    let mut sides: Vec<Box<dyn FnMut()>> = vec![
        Box::new(|| spill_sized(&partitions, &mut scratch, &mut sized_data)),
        Box::new(|| unsized_port::spill(&partitions, codec, &mut unsized_data)),
    ];
    if with_ipc {
        sides.push(Box::new(|| ipc::spill(&partitions, &mut ipc_data)));
    }
    let mut sides: Vec<&mut dyn FnMut()> = sides.iter_mut().map(|side| &mut **side as _).collect();
    let times = medians(rounds, &mut sides);
    let millis = |index: usize| times.get(index).map(|time| time.as_secs_f64() * 1e3);
    Cell {
        sized_ms: millis(0).unwrap(),
        unsized_ms: millis(1).unwrap(),
        ipc_ms: millis(2),
        second_spill_bytes,
    }
}
