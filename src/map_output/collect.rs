//! The rows of one input of a map task on their way to blocks.
//!
//! Rows wait as Arrow arrays per partition; a partition that has a block's worth becomes one, and the largest do when
//! all of them take more than the option says. Blocks stay in memory until the output is written. When the pool refuses,
//! staged rows become blocks while they take the larger part; then all blocks of the input become a run.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use parking_lot::Mutex;

use super::spill::Spills;
use super::task::MapTaskMetrics;
use super::writer::BlockBytes;
use crate::block::{BlockEncoder, logical_bytes};
use crate::codec::{to_u64, to_usize_limit};
use crate::config::IFileOptions;
use crate::memory::{Ledger, Permit, WORKING_SET_BYTES};
use crate::partition::{Room, Routed, Router, Rows, Source, Stage};

/// Blocks share buffers of this size.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Room that a block may need at the end of a chunk; else the next one begins.
const CHUNK_ROOM: usize = 256 * 1024;

/// Bytes that are asked of the pool at once.
const CREDIT_BYTES: usize = 1024 * 1024;

/// Least bytes of blocks that are worth a run, unless nothing else is left.
const LEAST_RUN_BYTES: usize = 256 * 1024;

/// What a block takes in memory beside its bytes.
const BLOCK_OVERHEAD: usize = 48;

/// What the collectors of a task share.
pub(super) struct Shared {
    pub(super) schema: SchemaRef,
    pub(super) options: IFileOptions,
    pub(super) staged_bytes: usize,
    pub(super) block_rows: usize,
    pub(super) ledger: Arc<Ledger>,
    pub(super) spills: Mutex<Spills>,
    /// Grows when a collector finds nothing to give up: the others spill with their next batch.
    pub(super) squeeze: AtomicUsize,
    pub(super) metrics: MapTaskMetrics,
}

/// A block in a chunk.
#[derive(Debug, Clone, Copy)]
struct BlockRef {
    chunk: usize,
    start: usize,
    len: usize,
    rows: usize,
}

/// Encoded blocks by partition.
#[derive(Default)]
pub(super) struct Blocks {
    chunks: Vec<Vec<u8>>,
    partitions: Vec<Vec<BlockRef>>,
    bytes: usize,
}

impl Blocks {
    fn new(partitions: usize) -> Self {
        Self { chunks: Vec::new(), partitions: vec![Vec::new(); partitions], bytes: 0 }
    }

    /// The blocks of a partition, in their order.
    pub(super) fn of(&self, partition: usize) -> impl Iterator<Item = BlockBytes<'_>> {
        self.partitions.get(partition).into_iter().flatten().filter_map(|block| {
            let chunk = self.chunks.get(block.chunk)?;
            let bytes = chunk.get(block.start..block.start + block.len)?;
            Some(BlockBytes { bytes, rows: block.rows })
        })
    }

    /// The partitions that have blocks, ascending, with them.
    fn by_partition(&self) -> impl Iterator<Item = (usize, Vec<BlockBytes<'_>>)> {
        let filled = self.partitions.iter().enumerate().filter(|(_, blocks)| !blocks.is_empty());
        filled.map(|(partition, _)| (partition, self.of(partition).collect()))
    }

    /// Forgets all blocks, and keeps one chunk for the next.
    fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.partitions.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
    }

    /// A chunk with room, and its number.
    fn chunk(&mut self) -> (usize, &mut Vec<u8>) {
        let full = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() < CHUNK_ROOM;
        if self.chunks.last().is_none_or(full) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        let number = self.chunks.len() - 1;
        let at = self.chunks.len().saturating_sub(1);
        match self.chunks.get_mut(at) {
            Some(chunk) => (number, chunk),
            // Just pushed.
            None => unreachable!("there is a chunk"),
        }
    }
}

/// What an input came to.
pub(super) struct Collected {
    pub(super) blocks: Blocks,
    pub(super) rows: Vec<u64>,
    pub(super) memory_bytes: Vec<u64>,
    _permits: [Permit; 2],
}

