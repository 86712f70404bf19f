//! Rows to compressed bytes of each partition, and back: blocks against what Ballista and Comet do, see [`Peer`].
//!
//! All sides get the same batches and partition ids, run in turn in one process on one thread, and are measured in CPU
//! time of that thread; figures are medians. Batches and blocks have up to 8,192 rows. Ratios and bars are against
//! `interleave` and the Arrow IPC stream; ours is also taken apart, see [`phases`].
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

use clap::Parser;
use datafusion_ifile::Codec;
use datafusion_ifile::block::BlockEncoder;

use clock::timed;
use peers::Peer;
use phases::Phase;
use shared::{Case, Input, Ours, input};
use support::{Bar, median};

mod clock;
mod peers;
mod phases;
mod shared;
#[path = "../support/mod.rs"]
mod support;

/// Spills that one reading of the clock is for.
const SPILLS: usize = 10;
/// Memory to copy from, more than caches hold.
const MEMORY: usize = 256 << 20;

#[derive(Parser)]
struct Args {
    /// One small iteration that judges nothing.
    #[arg(long, alias = "test")]
    quick: bool,
    #[arg(long)]
    rows: Option<usize>,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[arg(long, value_delimiter = ',', default_value = "store_sales,strings,entropy,nested")]
    table: Vec<String>,
    /// Codecs by their names.
    #[arg(long, value_delimiter = ',', default_value = "lz4,zstd,none")]
    codec: Vec<String>,
    #[arg(long, value_delimiter = ',', default_value = "8,200,1009")]
    partitions: Vec<usize>,
    /// For a profiler: nothing but our side.
    #[arg(long)]
    ours: bool,
    /// Passed by cargo.
    #[arg(long)]
    bench: bool,
}

/// Medians of one table, codec and number of partitions.
#[derive(Default)]
struct Series(BTreeMap<String, Vec<f64>>);

impl Series {
    fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.entry(name.into()).or_default().push(value);
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(name).map_or(f64::NAN, |values| median(values.clone()))
    }

    fn ratio(&self, ours: &str, theirs: &str) -> f64 {
        self.get(ours) / self.get(theirs)
    }
}

/// What the rounds of one case came to.
struct Outcome {
    codec: Codec,
    partitions: usize,
    series: Series,
    /// By round.
    phases: Vec<Vec<Phase>>,
}

fn run(case: &Case<'_>, args: &Args, memory: &[u8]) -> Outcome {
    let mut ours = Ours::new(case);
    let mut series = Series::default();
    let mut phases = Vec::new();
    let gb = case.input.bytes as f64 / 1e9;
    for _ in 0..args.rounds {
        if !args.ours {
            for peer in Peer::ALL {
                let (write, (held, streams)) = timed(|| peer.write(case));
                let (read, rows) = timed(|| peer.read(&streams));
                assert_eq!(rows, case.input.rows);
                let name = peer.name();
                series.add(format!("{name}_write_s_per_gb"), write / gb);
                series.add(format!("{name}_read_s_per_gb"), read / gb);
                series.add(format!("{name}_held_ratio"), held as f64 / gb / 1e9);
                let bytes: usize = streams.iter().map(Vec::len).sum();
                series.add(format!("{name}_bytes"), bytes as f64);
            }
        }
        let (write, (held, blocks)) = timed(|| ours.write(case, Vec::new(), |_, _| ()));
        series.add("held_ratio", held as f64 / gb / 1e9);
        let (read, rows) = timed(|| ours.read(&blocks));
        assert_eq!(rows, case.input.rows);
        series.add("write_s_per_gb", write / gb);
        series.add("read_s_per_gb", read / gb);
        series.add("bytes", blocks.iter().map(|b| b.bytes.len()).sum::<usize>() as f64);
        if !args.ours {
            phases.push(phases::measure(case, &mut ours, blocks, memory));
        }
    }
    Outcome { codec: case.codec, partitions: case.partitions, series, phases }
}

