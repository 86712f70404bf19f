//! `IFileRepartitionExec` against `RepartitionExec`: TPC-DS store_sales or a table of strings from memory to
//! drained outputs, both sides interleaved in one process.
//!
//! ```text
//! cargo bench --bench exchange [-- --quick] [-- --table strings --scheme range --outputs 8,64 --pool-mb 64 --serial]
//! cargo bench --bench exchange -- --recovery
//! ```
//!
//! Prints medians of CPU seconds per GB of Arrow rows and of wall time. CPU time is that of all
//! threads of the process. `--recovery` gives each input a batch of 100 rows before full ones and sets our
//! exchange against one whose batches would stay that small. Peak heap: `exchange_heap`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench that cannot go on has failed"
)]

use std::time::Instant;

use clap::Parser;
use tokio::runtime::Runtime;

use cpu::{cpu_seconds, runtime};
use shared::{BATCH_ROWS, Drained, Input, Scheme, Shape, Side, batches_of, drain, sorted_by};
use support::{Bar, median, report};

#[path = "../common/cpu.rs"]
mod cpu;
mod shared;
#[path = "../support/mod.rs"]
mod support;

/// Rows of the batch that comes before full ones.
const SMALL_ROWS: usize = 100;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    shape: Shape,
    /// Which side to run.
    #[arg(long, default_value = "both")]
    side: String,
    /// Small batches before full ones, instead of stock against ours.
    #[arg(long)]
    recovery: bool,
}

struct Sample {
    cpu: f64,
    wall: f64,
    spilled: usize,
    drained: Drained,
}

/// The medians of one side.
struct Summary {
    cpu: f64,
    wall: f64,
    spilled: usize,
    rows_per_batch: f64,
}

fn main() {
    let Args { shape, side, recovery } = Args::parse();
    let runtime = runtime();
    if recovery || shape.quick {
        recover(&runtime, &shape);
    }
    if !recovery {
        compare(&runtime, &shape, &side);
    }
}

fn compare(runtime: &Runtime, shape: &Shape, wanted: &str) {
    let input = shape.input();
    let gigabytes = input.bytes as f64 / 1e9;
    println!("{}: {} rows, {:.0} MB of Arrow", shape.table, input.rows, input.bytes as f64 / 1e6);
    println!(
        "outputs  side   CPU s/GB  wall s/GB  spilled MB  rows/batch   ratio CPU  ratio wall  ratio spilled"
    );
    let mut bars = Vec::new();
    for &outputs in &shape.outputs {
        let mut samples: [Vec<Sample>; 2] = [vec![], vec![]];
        for _ in 0..shape.rounds() {
            for (name, side) in [("stock", Side::Stock), ("ours", Side::Ours)] {
                if wanted == "both" || wanted == name {
                    let sample = sample(runtime, &input, shape, side, outputs, BATCH_ROWS);
                    samples[side as usize].push(sample);
                }
            }
        }
        let [stock, ours] = samples.map(|samples| summary(&samples));
        for (name, side) in [("stock", &stock), ("ours", &ours)] {
            println!(
                "{outputs:>7}  {name:<5} {:>9.3} {:>10.3} {:>11.1} {:>11.0} {:>11.2} {:>11.2} {:>14.2}",
                side.cpu / gigabytes,
                side.wall / gigabytes,
                side.spilled as f64 / 1e6,
                side.rows_per_batch,
                side.cpu / stock.cpu,
                side.wall / stock.wall,
                side.spilled as f64 / stock.spilled as f64,
            );
        }
        if let Some(limit) = cpu_limit(shape, outputs) {
            let name = format!(
                "CPU, {:?}, {}, {outputs} outputs, ours / stock",
                shape.scheme, shape.table
            );
            bars.push(Bar::at_most(name, ours.cpu / stock.cpu, limit));
        }
    }
    if shape.quick {
        // One small iteration judges nothing.
        bars.clear();
    }
    report("exchange", &bars);
}