/// Collects the rows of one input.
pub(super) struct Collector {
    shared: Arc<Shared>,
    encoder: BlockEncoder,
    /// What the encoder holds.
    encoder_permit: Permit,
    stages: Vec<StageSlot>,
    /// What the stages hold, and what is granted for more.
    staged: Permit,
    credit: Permit,
    blocks: Blocks,
    /// What the blocks hold.
    held: Permit,
    rows: Vec<u64>,
    memory_bytes: Vec<u64>,
    squeezed: usize,
}

#[derive(Default)]
struct StageSlot {
    stage: Option<Stage>,
    /// Bytes it was granted for its rows.
    bytes: usize,
}

impl Collector {
    pub(super) fn try_new(shared: Arc<Shared>, partitions: usize) -> Result<Self> {
        let encoder = BlockEncoder::try_new(Arc::clone(&shared.schema), shared.options.codec)?;
        let ledger = &shared.ledger;
        // What grows with the partitions, whatever their rows.
        let slots = partitions * (size_of::<StageSlot>() + size_of::<Vec<BlockRef>>() + 16);
        Ok(Self {
            encoder,
            encoder_permit: ledger.empty(),
            stages: (0..partitions).map(|_| StageSlot::default()).collect(),
            staged: ledger.empty(),
            credit: ledger.empty(),
            blocks: Blocks::new(partitions),
            held: ledger.force(slots),
            rows: vec![0; partitions],
            memory_bytes: vec![0; partitions],
            squeezed: shared.squeeze.load(Ordering::Relaxed),
            shared,
        })
    }

    /// Takes all of `stream`.
    pub(super) async fn run(
        mut self,
        mut router: Router,
        mut stream: SendableRecordBatchStream,
    ) -> Result<Collected> {
        loop {
            let timer = self.shared.metrics.fetch_time.timer();
            let batch = stream.next().await;
            timer.done();
            let Some(batch) = batch.transpose()? else { break };
            if batch.num_rows() > 0 {
                self.deliver(&mut router, &batch).await?;
            }
            let squeeze = self.shared.squeeze.load(Ordering::Relaxed);
            if squeeze != self.squeezed {
                self.squeezed = squeeze;
                self.give_up().await?;
            }
            tokio::task::coop::consume_budget().await;
        }
        drop(stream);
        self.encode_until(0)?;
        self.stages.clear();
        drop((self.staged, self.credit, self.encoder));
        Ok(Collected {
            blocks: self.blocks,
            rows: self.rows,
            memory_bytes: self.memory_bytes,
            _permits: [self.held, self.encoder_permit],
        })
    }

    async fn deliver(&mut self, router: &mut Router, batch: &RecordBatch) -> Result<()> {
        let metrics = self.shared.metrics.clone();
        let timer = metrics.repartition_time.timer();
        let routed = router.route(batch)?;
        let source = Source::try_new(&self.shared.schema, batch)?;
        timer.done();
        metrics.input_rows.add(batch.num_rows());
        match routed {
            Routed::Whole(partition) => self.append(partition, &source, source.all_rows()).await?,
            Routed::Grouped(grouped) => {
                for index in 0..grouped.len() {
                    let (partition, rows) = grouped.run(index);
                    self.append(partition, &source, Rows::Index(rows)).await?;
                }
            }
        }
        if self.staged.bytes() > self.shared.staged_bytes {
            self.encode_until(self.shared.staged_bytes / 2)?;
        }
        if self.credit.bytes() > 2 * CREDIT_BYTES {
            drop(self.credit.take());
        }
        Ok(())
    }

