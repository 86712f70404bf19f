//! A query that needs no more rows stops its inputs, endless ones too. (DataFusion 576, 12089)

use std::sync::Arc;
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::StreamExt;
use rstest::rstest;

use super::support::{
    Make, Watch, ample, context, exchange, feed, generated, greedy_runtime, hash, keys, noise,
    nothing_left_soon, numbered, open_all, order_by, ordered_feed, silent, within,
};

fn endless() -> Make {
    generated(|number| Some(noise(number as u64 * 1024, 1024, 2)))
}

fn plan(inputs: Vec<Make>, outputs: usize, hashed: bool) -> (Arc<dyn ExecutionPlan>, Arc<Watch>) {
    let (input, watch) = feed(&noise(0, 0, 2).schema(), inputs);
    let partitioning = match hashed {
        true => hash(&input, "k", outputs),
        false => Partitioning::RoundRobinBatch(outputs),
    };
    (exchange(input, partitioning, IFileOptions::default()), watch)
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_one_over_an_endless_input(
    #[values(1, 3)] inputs: usize,
    #[values(1 << 30, 1 << 20, 1)] pool_bytes: usize,
    #[values(true, false)] hashed: bool,
) {
    let runtime = greedy_runtime(pool_bytes);
    let (exchange, watch) = plan(vec![endless(); inputs], 8, hashed);
    let merged = Arc::new(CoalescePartitionsExec::new(exchange));
    let limited = Arc::new(GlobalLimitExec::new(merged, 0, Some(1)));
    let batches = within(20, collect(limited, context(&runtime, 8192))).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    watch.all_dropped().await;
    nothing_left_soon(&runtime).await;
}

#[tokio::test]
async fn limit_one_on_a_current_thread_runtime() {
    let runtime = greedy_runtime(1 << 20);
    let (exchange, watch) = plan(vec![endless(), endless()], 8, true);
    let merged = Arc::new(CoalescePartitionsExec::new(exchange));
    let limited = Arc::new(GlobalLimitExec::new(merged, 0, Some(1)));
    let batches = within(20, collect(limited, context(&runtime, 8192))).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    watch.all_dropped().await;
    nothing_left_soon(&runtime).await;
}

#[rstest]
#[case::endless_inputs(vec![endless(), endless()])]
#[case::an_input_that_never_answers(vec![endless(), silent()])]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_are_dropped_with_the_last_consumer(#[case] inputs: Vec<Make>) {
    let runtime = greedy_runtime(1 << 20);
    let count = inputs.len();
    let (exchange, watch) = plan(inputs, 4, true);
    let mut streams = open_all(&exchange, &context(&runtime, 512));
    for stream in &mut streams {
        let batch = within(20, stream.next()).await.unwrap().unwrap();
        assert_eq!(batch.num_rows(), 512);
    }
    let last = streams.pop().unwrap();
    drop(streams);
    assert_eq!(watch.alive(), count);
    drop(last);
    watch.all_dropped().await;
    let polls = watch.polls();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(watch.polls(), polls);
    nothing_left_soon(&runtime).await;
    drop(exchange);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_that_never_answer_are_dropped_too() {
    let (exchange, watch) = plan(vec![silent(), silent()], 3, true);
    let mut streams = open_all(&exchange, &ample(8192));
    for stream in &mut streams {
        let waits = std::future::poll_fn(|cx| Poll::Ready(stream.poll_next_unpin(cx).is_pending()));
        assert!(waits.await);
    }
    assert_eq!(watch.alive(), 2);
    drop(streams);
    watch.all_dropped().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_of_a_merge_are_dropped_too(#[values(1 << 30, 1)] pool_bytes: usize) {
    let runtime = greedy_runtime(pool_bytes);
    let sorted = || generated(|number| Some(numbered(number as i64 * 1024, 1024)));
    let schema = numbered(0, 0).schema();
    let order = order_by("k", &schema, SortOptions::default());
    let (input, watch) = ordered_feed(&schema, vec![sorted(), sorted(), sorted()], order);
    let partitioning = hash(&input, "k", 4);
    let node = IFileRepartitionExec::try_new(input, partitioning, IFileOptions::default()).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(node.with_preserve_order());
    let mut streams = open_all(&plan, &context(&runtime, 512));
    for stream in &mut streams {
        let batch = within(20, stream.next()).await.unwrap().unwrap();
        assert!(keys([&batch]).is_sorted());
    }
    drop(streams);
    watch.all_dropped().await;
    nothing_left_soon(&runtime).await;
    drop(plan);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_polled_before_an_output_is() {
    let (exchange, watch) = plan(vec![endless(), endless()], 3, true);
    let streams = open_all(&exchange, &ample(8192));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!((watch.polls(), watch.alive()), (0, 2));
    drop(streams);
    assert_eq!(watch.alive(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_do_not_read_stop_the_inputs_for_a_while() {
    let (exchange, watch) = plan(vec![endless()], 2, true);
    let mut streams = open_all(&exchange, &ample(512));
    for stream in &mut streams {
        within(20, stream.next()).await.unwrap().unwrap();
    }
    // Every output gets whole batches to keep; then the input rests.
    let mut last = watch.polls();
    within(20, async {
        let mut same = 0;
        while same < 1000 {
            tokio::task::yield_now().await;
            same = if watch.polls() == last { same + 1 } else { 0 };
            last = watch.polls();
        }
    })
    .await;
    assert!(last < 100, "{last} batches of 1024 rows for two readers that took 512 rows each");
    drop(streams);
    watch.all_dropped().await;
}
