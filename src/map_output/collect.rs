//! The rows of one input of a map task on their way to blocks.
//!
//! Each batch is grouped by partition with one gather while it is in the cache, and waits. When the batches that wait take
//! more than the option says, the rows of every partition become a block: its part of each of them, one after
//! another. Blocks stay in memory until the output is written. When the pool refuses, waiting rows become blocks while they
//! take the larger part; then all blocks of the input become a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use parking_lot::Mutex;

use super::blocks::Blocks;
use super::spill::Spills;
use super::task::MapTaskMetrics;
use crate::block::{BlockEncoder, BlockHeader, BlockSlice, logical_bytes};
use crate::codec::{to_u64, to_usize_limit};
use crate::config::IFileOptions;
use crate::memory::{Ledger, Permit, WORKING_SET_BYTES};
use crate::partition::{Routed, Router, Source};

/// Logical bytes of rows that are grouped at once.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Blocks are a quarter of their rows or less; where they are not, they are charged once they are there.
const BLOCK_SHARE: usize = 4;

/// Least bytes of blocks that are worth a run, unless nothing else is left.
const LEAST_RUN_BYTES: usize = 256 * 1024;

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

/// What an input came to.
pub(super) struct Collected {
    pub(super) blocks: Blocks,
    pub(super) rows: Vec<u64>,
    pub(super) memory_bytes: Vec<u64>,
    _permits: [Permit; 2],
}

/// A batch whose rows lie by partition.
struct GroupedBatch {
    batch: RecordBatch,
    /// Partition, first row and rows, ascending.
    runs: Vec<(usize, usize, usize)>,
    /// Runs before this one have become blocks.
    next: usize,
    bytes_per_row: usize,
}

/// Collects the rows of one input.
pub(super) struct Collector {
    shared: Arc<Shared>,
    encoder: BlockEncoder,
    /// What the encoder holds.
    encoder_permit: Permit,
    waiting: Vec<GroupedBatch>,
    /// What the waiting batches hold.
    staged: Permit,
    blocks: Blocks,
    /// What the blocks hold.
    held: Permit,
    rows: Vec<u64>,
    memory_bytes: Vec<u64>,
    squeezed: usize,
}

