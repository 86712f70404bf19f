//! Peak heap and allocated bytes of `IFileRepartitionExec` and of `RepartitionExec`: growth over the loaded
//! source, seen with every output batch in hand.
//!
//! A bench of its own, since counting slows every allocation down.
//!
//! `cargo bench --bench exchange_heap [-- --quick] [-- --outputs 8,64 --pool-mb 64]`

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench that cannot go on has failed"
)]

use std::alloc::System;
use std::sync::atomic::{AtomicIsize, Ordering};

use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use shared::{BATCH_ROWS, Input, Scheme, Shape, Side, drain};
use support::{Bar, median, report};

mod shared;
#[path = "../support/mod.rs"]
mod support;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static PEAK: AtomicIsize = AtomicIsize::new(0);

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    shape: Shape,
}

/// Bytes of the heap now, and all that were ever allocated.
fn heap() -> (isize, usize) {
    let stats = GLOBAL.stats();
    let live = stats.bytes_allocated as isize - stats.bytes_deallocated as isize;
    (live, stats.bytes_allocated + stats.bytes_reallocated.max(0) as usize)
}

fn note() {
    PEAK.fetch_max(heap().0, Ordering::Relaxed);
}

/// Growth of the heap and allocated bytes, in MB, and rows of a batch.
fn sample(
    runtime: &tokio::runtime::Runtime,
    input: &Input,
    shape: &Shape,
    side: Side,
    outputs: usize,
) -> [f64; 3] {
    let (before, allocated) = heap();
    PEAK.store(before, Ordering::Relaxed);
    let plan = input.exchange(shape, side, outputs);
    let drained = runtime.block_on(drain(&plan, shape, BATCH_ROWS, note));
    assert_eq!(drained.rows, input.rows);
    let growth = PEAK.load(Ordering::Relaxed) - before;
    let allocated = heap().1 - allocated;
    [growth as f64 / 1e6, allocated as f64 / 1e6, drained.rows_per_batch()]
}

fn main() {
    let Args { shape } = Args::parse();
    let (runtime, input) = (tokio::runtime::Runtime::new().expect("a runtime"), shape.input());
    let megabytes = input.bytes as f64 / 1e6;
    println!("{}: {} rows, {megabytes:.0} MB of Arrow", shape.table, input.rows);
    println!("outputs  side   peak MB  allocated MB  rows/batch  ratio peak  ratio allocated");
    let mut bars = Vec::new();
    for &outputs in &shape.outputs {
        let mut samples = [vec![], vec![]];
        for _ in 0..shape.rounds() {
            for side in [Side::Stock, Side::Ours] {
                samples[side as usize].push(sample(&runtime, &input, &shape, side, outputs));
            }
        }
        let [stock, ours] = samples.map(|samples: Vec<[f64; 3]>| {
            [0, 1, 2].map(|figure| median(samples.iter().map(|sample| sample[figure]).collect()))
        });
        for (name, side) in [("stock", stock), ("ours", ours)] {
            println!(
                "{outputs:>7}  {name:<5} {:>8.1} {:>13.1} {:>11.0} {:>11.2} {:>16.2}",
                side[0],
                side[1],
                side[2],
                side[0] / stock[0],
                side[1] / stock[1]
            );
        }
        let place = [8, 64, 200, 1009].iter().position(|count| *count == outputs);
        match (place, shape.pool_mb) {
            _ if shape.quick => {}
            (Some(place), None) if shape.scheme == Scheme::Hash => {
                let name = format!("peak heap, {outputs} outputs, ours / stock");
                bars.push(Bar::at_most(name, ours[0] / stock[0], [1.0, 0.6, 0.5, 0.15][place]));
            }
            (_, Some(pool)) => {
                let limit = ((pool + 16) << 20) as f64 / 1e6;
                bars.push(Bar::at_most(
                    format!("peak heap, {outputs} outputs, MB"),
                    ours[0],
                    limit,
                ));
            }
            _ => {}
        }
    }
    report("exchange_heap", &bars);
}