    /// Gathers `rows` into the stage of a partition, a block's worth at a time.
    async fn append(
        &mut self,
        partition: usize,
        source: &Source,
        mut rows: Rows<'_>,
    ) -> Result<()> {
        while !rows.is_empty() {
            let room = self.shared.block_rows.saturating_sub(self.staged_rows(partition)).max(1);
            let (mut now, _) = rows.split_at(rows.len().min(room));
            let mut bytes = self.growth(partition, source, now);
            // A block of few rows rather than one of too many bytes.
            let most = self.shared.options.block_bytes.max(1);
            while now.len() > 1 && bytes > 2 * most {
                (now, _) = now.split_at(now.len() / 2);
                bytes = self.growth(partition, source, now);
            }
            if self.credit.bytes() < bytes && !self.extend(bytes)? {
                self.relieve(bytes).await?;
                // Relief may have emptied the stage.
                continue;
            }
            self.take(partition, source, now, bytes)?;
            (_, rows) = rows.split_at(now.len());
        }
        Ok(())
    }

    fn staged_rows(&self, partition: usize) -> usize {
        let slot = self.stages.get(partition).and_then(|slot| slot.stage.as_ref());
        slot.map_or(0, Stage::rows)
    }

    fn growth(&self, partition: usize, source: &Source, rows: Rows<'_>) -> usize {
        let schema = &self.shared.schema;
        match self.stages.get(partition).and_then(|slot| slot.stage.as_ref()) {
            Some(stage) => stage.growth(source, rows, Room::Lean),
            None => {
                let stage = Stage::new(schema, self.shared.block_rows);
                Stage::overhead_bytes(schema) + stage.growth(source, rows, Room::Lean)
            }
        }
    }

    /// Takes `rows`, whose bytes are granted, and encodes the stage where it is full.
    fn take(
        &mut self,
        partition: usize,
        source: &Source,
        rows: Rows<'_>,
        bytes: usize,
    ) -> Result<()> {
        let Some(slot) = self.stages.get_mut(partition) else {
            return Err(internal_datafusion_err!("partition {partition} does not exist"));
        };
        let timer = self.shared.metrics.repartition_time.timer();
        let rows_before = self.shared.block_rows;
        let stage = slot.stage.get_or_insert_with(|| Stage::new(&self.shared.schema, rows_before));
        stage.append(source, rows, Room::Lean)?;
        timer.done();
        slot.bytes += bytes;
        self.staged.move_from(&mut self.credit, bytes);
        if let Some(count) = self.rows.get_mut(partition) {
            *count += to_u64(rows.len());
        }
        if stage.rows() >= self.shared.block_rows
            || stage.row_bytes() >= self.shared.options.block_bytes
        {
            self.encode_stage(partition)?;
        }
        Ok(())
    }

