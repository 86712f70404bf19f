//! What happens when the pool refuses: the one place where that is decided.
//!
//! 1. While Arrow rows take the larger part of what is held, the largest lanes are encoded, until
//!    what was asked for is free and at least half of the Arrow bytes are. Blocks stay in memory,
//!    under the same reservation: they are several times smaller.
//! 2. Once blocks take the larger part, all of them are written as one run, in partition order.
//! 3. When nothing is left, the caller goes on with a small working set.
//!
//! Worked case: 32 MB may be held. Rows fill them; 16 MB are encoded to 3 MB; rows fill the rest;
//! again and again, until 16 MB of blocks (80 MB of rows) go to disk in one run. An exchange of
//! 80 MB never touches the disk.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::DiskManager;

use super::Exchange;
use super::lane::Body;
use crate::block::{BlockEncoder, logical_bytes};
use crate::memory::{Held, Ledger, Permit};
use crate::scratch::{Block, RunBlocks, RunWriter, StoredBlock};

/// Encoded Arrow bytes after which a producer lets others run.
const YIELD_BYTES: usize = 1024 * 1024;

/// What a stored block takes in memory.
const STORED_BLOCK_BYTES: usize = 64 + size_of::<StoredBlock>();

/// Encoder and scratch of an exchange, made when they are first needed.
pub(super) struct Pressure {
    disk: Arc<DiskManager>,
    max_file_bytes: u64,
    encoder: Option<BlockEncoder>,
    encoder_permit: Permit,
    runs: Option<RunWriter>,
    runs_permit: Permit,
}

impl Pressure {
    pub(super) fn new(context: &TaskContext, ledger: &Arc<Ledger>) -> Self {
        let execution = &context.session_config().options().execution;
        Self {
            disk: Arc::clone(&context.runtime_env().disk_manager),
            max_file_bytes: execution.max_spill_file_size_bytes.get() as u64,
            encoder: None,
            encoder_permit: ledger.empty(),
            runs: None,
            runs_permit: ledger.empty(),
        }
    }

    /// Gives up what is held for later spills: there will be none.
    pub(super) fn release(&mut self) {
        self.encoder = None;
        drop(self.encoder_permit.take());
        self.runs = None;
        drop(self.runs_permit.take());
    }
}

/// What [`Exchange::relieve`] came to.
pub(super) enum Relief {
    /// What was asked for. It is handed over, since a pool may refuse the next time.
    Granted(Permit),
    /// Some memory was freed.
    Freed,
    /// There is nothing to free.
    Nothing,
}

impl Exchange {
    /// Frees memory for `bytes` more.
    pub(super) async fn relieve(&self, bytes: usize) -> Result<Relief> {
        let mut pressure = self.pressure.lock().await;
        if let Ok(permit) = self.ledger.try_reserve(bytes) {
            return Ok(Relief::Granted(permit));
        }
        let arrow = self.total(|cell| &cell.arrow_bytes);
        let blocks = self.total(|cell| &cell.block_bytes);
        log::debug!(
            "{}: {bytes} bytes refused; {arrow} as rows, {blocks} as blocks",
            self.plan.name
        );
        self.note_peak();
        let freed = if arrow > 0 && arrow >= blocks {
            self.encode_largest(&mut pressure, bytes.max(arrow / 2)).await? > 0
        } else {
            false
        };
        let freed = freed
            || self.write_run(&mut pressure).await?
            || self.encode_largest(&mut pressure, bytes.max(arrow)).await? > 0;
        Ok(if freed { Relief::Freed } else { Relief::Nothing })
    }

    fn total(&self, bytes: impl Fn(&super::LaneCell) -> &std::sync::atomic::AtomicUsize) -> usize {
        self.lanes.iter().map(|cell| bytes(cell).load(Ordering::Relaxed)).sum()
    }

