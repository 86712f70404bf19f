//! `IFileShuffleWriterExec` and reader against Ballista's `SortShuffleWriterExec` and reader: hash shuffles from memory to
//! files and back, both sides in turn in one process.
//!
//! CPU is that of all threads, in seconds per GB of Arrow rows; figures are medians. *Peak heap* is the most live bytes that
//! were seen each millisecond, beyond those before, in a run of its own.
//!
//! `cargo bench --features peers --bench map_output -- [--quick] [--rounds 5] [--table store_sales,strings]`

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a bench stops at its first fault"
)]

use std::alloc::System;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::RecordBatch;
use ballista_core::execution_plans::SortShuffleWriterExec;
use ballista_core::execution_plans::sort_shuffle::{
    SortShuffleConfig, stream_sort_shuffle_partition,
};
use ballista_core::extension::SessionConfigExt;
use clap::Parser;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_ifile::map_output::{IndexLayout, OutputStore};
use datafusion_ifile::map_output::{MapOutputOptions, OutputName, ShuffleRead, placement_of};
use datafusion_ifile::map_status::Location;
use datafusion_ifile::{
    Codec, IFileOptions, IFileShuffleReaderExec, IFileShuffleWriterExec, ShuffleWrite,
};
use futures::StreamExt;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use cpu::{cpu_seconds, runtime};
use tables::BATCH_ROWS;

#[path = "common/cpu.rs"]
mod cpu;
#[path = "common/tables.rs"]
mod tables;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BUDGET: usize = 64 << 20;

#[derive(Parser)]
struct Args {
    /// One small iteration, to see that the bench runs.
    #[arg(long)]
    quick: bool,
    /// Rounds per side.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Tables.
    #[arg(long, value_delimiter = ',', default_values_t = ["store_sales".to_owned(), "strings".to_owned()])]
    table: Vec<String>,
    /// Output partitions.
    #[arg(long, value_delimiter = ',', default_values_t = [200, 1009])]
    outputs: Vec<usize>,
    /// Codecs.
    #[arg(long, value_delimiter = ',', default_values_t = ["lz4".to_owned(), "zstd".to_owned()])]
    codec: Vec<String>,
    /// Only without, or only with the 64 MB budget.
    #[arg(long)]
    budget: Option<bool>,
    /// Only this side.
    #[arg(long, default_value = "both")]
    side: String,
    /// Passed by cargo.
    #[arg(long)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Peer,
    Ours,
}

#[derive(Default, Clone, Copy)]
struct Sample {
    write_cpu: f64,
    write_wall: f64,
    read_cpu: f64,
    read_wall: f64,
    stored: usize,
    files: usize,
    peak: usize,
    rows: usize,
}

struct Case<'a> {
    batches: &'a [RecordBatch],
    outputs: usize,
    zstd: bool,
    budget: bool,
}

fn main() {
    let args = Args::parse();
    let runtime = runtime();
    let mut bars = Vec::new();
    println!(
        "table        outputs codec budget  side   write CPU/GB wall/GB   read CPU/GB wall/GB  stored MB \
         files  peak MB"
    );
    for table in &args.table {
        let batches = tables::table(table, if args.quick { 20_000 } else { usize::MAX })
            .expect("a known table");
        let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let gigabytes = bytes as f64 / 1e9;
        for &outputs in &args.outputs {
            for codec in &args.codec {
                for budget in [false, true] {
                    if args.budget.is_some_and(|wanted| wanted != budget) {
                        continue;
                    }
                    let case = Case { batches: &batches, outputs, zstd: codec == "zstd", budget };
                    let name = format!("{table:<12} {outputs:>7} {codec:>5} {budget:>6}");
                    measure(&args, &runtime, &case, &name, gigabytes, &mut bars);
                }
            }
        }
    }
    if args.quick {
        bars.clear();
    }
    println!("{}", serde_json::json!({ "bench": "map_output", "bars": bars }));
}