/// What is aimed at, as a part of stock's CPU time.
fn cpu_limit(shape: &Shape, outputs: usize) -> Option<f64> {
    let by_outputs = |limits: [f64; 4]| {
        let place = [8, 64, 200, 1009].iter().position(|count| *count == outputs);
        place.map(|place| limits[place])
    };
    match (shape.scheme, shape.pool_mb) {
        (Scheme::Hash, None) if shape.table == "store_sales" => {
            by_outputs([0.75, 0.60, 0.50, 0.22])
        }
        (Scheme::Hash, Some(64)) if shape.table == "store_sales" => match shape.serial {
            true => by_outputs([0.65, 0.55, 0.45, 0.17]),
            false => by_outputs([1.0, 1.0, 0.25, 0.12]),
        },
        (Scheme::Range, None) => Some(0.5),
        (_, None) => Some(1.0),
        (_, Some(_)) => None,
    }
}

fn sample(
    runtime: &Runtime,
    input: &Input,
    shape: &Shape,
    side: Side,
    outputs: usize,
    batch_rows: usize,
) -> Sample {
    let plan = input.exchange(shape, side, outputs);
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let drained = runtime.block_on(drain(&plan, shape, batch_rows, || ()));
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    assert_eq!(drained.rows, input.rows);
    let spilled = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
    Sample { cpu, wall, spilled, drained }
}

fn summary(samples: &[Sample]) -> Summary {
    let of = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    Summary {
        cpu: of(|sample| sample.cpu),
        wall: of(|sample| sample.wall),
        spilled: samples.last().map_or(0, |sample| sample.spilled),
        rows_per_batch: of(|sample| sample.drained.rows_per_batch()),
    }
}

/// Our exchange over inputs that begin with a small batch, against one whose batches stay as small as
/// that: by hash, and merged in order, where inputs overlap or follow one another.
fn recover(runtime: &Runtime, shape: &Shape) {
    println!(
        "a batch of {SMALL_ROWS} rows, then batches of {BATCH_ROWS}; ours as it is, and with batches that stay small"
    );
    println!("shape           CPU s  rows/batch   small CPU s  rows/batch   ratio");
    let ordered = Shape { scheme: Scheme::PreserveOrder, ..shape.clone() };
    let hashed = Shape { scheme: Scheme::Hash, ..shape.clone() };
    let key = "ss_item_sk";
    let all = Shape { table: "store_sales".to_owned(), ..hashed.clone() }.input();
    let rows: Vec<_> = all.partitions.concat();
    let sorted = sorted_by(&rows, key);
    let part = sorted.num_rows() / shape.inputs;
    let small_first = |batch| batches_of(&batch, BATCH_ROWS, SMALL_ROWS);
    let apart: Vec<_> =
        (0..shape.inputs).map(|input| small_first(sorted.slice(input * part, part))).collect();
    let overlapping = all.partitions.iter().map(|part| small_first(sorted_by(part, key)));
    let cases = [
        ("hash", &hashed, Input::of(apart.clone(), key, false)),
        ("merge, overlap", &ordered, Input::of(overlapping.collect(), key, true)),
        ("merge, apart", &ordered, Input::of(apart, key, true)),
    ];
    for (name, shape, input) in cases {
        let mut samples: [Vec<Sample>; 2] = [vec![], vec![]];
        for _ in 0..shape.rounds() {
            for (place, batch_rows) in [BATCH_ROWS, SMALL_ROWS].into_iter().enumerate() {
                samples[place].push(sample(runtime, &input, shape, Side::Ours, 8, batch_rows));
            }
        }
        let [ours, small] = samples.map(|samples| summary(&samples));
        println!(
            "{name:<14} {:>6.3} {:>11.0} {:>13.3} {:>11.0} {:>7.2}",
            ours.cpu,
            ours.rows_per_batch,
            small.cpu,
            small.rows_per_batch,
            ours.cpu / small.cpu
        );
        // A quick run has no batch but the last ones.
        let full = ours.rows_per_batch.is_nan() || ours.rows_per_batch == BATCH_ROWS as f64;
        assert!(full, "a batch before the last is not full");
    }
}
