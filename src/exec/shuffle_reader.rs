use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err, internal_err, plan_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, apply_expression_roots,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, SpillMetrics, Time,
};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SpillManager,
};
use futures::{StreamExt, TryStreamExt};

use crate::block::logical_bytes;
use crate::config::IFileOptions;
use crate::map_output::{ReadCounters, SegmentBatches, ShuffleRead, reads_by_segment};
use crate::map_status::Placement;
use crate::memory::{Ledger, Permit, Shares};

/// Decoded bytes that are read at a time.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Reads partitions of map outputs.
///
/// Each output partition of the node is a list of [`ShuffleRead`]s, one after another: all of a partition, a range of small
/// ones, or some map outputs or segments of a skewed one. With an order the segments, each of which is sorted, are merged.
///
/// Batches have at least half of the session's batch size, the last one excepted, and at most all of it. While
/// one is worked on the next is read, on a blocking thread. Dropping a stream stops its reads.
///
/// What is wrong with an output is an [`IFileError::LostOutput`](crate::IFileError::LostOutput) inside of
/// `DataFusionError::External`; no row of a block whose checksum fails is handed out.
#[derive(Debug)]
pub struct IFileShuffleReaderExec {
    schema: SchemaRef,
    placement: Placement,
    reads: Arc<Vec<Vec<ShuffleRead>>>,
    order: Option<LexOrdering>,
    options: IFileOptions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IFileShuffleReaderExec {
    /// A reader of outputs with `schema` and `placement`, whose own output has `partitioning`.
    ///
    /// # Errors
    /// If `reads` are not one list per partition of `partitioning`.
    pub fn try_new(
        schema: SchemaRef,
        placement: Placement,
        partitioning: Partitioning,
        reads: Vec<Vec<ShuffleRead>>,
        options: IFileOptions,
    ) -> Result<Self> {
        if partitioning.partition_count() != reads.len() {
            return plan_err!(
                "IFileShuffleReaderExec needs a list of reads for each of {} partitions, got {}",
                partitioning.partition_count(),
                reads.len()
            );
        }
        let equivalences = EquivalenceProperties::new(Arc::clone(&schema));
        Ok(Self {
            properties: Arc::new(properties(equivalences, partitioning)),
            schema,
            placement,
            reads: Arc::new(reads),
            order: None,
            options,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same, merging segments that are sorted by `order`.
    #[must_use]
    pub fn with_order(mut self, order: LexOrdering) -> Self {
        let schema = Arc::clone(&self.schema);
        let equivalences = EquivalenceProperties::new_with_orderings(schema, [order.clone()]);
        let partitioning = self.properties.partitioning.clone();
        self.properties = Arc::new(properties(equivalences, partitioning));
        self.order = Some(order);
        self
    }

    /// What is read, by output partition.
    pub fn reads(&self) -> &[Vec<ShuffleRead>] {
        &self.reads
    }
}

fn properties(equivalences: EquivalenceProperties, partitioning: Partitioning) -> PlanProperties {
    PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded)
        .with_scheduling_type(SchedulingType::Cooperative)
}

impl DisplayAs for IFileShuffleReaderExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads: usize = self.reads.iter().map(Vec::len).sum();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let partitions = self.reads.len();
                write!(f, "IFileShuffleReaderExec: partitions={partitions}, reads={reads}")?;
                match &self.order {
                    Some(order) => write!(f, ", sort_exprs={order}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => writeln!(f, "reads={reads}"),
        }
    }
}

impl ExecutionPlan for IFileShuffleReaderExec {
    fn name(&self) -> &'static str {
        "IFileShuffleReaderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.order.iter().flatten().map(|key| &key.expr), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.len() {
            0 => Ok(self),
            count => internal_err!("{} has no children, got {count}", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(reads) = self.reads.get(partition).cloned() else {
            return internal_err!("partition {partition} of {} does not exist", self.name());
        };
        let all = Shares { most: 1.0, headroom: 0.0 };
        let build = || MetricBuilder::new(&self.metrics);
        let shared = Shared {
            schema: Arc::clone(&self.schema),
            placement: self.placement,
            buffer: self.options.read_ahead_bytes,
            batch_rows: context.session_config().batch_size().max(1),
            ledger: Ledger::new(self.name(), context.memory_pool(), all),
            read_time: build().subset_time("read_time", partition),
            counters: ReadCounters {
                bytes_read: build().counter("bytes_read", partition),
                bytes_verified: build().counter("bytes_verified", partition),
                segments: build().counter("segments_read", partition),
                outputs: build().counter("outputs_opened", partition),
            },
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let stream = match &self.order {
            None => counted(shared.stream(reads, true), baseline, &self.schema),
            Some(order) => {
                let spills = SpillMetrics::new(&self.metrics, partition);
                shared.merge(reads, order.clone(), context, baseline, spills)
            }
        };
        Ok(make_cooperative(stream))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

fn counted(
    stream: SendableRecordBatchStream,
    baseline: BaselineMetrics,
    schema: &SchemaRef,
) -> SendableRecordBatchStream {
    let mut stream = stream;
    let polled =
        futures::stream::poll_fn(move |cx| baseline.record_poll(stream.poll_next_unpin(cx)));
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), polled))
}

/// What the streams of a partition share.
#[derive(Clone)]
struct Shared {
    schema: SchemaRef,
    placement: Placement,
    buffer: usize,
    batch_rows: usize,
    ledger: Arc<Ledger>,
    read_time: Time,
    counters: ReadCounters,
}

impl Shared {
    /// The rows of `reads`, one after another.
    fn stream(&self, reads: Vec<ShuffleRead>, join: bool) -> SendableRecordBatchStream {
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

    /// The rows of `reads`, whose segments are sorted, merged.
    fn merge(
        self,
        reads: Vec<ShuffleRead>,
        order: LexOrdering,
        context: Arc<TaskContext>,
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
    /// Small blocks on their way to a batch.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
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
            pending: Vec::new(),
            pending_rows: 0,
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
            let batch = self.batches.next_batch()?;
            let ended = batch.is_none();
            let (from, rows) = (ready.len(), self.shared.batch_rows);
            match batch {
                Some(batch) if 2 * batch.num_rows() >= self.batch_rows => {
                    // A block may have more rows than a batch of this session.
                    let mut start = 0;
                    while start < batch.num_rows() {
                        let len = rows.min(batch.num_rows() - start);
                        self.hand_over(batch.slice(start, len), &mut ready);
                        start += len;
                    }
                }
                Some(batch) => {
                    if self.pending_rows + batch.num_rows() > self.batch_rows {
                        self.join(&mut ready)?;
                    }
                    self.pending_rows += batch.num_rows();
                    self.pending.push(batch);
                }
                None => self.join(&mut ready)?,
            }
            let new = ready.iter().skip(from);
            bytes += new.map(|(_, permit): &(RecordBatch, Permit)| permit.bytes()).sum::<usize>();
            if ended {
                self.ended = true;
                break;
            }
        }
        let held = self.batches.held_bytes();
        if held > self.held.bytes() {
            self.held.merge(self.shared.ledger.force(held - self.held.bytes()));
        }
        Ok(ready)
    }

    /// Joins the pending blocks; they stay apart where dictionary keys or offsets would overflow.
    fn join(&mut self, ready: &mut Vec<(RecordBatch, Permit)>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_rows = 0;
        if pending.is_empty() {
            return Ok(());
        }
        match concat_batches(&self.shared.schema, &pending) {
            Ok(batch) => self.hand_over(batch, ready),
            Err(ArrowError::DictionaryKeyOverflowError | ArrowError::OffsetOverflowError(_)) => {
                pending.into_iter().for_each(|batch| self.hand_over(batch, ready));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn hand_over(&self, batch: RecordBatch, ready: &mut Vec<(RecordBatch, Permit)>) {
        let permit = self.shared.ledger.force(logical_bytes(&batch, 0, batch.num_rows()));
        ready.push((batch, permit));
    }
}
