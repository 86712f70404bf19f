//! Projections, filters and sorts move through the exchange as they do through the stock node.

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, not_impl_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    FilterDescription, FilterPushdownPhase, PushedDown,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    displayable,
};
use datafusion_ifile::IFileRepartitionExec;

use super::support::{
    ample, drain, hash, memory_plan, multisets, noise, order_by, range, stock_and_ours,
};

fn input(inputs: u64) -> Arc<dyn ExecutionPlan> {
    let list = |input: u64| (0..4).map(|b| noise((input * 4 + b) * 100, 100, 4)).collect();
    let lists: Vec<Vec<_>> = (0..inputs).map(list).collect();
    memory_plan(&lists, &noise(0, 0, 4).schema())
}

fn projection(input: &Arc<dyn ExecutionPlan>, columns: &[(&str, &str)]) -> ProjectionExec {
    let schema = input.schema();
    let exprs = columns.iter().map(|(column, alias)| {
        ProjectionExpr::new(col(column, &schema).unwrap(), (*alias).to_owned())
    });
    ProjectionExec::try_new(exprs.collect::<Vec<_>>(), Arc::clone(input)).unwrap()
}

/// Swaps both nodes with the same projection. `None` where neither moves.
fn swapped(
    partitioning: &Partitioning,
    columns: &[(&str, &str)],
) -> Option<(Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>)> {
    let (stock, ours) = stock_and_ours(&input(2), partitioning, false);
    let (stock, ours) = (stock as Arc<dyn ExecutionPlan>, ours as Arc<dyn ExecutionPlan>);
    let stock_swapped = stock.try_swapping_with_projection(&projection(&stock, columns)).unwrap();
    let ours_swapped = ours.try_swapping_with_projection(&projection(&ours, columns)).unwrap();
    assert_eq!(ours_swapped.is_some(), stock_swapped.is_some(), "{partitioning} {columns:?}");
    let (stock, ours) = (stock_swapped?, ours_swapped?);
    assert!(stock.downcast_ref::<RepartitionExec>().is_some());
    assert!(ours.downcast_ref::<IFileRepartitionExec>().is_some());
    Some((stock, ours))
}

#[tokio::test]
async fn projections() {
    let plan = input(1);
    let keys = |names: &[&str]| names.iter().map(|k| col(k, &plan.schema()).unwrap()).collect();
    let partitionings = [
        hash(&plan, "k", 3),
        Partitioning::Hash(keys(&["c3", "k"]), 3),
        Partitioning::RoundRobinBatch(3),
        range(&plan, "c2", SortOptions::default(), &[0, 1 << 62]),
    ];
    let narrower: [&[(&str, &str)]; 7] = [
        &[("k", "k")],
        &[("c3", "c3"), ("k", "k")],
        &[("c2", "renamed")],
        &[("c3", "c3"), ("c2", "c2"), ("k", "k")],
        &[("c1", "c1")],
        &[("k", "k"), ("c1", "c1"), ("c2", "c2"), ("c3", "c3")],
        &[("c3", "k"), ("k", "c3"), ("c2", "c2")],
    ];
    let mut moved = 0;
    for partitioning in &partitionings {
        for columns in narrower {
            let Some((stock, ours)) = swapped(partitioning, columns) else { continue };
            moved += 1;
            assert_eq!(ours.output_partitioning(), stock.output_partitioning());
            assert_eq!(ours.schema(), stock.schema());
            let child = |plan: &Arc<dyn ExecutionPlan>| {
                displayable(plan.children()[0].as_ref()).indent(true).to_string()
            };
            assert_eq!(child(&ours), child(&stock));
            let ours = multisets(&drain(&ours, &ample(8192)).await.unwrap());
            assert_eq!(ours, multisets(&drain(&stock, &ample(8192)).await.unwrap()));
        }
    }
    assert!(moved >= 12, "{moved} of 28 moved");
}

#[test]
fn projections_that_compute_stay_above() {
    let (stock, ours) = stock_and_ours(&input(2), &Partitioning::RoundRobinBatch(3), false);
    for plan in [stock as Arc<dyn ExecutionPlan>, ours as _] {
        let schema = plan.schema();
        let sum = binary(col("k", &schema).unwrap(), Operator::Plus, lit(1i64), &schema).unwrap();
        let computed = vec![ProjectionExpr::new(sum, "sum".to_owned())];
        let projection = ProjectionExec::try_new(computed, Arc::clone(&plan)).unwrap();
        assert!(plan.try_swapping_with_projection(&projection).unwrap().is_none());
    }
}

