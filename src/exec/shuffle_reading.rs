//! Streams of a shuffle reader.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics, Time,
};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{EmptyRecordBatchStream, SpillManager};
use futures::TryStreamExt;

use crate::block::{BlockDecoder, BlockHeader, BlockResult, Joined, logical_bytes};
use crate::map_output::{
    Expected, ReadCounters, ReadPool, SegmentBatches, ShuffleRead, reads_by_segment,
};
use crate::memory::{Ledger, Permit};

/// Decoded bytes that are read at a time.
const CHUNK_BYTES: usize = 1024 * 1024;

/// What the streams of a partition share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) schema: SchemaRef,
    pub(crate) expected: Expected,
    pub(crate) pool: Arc<ReadPool>,
    pub(crate) buffer: usize,
    pub(crate) batch_rows: usize,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) read_time: Time,
    pub(crate) counters: ReadCounters,
}

/// What a reader counts for `partition`.
pub(crate) fn read_metrics(
    metrics: &ExecutionPlanMetricsSet,
    partition: usize,
) -> (Time, ReadCounters) {
    let build = || MetricBuilder::new(metrics);
    let counters = ReadCounters {
        bytes_read: build().counter("bytes_read", partition),
        bytes_verified: build().counter("bytes_verified", partition),
        segments: build().counter("segments_read", partition),
        outputs: build().counter("outputs_opened", partition),
    };
    (build().subset_time("read_time", partition), counters)
}

impl Shared {
    /// The rows of `reads`, one after another.
    pub(crate) fn stream(&self, reads: Vec<ShuffleRead>, join: bool) -> SendableRecordBatchStream {
        let state = Reading {
            reads,
            task: None,
            ready: VecDeque::new(),
            ended: false,
            batch_rows: if join { self.batch_rows } else { 1 },
            shared: self.clone(),
        };
        let batches = futures::stream::try_unfold(state, Reading::next);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }

    /// The rows of `reads`, whose segments are sorted, merged; the first `fetch` of them.
    pub(crate) fn merge(
        self,
        reads: Vec<ShuffleRead>,
        order: LexOrdering,
        context: Arc<TaskContext>,
        fetch: Option<usize>,
        baseline: BaselineMetrics,
        spill_metrics: SpillMetrics,
    ) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let stream = futures::stream::once(async move {
            let expected = self.expected;
            let listed = SpawnedTask::spawn_blocking(move || reads_by_segment(&reads, &expected));
            let segments = listed.join_unwind().await.map_err(|_| {
                internal_datafusion_err!("the task that reads indexes was cancelled")
            })??;
            let schema = Arc::clone(&self.schema);
            if segments.is_empty() {
                return Ok(Box::pin(EmptyRecordBatchStream::new(schema)) as _);
            }
            let streams = segments.into_iter().map(|read| self.stream(vec![read], false));
            let reservation = MemoryConsumer::new(format!("{}[Merge]", self.ledger.name()));
            let spills =
                SpillManager::new(context.runtime_env(), spill_metrics, Arc::clone(&schema));
            StreamingMergeBuilder::new()
                .with_streams(streams.collect())
                .with_schema(schema)
                .with_expressions(&order)
                .with_fetch(fetch)
                .with_metrics(baseline)
                .with_batch_size(self.batch_rows)
                .with_reservation(reservation.register(context.memory_pool()))
                .with_spill_manager(spills)
                .build()
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(stream.try_flatten())))
    }
}

type Read = (Reader, Result<Vec<(RecordBatch, Permit)>>);

/// A stream of batches; the next ones are read while these are worked on.
struct Reading {
    shared: Shared,
    reads: Vec<ShuffleRead>,
    task: Option<SpawnedTask<Read>>,
    ready: VecDeque<(RecordBatch, Permit)>,
    ended: bool,
    batch_rows: usize,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if let Some((batch, permit)) = self.ready.pop_front() {
                drop(permit);
                return Ok(Some((batch, self)));
            }
            if self.ended {
                return Ok(None);
            }
            let task = match self.task.take() {
                Some(task) => task,
                None => {
                    let reads = std::mem::take(&mut self.reads);
                    Reader::try_new(&self.shared, reads, self.batch_rows)?.spawn()
                }
            };
            let read = task.join_unwind().await;
            let (reader, batches) =
                read.map_err(|_| internal_datafusion_err!("the task that reads was cancelled"))?;
            self.ready = batches?.into();
            self.ended = reader.ended;
            if !reader.ended {
                self.task = Some(reader.spawn());
            }
        }
    }
}

/// Reads and joins blocks, on a blocking thread.
struct Reader {
    batches: SegmentBatches,
    shared: Shared,
    joining: Joining,
    /// What is held between calls.
    held: Permit,
    ended: bool,
}

impl Reader {
    fn try_new(shared: &Shared, reads: Vec<ShuffleRead>, batch_rows: usize) -> Result<Self> {
        let (schema, counters) = (Arc::clone(&shared.schema), shared.counters.clone());
        Ok(Self {
            batches: SegmentBatches::pooled(
                schema,
                shared.expected,
                reads,
                shared.buffer,
                counters,
                Arc::clone(&shared.pool),
            )?,
            joining: Joining {
                schema: Arc::clone(&shared.schema),
                ledger: Arc::clone(&shared.ledger),
                batch_rows,
                joined: None,
                rows: 0,
                whole: Vec::new(),
                refused: false,
            },
            held: shared.ledger.empty(),
            ended: false,
            shared: shared.clone(),
        })
    }

