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
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::DiskManager;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Exchange;
use super::lane::{Body, Lane, Unencoded};
use crate::block::{BlockEncoder, BlockInfo, BlockResult, logical_bytes};
use crate::memory::{Held, Ledger, Permit};
use crate::partition::Slab;
use crate::scratch::{Block, RunBlocks, RunWriter, StoredBlock};

/// Encoded Arrow bytes after which a producer lets others run.
const YIELD_BYTES: usize = 1024 * 1024;

/// What a block takes in memory beside its bytes.
const BLOCK_BYTES: usize = 256;

/// What a stored block takes in memory.
const STORED_BLOCK_BYTES: usize = 64 + size_of::<StoredBlock>();

/// Most producers of an exchange that encode at the same time.
const MAX_ENCODERS: u32 = 4;

/// Encoders and scratch of an exchange, made when they are first needed.
pub(super) struct Pressure {
    /// A producer that encodes has one turn, one that writes has all.
    turns: Semaphore,
    count: u32,
    idle: Mutex<Vec<Encoder>>,
    runs: Mutex<Runs>,
}

struct Encoder {
    encoder: BlockEncoder,
    permit: Permit,
}

struct Runs {
    disk: Arc<DiskManager>,
    max_file_bytes: u64,
    writer: Option<RunWriter>,
    permit: Permit,
}

impl Pressure {
    pub(super) fn new(context: &TaskContext, inputs: usize, ledger: &Arc<Ledger>) -> Self {
        let execution = &context.session_config().options().execution;
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(inputs);
        let count = u32::try_from(cores).unwrap_or(MAX_ENCODERS).clamp(1, MAX_ENCODERS);
        Self {
            turns: Semaphore::new(count as usize),
            count,
            idle: Mutex::new(Vec::new()),
            runs: Mutex::new(Runs {
                disk: Arc::clone(&context.runtime_env().disk_manager),
                max_file_bytes: execution.max_spill_file_size_bytes.get() as u64,
                writer: None,
                permit: ledger.empty(),
            }),
        }
    }

    /// Gives up what is held for later spills: there will be none.
    pub(super) fn release(&self) {
        self.idle.lock().clear();
        let mut runs = self.runs.lock();
        runs.writer = None;
        drop(runs.permit.take());
    }

    async fn turns(&self, count: u32) -> Result<SemaphorePermit<'_>> {
        let turns = self.turns.acquire_many(count).await;
        turns.map_err(|_| internal_datafusion_err!("the exchange has ended"))
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
    /// Frees memory for `bytes` more. Producers encode side by side, each lanes of its own; what is
    /// written is written by one of them, while no other encodes.
    pub(super) async fn relieve(&self, bytes: usize) -> Result<Relief> {
        let turn = self.pressure.turns(1).await?;
        if let Ok(permit) = self.ledger.try_reserve(bytes) {
            return Ok(Relief::Granted(permit));
        }
        self.note_peak();
        self.flush_slabs()?;
        let share = 2 * self.pressure.count as usize;
        if let Some(arrow) = self.arrow_to_encode(bytes)
            && self.encode_largest(bytes.max(arrow / share)).await? > 0
        {
            return Ok(Relief::Freed);
        }
        drop(turn);
        let _all = self.pressure.turns(self.pressure.count).await?;
        if let Ok(permit) = self.ledger.try_reserve(bytes) {
            return Ok(Relief::Granted(permit));
        }
        let arrow = self.arrow_to_encode(bytes);
        let freed = match arrow {
            Some(arrow) => self.encode_largest(bytes.max(arrow / 2)).await? > 0,
            None => false,
        };
        let freed = freed || self.write_run().await? || self.encode_largest(usize::MAX).await? > 0;
        Ok(if freed { Relief::Freed } else { Relief::Nothing })
    }

    /// Arrow bytes held, where they are the larger part of what is.
    fn arrow_to_encode(&self, bytes: usize) -> Option<usize> {
        let arrow = self.total(|cell| &cell.arrow_bytes);
        let blocks = self.total(|cell| &cell.block_bytes);
        log::debug!(
            "{}: {bytes} bytes refused; {arrow} as rows, {blocks} as blocks",
            self.plan.name
        );
        (arrow > 0 && arrow >= blocks).then_some(arrow)
    }

    fn total(&self, bytes: impl Fn(&super::LaneCell) -> &std::sync::atomic::AtomicUsize) -> usize {
        self.lanes.iter().map(|cell| bytes(cell).load(Ordering::Relaxed)).sum()
    }

