//! Every batch of an output has the session's batch size, the last one excepted, however rows come
//! in and whether or not they were spilled.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use rstest::rstest;

use super::support::{
    Digest, assert_nothing_left, context, drain, drain_in_turn, exchange, greedy_runtime, hash,
    memory_plan, numbered, sorted_memory_plan,
};

const ROWS: i64 = 120_000;

fn cut(first: i64, rows: i64, size: i64) -> Vec<RecordBatch> {
    let starts = (first..first + rows).step_by(usize::try_from(size).unwrap());
    starts.map(|start| numbered(start, size.min(first + rows - start))).collect()
}

fn assert_sizes(parts: &[Vec<RecordBatch>], batch_rows: usize) {
    for (output, part) in parts.iter().enumerate() {
        let sizes: Vec<_> = part.iter().map(RecordBatch::num_rows).collect();
        let Some((last, full)) = sizes.split_last() else { continue };
        assert!(full.iter().all(|&size| size == batch_rows), "output {output}: {sizes:?}");
        assert!((1..=batch_rows).contains(last), "output {output}: {sizes:?}");
    }
    assert_eq!(Digest::of(parts.iter().flatten()).rows as i64, ROWS);
}

async fn sizes(plan: Arc<dyn ExecutionPlan>, batch_rows: usize, pool_bytes: usize, turn: bool) {
    let runtime = greedy_runtime(pool_bytes);
    let context = context(&runtime, batch_rows);
    let parts = match turn {
        true => drain_in_turn(&plan, &context).await.unwrap(),
        false => drain(&plan, &context).await.unwrap(),
    };
    assert_sizes(&parts, batch_rows);
    drop(plan);
    assert_nothing_left(&runtime);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_order(
    #[values(true, false)] hashed: bool,
    #[values(97, 1000, 8192, 50_000)] input_rows: i64,
    #[values(64, 1000, 8192)] batch_rows: usize,
    #[values(1 << 30, 400_000, 1)] pool_bytes: usize,
    #[values(true, false)] in_turn: bool,
) {
    let third = ROWS / 3;
    let lists = [cut(0, third, input_rows), cut(third, 2 * third, input_rows)];
    for outputs in [1, 7] {
        let input = memory_plan(&lists, &lists[0][0].schema());
        let partitioning = match hashed {
            true => hash(&input, "k", outputs),
            false => Partitioning::RoundRobinBatch(outputs),
        };
        let plan = exchange(input, partitioning, IFileOptions::default());
        sizes(plan, batch_rows, pool_bytes, in_turn).await;
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged(
    #[values(97, 8192)] input_rows: i64,
    #[values(64, 1000, 8192)] batch_rows: usize,
    #[values(1 << 30, 2 << 20)] pool_bytes: usize,
) {
    let third = ROWS / 3;
    let lists = [cut(0, third, input_rows), cut(third, 2 * third, input_rows)];
    let input = sorted_memory_plan(&lists, &lists[0][0].schema());
    let partitioning = hash(&input, "k", 5);
    let node = IFileRepartitionExec::try_new(input, partitioning, IFileOptions::default()).unwrap();
    sizes(Arc::new(node.with_preserve_order()), batch_rows, pool_bytes, false).await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_batch_reach_its_byte_limit(
    #[values(1 << 30, 1)] pool_bytes: usize,
    // Above, each output stages Arrow rows; from there on they are narrowed.
    #[values(4, 3)] narrow_outputs: usize,
) {
    let list = cut(0, ROWS, 5000);
    let input = memory_plan(std::slice::from_ref(&list), &list[0].schema());
    let partitioning = hash(&input, "k", 3);
    let options = IFileOptions { batch_bytes: 64 << 10, narrow_outputs, ..IFileOptions::default() };
    let plan = exchange(input, partitioning, options);
    let runtime = greedy_runtime(pool_bytes);
    let parts = drain_in_turn(&plan, &context(&runtime, 100_000)).await.unwrap();
    for part in &parts {
        for batch in part {
            let bytes = batch.num_rows() * 20;
            assert!(bytes <= 80 << 10, "{} rows", batch.num_rows());
        }
        let (_, full) = part.split_last().unwrap();
        assert!(full.iter().all(|batch| batch.num_rows() >= 1000), "batches became tiny");
    }
    assert_eq!(Digest::of(parts.iter().flatten()).rows as i64, ROWS);
    assert_nothing_left(&runtime);
}
