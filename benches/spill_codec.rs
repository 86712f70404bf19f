//! Spills of a hash exchange of TPC-H lineitem, all columns, into 200 outputs that are drained one after
//! another in a pool of 64 MB: `IFileRepartitionExec` per codec against `RepartitionExec`, which ignores
//! `spill_compression` in this node.
//!
//! ```text
//! cargo bench --bench spill_codec [-- --quick] [-- --scale 1 --rounds 2]
//! ```
//!
//! Every side runs in a process of its own, since resident memory that one run leaves behind would hide
//! what the next one needs; the sides take turns. A second table has `count(distinct l_partkey)`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot go on has failed"
)]

#[path = "spill_codec/child.rs"]
mod child;
#[path = "support/mod.rs"]
mod support;

use std::process::{Command, Stdio};

use clap::Parser;
use serde::{Deserialize, Serialize};
use support::{Bar, report};

const SIDES: [&str; 5] = ["stock", "none", "snappy", "lz4", "zstd:1"];

#[derive(Parser)]
struct Args {
    /// One small iteration that judges nothing.
    #[arg(long)]
    quick: bool,
    /// Scale factor of the table.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Processes per side.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Run this side in this process and print what came of it.
    #[arg(long)]
    side: Option<String>,
    /// Run the query instead of the exchange.
    #[arg(long)]
    query: bool,
    /// Passed by cargo.
    #[arg(long)]
    bench: bool,
}

/// What one run of a side came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sample {
    seconds: f64,
    rows: u64,
    source_bytes: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    resident_growth: u64,
    pool_bytes: u64,
}

fn main() {
    let args = Args::parse();
    let scale = if args.quick { 0.01 } else { args.scale };
    if let Some(side) = &args.side {
        let sample = child::run(side, scale, args.query);
        println!("{}", serde_json::to_string(&sample).unwrap());
        return;
    }
    let rounds = if args.quick { 1 } else { args.rounds };
    let exchange = all_sides(scale, rounds, false);
    let source = exchange[0].source_bytes as f64;
    println!("hash exchange of lineitem: {} rows, {:.0} MB", exchange[0].rows, source / 1e6);
    table(&exchange);
    let query = all_sides(scale, rounds, true);
    println!(
        "select count(distinct l_partkey) from lineitem, pool of {:.0} MB",
        mb(query[0].pool_bytes)
    );
    table(&query);
    println!("Impala, TPC-H SF30 at 200 MB: none 19.59 s, LZ4 18.56 s, ZSTD 20.59 s");
    let bars = if args.quick { Vec::new() } else { bars(&exchange) };
    report("spill_codec", &bars);
}

fn bars(exchange: &[Sample]) -> Vec<Bar> {
    let [stock, none, _, lz4, _] = exchange else { return Vec::new() };
    let ratio = |one: u64, other: u64| one as f64 / other as f64;
    vec![
        Bar::at_most("wall time, lz4 / stock", lz4.seconds / stock.seconds, 0.5),
        Bar::at_most("stored bytes, lz4 / stock", ratio(lz4.stored_bytes, stock.stored_bytes), 0.4),
        Bar::at_most(
            "resident growth beyond the pool, lz4, MB",
            mb(lz4.resident_growth) - 64.0,
            64.0,
        ),
        Bar::at_most("wall time, lz4 / none", lz4.seconds / none.seconds, 1.1),
    ]
}

fn table(samples: &[Sample]) {
    println!(
        "side      seconds  spilled raw MB  stored MB  ratio  resident growth MB  time / stock"
    );
    for (side, sample) in SIDES.iter().zip(samples) {
        println!(
            "{side:<8} {:>8.2} {:>15.1} {:>10.1} {:>6.2} {:>19.1} {:>13.2}",
            sample.seconds,
            mb(sample.raw_bytes),
            mb(sample.stored_bytes),
            sample.stored_bytes as f64 / sample.raw_bytes.max(1) as f64,
            mb(sample.resident_growth),
            sample.seconds / samples[0].seconds,
        );
    }
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Every side in turn, `rounds` times; of each the run of the least time, and its most memory.
fn all_sides(scale: f64, rounds: usize, query: bool) -> Vec<Sample> {
    let mut best: Vec<Option<Sample>> = vec![None; SIDES.len()];
    for round in 0..rounds {
        for step in 0..SIDES.len() {
            let index = (round + step) % SIDES.len();
            let sample = in_a_child(SIDES[index], scale, query);
            let growth = best[index].as_ref().map_or(0, |before| before.resident_growth);
            let growth = growth.max(sample.resident_growth);
            let faster = best[index].as_ref().is_none_or(|best| sample.seconds < best.seconds);
            if faster {
                best[index] = Some(sample);
            }
            best[index].as_mut().unwrap().resident_growth = growth;
        }
    }
    best.into_iter().map(Option::unwrap).collect()
}

fn in_a_child(side: &str, scale: f64, query: bool) -> Sample {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--side", side, "--scale", &scale.to_string()]).stderr(Stdio::inherit());
    if query {
        child.arg("--query");
    }
    let output = child.output().unwrap();
    assert!(output.status.success(), "{side} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}
