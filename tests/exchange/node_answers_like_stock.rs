//! What the planner asks of the node: the answers are those of the stock node.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};

use super::support::{
    batches, hash, memory_plan, noise, numbered, order_by, ordered_feed, range, sorted_memory_plan,
    stock_and_ours, unbounded_feed,
};

/// Inputs of all kinds: one and several partitions, sorted, with constants, unbounded.
fn inputs() -> Vec<Arc<dyn ExecutionPlan>> {
    let list =
        |input: i64| (0..3).map(|b| numbered((input * 3 + b) * 100, 100)).collect::<Vec<_>>();
    let schema = numbered(0, 0).schema();
    let order = || order_by("k", &schema, SortOptions::default());
    let make = || batches(list(0).into_iter().map(Ok).collect());
    vec![
        memory_plan(&[list(0)], &schema),
        memory_plan(&[list(0), list(1), vec![]], &schema),
        sorted_memory_plan(&[list(0)], &schema),
        sorted_memory_plan(&[list(0), list(1)], &schema),
        ordered_feed(&schema, vec![make(), make()], order()).0,
        unbounded_feed(&schema, vec![make(), make()]),
    ]
}

fn partitionings(input: &Arc<dyn ExecutionPlan>) -> Vec<Partitioning> {
    vec![
        hash(input, "k", 4),
        hash(input, "s", 1),
        Partitioning::Hash(
            vec![col("s", &input.schema()).unwrap(), col("k", &input.schema()).unwrap()],
            7,
        ),
        Partitioning::RoundRobinBatch(3),
        range(input, "k", SortOptions::default(), &[10, 20]),
    ]
}

/// Calls `check` with the stock node, ours made out of it, and ours made on its own.
fn for_all(check: impl Fn(&dyn ExecutionPlan, &dyn ExecutionPlan)) {
    for input in inputs() {
        for partitioning in partitionings(&input) {
            for preserve_order in [false, true] {
                let (stock, ours) = stock_and_ours(&input, &partitioning, preserve_order);
                check(stock.as_ref(), ours.as_ref());
                let options = IFileOptions::default();
                let own = IFileRepartitionExec::try_new(
                    Arc::clone(&input),
                    partitioning.clone(),
                    options,
                )
                .unwrap();
                let own = if preserve_order { own.with_preserve_order() } else { own };
                check(stock.as_ref(), &own);
            }
        }
    }
}

#[test]
fn properties() {
    for_all(|stock, ours| {
        let (stock, ours) = (stock.properties(), ours.properties());
        assert_eq!(ours.partitioning, stock.partitioning);
        assert_eq!(ours.output_ordering(), stock.output_ordering());
        assert_eq!(ours.emission_type, stock.emission_type);
        assert_eq!(ours.boundedness, stock.boundedness);
        assert_eq!(ours.evaluation_type, stock.evaluation_type);
        assert_eq!(ours.scheduling_type, stock.scheduling_type);
        assert_eq!(ours.eq_properties.to_string(), stock.eq_properties.to_string());
    });
}

#[test]
fn the_stock_nodes_properties_are_shared() {
    for input in inputs() {
        for partitioning in partitionings(&input) {
            let (stock, ours) = stock_and_ours(&input, &partitioning, true);
            assert!(Arc::ptr_eq(stock.properties(), ours.properties()));
            assert_eq!(ours.preserve_order(), stock.preserve_order());
            assert_eq!(ours.partitioning(), stock.partitioning());
            assert!(Arc::ptr_eq(ours.input(), stock.input()));
        }
    }
}

#[test]
fn order_and_distribution() {
    for_all(|stock, ours| {
        assert_eq!(ours.maintains_input_order(), stock.maintains_input_order());
        assert_eq!(
            ours.benefits_from_input_partitioning(),
            stock.benefits_from_input_partitioning()
        );
        assert_eq!(ours.required_input_ordering().len(), stock.required_input_ordering().len());
        assert!(ours.required_input_ordering().iter().all(Option::is_none));
        assert_eq!(
            format!("{:?}", ours.input_distribution_requirements()),
            format!("{:?}", stock.input_distribution_requirements())
        );
        assert_eq!(ours.supports_limit_pushdown(), stock.supports_limit_pushdown());
        assert_eq!(ours.fetch(), stock.fetch());
        assert!(matches!(ours.cardinality_effect(), CardinalityEffect::Equal));
        assert!(matches!(stock.cardinality_effect(), CardinalityEffect::Equal));
    });
}