fn measure(
    args: &Args,
    runtime: &tokio::runtime::Runtime,
    case: &Case<'_>,
    name: &str,
    gigabytes: f64,
    bars: &mut Vec<serde_json::Value>,
) {
    let rounds = if args.quick { 1 } else { args.rounds };
    let mut samples = [vec![], vec![]];
    for round in 0..=rounds {
        for side in [Side::Peer, Side::Ours] {
            if (args.side == "ours") == (side == Side::Peer) && args.side != "both" {
                continue;
            }
            // The last round watches the heap.
            let sample = run(runtime, case, side, round == rounds);
            samples[side as usize].push(sample);
        }
    }
    let [peer, ours] = samples.map(|samples| summary(&samples));
    assert!(args.side != "both" || peer.rows == ours.rows, "{} and {} rows", peer.rows, ours.rows);
    for (side, sample) in [("peer", &peer), ("ours", &ours)] {
        println!(
            "{name}  {side} {:>14.3} {:>7.3} {:>13.3} {:>7.3} {:>10.1} {:>5} {:>8.1}",
            sample.write_cpu / gigabytes,
            sample.write_wall / gigabytes,
            sample.read_cpu / gigabytes,
            sample.read_wall / gigabytes,
            sample.stored as f64 / 1e6,
            sample.files,
            sample.peak as f64 / 1e6,
        );
    }
    if args.side != "both" || case.zstd || !name.starts_with("store_sales") {
        return;
    }
    let mut bar = |what: &str, value: f64, limit: f64| {
        let name = format!("{}, {what}", name.split_whitespace().collect::<Vec<_>>().join(" "));
        bars.push(serde_json::json!({ "name": name, "value": value, "limit": limit, "ok": value <= limit }));
    };
    let write = match (case.budget, case.outputs) {
        (true, _) => 0.3,
        (false, 200) => 0.21,
        _ => 0.26,
    };
    bar("write CPU, ours / peer", ours.write_cpu / peer.write_cpu, write);
    bar("read CPU, ours / peer", ours.read_cpu / peer.read_cpu, 0.33);
    bar("stored bytes, ours / peer", ours.stored as f64 / peer.stored as f64, 0.65);
    if case.budget {
        bar("peak heap / budget", ours.peak as f64 / BUDGET as f64, 1.0);
    }
}

/// Medians of all rounds but the last, which has the peak.
fn summary(samples: &[Sample]) -> Sample {
    let Some((last, rounds)) = samples.split_last() else { return Sample::default() };
    let median = |of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Sample {
        write_cpu: median(|sample| sample.write_cpu),
        write_wall: median(|sample| sample.write_wall),
        read_cpu: median(|sample| sample.read_cpu),
        read_wall: median(|sample| sample.read_wall),
        ..*last
    }
}

fn context(case: &Case<'_>, side: Side) -> Arc<TaskContext> {
    let pool: Arc<dyn MemoryPool> = match case.budget {
        true => Arc::new(GreedyMemoryPool::new(BUDGET)),
        false => Arc::new(UnboundedMemoryPool::default()),
    };
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let mut config = match side {
        Side::Peer => SessionConfig::new_with_ballista(),
        Side::Ours => SessionConfig::new(),
    };
    config = config.with_batch_size(BATCH_ROWS);
    if side == Side::Peer {
        let codec = if case.zstd { "zstd" } else { "lz4" };
        config = config.set_str("ballista.shuffle.compression.codec", codec);
    }
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime))
}