impl Collector {
    pub(super) fn try_new(shared: Arc<Shared>, partitions: usize) -> Result<Self> {
        let encoder = BlockEncoder::try_new(Arc::clone(&shared.schema), shared.options.codec)?;
        let ledger = &shared.ledger;
        Ok(Self {
            encoder,
            encoder_permit: ledger.empty(),
            waiting: Vec::new(),
            staged: ledger.empty(),
            blocks: Blocks::new(partitions),
            // What grows with the partitions, whatever their rows.
            held: ledger.force(partitions * (Blocks::PARTITION_BYTES + 16)),
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
        self.encode_waiting()?;
        drop((self.staged, self.encoder));
        Ok(Collected {
            blocks: self.blocks,
            rows: self.rows,
            memory_bytes: self.memory_bytes,
            _permits: [self.held, self.encoder_permit],
        })
    }

    /// Groups the rows of `batch`, a part of limited size at a time.
    async fn deliver(&mut self, router: &mut Router, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        self.shared.metrics.input_rows.add(rows);
        let batch = Source::try_new(&self.shared.schema, batch)?.to_batch()?;
        let bytes = logical_bytes(&batch, 0, rows);
        let parts = bytes.div_ceil(GROUP_BYTES).clamp(1, rows);
        let step = rows.div_ceil(parts);
        for start in (0..rows).step_by(step) {
            let part = batch.slice(start, step.min(rows - start));
            self.deliver_part(router, &part, bytes / parts).await?;
        }
        Ok(())
    }

    async fn deliver_part(
        &mut self,
        router: &mut Router,
        batch: &RecordBatch,
        bytes: usize,
    ) -> Result<()> {
        if self.staged.bytes() / (BLOCK_SHARE + 1) * BLOCK_SHARE + bytes > self.shared.staged_bytes
        {
            self.encode_waiting()?;
        }
        // Ids, row numbers and runs are beside the rows; so are the blocks that they become, until they are released.
        let wanted = bytes + bytes / BLOCK_SHARE + 16 * batch.num_rows();
        let permit = self.reserve(wanted).await?;
        self.staged.merge(permit);
        let timer = self.shared.metrics.repartition_time.timer();
        let grouped = group(router, batch)?;
        timer.done();
        for &(partition, _, rows) in &grouped.runs {
            if let Some(count) = self.rows.get_mut(partition) {
                *count += to_u64(rows);
            }
        }
        // Shared buffers that cannot be cut may hold more than the rows.
        let held = grouped.batch.get_array_memory_size() + 24 * grouped.runs.len();
        if held > wanted {
            self.staged.merge(self.shared.ledger.force(held - wanted));
        }
        self.waiting.push(grouped);
        Ok(())
    }

    /// Reserves `bytes`; when the pool refuses, gives up what this collector holds, or takes them as its working set.
    async fn reserve(&mut self, bytes: usize) -> Result<Permit> {
        loop {
            if let Ok(permit) = self.shared.ledger.try_reserve(bytes) {
                return Ok(permit);
            }
            let staged = self.staged.bytes();
            if !self.waiting.is_empty() && staged >= self.blocks.bytes() {
                self.encode_waiting()?;
            } else if self.blocks.bytes() >= LEAST_RUN_BYTES {
                self.spill().await?;
            } else if staged + bytes > WORKING_SET_BYTES && !self.waiting.is_empty() {
                self.encode_waiting()?;
            } else {
                if bytes > WORKING_SET_BYTES {
                    self.shared.squeeze.fetch_add(1, Ordering::Relaxed);
                }
                return Ok(self.shared.ledger.force(bytes));
            }
        }
    }

    /// Another collector has nothing left: gives up all that is worth it.
    async fn give_up(&mut self) -> Result<()> {
        if self.staged.bytes() + self.blocks.bytes() < WORKING_SET_BYTES {
            return Ok(());
        }
        self.encode_waiting()?;
        if self.blocks.bytes() >= LEAST_RUN_BYTES {
            self.spill().await?;
        }
        Ok(())
    }

    /// Turns all waiting rows into blocks, partition after partition.
    fn encode_waiting(&mut self) -> Result<()> {
        let metrics = self.shared.metrics.clone();
        let timer = metrics.encode_time.timer();
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut slices: Vec<(usize, usize, usize)> = Vec::with_capacity(waiting.len());
        for partition in 0..self.rows.len() {
            slices.clear();
            for (at, grouped) in waiting.iter_mut().enumerate() {
                match grouped.runs.get(grouped.next) {
                    Some(&(of, start, rows)) if of == partition => {
                        slices.push((at, start, rows));
                        grouped.next += 1;
                    }
                    _ => {}
                }
            }
            if !slices.is_empty() {
                self.encode_partition(partition, &waiting, &slices)?;
            }
        }
        drop(waiting);
        drop(self.staged.take());
        timer.done();
        Ok(())
    }

    /// Encodes the rows of a partition, as many at a time as a block takes.
    fn encode_partition(
        &mut self,
        partition: usize,
        waiting: &[GroupedBatch],
        parts: &[(usize, usize, usize)],
    ) -> Result<()> {
        let (most_rows, most_bytes) = (self.shared.block_rows, self.shared.options.block_bytes);
        let mut slices: Vec<BlockSlice<'_>> = Vec::with_capacity(parts.len());
        let (mut rows, mut bytes) = (0, 0);
        for &(at, mut offset, mut left) in parts {
            let Some(GroupedBatch { batch, bytes_per_row, .. }) = waiting.get(at) else { continue };
            while left > 0 {
                let by_bytes = most_bytes.saturating_sub(bytes) / (*bytes_per_row).max(1);
                let len = left.min(most_rows - rows).min(by_bytes);
                if len > 0 || rows == 0 {
                    let len = len.max(1);
                    slices.push(BlockSlice { batch, offset, len });
                    (rows, bytes) = (rows + len, bytes + len * bytes_per_row);
                    (offset, left) = (offset + len, left - len);
                }
                if left > 0 || rows >= most_rows {
                    self.encode(partition, &slices)?;
                    slices.clear();
                    (rows, bytes) = (0, 0);
                }
            }
        }
        self.encode(partition, &slices)
    }

    fn encode(&mut self, partition: usize, slices: &[BlockSlice<'_>]) -> Result<()> {
        if slices.is_empty() {
            return Ok(());
        }
        let (number, chunk) = self.blocks.chunk();
        let (start, capacity) = (chunk.len(), chunk.capacity());
        let info = match self.encoder.encode_slices(slices, chunk) {
            Ok(info) => info,
            // Together their dictionaries may have more values than keys can count.
            Err(error) => match slices.split_at(slices.len() / 2) {
                ([], _) => return Err(error.into()),
                (first, second) => {
                    self.encode(partition, first)?;
                    return self.encode(partition, second);
                }
            },
        };
        let header = BlockHeader::parse(chunk.get(start..).unwrap_or_default())?;
        // A large block may have grown its chunk.
        let grown = chunk.capacity() - capacity;
        let rows: usize = slices.iter().map(|slice| slice.len).sum();
        let held = self.blocks.push(partition, number, start, info.stored_bytes, rows, grown);
        self.held.merge(self.shared.ledger.force(held));
        if let Some(sum) = self.memory_bytes.get_mut(partition) {
            *sum += u64::from(header.decoded_bytes);
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
        let mut freed = self.shared.ledger.empty();
        freed.move_from(&mut self.held, blocks.bytes());
        drop(freed);
        blocks.clear();
        self.blocks = blocks;
        Ok(())
    }
}

/// The rows of `batch` by partition: one gather.
fn group(router: &mut Router, batch: &RecordBatch) -> Result<GroupedBatch> {
    let rows = batch.num_rows();
    let (order, runs) = match router.route(batch)? {
        Routed::Whole(partition) => (None, vec![(partition, 0, rows)]),
        Routed::Grouped(grouped) => {
            let mut by_partition: Vec<_> = (0..grouped.len()).map(|at| grouped.run(at)).collect();
            by_partition.sort_unstable_by_key(|run| run.0);
            let mut order = Vec::with_capacity(rows);
            let mut runs = Vec::with_capacity(by_partition.len());
            for (partition, rows) in by_partition {
                runs.push((partition, order.len(), rows.len()));
                order.extend_from_slice(rows);
            }
            (Some(UInt32Array::from(order)), runs)
        }
    };
    let columns = batch.columns().iter().map(|column| {
        let taken = match &order {
            Some(order) => take(column, order, None)?,
            None => ArrayRef::clone(column),
        };
        Ok(compact(&taken))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
    let bytes_per_row = logical_bytes(&batch, 0, rows).div_ceil(rows.max(1));
    Ok(GroupedBatch { batch, runs, next: 0, bytes_per_row })
}

/// Views hold all of the buffers that they point into, whatever part of them: they get buffers of their own.
fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => ArrayRef::clone(array),
    }
}
