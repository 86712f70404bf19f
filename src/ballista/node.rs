use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ballista_core::execution_plans::{RangeShuffleReaderExec, ShuffleReaderExec};
use ballista_core::serde::scheduler::PartitionLocation;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::apply_expression_roots;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::watch;

use super::fault::Blame;
use super::fetch::{Channels, FetchMetrics, Fetcher};
use super::fetched::{Indexes, Pull, Pulled, Queue};
use super::reads::{OutputRead, by_output};
use super::settings::FetchSettings;
use super::view::BallistaOutput;
use crate::block::why_not;
use crate::config::IFileOptions;
use crate::exec::shuffle_reading::{Shared, read_metrics};
use crate::map_output::{Expected, ReadPool, SegmentSource, ShuffleRead};
use crate::map_status::{PartitionFunction, Placement};
use crate::memory::Ledger;

/// Reads map outputs of a stage of Ballista, in place of its `ShuffleReaderExec` or `RangeShuffleReaderExec`.
///
/// Each partition is a list of partitions of map outputs, from files of this executor or from the Flight services of
/// others; in no order, or merged by the order that all of their segments have. An output that cannot be read is a
/// `FetchFailed` of Ballista.
pub struct IFileFetchExec {
    /// The node that this one stands for.
    stock: Arc<dyn ExecutionPlan>,
    stage_id: usize,
    locations: Arc<[Vec<PartitionLocation>]>,
    /// Whether every partition is the first one.
    broadcast: bool,
    order: Option<LexOrdering>,
    fetch: Option<usize>,
    work_dir: Arc<Path>,
    options: IFileOptions,
    channels: Arc<Channels>,
    indexes: Arc<Indexes>,
    metrics: ExecutionPlanMetricsSet,
}

impl fmt::Debug for IFileFetchExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IFileFetchExec")
            .field("stage_id", &self.stage_id)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