fn described(description: &FilterDescription) -> Vec<Vec<(String, bool)>> {
    let child = |filters: Vec<_>| {
        let filters: Vec<datafusion::physical_plan::filter_pushdown::PushedDownPredicate> = filters;
        let describe = |filter: datafusion::physical_plan::filter_pushdown::PushedDownPredicate| {
            (filter.predicate.to_string(), matches!(filter.discriminant, PushedDown::Yes))
        };
        filters.into_iter().map(describe).collect()
    };
    description.parent_filters().into_iter().map(child).collect()
}

#[test]
fn filters() {
    let config = ConfigOptions::default();
    let input = input(2);
    let schema = input.schema();
    let compare = |column: &str| -> Arc<dyn PhysicalExpr> {
        binary(col(column, &schema).unwrap(), Operator::Gt, lit(5i64), &schema).unwrap()
    };
    for partitioning in [hash(&input, "k", 3), Partitioning::RoundRobinBatch(3)] {
        let (stock, ours) = stock_and_ours(&input, &partitioning, false);
        for phase in [FilterPushdownPhase::Pre, FilterPushdownPhase::Post] {
            let filters = vec![compare("k"), compare("c3")];
            let gather = |plan: &dyn ExecutionPlan| -> Result<_> {
                plan.gather_filters_for_pushdown(phase, filters.clone(), &config)
            };
            let of_stock = described(&gather(stock.as_ref()).unwrap());
            let of_ours = described(&gather(ours.as_ref()).unwrap());
            assert_eq!(of_ours, of_stock);
            let all = [("k@0 > 5".to_owned(), true), ("c3@3 > 5".to_owned(), true)];
            assert_eq!(of_ours, [all]);
        }
    }
}

/// An input that can give its rows in any order: of one partition exactly, of several nearly.
#[derive(Debug)]
struct Sortable {
    properties: Arc<PlanProperties>,
    order: Option<LexOrdering>,
}

impl Sortable {
    fn new(schema: SchemaRef, partitions: usize, order: Option<LexOrdering>) -> Self {
        let equivalences = match &order {
            Some(order) => EquivalenceProperties::new_with_orderings(schema, [order.clone()]),
            None => EquivalenceProperties::new(schema),
        };
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { properties: Arc::new(properties), order }
    }
}

impl DisplayAs for Sortable {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sortable: {:?}", self.order)
    }
}

impl ExecutionPlan for Sortable {
    fn name(&self) -> &'static str {
        "Sortable"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        not_impl_err!("it is planned with only")
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let partitions = self.properties.partitioning.partition_count();
        let order = LexOrdering::new(order.to_vec());
        let inner = Arc::new(Self::new(self.schema(), partitions, order));
        Ok(match partitions {
            1 => SortOrderPushdownResult::Exact { inner },
            _ => SortOrderPushdownResult::Inexact { inner },
        })
    }
}

#[test]
fn sorts() {
    let schema = super::support::numbered(0, 0).schema();
    let order = |descending| order_by("k", &schema, SortOptions { descending, nulls_first: false });
    let kind = |result: SortOrderPushdownResult<Arc<dyn ExecutionPlan>>| match result {
        SortOrderPushdownResult::Exact { inner } => ("exact", Some(inner)),
        SortOrderPushdownResult::Inexact { inner } => ("inexact", Some(inner)),
        SortOrderPushdownResult::Unsupported => ("unsupported", None),
    };
    let mut kinds = Vec::new();
    for (partitions, sorted) in [(1, false), (1, true), (3, false), (3, true)] {
        for (descending, preserve_order) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let own = sorted.then(|| order(false));
            let input: Arc<dyn ExecutionPlan> =
                Arc::new(Sortable::new(Arc::clone(&schema), partitions, own));
            let partitioning = hash(&input, "k", 3);
            let (stock, ours) = stock_and_ours(&input, &partitioning, preserve_order);
            let wanted: Vec<_> = order(descending).into_iter().collect();
            let (stock, inner) = kind(stock.try_pushdown_sort(&wanted).unwrap());
            let (ours, our_inner) = kind(ours.try_pushdown_sort(&wanted).unwrap());
            assert_eq!(ours, stock);
            kinds.push(ours);
            let (Some(inner), Some(our_inner)) = (inner, our_inner) else { continue };
            assert_eq!(our_inner.name(), "IFileRepartitionExec");
            assert_eq!(our_inner.output_ordering(), inner.output_ordering());
            assert_eq!(our_inner.output_partitioning(), inner.output_partitioning());
            let order_of =
                |plan: &Arc<dyn ExecutionPlan>| plan.children()[0].output_ordering().cloned();
            assert_eq!(order_of(&our_inner), order_of(&inner));
            assert_eq!(order_of(&our_inner), Some(order(descending)));
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["exact", "inexact", "unsupported"]);
}
