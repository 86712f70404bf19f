//! The rule swaps every exchange it can carry, and nothing else changes.

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::EmptyRecordBatchStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_ifile::{IFileOptions, IFileRepartitionExec, ReplaceRepartition, why_not};

use super::support::{answer, config, exchanges, physical_plan, sessions, text_of, with_table};

const QUERIES: [&str; 6] = [
    "SELECT g, count(*), min(s) FROM t GROUP BY g",
    "SELECT a.k, b.s FROM t a JOIN t b ON a.k = b.g WHERE b.k < 500",
    "SELECT count(DISTINCT s) FROM t",
    "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) FROM t",
    "SELECT g FROM t UNION SELECT k FROM t WHERE k < 300",
    "SELECT a.g, sum(a.k) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.k = a.g) GROUP BY a.g",
];

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]))
}

fn keys(schema: &SchemaRef, outputs: usize) -> Partitioning {
    Partitioning::Hash(vec![col("k", schema).unwrap()], outputs)
}

fn optimize(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    ReplaceRepartition.optimize(Arc::clone(plan), &ConfigOptions::default()).unwrap()
}

#[tokio::test]
async fn plans_differ_in_the_exchanges_alone() {
    let config = config()
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold", 0)
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
    let [ours, stock] = sessions(config);
    with_table(&ours);
    with_table(&stock);
    for sql in QUERIES {
        let (plan, stock_plan) =
            (physical_plan(&ours, sql).await, physical_plan(&stock, sql).await);
        let (swapped, stock_count) = (exchanges(&plan), exchanges(&stock_plan));
        assert_eq!(swapped, (stock_count.1, 0), "{sql}");
        assert!(swapped.0 > 0, "{sql}");
        let names = |plan: &Arc<dyn ExecutionPlan>| {
            let text = text_of(plan);
            let lines = text.lines().map(|line| match line.split_once("RepartitionExec:") {
                Some((before, _)) => before.replace("IFile", ""),
                None => line.to_owned(),
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(names(&plan), names(&stock_plan), "{sql}");
        assert_eq!(answer(&ours, sql).await, answer(&stock, sql).await, "{sql}");
    }
}

#[tokio::test]
async fn nodes_keep_their_properties() {
    let [_, stock] = sessions(config());
    with_table(&stock);
    for sql in QUERIES {
        let before = physical_plan(&stock, sql).await;
        let after = optimize(&before);
        let properties = |plan: &Arc<dyn ExecutionPlan>| {
            let mut all = Vec::new();
            plan.apply(|node| {
                all.push(Arc::clone(node.properties()));
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
            all
        };
        let (before, after) = (properties(&before), properties(&after));
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after.partitioning.to_string(), before.partitioning.to_string());
            assert_eq!(after.output_ordering(), before.output_ordering());
        }
    }
}

#[test]
fn the_swapped_node_has_the_stock_nodes_arc() {
    let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema()).with_partitions(3));
    let stock = Arc::new(RepartitionExec::try_new(input, keys(&schema(), 4)).unwrap());
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(CoalescePartitionsExec::new(Arc::clone(&stock) as _));
    let swapped = optimize(&plan);
    let ours = swapped.children()[0].downcast_ref::<IFileRepartitionExec>().unwrap();
    assert!(Arc::ptr_eq(ours.properties(), stock.properties()));
    assert!(Arc::ptr_eq(ours.input(), stock.input()));
}

#[test]
fn running_it_again_changes_nothing() {
    let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema()).with_partitions(3));
    let inner = RepartitionExec::try_new(input, keys(&schema(), 4)).unwrap();
    let outer =
        RepartitionExec::try_new(Arc::new(inner), Partitioning::RoundRobinBatch(2)).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::new(outer)));
    let once = optimize(&plan);
    assert_eq!(exchanges(&once), (2, 0));
    let twice = optimize(&once);
    assert!(Arc::ptr_eq(&once, &twice));
}

