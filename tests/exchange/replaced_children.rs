//! A node over another input, and a node whose state is reset, are nodes of their own.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, reset_plan_states,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_ifile::{Codec, IFileOptions, IFileRepartitionExec};

use super::support::{
    ample, drain, exchange, hash, memory_plan, metric, multiset, numbered, sorted_keys,
    sorted_memory_plan,
};

const KEEP: ReplaceChildrenOptions = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
const RECOMPUTE: ReplaceChildrenOptions =
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);

fn list(first: i64, batches: i64) -> Vec<RecordBatch> {
    (first..first + batches).map(|batch| numbered(batch * 100, 100)).collect()
}

fn options() -> IFileOptions {
    IFileOptions { codec: Codec::Zstd { level: 5 }, ..IFileOptions::default() }
}

fn ours(plan: &Arc<dyn ExecutionPlan>) -> &IFileRepartitionExec {
    plan.downcast_ref::<IFileRepartitionExec>().unwrap()
}

async fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<i64> {
    sorted_keys(drain(plan, &ample(8192)).await.unwrap().into_iter().flatten())
}

#[tokio::test]
async fn kept_properties_are_the_same_arc() {
    let schema = numbered(0, 0).schema();
    let input = memory_plan(&[list(0, 4), list(4, 4)], &schema);
    let partitioning = hash(&input, "k", 3);
    let plan = exchange(input, partitioning, options());
    assert_eq!(rows_of(&plan).await, (0..800).collect::<Vec<_>>());
    let other = memory_plan(&[list(100, 2), list(102, 2)], &schema);
    let replaced = Arc::clone(&plan).replace_children(vec![Arc::clone(&other)], KEEP).unwrap();
    assert!(Arc::ptr_eq(replaced.properties(), plan.properties()));
    assert!(Arc::ptr_eq(replaced.children()[0], &other));
    assert_eq!(ours(&replaced).options(), &options());
    // Fresh state, although the first node is spent, and fresh metrics.
    assert_eq!(replaced.metrics().unwrap().iter().count(), 0);
    assert_eq!(rows_of(&replaced).await, (10_000..10_400).collect::<Vec<_>>());
    assert_eq!(metric(&replaced, "output_rows"), 400);
    assert_eq!(metric(&plan, "output_rows"), 800);
}

#[tokio::test]
async fn recomputed_properties_are_those_of_the_new_input() {
    let schema = numbered(0, 0).schema();
    let unsorted = memory_plan(&[list(0, 4), list(4, 4)], &schema);
    let partitioning = hash(&unsorted, "k", 3);
    let plan = exchange(unsorted, partitioning.clone(), options());
    assert_eq!(plan.output_ordering(), None);
    let sorted = sorted_memory_plan(&[list(0, 4)], &schema);
    #[expect(deprecated, reason = "callers of the old method get the same")]
    for recompute in [true, false] {
        let plan = Arc::clone(&plan);
        let children = vec![Arc::clone(&sorted)];
        let replaced = match recompute {
            true => plan.replace_children(children, RECOMPUTE),
            false => plan.with_new_children(children),
        };
        let replaced = replaced.unwrap();
        assert_eq!(replaced.output_ordering(), sorted.output_ordering());
        assert_eq!(replaced.output_partitioning(), &partitioning);
        assert_eq!(ours(&replaced).options(), &options());
        assert_eq!(rows_of(&replaced).await, (0..400).collect::<Vec<_>>());
    }
}

#[test]
fn preserve_order_stays_where_there_is_an_order() {
    let schema = numbered(0, 0).schema();
    let sorted = sorted_memory_plan(&[list(0, 4), list(4, 4)], &schema);
    let partitioning = hash(&sorted, "k", 3);
    let node = IFileRepartitionExec::try_new(Arc::clone(&sorted), partitioning, options()).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(node.with_preserve_order());
    assert!(ours(&plan).preserve_order());
    let inputs = [
        (Arc::clone(&sorted), true),
        (sorted_memory_plan(&[list(0, 4)], &schema), false),
        (memory_plan(&[list(0, 4), list(4, 4)], &schema), false),
    ];
    for (input, preserved) in inputs {
        let replaced = Arc::clone(&plan).replace_children(vec![input], RECOMPUTE).unwrap();
        assert_eq!(ours(&replaced).preserve_order(), preserved);
    }
    let replaced = Arc::clone(&plan).replace_children(vec![sorted], KEEP).unwrap();
    assert!(ours(&replaced).preserve_order());
    assert_eq!(replaced.output_ordering(), plan.output_ordering());
}

#[test]
fn a_node_has_one_child() {
    let schema = numbered(0, 0).schema();
    let input = memory_plan(&[list(0, 4)], &schema);
    let plan = exchange(Arc::clone(&input), Partitioning::RoundRobinBatch(2), options());
    for children in [vec![], vec![Arc::clone(&input), Arc::clone(&input)]] {
        for mode in [KEEP, RECOMPUTE] {
            assert!(Arc::clone(&plan).replace_children(children.clone(), mode).is_err());
        }
        #[expect(deprecated, reason = "callers of the old method get the same")]
        let replaced = Arc::clone(&plan).with_new_children(children);
        assert!(replaced.is_err());
    }
}

#[tokio::test]
async fn a_reset_node_can_be_executed_again() {
    let batches = list(0, 4);
    let input = memory_plan(&[batches.clone(), vec![]], &batches[0].schema());
    let partitioning = hash(&input, "k", 3);
    let mut plan = exchange(input, partitioning, options());
    for _ in 0..3 {
        let parts = drain(&plan, &ample(8192)).await.unwrap();
        assert_eq!(multiset(parts.iter().flatten()), multiset(&batches));
        assert!(plan.execute(0, ample(8192)).is_err());
        let reset = Arc::clone(&plan).reset_state().unwrap();
        assert!(Arc::ptr_eq(reset.properties(), plan.properties()));
        assert_eq!(ours(&reset).options(), &options());
        plan = reset;
    }
    // As DataFusion resets whole plans.
    drain(&plan, &ample(8192)).await.unwrap();
    let plan = reset_plan_states(plan).unwrap();
    let parts = drain(&plan, &ample(8192)).await.unwrap();
    assert_eq!(multiset(parts.iter().flatten()), multiset(&batches));
}
