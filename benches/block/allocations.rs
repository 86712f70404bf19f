//! Bytes that blocks and the Arrow IPC stream allocate to write and to read all partitions, per byte of Arrow rows.
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
use std::sync::Arc;

use datafusion_ifile::block::{BlockDecoder, DecodeLimits};
use datafusion_ifile::{BlockPartitioner, Codec};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use shared::{
    BLOCK_ROWS, block_read, block_write, input, ipc_compression, ipc_read, ipc_write, partition_ids,
};

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
            let ids = partition_ids(&input, partitions);
            let schema = || Arc::clone(&input.schema);
            let compression = ipc_compression(Codec::Lz4);
            let (ipc_write, streams) =
                allocated(|| ipc_write(&input, &ids, partitions, compression));
            let (ipc_read, rows) = allocated(|| ipc_read(&streams));
            assert_eq!(rows, input.rows);
            let mut partitioner =
                BlockPartitioner::try_new(schema(), partitions, Codec::Lz4, BLOCK_ROWS)
                    .expect("partitioner");
            let (write, (held, blocks)) =
                allocated(|| block_write(&input, &ids, partitions, &mut partitioner));
            let mut decoder =
                BlockDecoder::try_new(schema(), DecodeLimits::default()).expect("decoder");
            let (read, _) = allocated(|| block_read(&blocks, &mut decoder));
            let per_byte = |bytes: f64| bytes / input.bytes as f64;
            println!(
                "{}",
                serde_json::json!({
                    "bench": "block_allocations", "table": table, "partitions": partitions,
                    "write": per_byte(write), "ipc_write": per_byte(ipc_write),
                    "read": per_byte(read), "ipc_read": per_byte(ipc_read),
                    "held": per_byte(held as f64),
                })
            );
        }
    }
}
