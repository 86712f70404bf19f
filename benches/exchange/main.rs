//! `IFileRepartitionExec` against `RepartitionExec`: hash exchange of TPC-DS store_sales from memory to
//! drained outputs, both sides interleaved in one process.
//!
//! ```text
//! cargo bench --bench exchange [-- --quick] [-- --outputs 8,64 --pool 64MB|none --rounds 5]
//! ```
//!
//! Prints medians of CPU seconds per GB of Arrow rows and of wall time. CPU time is that of all
//! threads of the process.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a bench that cannot go on has failed"
)]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use clap::Parser;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::prelude::SessionConfig;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::StreamExt;

use cpu::cpu_seconds;
use tables::{BATCH_ROWS, table};

#[path = "common/cpu.rs"]
mod cpu;
#[path = "common/tables.rs"]
mod tables;

#[derive(Parser)]
struct Args {
    /// One small iteration, to see that the bench runs.
    #[arg(long)]
    quick: bool,
    /// Output partitions.
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64, 200, 1009])]
    outputs: Vec<usize>,
    /// Input partitions.
    #[arg(long, default_value_t = 2)]
    inputs: usize,
    /// Megabytes of the memory pool; without it the pool is unbounded.
    #[arg(long)]
    pool_mb: Option<usize>,
    /// Drain the outputs one after another instead of together.
    #[arg(long)]
    serial: bool,
    /// Rounds per side.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Outputs from which on our rows are narrowed.
    #[arg(long, default_value_t = IFileOptions::default().narrow_outputs)]
    narrow_outputs: usize,
    /// Which side to run.
    #[arg(long, default_value = "both")]
    side: String,
    /// Passed by cargo.
    #[arg(long)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Stock,
    Ours,
}

struct Sample {
    cpu: f64,
    wall: f64,
    spilled: usize,
}

fn main() {
    let args = Args::parse();
    let rows = if args.quick { 20_000 } else { 2_880_404 };
    let batches = table("store_sales", rows).unwrap();
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let gigabytes = bytes as f64 / 1e9;
    println!("store_sales: {rows} rows, {:.0} MB of Arrow", bytes as f64 / 1e6);
    println!("outputs  side   CPU s/GB  wall s/GB  spilled MB   ratio CPU  ratio wall");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let rounds = if args.quick { 1 } else { args.rounds };
    let mut bars = Vec::new();
    for &outputs in &args.outputs {
        let mut samples: [Vec<Sample>; 2] = [vec![], vec![]];
        for _ in 0..rounds {
            for side in [Side::Stock, Side::Ours] {
                let wanted = match side {
                    Side::Stock => args.side != "ours",
                    Side::Ours => args.side != "stock",
                };
                if wanted {
                    let sample = runtime.block_on(run(&args, side, outputs, &batches));
                    samples[side as usize].push(sample);
                }
            }
        }
        let [stock, ours] = samples.map(|samples| summary(&samples));
        for (name, side) in [("stock", &stock), ("ours", &ours)] {
            println!(
                "{outputs:>7}  {name:<5} {:>9.3} {:>10.3} {:>11.1} {:>11.2} {:>11.2}",
                side.cpu / gigabytes,
                side.wall / gigabytes,
                side.spilled as f64 / 1e6,
                side.cpu / stock.cpu,
                side.wall / stock.wall
            );
        }
        let value = ours.cpu / stock.cpu;
        if let Some(limit) = cpu_limit(outputs).filter(|_| args.pool_mb.is_none()) {
            let name = format!("CPU, hash, unlimited pool, {outputs} outputs, ours / stock");
            let ok = value <= limit;
            bars.push(
                serde_json::json!({ "name": name, "value": value, "limit": limit, "ok": ok }),
            );
        }
    }
    if args.quick {
        // One small iteration judges nothing.
        bars.clear();
    }
    println!("{}", serde_json::json!({ "bench": "exchange", "bars": bars }));
}

/// What is aimed at with an unlimited pool.
fn cpu_limit(outputs: usize) -> Option<f64> {
    match outputs {
        8 => Some(0.75),
        64 => Some(0.60),
        200 => Some(0.50),
        1009 => Some(0.22),
        _ => None,
    }
}

async fn run(args: &Args, side: Side, outputs: usize, batches: &[RecordBatch]) -> Sample {
    let schema = batches[0].schema();
    let mut partitions = vec![Vec::new(); args.inputs];
    for (index, batch) in batches.iter().enumerate() {
        partitions[index % args.inputs].push(batch.clone());
    }
    let input = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None).unwrap();
    let keys = vec![col("ss_item_sk", &schema).unwrap()];
    let partitioning = Partitioning::Hash(keys, outputs);
    let plan: Arc<dyn ExecutionPlan> = match side {
        Side::Stock => Arc::new(RepartitionExec::try_new(input, partitioning).unwrap()),
        Side::Ours => {
            let options = IFileOptions {
                memory_share: 1.0,
                memory_headroom: 0.0,
                narrow_outputs: args.narrow_outputs,
                ..IFileOptions::default()
            };
            Arc::new(IFileRepartitionExec::try_new(input, partitioning, options).unwrap())
        }
    };
    let pool: Arc<dyn MemoryPool> = match args.pool_mb {
        Some(megabytes) => Arc::new(GreedyMemoryPool::new(megabytes << 20)),
        None => Arc::new(UnboundedMemoryPool::default()),
    };
    let env = Arc::new(RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap());
    let config = SessionConfig::new().with_batch_size(BATCH_ROWS);
    let context = Arc::new(TaskContext::default().with_session_config(config).with_runtime(env));
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let mut streams: Vec<_> =
        (0..outputs).map(|output| plan.execute(output, Arc::clone(&context)).unwrap()).collect();
    let mut rows = 0;
    if args.serial {
        for stream in &mut streams {
            while let Some(batch) = stream.next().await {
                rows += batch.unwrap().num_rows();
            }
        }
    } else {
        let mut tasks = tokio::task::JoinSet::new();
        for mut stream in streams {
            tasks.spawn(async move {
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
                    rows += batch.unwrap().num_rows();
                }
                rows
            });
        }
        while let Some(count) = tasks.join_next().await {
            rows += count.unwrap();
        }
    }
    assert_eq!(rows, batches.iter().map(RecordBatch::num_rows).sum::<usize>());
    let metrics = plan.metrics().unwrap();
    Sample {
        cpu: cpu_seconds() - cpu,
        wall: wall.elapsed().as_secs_f64(),
        spilled: metrics.spilled_bytes().unwrap_or(0),
    }
}

fn summary(samples: &[Sample]) -> Sample {
    let median = |value: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Sample {
        cpu: median(|sample| sample.cpu),
        wall: median(|sample| sample.wall),
        spilled: samples.last().map_or(0, |sample| sample.spilled),
    }
}