#[test]
fn without_exchanges_the_plan_is_the_same() {
    let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema()).with_partitions(3));
    assert!(Arc::ptr_eq(&plan, &optimize(&plan)));
}

#[test]
fn a_merging_exchange_still_merges() {
    let order: LexOrdering =
        [PhysicalSortExpr::new(col("k", &schema()).unwrap(), SortOptions::default())].into();
    let input = unbounded_or_not(schema(), false, Some(order.clone()));
    let stock = RepartitionExec::try_new(input, keys(&schema(), 4)).unwrap().with_preserve_order();
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(SortPreservingMergeExec::new(order.clone(), Arc::new(stock)));
    let swapped = optimize(&plan);
    let ours = swapped.children()[0].downcast_ref::<IFileRepartitionExec>().unwrap();
    assert!(ours.preserve_order());
    assert_eq!(ours.properties().output_ordering(), Some(&order));
    assert_eq!(swapped.output_ordering(), Some(&order));
}

#[test]
fn options_of_the_session_go_to_the_node() {
    let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema()).with_partitions(3));
    let plan: Arc<dyn ExecutionPlan> =
        Arc::new(RepartitionExec::try_new(input, keys(&schema(), 4)).unwrap());
    let options = IFileOptions { block_bytes: 4096, ..IFileOptions::default() };
    let mut config = ConfigOptions::default();
    config.extensions.insert(options.clone());
    let swapped = ReplaceRepartition.optimize(Arc::clone(&plan), &config).unwrap();
    assert_eq!(swapped.downcast_ref::<IFileRepartitionExec>().unwrap().options(), &options);
    config.extensions.insert(IFileOptions { enabled: false, ..options });
    let left = ReplaceRepartition.optimize(Arc::clone(&plan), &config).unwrap();
    assert!(Arc::ptr_eq(&left, &plan));
}

struct Nothing(SchemaRef);

impl fmt::Debug for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nothing")
    }
}

impl PartitionStream for Nothing {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        Box::pin(EmptyRecordBatchStream::new(Arc::clone(&self.0)))
    }
}

fn unbounded_or_not(
    schema: SchemaRef,
    unbounded: bool,
    order: Option<LexOrdering>,
) -> Arc<dyn ExecutionPlan> {
    let partition = || Arc::new(Nothing(Arc::clone(&schema))) as Arc<dyn PartitionStream>;
    let partitions = vec![partition(), partition()];
    Arc::new(StreamingTableExec::try_new(schema, partitions, None, order, unbounded, None).unwrap())
}

#[test]
fn an_unbounded_input_keeps_the_stock_node() {
    for (unbounded, partitioning) in [
        (true, keys(&schema(), 4)),
        (true, Partitioning::RoundRobinBatch(3)),
        (false, keys(&schema(), 4)),
    ] {
        let input = unbounded_or_not(schema(), unbounded, None);
        let stock = RepartitionExec::try_new(input, partitioning).unwrap();
        let reason = why_not(&stock);
        let plan: Arc<dyn ExecutionPlan> = Arc::new(stock);
        let after = optimize(&plan);
        if unbounded {
            let reason = reason.expect("a reason");
            assert!(reason.contains("unbounded"), "{reason}");
            assert!(Arc::ptr_eq(&after, &plan));
        } else {
            assert_eq!(reason, None);
            assert_eq!(exchanges(&after), (1, 0));
        }
    }
}

#[test]
fn an_unknown_partitioning_keeps_the_stock_node() {
    let input: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema()).with_partitions(3));
    let stock = RepartitionExec::try_new(input, Partitioning::UnknownPartitioning(4)).unwrap();
    let reason = why_not(&stock).expect("a reason");
    assert!(reason.contains("unknown partitioning"), "{reason}");
    let plan: Arc<dyn ExecutionPlan> = Arc::new(stock);
    assert!(Arc::ptr_eq(&optimize(&plan), &plan));
}
