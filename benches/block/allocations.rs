//! Bytes that blocks and their peers allocate to write and to read all partitions, and those held when all rows were
//! taken, per byte of Arrow rows.
//!
//! A bench of its own, since counting slows every allocation down.
//!
//! `cargo bench --bench block_allocations -- [--quick]`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a bench stops at its first fault"
)]

use std::alloc::System;

use datafusion_ifile::Codec;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use peers::Peer;
use shared::{Case, Ours, input};

mod peers;
mod shared;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocated<R>(work: impl FnOnce() -> R) -> (f64, R) {
    let region = Region::new(ALLOCATOR);
    let result = work();
    let change = region.change();
    ((change.bytes_allocated + change.bytes_reallocated.max(0) as usize) as f64, result)
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let rows = if quick { 50_000 } else { 2_880_404 };
    for table in ["store_sales", "strings", "entropy", "nested"] {
        let input = input(table, rows);
        for partitions in [8, 200, 1009] {
            let case = Case::new(&input, partitions, Codec::Lz4);
            let per_byte = |bytes: f64| bytes / input.bytes as f64;
            let mut figures = serde_json::json!({
                "bench": "block_allocations", "table": table, "partitions": partitions,
            });
            for peer in Peer::ALL {
                let (write, (held, streams)) = allocated(|| peer.write(&case));
                let (read, rows) = allocated(|| peer.read(&streams));
                assert_eq!(rows, input.rows);
                let name = peer.name();
                figures[format!("{name}_write")] = per_byte(write).into();
                figures[format!("{name}_read")] = per_byte(read).into();
                figures[format!("{name}_held")] = per_byte(held as f64).into();
            }
            let mut ours = Ours::new(&case);
            let (write, (held, blocks)) = allocated(|| ours.write(&case, Vec::new(), |_, _| ()));
            let (read, rows) = allocated(|| ours.read(&blocks));
            assert_eq!(rows, input.rows);
            figures["write"] = per_byte(write).into();
            figures["read"] = per_byte(read).into();
            figures["held"] = per_byte(held as f64).into();
            println!("{figures}");
        }
    }
}