fn run(runtime: &tokio::runtime::Runtime, case: &Case<'_>, side: Side, watched: bool) -> Sample {
    let directory = tempfile::tempdir().unwrap();
    let watch = watched.then(Watch::start);
    let mut sample = Sample::default();
    let partitioning = |plan: &Arc<dyn ExecutionPlan>| {
        let schema = plan.schema();
        let key = schema.field(if schema.index_of("ss_item_sk").is_ok() {
            schema.index_of("ss_item_sk").unwrap()
        } else {
            0
        });
        Partitioning::Hash(vec![col(key.name(), &schema).unwrap()], case.outputs)
    };
    let input =
        MemorySourceConfig::try_new_exec(&[case.batches.to_vec()], case.batches[0].schema(), None)
            .unwrap() as Arc<dyn ExecutionPlan>;
    let partitioning = partitioning(&input);
    let context = context(case, side);
    let writer: Arc<dyn ExecutionPlan> = match side {
        Side::Peer => {
            let config = SortShuffleConfig::new(true, BATCH_ROWS)
                .with_memory_limit_per_task_bytes(if case.budget { BUDGET } else { 0 });
            let directory = directory.path().to_str().unwrap().to_owned();
            let writer = SortShuffleWriterExec::try_new(
                "job".into(),
                1,
                Arc::clone(&input),
                directory,
                partitioning.clone(),
                config,
            );
            Arc::new(writer.unwrap())
        }
        Side::Ours => {
            let write = ShuffleWrite {
                directory: directory.path().to_owned(),
                name: OutputName { shuffle: 1, map_id: 0 },
                attempt: 0,
                epoch: 0,
                location: Location::default(),
                output: MapOutputOptions::default(),
            };
            // As peers have it, all of the budget is the shuffle's.
            let codec = if case.zstd { Codec::Zstd { level: 1 } } else { Codec::Lz4 };
            let options = IFileOptions {
                codec,
                memory_share: 0.8,
                memory_headroom: 0.0,
                ..IFileOptions::default()
            };
            let writer = IFileShuffleWriterExec::try_new(
                Arc::clone(&input),
                partitioning.clone(),
                write,
                options,
            );
            Arc::new(writer.unwrap())
        }
    };
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    runtime.block_on(drain(&writer, &context));
    (sample.write_cpu, sample.write_wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    sample.peak = watch.map_or(0, Watch::stop);
    drop(writer);
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    sample.rows = runtime.block_on(async {
        match side {
            Side::Peer => read_peer(&find(directory.path(), "data.arrow"), case.outputs).await,
            Side::Ours => read_ours(directory.path(), &input, &partitioning, &context).await,
        }
    });
    (sample.read_cpu, sample.read_wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    (sample.stored, sample.files) = files(directory.path());
    sample
}

async fn drain(plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> usize {
    let outputs = plan.properties().partitioning.partition_count();
    let streams: Vec<_> =
        (0..outputs).map(|output| plan.execute(output, Arc::clone(context)).unwrap()).collect();
    let mut rows = 0;
    for mut stream in streams {
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
    }
    rows
}

async fn read_peer(data: &Path, outputs: usize) -> usize {
    let index = data.with_extension("arrow.index");
    let mut rows = 0;
    for output in 0..outputs {
        let mut stream = stream_sort_shuffle_partition(data, &index, output).unwrap();
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
    }
    rows
}

async fn read_ours(
    directory: &Path,
    input: &Arc<dyn ExecutionPlan>,
    partitioning: &Partitioning,
    context: &Arc<TaskContext>,
) -> usize {
    let store = OutputStore::new(directory);
    let source = store.source(OutputName { shuffle: 1, map_id: 0 }, IndexLayout::IFile);
    let source: Arc<dyn datafusion_ifile::map_output::SegmentSource> = Arc::new(source);
    let placement = placement_of(partitioning);
    let reads = (0..placement.count)
        .map(|output| vec![ShuffleRead::new(Arc::clone(&source), output..output + 1)])
        .collect();
    let reader = IFileShuffleReaderExec::try_new(
        input.schema(),
        placement,
        partitioning.clone(),
        reads,
        IFileOptions::default(),
    );
    let reader: Arc<dyn ExecutionPlan> = Arc::new(reader.unwrap());
    let mut rows = 0;
    for output in 0..partitioning.partition_count() {
        let mut stream = reader.execute(output, Arc::clone(context)).unwrap();
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
        }
    }
    rows
}

fn find(directory: &Path, name: &str) -> std::path::PathBuf {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let found = find(&path, name);
            if found.exists() {
                return found;
            }
        } else if path.file_name().unwrap() == name {
            return path;
        }
    }
    directory.join(name)
}

/// Bytes and number of all files.
fn files(directory: &Path) -> (usize, usize) {
    std::fs::read_dir(directory).unwrap().fold((0, 0), |(bytes, count), entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (more, files) = files(&path);
            (bytes + more, count + files)
        } else {
            (bytes + path.metadata().unwrap().len() as usize, count + 1)
        }
    })
}

/// Watches the heap from a thread of its own.
struct Watch {
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicUsize>,
    before: usize,
    thread: std::thread::JoinHandle<()>,
}

fn live() -> usize {
    let stats = GLOBAL.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

impl Watch {
    fn start() -> Self {
        let (stop, peak) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let thread = std::thread::spawn({
            let (stop, peak) = (Arc::clone(&stop), Arc::clone(&peak));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    peak.fetch_max(live(), Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        Self { stop, peak, before: live(), thread }
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.peak.load(Ordering::Relaxed).saturating_sub(self.before)
    }
}
