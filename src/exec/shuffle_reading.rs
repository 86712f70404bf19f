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
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{BaselineMetrics, SpillMetrics, Time};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

use crate::block::{BlockDecoder, BlockHeader, BlockResult, Joined, logical_bytes};
use crate::map_output::{ReadCounters, SegmentBatches, ShuffleRead, reads_by_segment};
use crate::map_status::Placement;
use crate::memory::{Ledger, Permit};

/// Decoded bytes that are read at a time.
const CHUNK_BYTES: usize = 1024 * 1024;

/// What the streams of a partition share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) schema: SchemaRef,
    pub(crate) placement: Placement,
    pub(crate) buffer: usize,
    pub(crate) batch_rows: usize,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) read_time: Time,
    pub(crate) counters: ReadCounters,
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
            let partitions = self.placement.count;
            let listed = SpawnedTask::spawn_blocking(move || reads_by_segment(&reads, partitions));
            let segments = listed.join_unwind().await.map_err(|_| {
                internal_datafusion_err!("the task that reads indexes was cancelled")
            })??;
            let streams = segments.into_iter().map(|read| self.stream(vec![read], false));
            let schema = Arc::clone(&self.schema);
            let reservation = MemoryConsumer::new("IFileShuffleReaderExec[Merge]");
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
    batch_rows: usize,
    joining: Joining,
    /// What is held between calls.
    held: Permit,
    ended: bool,
}

impl Reader {
    fn try_new(shared: &Shared, reads: Vec<ShuffleRead>, batch_rows: usize) -> Result<Self> {
        let (schema, counters) = (Arc::clone(&shared.schema), shared.counters.clone());
        Ok(Self {
            batches: SegmentBatches::try_new(
                schema,
                shared.placement,
                reads,
                shared.buffer,
                counters,
            )?,
            batch_rows,
            joining: Joining { schema: Arc::clone(&shared.schema), joined: None, rows: 0, room: 0 },
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
            let mut whole = Vec::new();
            let (joining, batch_rows) = (&mut self.joining, self.batch_rows);
            joining.room = self.batches.rows_ahead(batch_rows);
            let block = self.batches.next_block(&mut |decoder, block| {
                joining.take(decoder, block, batch_rows, &mut whole)
            })?;
            self.ended = block.is_none();
            if self.ended {
                self.joining.finish(&mut whole)?;
            }
            for batch in whole {
                // A block may have more rows than a batch of this session.
                let most = self.shared.batch_rows;
                for start in (0..batch.num_rows()).step_by(most) {
                    let part = batch.slice(start, most.min(batch.num_rows() - start));
                    bytes += self.hand_over(part, &mut ready);
                }
            }
            if self.ended {
                break;
            }
        }
        let held = self.batches.held_bytes();
        if held > self.held.bytes() {
            self.held.merge(self.shared.ledger.force(held - self.held.bytes()));
        }
        Ok(ready)
    }

    /// Returns the bytes of the batch.
    fn hand_over(&self, batch: RecordBatch, ready: &mut Vec<(RecordBatch, Permit)>) -> usize {
        let bytes = logical_bytes(&batch, 0, batch.num_rows());
        ready.push((batch, self.shared.ledger.force(bytes)));
        bytes
    }
}

/// Small blocks on their way to a batch: their rows are decoded straight into it.
struct Joining {
    schema: SchemaRef,
    joined: Option<Joined>,
    rows: usize,
    /// Rows that the next batch gets room for.
    room: usize,
}

impl Joining {
    /// Decodes a block: on its own if it has half of a batch's rows, else into the batch that is being filled. Batches that
    /// are complete go to `whole`.
    fn take(
        &mut self,
        decoder: &mut BlockDecoder,
        block: &[u8],
        batch_rows: usize,
        whole: &mut Vec<RecordBatch>,
    ) -> BlockResult<()> {
        let rows = usize::try_from(BlockHeader::parse(block)?.rows).unwrap_or(usize::MAX);
        if rows >= batch_rows.div_ceil(2) {
            whole.push(decoder.decode(block)?);
            return Ok(());
        }
        if self.rows + rows > batch_rows {
            self.finish(whole)?;
        }
        let joined = self.joined.get_or_insert_with(|| Joined::new(&self.schema, self.room));
        decoder.decode_into(block, joined)?;
        self.rows += rows;
        Ok(())
    }

    fn finish(&mut self, whole: &mut Vec<RecordBatch>) -> BlockResult<()> {
        self.rows = 0;
        if let Some(joined) = self.joined.take() {
            whole.extend(joined.finish()?);
        }
        Ok(())
    }
}
