//! Metrics of an exchange, as `EXPLAIN ANALYZE` shows them.
//!
//! One of each kind serves the whole exchange, whatever its partition counts; `output_rows` and
//! `output_batches`, which DataFusion keeps, are per output.
//!
//! | name | meaning |
//! |---|---|
//! | `fetch_time` | waiting for the inputs |
//! | `repartition_time` | placement of rows and gathering them by partition |
//! | `rows_per_batch` | rows of an output batch, on average |
//! | `refused_by_pool`, `refused_by_share`, `refused_by_headroom` | reservations that were refused and led to a decision, by who refused: the memory pool, `ifile.memory_share`, `ifile.memory_headroom` |
//! | `working_set_count` | reservations that were taken although they were refused, with nothing left to spill |
//! | `spill_count` | runs written to scratch files |
//! | `spills_by_pool`, `spills_by_share`, `spills_by_headroom` | the same, by who refused; their sum is `spill_count` |
//! | `spilled_rows` | rows written |
//! | `spilled_raw_bytes` | Arrow bytes of those rows, each buffer for the part in use |
//! | `spilled_bytes` | bytes of their segments in scratch files |
//! | `spill_ratio` | `spilled_bytes` of `spilled_raw_bytes` |
//! | `encoded_rows` | rows turned into blocks, whether or not they were written |
//! | `raw_blocks_incompressible` | blocks that the codec did not make smaller: stored as they are |
//! | `raw_blocks_refused` | blocks whose codec could not have its memory: stored as they are |
//! | `raw_blocks_failed` | blocks that the codec failed on: stored as they are |
//! | `encode_time` | turning rows into blocks, compression included |
//! | `compress_time` | the compression in it |
//! | `write_time` | writing runs, on blocking threads |
//! | `read_time` | reading blocks back, on blocking threads |
//! | `decode_time` | decoding blocks and joining them to batches |
//! | `unread_count` | times that a reader which stayed away lost what was held ready for it; it gets its rows from blocks or from scratch later |
//! | `scratch_bytes`, `scratch_peak_bytes` | bytes in scratch files that count against a quota, now and at most; bytes with blocks in own directories |
//! | `live_bytes`, `live_peak_bytes` | bytes of segments that are still to be read, now and at most |
//! | `punched_bytes` | bytes given back to the file system as holes |
//! | `reused_bytes` | bytes of `spilled_bytes` that went where consumed ones were |
//! | `dropped_devices` | directories that failed and were given up for the query |
//! | `peak_reserved` | most bytes held of the memory pool |
//!
//! In DataFusion's space `spilled_bytes` is `scratch_bytes` plus `reused_bytes` as long as every file
//! exists; in own directories punched bytes no longer count as `scratch_bytes`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, RatioMetrics, Time,
};

use crate::memory::Cause;
use crate::scratch::Run;
use crate::scratch::ScratchMetrics;

#[derive(Debug, Clone)]
pub(crate) struct ExchangeMetrics {
    pub(super) fetch_time: Time,
    pub(super) repartition_time: Time,
    rows_per_batch: Gauge,
    output: Arc<Output>,
    refused: ByCause,
    pub(super) working_set_count: Count,
    spill_count: Count,
    spills: ByCause,
    spilled_rows: Count,
    spilled_bytes: Count,
    spilled_raw_bytes: Count,
    spill_ratio: RatioMetrics,
    pub(super) encoded_rows: Count,
    pub(super) raw_blocks_incompressible: Count,
    pub(super) raw_blocks_refused: Count,
    pub(super) raw_blocks_failed: Count,
    pub(super) encode_time: Time,
    pub(super) compress_time: Time,
    pub(super) write_time: Time,
    pub(super) read_time: Time,
    pub(super) decode_time: Time,
    pub(super) unread_count: Count,
    pub(super) scratch: ScratchMetrics,
    pub(super) peak_reserved: Gauge,
}

#[derive(Debug, Default)]
struct Output {
    rows: AtomicUsize,
    batches: AtomicUsize,
}

/// One counter for each cause of a refusal.
#[derive(Debug, Clone)]
struct ByCause {
    pool: Count,
    share: Count,
    headroom: Count,
}

impl ByCause {
    fn new(set: &ExecutionPlanMetricsSet, what: &str) -> Self {
        let counter = |who: &str| MetricBuilder::new(set).counter(format!("{what}_by_{who}"), 0);
        Self { pool: counter("pool"), share: counter("share"), headroom: counter("headroom") }
    }

    fn add(&self, cause: Cause) {
        match cause {
            Cause::Pool => &self.pool,
            Cause::Share => &self.share,
            Cause::Headroom => &self.headroom,
        }
        .add(1);
    }
}

impl ExchangeMetrics {
    /// One metric of each kind for the whole exchange, whatever its partition counts.
    pub(crate) fn new(set: &ExecutionPlanMetricsSet) -> Self {
        let build = || MetricBuilder::new(set);
        let time = |name| build().subset_time(name, 0);
        let counter = |name| build().counter(name, 0);
        let gauge = |name| build().gauge(name, 0);
        Self {
            fetch_time: time("fetch_time"),
            repartition_time: time("repartition_time"),
            rows_per_batch: gauge("rows_per_batch"),
            output: Arc::default(),
            refused: ByCause::new(set, "refused"),
            working_set_count: counter("working_set_count"),
            spill_count: build().spill_count(0),
            spills: ByCause::new(set, "spills"),
            spilled_rows: build().spilled_rows(0),
            spilled_bytes: build().spilled_bytes(0),
            spilled_raw_bytes: counter("spilled_raw_bytes"),
            spill_ratio: build().ratio_metrics("spill_ratio", 0),
            encoded_rows: counter("encoded_rows"),
            raw_blocks_incompressible: counter("raw_blocks_incompressible"),
            raw_blocks_refused: counter("raw_blocks_refused"),
            raw_blocks_failed: counter("raw_blocks_failed"),
            encode_time: time("encode_time"),
            compress_time: time("compress_time"),
            write_time: time("write_time"),
            read_time: time("read_time"),
            decode_time: time("decode_time"),
            unread_count: counter("unread_count"),
            scratch: ScratchMetrics {
                charged: gauge("scratch_bytes"),
                charged_peak: gauge("scratch_peak_bytes"),
                live: gauge("live_bytes"),
                live_peak: gauge("live_peak_bytes"),
                punched: counter("punched_bytes"),
                reused: counter("reused_bytes"),
                dropped_devices: counter("dropped_devices"),
            },
            peak_reserved: gauge("peak_reserved"),
        }
    }

    /// A batch of `rows` rows leaves.
    pub(crate) fn count_output(&self, rows: usize) {
        let rows = self.output.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let batches = self.output.batches.fetch_add(1, Ordering::Relaxed) + 1;
        self.rows_per_batch.set(rows / batches);
    }

    /// A reservation was refused.
    pub(super) fn count_refusal(&self, cause: Cause) {
        self.refused.add(cause);
    }

    /// A run was written.
    pub(super) fn count_run<T>(&self, cause: Cause, run: &Run<T>) {
        let bytes = usize::try_from(run.bytes).unwrap_or(usize::MAX);
        self.spill_count.add(1);
        self.spills.add(cause);
        self.spilled_rows.add(run.rows);
        self.spilled_raw_bytes.add(run.raw_bytes);
        self.spilled_bytes.add(bytes);
        self.spill_ratio.add_part(bytes);
        self.spill_ratio.add_total(run.raw_bytes);
    }
}
