//! The rows of one input of a map task on their way to blocks.
//!
//! Rows are narrowed as they come and held by partition until a partition has a full block. When what is staged takes more
//! than the option says, the rows of every partition become a block. Types that slabs do not hold wait as batches. Blocks
//! stay in memory until the output is written, those of an input that has ended for all others to see. When the pool
//! refuses, staged rows become blocks while they take the larger part; then the largest blocks of this input or of
//! one that has ended become a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use parking_lot::Mutex;

use super::blocks::Blocks;
use super::encoded::{Counted, Encoded, Parked};
use super::spill::Spills;
use super::task::MapTaskMetrics;
use super::waiting::Waiting;
use crate::block::{BlockEncoder, logical_bytes};
use crate::codec::to_usize_limit;
use crate::config::IFileOptions;
use crate::memory::{Ledger, Permit, WORKING_SET_BYTES};
use crate::partition::{
    After, BlockStage, Grouped, Routed, Router, SlabSource, Slabs, Source, Take, takes_of,
};

/// Logical bytes of rows that are grouped at once.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Blocks are a quarter of the rows of waiting batches or less; where they are not, they are charged once they are there.
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
    /// Blocks of inputs that have ended.
    pub(super) parked: Mutex<Vec<Parked>>,
    /// Grows when a collector finds nothing to give up: the others spill with their next batch.
    pub(super) squeeze: AtomicUsize,
    pub(super) metrics: MapTaskMetrics,
}

/// Rows that are not blocks yet.
enum Staging {
    Slabs(Box<BlockStage>),
    Batches(Box<Waiting>),
}

impl Staging {
    fn try_new(shared: &Shared, partitions: usize) -> Result<Self> {
        let (schema, codec) = (&shared.schema, shared.options.codec);
        let (block_rows, block_bytes) = (shared.block_rows, shared.options.block_bytes);
        if !Slabs::can_hold(schema) {
            let encoder = BlockEncoder::try_new(Arc::clone(schema), codec)?;
            let waiting = Waiting::new(encoder, block_rows, block_bytes);
            return Ok(Self::Batches(Box::new(waiting)));
        }
        let by_bytes = block_bytes / Slabs::arrow_row_bytes(schema).max(1);
        let rows = block_rows.min(by_bytes).max(1);
        let stage = BlockStage::try_new(Arc::clone(schema), partitions, codec, rows)?;
        Ok(Self::Slabs(Box::new(stage.with_most_value_bytes(block_bytes))))
    }

    /// Bytes of the rows.
    fn used_bytes(&self) -> usize {
        match self {
            Self::Slabs(stage) => stage.used_bytes(),
            Self::Batches(waiting) => waiting.batch_bytes(),
        }
    }

    /// Bytes held, with those of the encoder.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Slabs(stage) => stage.held_bytes(),
            Self::Batches(waiting) => waiting.held_bytes(),
        }
    }
}

/// A part of a batch that is being taken.
struct Arrival<'a> {
    batch: &'a RecordBatch,
    source: SlabSource<'a>,
    grouped: Option<&'a Grouped<'a>>,
    partition: usize,
    takes: Vec<Take<'a>>,
    bytes: usize,
}

impl Arrival<'_> {
    /// Bytes that have to be reserved before it is taken: row numbers, partitions and hashes are beside the rows; so are
    /// the blocks that waiting batches become, until those are released.
    fn wanted_bytes(&self, staging: &Staging) -> usize {
        let staged = match staging {
            Staging::Slabs(stage) => {
                stage.growth(&self.source, &self.takes) + self.source.held_bytes()
            }
            Staging::Batches(_) => self.bytes + self.bytes / BLOCK_SHARE,
        };
        staged + 16 * self.batch.num_rows()
    }
}

/// Collects the rows of one input.
pub(super) struct Collector {
    shared: Arc<Shared>,
    input: usize,
    staging: Staging,
    /// What the staging holds.
    staged: Permit,
    /// Whether rows or their room can be given up.
    roomy: bool,
    encoded: Encoded,
    squeezed: usize,
}

impl Collector {
    pub(super) fn try_new(shared: Arc<Shared>, input: usize, partitions: usize) -> Result<Self> {
        let staging = Staging::try_new(&shared, partitions)?;
        Ok(Self {
            input,
            staged: shared.ledger.force(staging.held_bytes()),
            staging,
            roomy: false,
            encoded: Encoded::new(&shared.ledger, partitions),
            squeezed: shared.squeeze.load(Ordering::Relaxed),
            shared,
        })
    }

    /// Takes all of `stream`.
    pub(super) async fn run(
        mut self,
        mut router: Router,
        mut stream: SendableRecordBatchStream,
    ) -> Result<Counted> {
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
        self.encode_staged(After::Release)?;
        let (parked, counted) = self.encoded.end(self.input);
        self.shared.parked.lock().push(parked);
        Ok(counted)
    }

