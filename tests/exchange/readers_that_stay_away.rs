//! An output that nobody reads does not stall the others, and keeps nothing once its stream is
//! gone, whether or not that was ever polled. (datafusion-distributed 482, DataFusion 21625)

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_ifile::IFileOptions;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use rstest::rstest;

use super::support::{
    Digest, ample, context, digests, drain, exchange, greedy_runtime, hash, memory_plan, noise,
    nothing_left_soon, open_all, within,
};

fn plan(outputs: usize) -> Arc<dyn ExecutionPlan> {
    let inputs: Vec<Vec<_>> = (0..2)
        .map(|input| (0..60).map(|batch| noise((input * 60 + batch) * 4096, 4096, 2)).collect())
        .collect();
    let input = memory_plan(&inputs, &inputs[0][0].schema());
    let partitioning = hash(&input, "k", outputs);
    exchange(input, partitioning, IFileOptions::default())
}

async fn expected(outputs: usize) -> Vec<Digest> {
    digests(&drain(&plan(outputs), &ample(1024)).await.unwrap())
}

async fn read_all(streams: Vec<SendableRecordBatchStream>) -> Vec<Vec<RecordBatch>> {
    let reads = streams.into_iter().map(TryStreamExt::try_collect::<Vec<_>>);
    within(20, join_all(reads)).await.into_iter().map(Result::unwrap).collect()
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_never_polled(#[values(1 << 30, 2 << 20, 1)] pool_bytes: usize) {
    let runtime = greedy_runtime(pool_bytes);
    let plan = plan(4);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    let unread = streams.remove(0);
    assert_eq!(digests(&read_all(streams).await), expected(4).await[1..]);
    drop(unread);
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_dropped_at_once(#[values(1 << 30, 2 << 20, 1)] pool_bytes: usize) {
    let runtime = greedy_runtime(pool_bytes);
    let plan = plan(4);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    drop(streams.remove(0));
    assert_eq!(digests(&read_all(streams).await), expected(4).await[1..]);
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_dropped_unpolled_while_others_are_read(
    #[values(1 << 30, 2 << 20, 1)] pool_bytes: usize,
) {
    let runtime = greedy_runtime(pool_bytes);
    let plan = plan(4);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    let unread = streams.remove(0);
    let first = within(20, streams[0].next()).await.unwrap().unwrap();
    drop(unread);
    let mut parts = read_all(streams).await;
    parts[0].insert(0, first);
    assert_eq!(digests(&parts), expected(4).await[1..]);
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_dropped_with_rows_on_their_way(
    #[values(1 << 30, 2 << 20, 1)] pool_bytes: usize,
) {
    let runtime = greedy_runtime(pool_bytes);
    let plan = plan(4);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    let mut left = streams.remove(0);
    let rows = within(20, left.next()).await.unwrap().unwrap().num_rows();
    assert_eq!(rows, 1024);
    // The second output is read while rows of the first one pile up.
    let second = streams.remove(0);
    let mut parts = read_all(vec![second]).await;
    drop(left);
    parts.extend(read_all(streams).await);
    assert_eq!(digests(&parts), expected(4).await[1..]);
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reader_of_many_outputs(#[values(1 << 30, 2 << 20, 1)] pool_bytes: usize) {
    let runtime = greedy_runtime(pool_bytes);
    let plan = plan(17);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    let last = streams.pop().unwrap();
    assert_eq!(digests(&read_all(vec![last]).await), expected(17).await[16..]);
    drop(streams);
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_that_are_never_executed_are_given_up_with_the_plan() {
    let runtime = greedy_runtime(2 << 20);
    let plan = plan(4);
    let outputs = plan.output_partitioning().partition_count();
    let last = plan.execute(outputs - 1, context(&runtime, 1024)).unwrap();
    assert_eq!(digests(&read_all(vec![last]).await), expected(4).await[3..]);
    drop(plan);
    nothing_left_soon(&runtime).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_polls() {
    let runtime = greedy_runtime(2 << 20);
    let plan = plan(4);
    drop(open_all(&plan, &context(&runtime, 1024)));
    assert_eq!(runtime.memory_pool.reserved(), 0);
    nothing_left_soon(&runtime).await;
    drop(plan);
}
