use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, apply_expression_roots,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

use super::shuffle_reading::{Shared, read_metrics};
use crate::config::IFileOptions;
use crate::map_output::{Expected, ReadPool, ShuffleRead};
use crate::map_status::Placement;
use crate::memory::Ledger;

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
    expected: Expected,
    pool: Arc<ReadPool>,
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
            expected: Expected::new(&schema, placement),
            pool: Arc::default(),
            schema,
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
        self.expected = self.expected.sorted();
        self
    }

    /// What outputs have to be.
    pub fn placement(&self) -> Placement {
        self.expected.placement()
    }

    /// The order that segments are merged by.
    pub fn order(&self) -> Option<&LexOrdering> {
        self.order.as_ref()
    }

    /// The options.
    pub fn options(&self) -> &IFileOptions {
        &self.options
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
        let (read_time, counters) = read_metrics(&self.metrics, partition);
        let shared = Shared {
            schema: Arc::clone(&self.schema),
            expected: self.expected,
            pool: Arc::clone(&self.pool),
            buffer: self.options.read_ahead_bytes,
            batch_rows: context.session_config().batch_size().max(1),
            ledger: Ledger::unspillable(self.name(), context.memory_pool()),
            read_time,
            counters,
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let stream = match &self.order {
            None => counted(shared.stream(reads, true), baseline, &self.schema),
            Some(order) => {
                let spills = SpillMetrics::new(&self.metrics, partition);
                shared.merge(reads, order.clone(), context, None, baseline, spills)
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
