//! Rows to compressed bytes of each partition, and back: blocks against `interleave` and the Arrow IPC stream.
//!
//! Both sides get the same batches and partition ids, run in turn in one process on one thread, and are measured in CPU
//! time of that thread; figures are medians. The peers' way: keep all batches, `interleave` 8,192 rows of a partition at
//! a time, write them as one IPC stream per partition. Ours: `BlockPartitioner`, with blocks of up to 8,192 rows.
//!
//! `cargo bench --bench block -- [--quick] [--rows N] [--table store_sales|strings|entropy|nested]`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a bench stops at its first fault"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion_ifile::block::{BlockDecoder, BlockEncoder, DecodeLimits};
use datafusion_ifile::{BlockPartitioner, Codec};

use clock::timed;
use shared::{
    BLOCK_ROWS, Input, block_read, block_write, input, ipc_compression, ipc_read, ipc_write,
    partition_ids,
};

mod clock;
mod shared;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of one table, codec and number of partitions.
#[derive(Default)]
struct Series(BTreeMap<&'static str, Vec<f64>>);

impl Series {
    fn add(&mut self, name: &'static str, value: f64) {
        self.0.entry(name).or_default().push(value);
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(name).map_or(f64::NAN, |values| median(values.clone()))
    }
}

fn run(input: &Input, codec: Codec, partitions: usize, rounds: usize) -> Series {
    let ids = partition_ids(input, partitions);
    // For a profiler: nothing but our side.
    let only_ours = std::env::args().any(|arg| arg == "--ours");
    let compression = ipc_compression(codec);
    let schema = Arc::clone(&input.schema);
    let mut partitioner =
        BlockPartitioner::try_new(schema, partitions, codec, BLOCK_ROWS).expect("partitioner");
    let mut decoder =
        BlockDecoder::try_new(Arc::clone(&input.schema), DecodeLimits::default()).expect("decoder");
    let mut series = Series::default();
    let gb = input.bytes as f64 / 1e9;
    for _ in 0..rounds {
        if !only_ours {
            let (write, streams) = timed(|| ipc_write(input, &ids, partitions, compression));
            let (read, rows) = timed(|| ipc_read(&streams));
            assert_eq!(rows, input.rows);
            series.add("ipc_write_s_per_gb", write / gb);
            series.add("ipc_read_s_per_gb", read / gb);
            series.add("ipc_bytes", streams.iter().map(Vec::len).sum::<usize>() as f64);
        }
        let (write, (held, blocks)) =
            timed(|| block_write(input, &ids, partitions, &mut partitioner));
        series.add("held_ratio", held as f64 / gb / 1e9);
        let (read, rows) = timed(|| block_read(&blocks, &mut decoder));
        assert_eq!(rows, input.rows);
        series.add("write_s_per_gb", write / gb);
        series.add("read_s_per_gb", read / gb);
        series.add("bytes", blocks.iter().map(|b| b.bytes.len()).sum::<usize>() as f64);
        let copied: Vec<u8> = vec![1; 64 << 20];
        let (copy, _) = timed(|| std::hint::black_box(copied.clone()));
        series.add("memcpy_s_per_gb", copy / (64.0 * 1.048_576e-3));
    }
    series
}

/// One spill of 1,009 partitions with `rows` rows each: microseconds per partition, of the IPC stream and of blocks.
fn spill(input: &Input, rows: usize, rounds: usize) {
    let batch = arrow::compute::concat_batches(&input.schema, &input.batches).expect("concat");
    let partitions = 1009.min(batch.num_rows() / rows);
    let mut encoder =
        BlockEncoder::try_new(Arc::clone(&input.schema), Codec::Lz4).expect("encoder");
    let mut out = Vec::with_capacity(8 << 20);
    let spills = 10;
    let done = (partitions * spills) as f64;
    let mut series = Series::default();
    for _ in 0..rounds {
        let (ipc, _) = timed(|| {
            for p in (0..partitions * spills).map(|i| i % partitions) {
                let options = IpcWriteOptions::default();
                let options = options
                    .try_with_compression(Some(CompressionType::LZ4_FRAME))
                    .expect("options");
                out.clear();
                let mut writer =
                    StreamWriter::try_new_with_options(&mut out, &input.schema, options)
                        .expect("writer");
                writer.write(&batch.slice(p * rows, rows)).expect("write");
                writer.finish().expect("finish");
            }
        });
        series.add("ipc", ipc / done * 1e6);
        let (blocks, _) = timed(|| {
            for p in (0..partitions * spills).map(|i| i % partitions) {
                out.clear();
                encoder.encode(&batch, p * rows, rows, &mut out).expect("encode");
            }
        });
        series.add("blocks", blocks / done * 1e6);
    }
    let (ipc, blocks) = (series.get("ipc"), series.get("blocks"));
    println!(
        "{{\"bench\":\"spill\",\"rows\":{rows},\"ratio\":{:.3},\"ipc_us\":{ipc:.2},\"block_us\":{blocks:.2}}}",
        blocks / ipc
    );
}

fn report(table: &str, codec: Codec, partitions: usize, series: &Series) {
    let codec = codec.name();
    let ratio = |ours: &str, theirs: &str| series.get(ours) / series.get(theirs);
    let figures = series.0.keys().map(|name| format!("\"{name}\":{:.3}", series.get(name)));
    println!(
        "{{\"bench\":\"block\",\"table\":\"{table}\",\"codec\":\"{codec}\",\"partitions\":{partitions},\
         \"write_ratio\":{:.3},\"read_ratio\":{:.3},\"bytes_ratio\":{:.3},{}}}",
        ratio("write_s_per_gb", "ipc_write_s_per_gb"),
        ratio("read_s_per_gb", "ipc_read_s_per_gb"),
        ratio("bytes", "ipc_bytes"),
        figures.collect::<Vec<_>>().join(",")
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let quick = args.iter().any(|arg| arg == "--quick" || arg == "--test");
    let rows = value("--rows")
        .map_or(if quick { 50_000 } else { 2_880_404 }, |n| n.parse().expect("rows"));
    let rounds =
        if quick { 1 } else { value("--rounds").map_or(3, |n| n.parse().expect("rounds")) };
    let only = value("--table");
    let parts = value("--partitions").map(|n| vec![n.parse().expect("partitions")]);
    for table in ["store_sales", "strings", "entropy", "nested"] {
        if only.as_ref().is_some_and(|only| only != table) {
            continue;
        }
        let input = input(table, rows);
        if table == "store_sales" && !args.iter().any(|arg| arg == "--ours") {
            for rows in [1, 10, 100] {
                spill(&input, rows, if quick { 1 } else { rounds.max(5) });
            }
        }
        for codec in [Codec::Lz4, Codec::Zstd { level: 1 }, Codec::None] {
            if value("--codec").is_some_and(|only| only != codec.name()) {
                continue;
            }
            for &partitions in parts.as_deref().unwrap_or(&[8, 200, 1009]) {
                report(table, codec, partitions, &run(&input, codec, partitions, rounds));
            }
        }
    }
}
