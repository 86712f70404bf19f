use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics, assert_or_internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_expr_common::sort_expr::PhysicalSortExpr;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, EvaluationType, ReplaceChildrenOptions,
    SchedulingType,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use super::run::NodeState;
use crate::config::IFileOptions;

/// Moves rows from its input partitions to its output partitions, as DataFusion's
/// `RepartitionExec` does and with the same placement of rows, and spills compressed blocks when
/// the memory pool refuses.
///
/// Output batches have the session's batch size, the last one of a partition excepted, and those
/// that reach `ifile.batch_bytes` first. Rows keep the order of their input where there is one
/// input or order is preserved; else inputs interleave.
///
/// Dropping an output stream releases what it holds; the inputs stop with the last one. An error or
/// panic of an input reaches every output once. Executing a partition twice is an error.
#[derive(Debug)]
pub struct IFileRepartitionExec {
    input: Arc<dyn ExecutionPlan>,
    preserve_order: bool,
    options: IFileOptions,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    state: NodeState,
}

impl IFileRepartitionExec {
    /// An exchange of `input` that does not preserve the order of several inputs.
    ///
    /// # Errors
    /// None today; kept for partitionings that cannot be served.
    pub fn try_new(
        input: Arc<dyn ExecutionPlan>,
        partitioning: Partitioning,
        options: IFileOptions,
    ) -> Result<Self> {
        let properties = Arc::new(compute_properties(&input, partitioning, false));
        Ok(Self::with_properties(input, false, options, properties))
    }

    /// The exchange that takes the place of `stock`: same input, same properties (the very `Arc`,
    /// so that parents keep theirs).
    pub fn from_repartition(stock: &RepartitionExec, options: IFileOptions) -> Self {
        Self::with_properties(
            Arc::clone(stock.input()),
            stock.preserve_order(),
            options,
            Arc::clone(stock.properties()),
        )
    }

    /// Merges the inputs by their order, where they have one and are more than one.
    #[must_use]
    pub fn with_preserve_order(self) -> Self {
        let preserve_order = self.input.output_ordering().is_some()
            && self.input.output_partitioning().partition_count() > 1;
        let partitioning = self.partitioning().clone();
        let properties = compute_properties(&self.input, partitioning, preserve_order);
        Self::with_properties(self.input, preserve_order, self.options, Arc::new(properties))
    }

    fn with_properties(
        input: Arc<dyn ExecutionPlan>,
        preserve_order: bool,
        options: IFileOptions,
        properties: Arc<PlanProperties>,
    ) -> Self {
        Self {
            input,
            preserve_order,
            options,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            state: NodeState::default(),
        }
    }

    /// The node that gives the rows.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// How rows are placed.
    pub fn partitioning(&self) -> &Partitioning {
        &self.properties.partitioning
    }

    /// Whether sorted inputs are merged.
    pub fn preserve_order(&self) -> bool {
        self.preserve_order
    }

    /// The options this exchange runs with.
    pub fn options(&self) -> &IFileOptions {
        &self.options
    }

    /// The order that inputs are merged by.
    pub(super) fn merge_order(&self) -> Option<&LexOrdering> {
        if self.preserve_order { self.input.output_ordering() } else { None }
    }

    pub(super) fn metrics_set(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    pub(super) fn state(&self) -> &NodeState {
        &self.state
    }

    /// The same exchange over another input and partitioning, with properties of its own.
    pub(super) fn rebuilt(
        &self,
        input: Arc<dyn ExecutionPlan>,
        partitioning: Partitioning,
    ) -> Result<Self> {
        let node = Self::try_new(input, partitioning, self.options.clone())?;
        Ok(if self.preserve_order { node.with_preserve_order() } else { node })
    }
}

fn keeps_order(input: &Arc<dyn ExecutionPlan>, preserve_order: bool) -> bool {
    preserve_order || input.output_partitioning().partition_count() <= 1
}

fn compute_properties(
    input: &Arc<dyn ExecutionPlan>,
    partitioning: Partitioning,
    preserve_order: bool,
) -> PlanProperties {
    let mut equivalences: EquivalenceProperties = input.equivalence_properties().clone();
    if !keeps_order(input, preserve_order) {
        equivalences.clear_orderings();
    }
    if input.output_partitioning().partition_count() > 1 {
        equivalences.clear_per_partition_constants();
    }
    PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness())
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager)
}