    /// Encodes lanes, those with most Arrow bytes first, until `target` of them are encoded.
    /// Returns how many were.
    async fn encode_largest(&self, pressure: &mut Pressure, target: usize) -> Result<usize> {
        let mut victims: Vec<(usize, usize)> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(lane, cell)| (cell.arrow_bytes.load(Ordering::Relaxed), lane))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        victims.sort_unstable_by_key(|victim| Reverse(*victim));
        let mut encoded = 0;
        let mut next_yield = YIELD_BYTES;
        for (_, lane) in victims {
            encoded += self.encode_lane(pressure, lane)?;
            if encoded >= target {
                break;
            }
            if encoded >= next_yield {
                next_yield = encoded + YIELD_BYTES;
                tokio::task::yield_now().await;
            }
        }
        Ok(encoded)
    }

    fn encode_lane(&self, pressure: &mut Pressure, lane: usize) -> Result<usize> {
        let batches = self.with_lane(lane, |lane| lane.batches(&self.shape));
        let mut encoded = 0;
        for (number, batch) in batches.unwrap_or_else(|| Ok(Vec::new()))? {
            let blocks = self.encode(pressure, &batch.value)?;
            self.with_lane(lane, |lane| lane.replace(number, Body::Blocks(blocks)));
            encoded += batch.bytes();
        }
        Ok(encoded)
    }

    /// Encodes the rows of `batch`, split where their logical bytes exceed the option.
    fn encode(
        &self,
        pressure: &mut Pressure,
        batch: &RecordBatch,
    ) -> Result<Vec<Arc<Held<Block>>>> {
        let timer = self.plan.metrics.encode_time.timer();
        let encoder = match &mut pressure.encoder {
            Some(encoder) => encoder,
            empty => empty.insert(BlockEncoder::try_new(
                Arc::clone(&self.plan.schema),
                self.plan.options.codec,
            )?),
        };
        let rows = batch.num_rows();
        let bytes = logical_bytes(batch, 0, rows);
        let parts = bytes.div_ceil(self.plan.options.block_bytes).clamp(1, rows.max(1));
        let step = rows.div_ceil(parts).max(1);
        let mut blocks = Vec::with_capacity(parts);
        let mut start = 0;
        while start < rows {
            let len = step.min(rows - start);
            let mut out = Vec::new();
            let info = encoder.encode(batch, start, len, &mut out)?;
            out.shrink_to_fit();
            let permit = self.ledger.force(out.capacity());
            let bytes = Buffer::from_vec(out);
            blocks.push(Held::new(Block { bytes, rows: len, raw_bytes: info.raw_bytes }, permit));
            start += len;
        }
        self.plan.metrics.encoded_rows.add(rows);
        let held = encoder.held_bytes();
        let known = pressure.encoder_permit.bytes();
        if held > known {
            pressure.encoder_permit.merge(self.ledger.force(held - known));
        }
        timer.done();
        Ok(blocks)
    }

    /// Writes all blocks as one run. Returns whether there were any.
    async fn write_run(&self, pressure: &mut Pressure) -> Result<bool> {
        let mut run = Vec::new();
        for output in 0..self.outputs {
            for group in 0..self.gates.len() {
                let lane = group * self.outputs + output;
                let blocks = self.with_lane(lane, |lane| lane.blocks()).unwrap_or_default();
                run.extend(blocks.into_iter().map(|(number, blocks)| RunBlocks {
                    partition: output,
                    tag: (lane, number),
                    blocks,
                }));
            }
        }
        if run.is_empty() {
            return Ok(false);
        }
        let mut runs = match pressure.runs.take() {
            Some(runs) => runs,
            None => RunWriter::try_new(
                Arc::clone(&pressure.disk),
                Arc::clone(&self.plan.name),
                pressure.max_file_bytes,
            )?,
        };
        let known = pressure.runs_permit.bytes();
        let working = runs.working_bytes().saturating_sub(known);
        pressure.runs_permit.merge(self.ledger.force(working));
        let write_time = self.plan.metrics.write_time.clone();
        let (runs, outcome) = SpawnedTask::spawn_blocking(move || {
            let timer = write_time.timer();
            let outcome = runs.write(run);
            timer.done();
            (runs, outcome)
        })
        .join_unwind()
        .await
        .map_err(|_| internal_datafusion_err!("the task that writes a run was cancelled"))?;
        pressure.runs = Some(runs);
        let run = outcome?;
        let metrics = &self.plan.metrics;
        metrics.spill_count.add(1);
        metrics.spilled_rows.add(run.rows);
        metrics.spilled_raw_bytes.add(run.raw_bytes);
        metrics.spilled_bytes.add(usize::try_from(run.bytes).unwrap_or(usize::MAX));
        for ((lane, number), blocks) in run.stored {
            let permit = self.ledger.force(blocks.len() * STORED_BLOCK_BYTES);
            let body = Body::Stored { blocks: Arc::new(blocks), fetched: None, _permit: permit };
            self.with_lane(lane, |lane| lane.replace(number, body));
        }
        Ok(true)
    }
}