    /// Asks the pool for enough credit.
    fn extend(&mut self, bytes: usize) -> Result<bool> {
        let missing = bytes.saturating_sub(self.credit.bytes());
        let ledger = &self.shared.ledger;
        let granted =
            ledger.try_reserve(missing.max(CREDIT_BYTES)).or_else(|_| ledger.try_reserve(missing));
        match granted {
            Ok(permit) => {
                self.credit.merge(permit);
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }

    /// The pool refuses `bytes`: gives up what this collector holds, or takes them as its working set.
    async fn relieve(&mut self, bytes: usize) -> Result<()> {
        let staged = self.staged.bytes();
        if staged > WORKING_SET_BYTES && staged >= self.blocks.bytes {
            self.encode_until((staged / 2).min(staged.saturating_sub(bytes)))?;
            return Ok(());
        }
        if self.blocks.bytes >= LEAST_RUN_BYTES {
            return self.spill().await;
        }
        if staged > 0 && staged + bytes > WORKING_SET_BYTES {
            self.shared.squeeze.fetch_add(1, Ordering::Relaxed);
            self.encode_until(0)?;
            if self.blocks.bytes >= LEAST_RUN_BYTES {
                self.spill().await?;
            }
        }
        let missing = bytes.saturating_sub(self.credit.bytes());
        self.credit.merge(self.shared.ledger.force(missing));
        Ok(())
    }

    /// Another collector has nothing left: gives up all that is worth it.
    async fn give_up(&mut self) -> Result<()> {
        if self.staged.bytes() + self.blocks.bytes < WORKING_SET_BYTES {
            return Ok(());
        }
        self.encode_until(0)?;
        if self.blocks.bytes >= LEAST_RUN_BYTES {
            self.spill().await?;
        }
        Ok(())
    }

    /// Encodes the stages with most bytes, until they hold at most `target`.
    fn encode_until(&mut self, target: usize) -> Result<()> {
        let filled = self.stages.iter().enumerate().filter(|(_, slot)| slot.bytes > 0);
        let mut victims: Vec<(usize, usize)> =
            filled.map(|(partition, slot)| (slot.bytes, partition)).collect();
        victims.sort_unstable_by_key(|victim| Reverse(*victim));
        for (_, partition) in victims {
            if self.staged.bytes() <= target {
                break;
            }
            self.encode_stage(partition)?;
        }
        Ok(())
    }

    fn encode_stage(&mut self, partition: usize) -> Result<()> {
        let Some(slot) = self.stages.get_mut(partition) else { return Ok(()) };
        let Some(stage) = slot.stage.as_mut().filter(|stage| stage.rows() > 0) else {
            return Ok(());
        };
        let metrics = self.shared.metrics.clone();
        let timer = metrics.encode_time.timer();
        let batches = stage.finish()?;
        let bytes = std::mem::take(&mut slot.bytes);
        // Its columns are part of what the stage was granted: they go with the rows.
        slot.stage = None;
        for batch in &batches {
            self.encode(partition, batch)?;
        }
        drop(batches);
        release(&mut self.staged, bytes, &self.shared.ledger);
        timer.done();
        Ok(())
    }

    /// Encodes the rows of `batch`, split where their logical bytes exceed the option.
    fn encode(&mut self, partition: usize, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let bytes = logical_bytes(batch, 0, rows);
        if let Some(sum) = self.memory_bytes.get_mut(partition) {
            *sum += to_u64(bytes);
        }
        let parts = bytes.div_ceil(self.shared.options.block_bytes.max(1)).clamp(1, rows.max(1));
        let step = rows.div_ceil(parts).max(1);
        let mut start = 0;
        while start < rows {
            let len = step.min(rows - start);
            let (number, chunk) = self.blocks.chunk();
            let (at, capacity) = (chunk.len(), chunk.capacity());
            let info = self.encoder.encode(batch, start, len, chunk)?;
            // A large block may have grown its chunk.
            let grown = chunk.capacity() - capacity;
            let held = info.stored_bytes + BLOCK_OVERHEAD + grown;
            self.held.merge(self.shared.ledger.force(held));
            self.blocks.bytes += held;
            let block = BlockRef { chunk: number, start: at, len: info.stored_bytes, rows: len };
            if let Some(blocks) = self.blocks.partitions.get_mut(partition) {
                blocks.push(block);
            }
            start += len;
        }
        let (held, known) = (self.encoder.held_bytes(), self.encoder_permit.bytes());
        if held > known {
            self.encoder_permit.merge(self.shared.ledger.force(held - known));
        }
        Ok(())
    }

    /// Writes all blocks as one run, on a blocking thread.
    async fn spill(&mut self) -> Result<()> {
        let mut blocks = std::mem::take(&mut self.blocks);
        let shared = Arc::clone(&self.shared);
        let written = SpawnedTask::spawn_blocking(move || {
            let timer = shared.metrics.write_time.timer();
            let written = shared.spills.lock().write(blocks.by_partition());
            timer.done();
            (blocks, written)
        });
        let (returned, written) = written
            .join_unwind()
            .await
            .map_err(|_| internal_datafusion_err!("the task that writes a run was cancelled"))?;
        blocks = returned;
        self.shared.metrics.spill_count.add(1);
        self.shared.metrics.spilled_bytes.add(to_usize_limit(written?));
        let bytes = blocks.bytes;
        blocks.clear();
        self.blocks = blocks;
        release(&mut self.held, bytes, &self.shared.ledger);
        Ok(())
    }
}

/// Gives `bytes` of a permit back to the pool.
fn release(permit: &mut Permit, bytes: usize, ledger: &Arc<Ledger>) {
    let mut freed = ledger.empty();
    freed.move_from(permit, bytes);
}