    /// Encodes lanes, those with most Arrow bytes first, until `target` of them are encoded.
    /// Returns how many were.
    async fn encode_largest(&self, target: usize) -> Result<usize> {
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
            encoded += self.encode_lane(lane)?;
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

    fn encode_lane(&self, lane: usize) -> Result<usize> {
        let batches = self.with_lane(lane, |lane| lane.batches(&self.shape));
        let batches = batches.unwrap_or_else(|| Ok(Vec::new()))?;
        if batches.is_empty() {
            return Ok(0);
        }
        let idle = self.pressure.idle.lock().pop();
        let mut encoder = match idle {
            Some(encoder) => encoder,
            None => {
                let schema = Arc::clone(&self.plan.schema);
                let encoder = BlockEncoder::try_new(schema, self.plan.options.codec)?;
                Encoder { encoder, permit: self.ledger.empty() }
            }
        };
        let mut encoded = 0;
        for (number, rows) in batches {
            let (blocks, bytes) = match &rows {
                Unencoded::Batch(batch) => {
                    (self.encode(&mut encoder, &batch.value)?, batch.bytes())
                }
                Unencoded::Slab(slab) => {
                    (self.encode_slab(&mut encoder, &slab.value)?, slab.bytes())
                }
            };
            self.with_lane(lane, |lane| lane.replace(number, Body::Blocks(blocks)));
            encoded += bytes;
        }
        self.with_lane(lane, Lane::end_encoding);
        self.pressure.idle.lock().push(encoder);
        Ok(encoded)
    }

    /// Encodes the rows of `batch`, split where their logical bytes exceed the option.
    fn encode(&self, own: &mut Encoder, batch: &RecordBatch) -> Result<Vec<Arc<Held<Block>>>> {
        let rows = batch.num_rows();
        let bytes = logical_bytes(batch, 0, rows);
        self.encode_parts(own, rows, bytes, |encoder, start, len, out| {
            encoder.encode(batch, start, len, out)
        })
    }

    fn encode_slab(&self, own: &mut Encoder, slab: &Slab) -> Result<Vec<Arc<Held<Block>>>> {
        let schema = &self.plan.schema;
        self.encode_parts(own, slab.rows(), slab.arrow_bytes(), |encoder, start, len, out| {
            slab.encode(schema, encoder, start, len, out)
        })
    }

    fn encode_parts(
        &self,
        own: &mut Encoder,
        rows: usize,
        bytes: usize,
        encode: impl Fn(&mut BlockEncoder, usize, usize, &mut Vec<u8>) -> BlockResult<BlockInfo>,
    ) -> Result<Vec<Arc<Held<Block>>>> {
        let timer = self.plan.metrics.encode_time.timer();
        let parts = bytes.div_ceil(self.plan.options.block_bytes).clamp(1, rows.max(1));
        let step = rows.div_ceil(parts).max(1);
        let mut blocks = Vec::with_capacity(parts);
        let mut start = 0;
        while start < rows {
            let len = step.min(rows - start);
            let mut out = Vec::new();
            encode(&mut own.encoder, start, len, &mut out)?;
            out.shrink_to_fit();
            let permit = self.ledger.force(out.capacity() + BLOCK_BYTES);
            let raw_bytes = bytes * len / rows;
            blocks.push(Held::new(Block { bytes: out.into(), rows: len, raw_bytes }, permit));
            start += len;
        }
        self.plan.metrics.encoded_rows.add(rows);
        let (held, known) = (own.encoder.held_bytes(), own.permit.bytes());
        if held > known {
            own.permit.merge(self.ledger.force(held - known));
        }
        timer.done();
        Ok(blocks)
    }

    fn take_writer(&self) -> Result<RunWriter> {
        let mut runs = self.pressure.runs.lock();
        let writer = match runs.writer.take() {
            Some(writer) => writer,
            None => {
                let (disk, owner) = (Arc::clone(&runs.disk), Arc::clone(&self.plan.name));
                RunWriter::try_new(disk, owner, runs.max_file_bytes)?
            }
        };
        let more = writer.working_bytes().saturating_sub(runs.permit.bytes());
        runs.permit.merge(self.ledger.force(more));
        Ok(writer)
    }

    /// Writes all blocks as one run. Returns whether there were any.
    async fn write_run(&self) -> Result<bool> {
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
        let mut writer = self.take_writer()?;
        let write_time = self.plan.metrics.write_time.clone();
        let (writer, outcome) = SpawnedTask::spawn_blocking(move || {
            let timer = write_time.timer();
            let outcome = writer.write(run);
            timer.done();
            (writer, outcome)
        })
        .join_unwind()
        .await
        .map_err(|_| internal_datafusion_err!("the task that writes a run was cancelled"))?;
        self.pressure.runs.lock().writer = Some(writer);
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
