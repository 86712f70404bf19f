//! The rows of one input keep their order, in memory and through scratch files.

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, context, drain, drain_in_turn, exchange, greedy_runtime, hash,
    keys, metric, numbered, range, rows_in_order, sorted_memory_plan, stock_and_ours,
};

fn batches() -> Vec<RecordBatch> {
    (0..400).map(|batch| numbered(batch * 1000, 1000)).collect()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn also_when_spilled(
    #[values("hash", "round robin", "range")] scheme: &str,
    #[values(1 << 30, 1 << 20, 1)] pool_bytes: usize,
    #[values(8192, 1000, 64)] batch_rows: usize,
) {
    let input = sorted_memory_plan(&[batches()], &batches()[0].schema());
    let partitioning = match scheme {
        "hash" => hash(&input, "k", 5),
        "range" => range(&input, "k", SortOptions::default(), &[50_000, 100_000, 350_000]),
        _ => Partitioning::RoundRobinBatch(5),
    };
    let (stock, ours) = stock_and_ours(&input, &partitioning, false);
    assert_eq!(ours.properties().output_ordering(), input.output_ordering());
    let expected = drain(&(stock as _), &ample(batch_rows)).await.unwrap();
    let runtime = greedy_runtime(pool_bytes);
    let plan = ours as _;
    let parts = drain_in_turn(&plan, &context(&runtime, batch_rows)).await.unwrap();
    for (part, expected) in parts.iter().zip(&expected) {
        assert!(keys(part).is_sorted());
        assert_eq!(rows_in_order(part), rows_in_order(expected));
    }
    match pool_bytes {
        1 => assert!(metric(&plan, "spill_count") > 0, "nothing was spilled"),
        1_073_741_824 => assert_eq!(metric(&plan, "encoded_rows"), 0),
        _ => {}
    }
    assert_nothing_left(&runtime);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsorted_rows_keep_their_order_too() {
    let reversed: Vec<_> = batches().into_iter().rev().collect();
    let input = super::support::memory_plan(std::slice::from_ref(&reversed), &reversed[0].schema());
    let partitioning = hash(&input, "k", 1);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let runtime = greedy_runtime(1);
    let parts = drain(&plan, &context(&runtime, 700)).await.unwrap();
    assert_eq!(keys(&parts[0]), keys(&reversed));
}
