//! With `preserve_order` every output is sorted as the inputs are, with much memory and with little.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::SortOptions;
use datafusion::common::DataFusionError;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, context, drain, drain_in_turn, fair_runtime, greedy_runtime, hash,
    keys, metric, mixed, multisets, nothing_left_soon, numbered, range, sorted_memory_plan,
    stock_and_ours,
};

/// Input `input` of `inputs`: 60 batches of ascending numbers, some of them in several inputs.
fn sorted_input(input: i64, batches: i64) -> Vec<RecordBatch> {
    let step = |batch: i64| (mixed((input * 1000 + batch).cast_unsigned()) % 800).cast_signed();
    let batch = |batch: i64| numbered(batch * 2000 + step(batch), 1000);
    (0..batches).map(batch).collect()
}

fn assert_sorted(parts: &[Vec<RecordBatch>]) {
    for part in parts {
        assert!(keys(part).is_sorted());
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_sorted_and_have_the_stock_nodes_rows(
    #[values("hash", "round robin", "range")] scheme: &str,
    #[values(2, 4, 9)] inputs: i64,
    #[values(1, 4)] outputs: usize,
    #[values(8192, 100)] batch_rows: usize,
) {
    let lists: Vec<_> = (0..inputs).map(|input| sorted_input(input, 20)).collect();
    let input = sorted_memory_plan(&lists, &lists[0][0].schema());
    let partitioning = match scheme {
        "hash" => hash(&input, "k", outputs),
        "range" => {
            let points: Vec<_> = (1..outputs as i64).map(|point| point * 10_000).collect();
            range(&input, "k", SortOptions::default(), &points)
        }
        _ => Partitioning::RoundRobinBatch(outputs),
    };
    let (stock, ours) = stock_and_ours(&input, &partitioning, true);
    assert!(ours.preserve_order());
    assert_eq!(ours.properties().output_ordering(), input.output_ordering());
    let expected = multisets(&drain(&(stock as _), &ample(batch_rows)).await.unwrap());
    let parts = drain(&(ours as _), &ample(batch_rows)).await.unwrap();
    assert_sorted(&parts);
    assert_eq!(multisets(&parts), expected);
}

#[rstest]
#[case::four_by_four(4, 4, 60)]
#[case::one_output(4, 1, 60)]
#[case::many_inputs(16, 3, 30)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_spilling(
    #[case] inputs: i64,
    #[case] outputs: usize,
    #[case] batches: i64,
    #[values(1 << 20, 256 << 10)] pool_bytes: usize,
    #[values(false, true)] fair: bool,
    #[values(false, true)] in_turn: bool,
) {
    let lists: Vec<_> = (0..inputs).map(|input| sorted_input(input, batches)).collect();
    let input = sorted_memory_plan(&lists, &lists[0][0].schema());
    let partitioning = hash(&input, "k", outputs);
    let (stock, ours) = stock_and_ours(&input, &partitioning, true);
    let expected = multisets(&drain(&(stock as _), &ample(1024)).await.unwrap());
    let runtime = if fair { fair_runtime(pool_bytes) } else { greedy_runtime(pool_bytes) };
    let context = context(&runtime, 1024);
    let plan = ours as _;
    let parts = match in_turn {
        true => drain_in_turn(&plan, &context).await.unwrap(),
        false => drain(&plan, &context).await.unwrap(),
    };
    assert_sorted(&parts);
    assert_eq!(multisets(&parts), expected);
    if in_turn && outputs > 1 {
        assert!(metric(&plan, "encoded_rows") > 0, "it had memory enough");
    }
    drop(plan);
    assert_nothing_left(&runtime);
}

/// A merge holds a row of each input at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_too_large_for_a_merge_are_one_clear_error() {
    let wide = |k: i64| {
        let columns: [(&str, ArrayRef); 2] = [
            ("k", Arc::new(Int64Array::from(vec![k]))),
            ("s", Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let lists: Vec<Vec<_>> =
        (0..8).map(|input| (0..4).map(|k| wide(8 * k + input)).collect()).collect();
    let input = sorted_memory_plan(&lists, &lists[0][0].schema());
    for (pool_bytes, fits) in [(1, false), (256 << 20, true)] {
        let (_, ours) = stock_and_ours(&input, &hash(&input, "k", 1), true);
        let plan = ours as _;
        let runtime = greedy_runtime(pool_bytes);
        let outcome = drain(&plan, &context(&runtime, 8192)).await;
        if fits {
            assert_eq!(keys(&outcome.unwrap()[0]), (0..32).collect::<Vec<_>>());
        } else {
            let error = outcome.unwrap_err();
            assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)));
            let message = error.to_string();
            assert!(message.contains("IFileRepartitionExec[Merge 0]"), "{message}");
            assert!(message.contains("batches it merges"), "{message}");
        }
        drop(plan);
        nothing_left_soon(&runtime).await;
    }
}