#[test]
fn statistics() {
    for_all(|stock, ours| {
        let outputs = stock.output_partitioning().partition_count();
        for partition in (0..outputs).map(Some).chain([None]) {
            let args = StatisticsArgs::new().with_partition(partition);
            let expected = StatisticsContext::new().compute(stock, &args).unwrap();
            let got = StatisticsContext::new().compute(ours, &args).unwrap();
            assert_eq!(got, expected);
        }
        let beyond = StatisticsArgs::new().with_partition(Some(outputs));
        assert!(StatisticsContext::new().compute(ours, &beyond).is_err());
    });
}

#[test]
fn statistics_of_known_rows() {
    let batches: Vec<_> = (0..4).map(|batch| noise(batch * 100, 100, 2)).collect();
    let input = memory_plan(&[batches.clone(), batches], &noise(0, 0, 2).schema());
    let (_, ours) = stock_and_ours(&input, &hash(&input, "k", 3), false);
    let rows = |partition| {
        let args = StatisticsArgs::new().with_partition(partition);
        StatisticsContext::new().compute(ours.as_ref(), &args).unwrap().num_rows
    };
    use datafusion::common::stats::Precision;
    assert_eq!(rows(None), Precision::Exact(800));
    assert_eq!(rows(Some(2)), Precision::Inexact(266));
}

fn expressions(plan: &dyn ExecutionPlan) -> Vec<String> {
    let mut seen = Vec::new();
    let mut visit = |expr: &Arc<dyn PhysicalExpr>| -> Result<TreeNodeRecursion> {
        seen.push(expr.to_string());
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_expressions(&mut visit).unwrap();
    seen
}

#[test]
fn keys_are_visited() {
    for_all(|stock, ours| assert_eq!(expressions(ours), expressions(stock)));
    let input = memory_plan(&[vec![]], &numbered(0, 0).schema());
    let visited =
        |partitioning| expressions(stock_and_ours(&input, &partitioning, false).1.as_ref());
    let schema = input.schema();
    let keys = ["s", "k"].map(|key| col(key, &schema).unwrap());
    assert_eq!(visited(Partitioning::Hash(keys.to_vec(), 3)), ["s@1", "k@0"]);
    assert_eq!(visited(range(&input, "k", SortOptions::default(), &[5])), ["k@0"]);
    assert_eq!(visited(Partitioning::RoundRobinBatch(3)), Vec::<String>::new());
}

/// A delegate would be encoded in its place: the stock node in place of ours.
#[test]
fn there_is_no_delegate() {
    for_all(|_, ours| assert!(ours.downcast_delegate().is_none()));
}

#[test]
fn a_visit_can_stop() {
    let input = memory_plan(&[vec![]], &numbered(0, 0).schema());
    let keys = ["s", "k"].map(|key| col(key, &input.schema()).unwrap());
    let (stock, ours) = stock_and_ours(&input, &Partitioning::Hash(keys.to_vec(), 3), false);
    let visits = |plan: &dyn ExecutionPlan| {
        let mut count = 0;
        plan.apply_expressions(&mut |_| {
            count += 1;
            Ok(TreeNodeRecursion::Stop)
        })
        .unwrap();
        count
    };
    assert_eq!(visits(ours.as_ref()), visits(stock.as_ref()));
    assert_eq!(visits(ours.as_ref()), 1);
}

#[test]
fn other_partition_counts() {
    let config = ConfigOptions::default();
    for_all(|stock, ours| {
        for target in [1, 9] {
            let stock = stock.repartitioned(target, &config).unwrap();
            let ours = ours.repartitioned(target, &config).unwrap();
            assert_eq!(ours.is_some(), stock.is_some());
            let (Some(ours), Some(stock)) = (ours, stock) else { continue };
            assert_eq!(ours.name(), "IFileRepartitionExec");
            assert_eq!(ours.output_partitioning(), stock.output_partitioning());
            assert_eq!(ours.output_ordering(), stock.output_ordering());
            assert_eq!(ours.maintains_input_order(), stock.maintains_input_order());
        }
    });
}