impl DisplayAs for IFileRepartitionExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = self.input.output_partitioning().partition_count();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "{}: partitioning={}, input_partitions={inputs}, codec={}",
                    self.name(),
                    self.partitioning(),
                    self.options.codec
                )?;
                if self.preserve_order {
                    write!(f, ", mode=merge, preserve_order=true")?;
                } else if inputs <= 1 && self.input.output_ordering().is_some() {
                    write!(f, ", mode=fifo, maintains_sort_order=true")?;
                } else {
                    write!(f, ", mode=fifo")?;
                }
                if let Some(order) = self.merge_order() {
                    write!(f, ", sort_exprs={order}")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "partitioning_scheme={}", self.partitioning())?;
                let outputs = self.partitioning().partition_count();
                writeln!(f, "partition_count(in->out)={inputs} -> {outputs}")?;
                writeln!(f, "codec={}", self.options.codec)?;
                if self.preserve_order {
                    writeln!(f, "preserve_order=true")?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for IFileRepartitionExec {
    fn name(&self) -> &'static str {
        "IFileRepartitionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        super::apply_to_keys(self.partitioning(), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_or_internal_err!(
            children.len() == 1,
            "{} has one child, got {}",
            self.name(),
            children.len()
        );
        let input = children.swap_remove(0);
        Ok(Arc::new(match options.children_properties {
            ChildrenPropertiesMode::Keep => Self::with_properties(
                input,
                self.preserve_order,
                self.options.clone(),
                Arc::clone(&self.properties),
            ),
            ChildrenPropertiesMode::Recompute => {
                self.rebuilt(input, self.partitioning().clone())?
            }
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recompute)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = vec![Arc::clone(&self.input)];
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![matches!(self.partitioning(), Partitioning::Hash(_, _))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![keeps_order(&self.input, self.preserve_order)]
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        _config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let partitioning = match self.partitioning() {
            Partitioning::RoundRobinBatch(_) => Partitioning::RoundRobinBatch(target_partitions),
            Partitioning::Hash(keys, _) => Partitioning::Hash(keys.clone(), target_partitions),
            Partitioning::UnknownPartitioning(_) => {
                Partitioning::UnknownPartitioning(target_partitions)
            }
            // The split points fix the number of partitions.
            Partitioning::Range(_) => return Ok(None),
        };
        Ok(Some(Arc::new(self.rebuilt(Arc::clone(&self.input), partitioning)?)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.run(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [input] = input_stats else {
            return datafusion::common::internal_err!(
                "{} has one child, got {} statistics",
                self.name(),
                input_stats.len()
            );
        };
        if args.partition().is_none() {
            return Ok(Arc::clone(input));
        }
        let partitions = self.partitioning().partition_count();
        assert_or_internal_err!(partitions > 0, "{} has no output partitions", self.name());
        let share = |total: &Precision<usize>| match total.get_value() {
            Some(total) => Precision::Inexact(total / partitions),
            None => Precision::Absent,
        };
        Ok(Arc::new(Statistics {
            num_rows: share(&input.num_rows),
            total_byte_size: share(&input.total_byte_size),
            column_statistics: input
                .column_statistics
                .iter()
                .map(|_| ColumnStatistics::new_unknown())
                .collect(),
        }))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        self.swap_with_projection(projection)
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        if !keeps_order(&self.input, self.preserve_order) {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        self.input.try_pushdown_sort(order)?.try_map(|input| {
            let node = self.rebuilt(input, self.partitioning().clone())?;
            Ok(Arc::new(node) as Arc<dyn ExecutionPlan>)
        })
    }
}