/// One spill of 1,009 partitions with `rows` rows each: microseconds per partition, of all sides.
fn spill(input: &Input, rows: usize, rounds: usize) -> Series {
    let batch = arrow::compute::concat_batches(&input.schema, &input.batches).expect("concat");
    let partitions = 1009.min(batch.num_rows() / rows);
    let spilled = || (0..partitions * SPILLS).map(|i| i % partitions * rows);
    let microseconds = 1e6 / (partitions * SPILLS) as f64;
    let mut encoder =
        BlockEncoder::try_new(Arc::clone(&input.schema), Codec::Lz4).expect("encoder");
    let mut out = Vec::with_capacity(8 << 20);
    let mut series = Series::default();
    for _ in 0..rounds {
        for peer in Peer::ALL {
            let (seconds, ()) = timed(|| {
                for start in spilled() {
                    out.clear();
                    peer.encode(&input.schema, Codec::Lz4, [batch.slice(start, rows)], &mut out);
                }
            });
            series.add(format!("{}_us", peer.name()), seconds * microseconds);
        }
        let (seconds, ()) = timed(|| {
            for start in spilled() {
                out.clear();
                encoder.encode(&batch, start, rows, &mut out).expect("encode");
            }
        });
        series.add("block_us", seconds * microseconds);
    }
    series
}

fn report_spill(rows: usize, series: &Series) {
    println!(
        "{{\"bench\":\"spill\",\"rows\":{rows},\"ratio\":{:.3},\"comet_ratio\":{:.3},{}}}",
        series.ratio("block_us", "ipc_us"),
        series.ratio("block_us", "comet_us"),
        figures(series)
    );
}

fn figures(series: &Series) -> String {
    let figures = series.0.keys().map(|name| format!("\"{name}\":{:.3}", series.get(name)));
    figures.collect::<Vec<_>>().join(",")
}

fn report(table: &str, outcome: &Outcome, gb: f64) {
    let Outcome { codec, partitions, series, .. } = outcome;
    let place =
        format!("\"table\":\"{table}\",\"codec\":\"{}\",\"partitions\":{partitions}", codec.name());
    let ratios = [("", "ipc"), ("comet_", "comet")].map(|(name, peer)| {
        format!(
            "\"{name}write_ratio\":{:.3},\"{name}read_ratio\":{:.3},\"{name}bytes_ratio\":{:.3}",
            series.ratio("write_s_per_gb", &format!("{peer}_write_s_per_gb")),
            series.ratio("read_s_per_gb", &format!("{peer}_read_s_per_gb")),
            series.ratio("bytes", &format!("{peer}_bytes"))
        )
    });
    println!("{{\"bench\":\"block\",{place},{},{}}}", ratios.join(","), figures(series));
    report_phases(&place, outcome, gb);
}

/// Prints the phases, and those of the write and of the read that lose most time against `memcpy`.
fn report_phases(place: &str, outcome: &Outcome, gb: f64) {
    let Some(first) = outcome.phases.first() else { return };
    let over_rounds = |at: usize, value: fn(&Phase) -> f64| {
        median(outcome.phases.iter().map(|round| value(&round[at])).collect())
    };
    let (mut next_write, mut next_read) = (("", f64::MIN), ("", f64::MIN));
    let phases = first.iter().enumerate().map(|(at, Phase { name, moved, .. })| {
        let seconds = over_rounds(at, |phase| phase.seconds);
        let copy = over_rounds(at, |phase| phase.copy_seconds);
        let next = if name.starts_with("write") { &mut next_write } else { &mut next_read };
        if seconds - copy > next.1 {
            *next = (name, seconds - copy);
        }
        let moved = *moved as f64 / 1e9;
        format!(
            "\"{name}\":{{\"s_per_gb\":{:.3},\"moved_gb_per_s\":{:.2},\"memcpy_gb_per_s\":{:.2}}}",
            seconds / gb,
            moved / seconds,
            moved / copy
        )
    });
    let phases = phases.collect::<Vec<_>>().join(",");
    println!(
        "{{\"bench\":\"block_phases\",{place},\"next\":[\"{}\",\"{}\"],{phases}}}",
        next_write.0, next_read.0
    );
}

/// Most that a figure of a table may be, of what interleave and IPC take; for 8, 200 and 1,009 partitions.
struct Limits {
    table: &'static str,
    /// None for each of them.
    codec: Option<&'static str>,
    figure: &'static str,
    most: [f64; 3],
}

