//! The heap of an exchange against its memory pool, by a counting allocator. All of it is one test,
//! since the count is that of the process.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use std::alloc::System;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionConfig;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::StreamExt;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const POOL_BYTES: usize = 64 << 20;
const INPUTS: usize = 2;

/// What the heap may hold beyond the pool, or beyond what is reserved: batches in hand and batches
/// handed out, tasks, and the slack of allocations.
const STATED_BYTES: usize = 16 << 20;

fn live() -> isize {
    let stats = GLOBAL.stats();
    let bytes = stats.bytes_allocated as isize - stats.bytes_deallocated as isize;
    // A reallocation counts in one of the two by what it adds or takes.
    bytes
}

fn batch(number: i64) -> RecordBatch {
    let rows = number * 8192..(number + 1) * 8192;
    let mixed = |row: i64, column: i64| -> i64 {
        let z = (row * 8 + column).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
        (z ^ (z >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB_u64.cast_signed())
    };
    let noise = |column: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| mixed(row, column))))
    };
    let decimals =
        Decimal128Array::from_iter_values(rows.clone().map(|row| i128::from(row % 9973)));
    let hex = rows.clone().map(|row| format!("{:016x}", mixed(row, 7)));
    let modes = rows.clone().map(|row| ["AIR", "RAIL", "TRUCK"][(row % 3) as usize]);
    let columns: [(&str, ArrayRef); 8] = [
        ("k", noise(0)),
        ("a", noise(1)),
        ("b", noise(2)),
        ("c", noise(3)),
        ("e", noise(4)),
        ("d", Arc::new(decimals)),
        ("s", Arc::new(StringArray::from_iter_values(hex))),
        ("t", Arc::new(StringArray::from_iter_values(modes))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The same batches again and again.
struct Cycle {
    batches: Arc<Vec<RecordBatch>>,
    count: usize,
}

impl fmt::Debug for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cycle")
    }
}

impl PartitionStream for Cycle {
    fn schema(&self) -> &SchemaRef {
        self.batches[0].schema_ref()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = Arc::clone(&self.batches);
        let stream = futures::stream::iter(0..self.count)
            .map(move |number| Ok(batches[number % batches.len()].clone()));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.schema()), stream))
    }
}

/// The highest growth of the heap, and the highest excess over what is reserved.
#[derive(Default)]
struct Highest {
    growth: AtomicIsize,
    excess: AtomicIsize,
    stop: AtomicBool,
}

impl Highest {
    fn look(&self, base: isize, pool: &Arc<dyn MemoryPool>) {
        // What is reserved may fall while the heap is looked at: the higher of two looks counts.
        let before = pool.reserved() as isize;
        let growth = live() - base;
        let reserved = before.max(pool.reserved() as isize);
        self.growth.fetch_max(growth, Ordering::Relaxed);
        self.excess.fetch_max(growth - reserved, Ordering::Relaxed);
    }
}

/// What is streamed through an exchange.
#[derive(Debug, Clone, Copy)]
struct Load {
    outputs: usize,
    bytes: usize,
    /// Of the pool.
    share: f64,
    /// Least runs.
    runs: usize,
}

fn exchange(source: &Arc<Vec<RecordBatch>>, load: Load) -> Arc<dyn ExecutionPlan> {
    let batch_bytes = source[0].get_array_memory_size();
    let schema = Arc::clone(source[0].schema_ref());
    let cycle = || {
        let batches = Arc::clone(source);
        Arc::new(Cycle { batches, count: load.bytes / batch_bytes / INPUTS })
            as Arc<dyn PartitionStream>
    };
    let inputs = (0..INPUTS).map(|_| cycle()).collect();
    let input = StreamingTableExec::try_new(schema, inputs, None, None, false, None).unwrap();
    let keys = vec![col("k", &input.schema()).unwrap()];
    let options =
        IFileOptions { memory_share: load.share, memory_headroom: 0.0, ..IFileOptions::default() };
    let partitioning = Partitioning::Hash(keys, load.outputs);
    Arc::new(IFileRepartitionExec::try_new(Arc::new(input), partitioning, options).unwrap())
}

/// Drains the outputs one after another, so that the rows of all others have to be kept.
async fn run(source: &Arc<Vec<RecordBatch>>, load: Load) {
    let outputs = load.outputs;
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(POOL_BYTES));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build().unwrap();
    let context = TaskContext::default()
        .with_session_config(SessionConfig::new().with_batch_size(8192))
        .with_runtime(Arc::new(runtime));
    let context = Arc::new(context);
    let base = live();
    let plan = exchange(source, load);
    let highest = Arc::new(Highest::default());
    let sampler = {
        let (highest, pool) = (Arc::clone(&highest), Arc::clone(&pool));
        std::thread::spawn(move || {
            while !highest.stop.load(Ordering::Relaxed) {
                highest.look(base, &pool);
                std::thread::sleep(Duration::from_micros(100));
            }
        })
    };
    let begun = Instant::now();
    let mut rows = 0;
    let streams: Vec<_> =
        (0..outputs).map(|output| plan.execute(output, Arc::clone(&context)).unwrap()).collect();
    for mut stream in streams {
        while let Some(batch) = stream.next().await {
            rows += batch.unwrap().num_rows();
            highest.look(base, &pool);
        }
    }
    highest.stop.store(true, Ordering::Relaxed);
    sampler.join().unwrap();
    let metrics = plan.metrics().unwrap();
    let metric =
        |name: &str| metrics.sum(|metric| metric.value().name() == name).unwrap().as_usize();
    let growth = highest.growth.load(Ordering::Relaxed);
    let excess = highest.excess.load(Ordering::Relaxed);
    let megabytes = |bytes: isize| bytes as f64 / f64::from(1 << 20);
    println!(
        "{outputs:>5} outputs: {rows} rows, {} runs, {:.1} s; heap +{:.1} MiB, {:.1} MiB above \
         what is reserved; at most {:.1} MiB reserved",
        metric("spill_count"),
        begun.elapsed().as_secs_f64(),
        megabytes(growth),
        megabytes(excess),
        megabytes(metric("peak_reserved") as isize),
    );
    assert_eq!(rows % 8192, 0);
    assert!(metric("spill_count") >= load.runs, "{} runs", metric("spill_count"));
    assert!(growth <= (POOL_BYTES + STATED_BYTES) as isize, "{outputs} outputs: {growth} bytes");
    assert!(excess <= STATED_BYTES as isize, "{outputs} outputs: {excess} bytes not reserved");
    drop(plan);
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn the_heap_is_what_is_reserved_and_a_constant() {
    let source: Arc<Vec<_>> = Arc::new((0..32).map(batch).collect());
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .build()
        .unwrap();
    for outputs in [2, 200, 1009, 4096] {
        // With two outputs half of the rows are read as they come.
        let share = if outputs == 2 { 0.35 } else { 0.5 };
        tokio.block_on(run(&source, Load { outputs, bytes: 2 << 30, share, runs: 50 }));
        tokio.block_on(run(&source, Load { outputs, bytes: 512 << 20, share: 1.0, runs: 3 }));
    }
}
