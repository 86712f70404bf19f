//! Records through the write buffer against records written piece by piece into the checksum or the
//! codec's stream; and a buffer that grows against one that has its full size from the start.
//!
//! `cargo bench --bench write_buffer`, with `-- --quick` for one small iteration that judges nothing.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot go on has failed"
)]

#[path = "support/mod.rs"]
mod support;

use datafusion_ifile::Codec;
use datafusion_ifile::ifile::{
    RawBound, SegmentOptions, SegmentWriter, WriteBuffer, WriteMode, WriteScratch,
};
use std::process::{Command, ExitCode};
use support::{Bar, medians, quick, report};

const KEY: usize = 8;
/// Bytes of all rows of a segment.
const SEGMENT: usize = 4 << 20;

fn rows(row_bytes: usize, total: usize) -> Vec<Vec<u8>> {
    let byte = |value: usize| value.to_le_bytes()[0];
    let value_len = row_bytes - KEY - if row_bytes - KEY > 128 { 3 } else { 2 };
    (0..total / row_bytes)
        .map(|row| {
            let key = (0..KEY).map(|j| byte(31 * row + j));
            let value = (0..value_len).map(|j| byte(17 * row + 3 * j + 101));
            key.chain(value).collect()
        })
        .collect()
}

fn write(rows: &[Vec<u8>], scratch: &mut WriteScratch, data: &mut Vec<u8>) {
    data.clear();
    let mut writer = SegmentWriter::new(data, scratch, RawBound::UNKNOWN).unwrap();
    for row in rows {
        let (key, value) = row.split_at(KEY);
        writer.append(key, value).unwrap();
    }
    writer.finish().unwrap();
}

/// Median times of a segment, buffered and direct, in milliseconds.
fn sides(codec: Codec, rows: &[Vec<u8>], rounds: usize) -> (f64, f64) {
    let scratch = |mode| WriteScratch::new(SegmentOptions::tez(codec).with_mode(mode)).unwrap();
    let mut buffered = scratch(WriteMode::Buffered);
    let mut direct = scratch(WriteMode::Unbuffered);
    let file = || Vec::with_capacity(2 * SEGMENT);
    let (mut buffered_data, mut direct_data) = (file(), file());
    write(rows, &mut buffered, &mut buffered_data);
    write(rows, &mut direct, &mut direct_data);
    let mut buffered_side = || write(rows, &mut buffered, &mut buffered_data);
    let mut direct_side = || write(rows, &mut direct, &mut direct_data);
    let times = medians(rounds, &mut [&mut buffered_side, &mut direct_side]);
    (times[0].as_secs_f64() * 1e3, times[1].as_secs_f64() * 1e3)
}

const GROWING: &str = "growing";
const FIXED: &str = "fixed";

/// Partitions of 22 KB, each through a buffer of its own.
fn fill_buffers(kind: &str, partitions: usize) {
    let rows = rows(22, 22_000);
    for _ in 0..partitions {
        let mut buffer = WriteBuffer::new(WriteBuffer::MAX).unwrap();
        if kind == FIXED {
            buffer.size_for(WriteBuffer::MAX);
        }
        let mut crc = crc32fast::Hasher::new();
        let mut downstream = |bytes: &[u8]| {
            crc.update(bytes);
            Ok(())
        };
        for row in &rows {
            let (key, value) = row.split_at(KEY);
            let lens = [key.len(), value.len()].map(|len| u8::try_from(len).unwrap());
            buffer.write(&lens, &mut downstream).unwrap();
            buffer.write(key, &mut downstream).unwrap();
            buffer.write(value, &mut downstream).unwrap();
        }
        buffer.drain(&mut downstream).unwrap();
        std::hint::black_box(crc.finalize());
    }
}

/// Instructions of a run of this program under callgrind, or `None` without it.
fn instructions(kind: &str, partitions: usize) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--fill", kind, &partitions.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// Instructions per partition: what more partitions add.
fn per_partition(kind: &str) -> Option<f64> {
    Some((instructions(kind, 120)? - instructions(kind, 20)?) / 100.0)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--fill") {
        fill_buffers(&args[at + 1], args[at + 2].parse().unwrap());
        return ExitCode::SUCCESS;
    }
    let (total, rounds) = if quick() { (1 << 16, 1) } else { (SEGMENT, 31) };
    let mut bars = vec![];
    println!("one segment of {total} raw bytes; medians");
    println!("| row | codec | buffered ms | direct ms | ratio |");
    println!("|---|---|---|---|---|");
    for (row_bytes, none_limit) in [(22, 0.40), (200, 0.60)] {
        let rows = rows(row_bytes, total);
        for codec in [Codec::None, Codec::Snappy, Codec::Lz4] {
            let (buffered, direct) = sides(codec, &rows, rounds);
            let ratio = buffered / direct;
            println!("| {row_bytes} B | {codec} | {buffered:.3} | {direct:.3} | {ratio:.3} |");
            let limit = if codec == Codec::None { none_limit } else { 1.0 };
            let name = format!("{row_bytes} B rows, {codec}, buffered / direct time");
            bars.push(Bar::at_most(name, ratio, limit));
        }
    }
    if quick() {
        fill_buffers(GROWING, 2);
        fill_buffers(FIXED, 2);
        println!("quick run, nothing is judged");
        return ExitCode::SUCCESS;
    }
    let counts = per_partition(GROWING).zip(per_partition(FIXED));
    let ratio = counts.map_or(f64::INFINITY, |(growing, fixed)| growing / fixed);
    match counts {
        Some((growing, fixed)) => println!(
            "22 KB per partition: growing {growing:.0}, fixed {fixed:.0} instructions, {ratio:.4}"
        ),
        None => println!("22 KB per partition: not counted, valgrind is not there"),
    }
    bars.push(Bar::at_most("growing / fixed instructions at 22 KB", ratio, 1.03));
    report("write_buffer", &bars);
    ExitCode::SUCCESS
}
