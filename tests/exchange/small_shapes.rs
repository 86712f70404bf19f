//! Nothing, one of everything, and more outputs than rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, batches, context, drain, drain_in_turn, exchange, feed,
    greedy_runtime, hash, keys, memory_plan, multiset, multisets, numbered, range,
    sorted_memory_plan, stock_and_ours,
};

fn all_partitionings(input: &Arc<dyn ExecutionPlan>, outputs: usize) -> Vec<Partitioning> {
    let points: Vec<_> = (1..outputs as i64).collect();
    vec![
        hash(input, "k", outputs),
        Partitioning::RoundRobinBatch(outputs),
        range(input, "k", SortOptions::default(), &points),
    ]
}

async fn rows_of(lists: &[Vec<RecordBatch>], outputs: usize, pool_bytes: usize) {
    let schema = numbered(0, 0).schema();
    let input = memory_plan(lists, &schema);
    let expected = multiset(lists.iter().flatten());
    for partitioning in all_partitionings(&input, outputs) {
        let (stock, ours) = stock_and_ours(&input, &partitioning, false);
        let stock = drain(&(stock as _), &ample(8192)).await.unwrap();
        let runtime = greedy_runtime(pool_bytes);
        let parts = drain_in_turn(&(ours as _), &context(&runtime, 8192)).await.unwrap();
        assert_eq!(parts.len(), outputs);
        assert_eq!(multisets(&parts), multisets(&stock));
        assert_eq!(multiset(parts.iter().flatten()), expected);
        assert!(parts.iter().flatten().all(|batch| batch.num_rows() > 0));
        assert_nothing_left(&runtime);
    }
}

#[rstest]
#[case::no_batches(vec![vec![]])]
#[case::inputs_without_batches(vec![vec![], vec![], vec![]])]
#[case::empty_batches(vec![vec![numbered(0, 0); 3], vec![numbered(0, 0)]])]
#[case::one_row(vec![vec![numbered(7, 1)]])]
#[case::one_row_and_an_empty_input(vec![vec![], vec![numbered(7, 1)]])]
#[case::rows_between_empty_batches(vec![vec![numbered(0, 0), numbered(0, 3), numbered(0, 0), numbered(3, 2)]])]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows(
    #[case] lists: Vec<Vec<RecordBatch>>,
    #[values(1, 2, 64)] outputs: usize,
    #[values(1 << 30, 1)] pool_bytes: usize,
) {
    rows_of(&lists, outputs, pool_bytes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_input_and_one_output_pass_rows_in_order() {
    let list: Vec<_> = (0..50).map(|batch| numbered(batch * 333, 333)).collect();
    for pool_bytes in [1 << 30, 1] {
        let input = memory_plan(std::slice::from_ref(&list), &list[0].schema());
        for partitioning in all_partitionings(&input, 1) {
            let plan = exchange(Arc::clone(&input), partitioning, IFileOptions::default());
            let runtime = greedy_runtime(pool_bytes);
            let parts = drain(&plan, &context(&runtime, 1000)).await.unwrap();
            assert_eq!(keys(&parts[0]), (0..50 * 333).collect::<Vec<_>>());
            assert_nothing_left(&runtime);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_outputs() {
    let list: Vec<_> = (0..20).map(|batch| numbered(batch * 500, 500)).collect();
    for pool_bytes in [1 << 30, 1] {
        rows_of(&[list[..7].to_vec(), list[7..].to_vec()], 1000, pool_bytes).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_of_nothing_and_of_empty_inputs() {
    let schema = numbered(0, 0).schema();
    for lists in [
        vec![vec![], vec![]],
        vec![vec![numbered(0, 0)], vec![]],
        vec![vec![], vec![numbered(0, 100)], vec![numbered(0, 0), numbered(50, 20)]],
    ] {
        let input = sorted_memory_plan(&lists, &schema);
        let partitioning = hash(&input, "k", 4);
        let node =
            IFileRepartitionExec::try_new(input, partitioning, IFileOptions::default()).unwrap();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(node.with_preserve_order());
        let parts = drain(&plan, &ample(8192)).await.unwrap();
        assert!(parts.iter().all(|part| keys(part).is_sorted()));
        assert_eq!(multiset(parts.iter().flatten()), multiset(lists.iter().flatten()));
    }
}

#[tokio::test]
async fn without_inputs_every_output_ends() {
    let (input, _) = feed(&numbered(0, 0).schema(), vec![]);
    let partitioning = hash(&input, "k", 3);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let parts = drain(&plan, &ample(8192)).await.unwrap();
    assert_eq!(parts, vec![Vec::<RecordBatch>::new(); 3]);
}

#[tokio::test]
async fn no_outputs_is_an_error_or_nothing() {
    let (input, _) = feed(&numbered(0, 0).schema(), vec![batches(vec![Ok(numbered(0, 5))])]);
    let plan = exchange(input, Partitioning::RoundRobinBatch(0), IFileOptions::default());
    assert!(plan.execute(0, ample(8192)).is_err());
}

#[tokio::test]
async fn an_unknown_partitioning_is_an_error_of_every_output() {
    let (input, _) = feed(&numbered(0, 0).schema(), vec![batches(vec![Ok(numbered(0, 5))])]);
    let plan = exchange(input, Partitioning::UnknownPartitioning(3), IFileOptions::default());
    let error = drain_in_turn(&plan, &ample(8192)).await.unwrap_err().to_string();
    assert!(error.contains("UnknownPartitioning"), "{error}");
}