    /// Takes the rows of `batch`, a part of limited size at a time.
    async fn deliver(&mut self, router: &mut Router, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        self.shared.metrics.input_rows.add(rows);
        let batch = Source::conform(&self.shared.schema, batch.clone())?;
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
        let more = if matches!(self.staging, Staging::Slabs(_)) { 0 } else { bytes };
        if self.staging.used_bytes() + more > self.shared.staged_bytes {
            self.encode_staged(After::Keep)?;
        }
        let metrics = self.shared.metrics.clone();
        let mut timer = metrics.repartition_time.timer();
        let (partition, grouped) = match router.route(batch)? {
            Routed::Whole(partition) => (partition, None),
            Routed::Grouped(grouped) => (0, Some(grouped)),
        };
        let source = Source::try_new(&self.shared.schema, batch)?;
        let grouped = grouped.as_ref();
        let all = || vec![Take { partition, rows: source.all_rows() }];
        let takes = grouped.map_or_else(all, takes_of);
        let source = match &self.staging {
            Staging::Slabs(stage) => stage.source(&source),
            Staging::Batches(_) => SlabSource::as_it_is(&source),
        };
        let arrival = Arrival { batch, source, grouped, partition, takes, bytes };
        timer.stop();
        let permit = self.reserve(&arrival).await?;
        self.staged.merge(permit);
        timer.restart();
        let taken = self.take(arrival);
        timer.done();
        taken
    }

    fn take(&mut self, mut arrival: Arrival<'_>) -> Result<()> {
        self.roomy = true;
        let Self { staging, encoded, shared, .. } = self;
        match staging {
            Staging::Slabs(stage) => {
                let room = &mut shared.ledger.empty();
                stage.push(&mut arrival.source, arrival.takes, &mut |partition, block, info| {
                    Ok(encoded.push(partition, info.rows as usize, room, |out| {
                        out.extend_from_slice(block);
                        Ok(info)
                    })?)
                })?;
                self.staged.resize(stage.held_bytes());
            }
            Staging::Batches(waiting) => {
                waiting.push(arrival.batch, arrival.grouped, arrival.partition)?;
                let held = waiting.held_bytes();
                let blocks = waiting.batch_bytes() / BLOCK_SHARE;
                self.staged.resize(held + blocks);
            }
        }
        Ok(())
    }

    /// Reserves what an arrival wants; when the pool refuses, gives up what this collector or one that has ended holds, or
    /// takes it as its working set.
    async fn reserve(&mut self, arrival: &Arrival<'_>) -> Result<Permit> {
        loop {
            let bytes = arrival.wanted_bytes(&self.staging);
            if let Ok(permit) = self.shared.ledger.try_reserve(bytes) {
                return Ok(permit);
            }
            let staged = self.staged.bytes();
            if self.roomy && staged >= self.encoded.blocks.bytes() {
                self.encode_staged(After::Release)?;
            } else if self.spill().await? {
            } else if self.roomy && staged + bytes > WORKING_SET_BYTES {
                self.encode_staged(After::Release)?;
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
        if self.staged.bytes() + self.encoded.blocks.bytes() < WORKING_SET_BYTES {
            return Ok(());
        }
        self.encode_staged(After::Release)?;
        self.spill().await?;
        Ok(())
    }

    /// Turns all staged rows into blocks, partition after partition.
    fn encode_staged(&mut self, after: After) -> Result<()> {
        let metrics = self.shared.metrics.clone();
        let timer = metrics.encode_time.timer();
        let Self { staging, encoded, staged, shared, .. } = self;
        let mut room = shared.ledger.empty();
        match staging {
            Staging::Slabs(stage) => {
                if after == After::Release {
                    // What a partition's rows took is free when its block is there.
                    room = staged.take();
                }
                stage.finish(after, &mut |partition, block, info| {
                    Ok(encoded.push(partition, info.rows as usize, &mut room, |out| {
                        out.extend_from_slice(block);
                        Ok(info)
                    })?)
                })?;
                self.roomy = after == After::Keep;
            }
            Staging::Batches(waiting) => {
                let blocks = staged.bytes().saturating_sub(waiting.held_bytes());
                room.move_from(staged, blocks);
                waiting.encode(encoded, &mut room)?;
                self.roomy = false;
            }
        }
        staged.merge(room);
        staged.resize(staging.held_bytes());
        timer.done();
        Ok(())
    }

    /// Writes the largest blocks as one run, on a blocking thread: those of this input or of one that has ended. `false` if
    /// none are worth it.
    async fn spill(&mut self) -> Result<bool> {
        let Some((blocks, permit)) = self.largest() else { return Ok(false) };
        let shared = Arc::clone(&self.shared);
        let written = SpawnedTask::spawn_blocking(move || {
            let timer = shared.metrics.write_time.timer();
            let written = shared.spills.lock().write(blocks.by_partition());
            timer.done();
            drop((blocks, permit));
            written
        });
        let written = written
            .join_unwind()
            .await
            .map_err(|_| internal_datafusion_err!("the task that writes a run was cancelled"))?;
        self.shared.metrics.spill_count.add(1);
        self.shared.metrics.spilled_bytes.add(to_usize_limit(written?));
        Ok(true)
    }

    /// Takes the largest blocks that are worth a run.
    fn largest(&mut self) -> Option<(Blocks, Permit)> {
        let own = self.encoded.blocks.bytes();
        let mut parked = self.shared.parked.lock();
        let largest = (0..).zip(parked.iter()).max_by_key(|(_, parked)| parked.blocks.bytes());
        let largest =
            largest.filter(|(_, parked)| parked.blocks.bytes() >= own.max(LEAST_RUN_BYTES));
        if let Some((at, _)) = largest {
            let Parked { blocks, permit, .. } = parked.swap_remove(at);
            return Some((blocks, permit));
        }
        drop(parked);
        (own >= LEAST_RUN_BYTES).then(|| self.encoded.take())
    }
}