const LIMITS: [Limits; 9] = [
    Limits::new("store_sales", Some("lz4"), "write CPU", [0.27, 0.19, 0.23]),
    Limits::new("store_sales", Some("zstd"), "write CPU", [0.32, 0.25, 0.28]),
    Limits::new("store_sales", Some("lz4"), "bytes", [0.68, 0.64, 0.62]),
    Limits::new("store_sales", Some("zstd"), "bytes", [0.88, 0.88, 0.85]),
    Limits::new("store_sales", Some("lz4"), "read CPU", [0.30, 0.30, 0.23]),
    Limits::new("strings", None, "write CPU", [0.36; 3]),
    Limits::new("strings", None, "bytes", [0.65; 3]),
    Limits::new("strings", None, "read CPU", [0.65; 3]),
    Limits::new("entropy", None, "write CPU", [0.5; 3]),
];

/// Most bytes held, of the Arrow input of store_sales.
const MOST_HELD: f64 = 0.32;

impl Limits {
    const fn new(
        table: &'static str,
        codec: Option<&'static str>,
        figure: &'static str,
        most: [f64; 3],
    ) -> Self {
        Self { table, codec, figure, most }
    }

    fn of(&self, partitions: usize) -> Option<f64> {
        let at = [8, 200, 1009].iter().position(|count| *count == partitions)?;
        self.most.get(at).copied()
    }
}

fn bars(table: &str, outcomes: &[Outcome]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for Outcome { codec, partitions, series, .. } in outcomes {
        let place = format!("{table}, {}, {partitions} partitions", codec.name());
        let held = (table == "store_sales").then_some(MOST_HELD);
        bars.extend(held.map(|most| {
            Bar::at_most(format!("{place}: held, of the rows"), series.get("held_ratio"), most)
        }));
        for limits in LIMITS.iter().filter(|limits| limits.table == table) {
            let Some(most) = limits.of(*partitions) else { continue };
            if *codec == Codec::None || limits.codec.is_some_and(|name| name != codec.name()) {
                continue;
            }
            let ratio = match limits.figure {
                "write CPU" => series.ratio("write_s_per_gb", "ipc_write_s_per_gb"),
                "read CPU" => series.ratio("read_s_per_gb", "ipc_read_s_per_gb"),
                _ => series.ratio("bytes", "ipc_bytes"),
            };
            let name = format!("{place}: {}, of interleave + IPC", limits.figure);
            bars.push(Bar::at_most(name, ratio, most));
        }
        let same = |other: &&Outcome| other.codec == Codec::None && other.partitions == *partitions;
        if let Some(plain) = outcomes.iter().find(same) {
            let ratio = series.get("bytes") / plain.series.get("ipc_bytes");
            bars.push(Bar::at_most(format!("{place}: bytes, of plain IPC"), ratio, 1.0));
        }
    }
    bars
}

fn main() {
    let mut args = Args::parse();
    if args.quick {
        args.rounds = 1;
    }
    let rows = args.rows.unwrap_or(if args.quick { 50_000 } else { 2_880_404 });
    let mut judged = Vec::new();
    for table in &args.table {
        let input = input(table, rows);
        if table == "store_sales" && !args.ours {
            for (rows, limit) in [(1, 0.045), (10, 0.17), (100, 0.35)] {
                let series = spill(&input, rows, if args.quick { 1 } else { args.rounds.max(5) });
                report_spill(rows, &series);
                let name = format!("spill of 1,009 partitions, rows each: {rows}");
                judged.push(Bar::at_most(name, series.ratio("block_us", "ipc_us"), limit));
            }
        }
        let memory = vec![1; MEMORY.min(input.bytes)];
        let mut outcomes = Vec::new();
        for codec in [Codec::Lz4, Codec::Zstd { level: 1 }, Codec::None] {
            if !args.codec.iter().any(|name| name == codec.name()) {
                continue;
            }
            for &partitions in &args.partitions {
                let outcome = run(&Case::new(&input, partitions, codec), &args, &memory);
                report(table, &outcome, input.bytes as f64 / 1e9);
                outcomes.push(outcome);
            }
        }
        judged.extend(bars(table, &outcomes));
    }
    if args.quick || args.ours {
        judged.clear();
    }
    support::report("block", &judged);
}