    fn spawn(mut self) -> SpawnedTask<Read> {
        SpawnedTask::spawn_blocking(move || {
            let timer = self.shared.read_time.clone();
            let timer = timer.timer();
            let read = self.read();
            timer.done();
            (self, read)
        })
    }

    /// Some batches, at least one unless this is the end.
    fn read(&mut self) -> Result<Vec<(RecordBatch, Permit)>> {
        let mut ready = Vec::new();
        let mut bytes = 0;
        while bytes < CHUNK_BYTES || ready.is_empty() {
            let joining = &mut self.joining;
            let block = self
                .batches
                .next_block(&mut |decoder, block, ahead| joining.take(decoder, block, ahead))?;
            self.ended = block.is_none();
            if self.ended {
                self.joining.finish()?;
            }
            for (batch, permit) in self.joining.whole.drain(..) {
                bytes += hand_over(&batch, permit, self.shared.batch_rows, &mut ready);
            }
            if self.ended || (self.joining.refused && !ready.is_empty()) {
                break;
            }
        }
        self.joining.refused = false;
        let held = self.batches.held_bytes();
        if held > self.held.bytes() {
            self.held.resize(held);
        }
        Ok(ready)
    }
}

/// Cuts a batch, which may have more rows than those of this session. Returns its bytes.
fn hand_over(
    batch: &RecordBatch,
    mut permit: Permit,
    most: usize,
    ready: &mut Vec<(RecordBatch, Permit)>,
) -> usize {
    let mut sum = 0;
    for start in (0..batch.num_rows()).step_by(most) {
        let part = batch.slice(start, most.min(batch.num_rows() - start));
        let bytes = logical_bytes(&part, 0, part.num_rows());
        ready.push((part, part_of(&mut permit, bytes)));
        sum += bytes;
    }
    sum
}

/// A permit for `bytes`, out of `all` as far as that has them.
fn part_of(all: &mut Permit, bytes: usize) -> Permit {
    let mut part = all.take();
    let rest = part.bytes().saturating_sub(bytes);
    all.move_from(&mut part, rest);
    part.resize(bytes);
    part
}

/// Small blocks on their way to a batch: their rows are decoded straight into it. What decoding takes is reserved before;
/// when the pool refuses, the batch ends where it is.
struct Joining {
    schema: SchemaRef,
    ledger: Arc<Ledger>,
    batch_rows: usize,
    joined: Option<(Joined, Permit)>,
    rows: usize,
    /// Batches that are complete.
    whole: Vec<(RecordBatch, Permit)>,
    /// The pool has refused: what is complete is to be handed over before more is read.
    refused: bool,
}

impl Joining {
    /// Decodes a block: on its own if it has half of a batch's rows, else into the batch that is being filled. `ahead` is
    /// how many rows there may be with the block and after it.
    fn take(
        &mut self,
        decoder: &mut BlockDecoder,
        block: &[u8],
        ahead: Option<u64>,
    ) -> BlockResult<()> {
        let header = BlockHeader::parse(block)?;
        decoder.check_limits(&header)?;
        let rows = usize::try_from(header.rows).unwrap_or(usize::MAX);
        let bytes = usize::try_from(header.decoded_bytes).unwrap_or(usize::MAX);
        if rows >= self.batch_rows.div_ceil(2) {
            let mut permit = self.reserve(bytes)?;
            let batch = decoder.decode(block)?;
            permit.resize(logical_bytes(&batch, 0, rows));
            self.whole.push((batch, permit));
            return Ok(());
        }
        if self.rows + rows > self.batch_rows {
            self.finish()?;
        }
        let room = ahead.and_then(|rows| usize::try_from(rows).ok());
        let room = room.map_or(self.batch_rows, |rows| rows.min(self.batch_rows));
        let row_bytes = Joined::row_bytes(&self.schema);
        // The rows and, of strings, a copy of them in the end.
        let fresh = if self.joined.is_none() { room * row_bytes } else { 0 };
        let mut permit = self.reserve(2 * bytes + fresh)?;
        let (joined, held) = match &mut self.joined {
            Some(joined) => joined,
            empty => {
                let room = if self.refused { rows } else { room };
                permit.resize(2 * bytes + room * row_bytes);
                empty.insert((Joined::new(&self.schema, room), self.ledger.empty()))
            }
        };
        held.merge(permit);
        decoder.decode_into(block, joined)?;
        held.resize(joined.held_bytes());
        self.rows += rows;
        Ok(())
    }

    /// Reserves `bytes`. When the pool refuses, ends the batch that is being filled, and takes what one block needs
    /// whatever the pool says.
    fn reserve(&mut self, bytes: usize) -> BlockResult<Permit> {
        if let Ok(permit) = self.ledger.try_reserve(bytes) {
            return Ok(permit);
        }
        self.refused = true;
        self.finish()?;
        Ok(self.ledger.force(bytes))
    }

    /// Ends the batch that is being filled; in several where dictionary keys or offsets would overflow in one.
    fn finish(&mut self) -> BlockResult<()> {
        self.rows = 0;
        let Some((joined, mut held)) = self.joined.take() else { return Ok(()) };
        for batch in joined.finish()? {
            let bytes = logical_bytes(&batch, 0, batch.num_rows());
            self.whole.push((batch, part_of(&mut held, bytes)));
        }
        Ok(())
    }
}