impl IFileFetchExec {
    /// A node in place of `plan`, if that is a reader of map outputs that this crate writes.
    pub(super) fn in_place_of(
        plan: &Arc<dyn ExecutionPlan>,
        work_dir: &Arc<Path>,
        options: &IFileOptions,
        channels: &Arc<Channels>,
    ) -> Option<Self> {
        let (stage_id, locations, broadcast, order, fetch) =
            if let Some(reader) = plan.downcast_ref::<ShuffleReaderExec>() {
                (reader.stage_id, &reader.partition, reader.broadcast, None, None)
            } else {
                let reader = plan.downcast_ref::<RangeShuffleReaderExec>()?;
                let order = Some(reader.merge_ordering().clone());
                (reader.stage_id, &reader.partition, false, order, reader.fetch())
            };
        let ours = locations.iter().flatten().any(|location| location.is_sort_shuffle);
        if !ours || why_not(&plan.schema()).is_some() {
            return None;
        }
        Some(Self {
            stage_id,
            locations: locations.clone().into(),
            broadcast,
            order,
            fetch,
            stock: Arc::clone(plan),
            work_dir: Arc::clone(work_dir),
            options: options.clone(),
            channels: Arc::clone(channels),
            indexes: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn shared(&self, partition: usize, context: &TaskContext) -> Shared {
        let (read_time, counters) = read_metrics(&self.metrics, partition);
        // The outputs say how many partitions they have; that rows are placed by hash is a matter of the plan.
        let placement = Placement { function: PartitionFunction::Hash, seed: 0, count: 0 };
        Shared {
            schema: self.schema(),
            expected: Expected::new(&self.schema(), placement),
            pool: Arc::new(ReadPool::of_tools()),
            buffer: self.options.read_ahead_bytes,
            batch_rows: context.session_config().batch_size().max(1),
            ledger: Ledger::unspillable(self.name(), context.memory_pool()),
            read_time,
            counters,
        }
    }

    fn reading(
        &self,
        partition: usize,
        reads: Vec<OutputRead>,
        context: Arc<TaskContext>,
    ) -> Reading {
        let shared = self.shared(partition, &context);
        let settings = FetchSettings::new(context.session_config());
        let metrics = FetchMetrics::new(&self.metrics, partition);
        let ledger = Arc::clone(&shared.ledger);
        let fetcher = Fetcher::new(Arc::clone(&self.channels), settings, ledger, metrics.clone());
        Reading {
            reads,
            work_dir: Arc::clone(&self.work_dir),
            fetcher: Arc::new(fetcher),
            indexes: Arc::clone(&self.indexes),
            metrics,
            shared,
            order: self.order.clone(),
            fetch: self.fetch,
            baseline: BaselineMetrics::new(&self.metrics, partition),
            spills: SpillMetrics::new(&self.metrics, partition),
            context,
        }
    }
}

/// What a stream of a partition begins with.
struct Reading {
    reads: Vec<OutputRead>,
    work_dir: Arc<Path>,
    fetcher: Arc<Fetcher>,
    indexes: Arc<Indexes>,
    metrics: FetchMetrics,
    shared: Shared,
    order: Option<LexOrdering>,
    fetch: Option<usize>,
    baseline: BaselineMetrics,
    spills: SpillMetrics,
    context: Arc<TaskContext>,
}

impl Reading {
    /// Finds out which outputs are here, and begins to read.
    async fn begin(mut self) -> Result<SendableRecordBatchStream> {
        let reads = std::mem::take(&mut self.reads);
        let (local, remote) = if self.fetcher.settings.force_remote {
            (Vec::new(), reads)
        } else {
            let work_dir = Arc::clone(&self.work_dir);
            let split = SpawnedTask::spawn_blocking(move || {
                reads.into_iter().partition(|read: &OutputRead| read.is_local(&work_dir))
            });
            split.join_unwind().await.map_err(|_| {
                internal_datafusion_err!("the task that looks for map outputs was cancelled")
            })?
        };
        let partitions = |reads: &[OutputRead]| -> usize {
            reads.iter().map(|read| read.partitions.len()).sum()
        };
        self.metrics.local.add(partitions(&local));
        self.metrics.remote.add(partitions(&remote));
        let mut sources: Vec<ShuffleRead> = Vec::with_capacity(local.len() + remote.len());
        let sorted = self.order.is_some();
        let mut push = |source: Arc<dyn SegmentSource>, read: &OutputRead| {
            let source = Arc::new(BallistaOutput::new(source, sorted));
            sources.push(ShuffleRead::new(source, read.partitions.clone()));
        };
        for read in &local {
            push(Arc::new(read.local(&self.work_dir)?), read);
        }
        match self.order.clone() {
            None => {
                let (fetcher, indexes) = (self.fetcher, self.indexes);
                let (queue, fetched) = Queue::start(fetcher, indexes, remote.clone());
                for (source, read) in fetched.into_iter().zip(&remote) {
                    push(source, read);
                }
                let stream = self.shared.stream(sources, true);
                Ok(counted(stream, self.baseline, queue))
            }
            Some(order) => {
                let (sender, stop) = watch::channel(());
                let pull = Pull {
                    fetcher: self.fetcher,
                    indexes: self.indexes,
                    open: Arc::default(),
                    stop,
                };
                for read in remote {
                    let source = Pulled { read: read.clone(), pull: pull.clone() };
                    push(Arc::new(source), &read);
                }
                drop(pull);
                let merged = self.shared.merge(
                    sources,
                    order,
                    self.context,
                    self.fetch,
                    self.baseline,
                    self.spills,
                );
                Ok(keeping(merged, sender))
            }
        }
    }
}

/// `stream`, whose rows are counted; `kept` is dropped with it.
fn counted(
    mut stream: SendableRecordBatchStream,
    baseline: BaselineMetrics,
    kept: Queue,
) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let polled = futures::stream::poll_fn(move |cx| {
        let _kept = &kept;
        baseline.record_poll(stream.poll_next_unpin(cx))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, polled))
}

/// `stream`; `kept` is dropped with it.
fn keeping<T: Send + 'static>(
    mut stream: SendableRecordBatchStream,
    kept: T,
) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let polled = futures::stream::poll_fn(move |cx| {
        let _kept = &kept;
        stream.poll_next_unpin(cx)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, polled))
}

impl DisplayAs for IFileFetchExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let (stage, partitions) = (self.stage_id, self.locations.len());
                write!(f, "{}: upstream_stage={stage}, partitions={partitions}", self.name())?;
                if self.broadcast {
                    write!(f, ", broadcast")?;
                }
                match &self.order {
                    Some(order) => write!(f, ", sort_exprs={order}"),
                    None => Ok(()),
                }
            }
            DisplayFormatType::TreeRender => writeln!(f, "upstream_stage={}", self.stage_id),
        }
    }
}

impl ExecutionPlan for IFileFetchExec {
    fn name(&self) -> &'static str {
        "IFileFetchExec"
    }

    fn schema(&self) -> SchemaRef {
        self.stock.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
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
        let wanted = if self.broadcast { 0 } else { partition };
        let Some(locations) = self.locations.get(wanted) else {
            return internal_err!("partition {partition} of {} does not exist", self.name());
        };
        let schema = self.schema();
        let reads = by_output(locations, partition)?;
        if reads.is_empty() {
            return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
        }
        let blame = Blame::new(&reads);
        let begun = self.reading(partition, reads, context).begin();
        let stream = futures::stream::once(begun).try_flatten();
        let stream = stream.map_err(move |error| blame.of(error));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream));
        Ok(make_cooperative(stream))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, args)
    }
}
