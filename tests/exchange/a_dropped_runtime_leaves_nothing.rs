//! A runtime that goes away in the middle of a query. (DataFusion 12089)

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::IFileOptions;
use futures::StreamExt;
use rstest::rstest;
use tokio::runtime::{Builder, Runtime};

use super::support::{
    Watch, assert_nothing_left, context, exchange, feed, generated, greedy_runtime, hash, metric,
    noise, open_all,
};

struct Query {
    runtime: Arc<RuntimeEnv>,
    plan: Arc<dyn ExecutionPlan>,
    watch: Arc<Watch>,
    streams: Vec<SendableRecordBatchStream>,
}

/// An endless query that has spilled rows of its first output and gave some of the others.
fn running(tokio: &Runtime) -> Query {
    let batch = |number: usize| Some(noise(number as u64 * 4096, 4096, 2));
    let schema = noise(0, 0, 2).schema();
    let (input, watch) = feed(&schema, vec![generated(batch), generated(batch)]);
    let partitioning = hash(&input, "k", 4);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let runtime = greedy_runtime(2 << 20);
    let mut streams = open_all(&plan, &context(&runtime, 1024));
    tokio.block_on(async {
        while metric(&plan, "spill_count") < 3 {
            for stream in &mut streams[1..] {
                assert_eq!(stream.next().await.unwrap().unwrap().num_rows(), 1024);
            }
        }
    });
    assert!(runtime.disk_manager.used_disk_space() > 0);
    Query { runtime, plan, watch, streams }
}

fn tokio_runtime(threads: usize) -> Runtime {
    match threads {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap(),
    }
}

#[rstest]
fn before_its_streams(#[values(0, 1, 2)] threads: usize) {
    let tokio = tokio_runtime(threads);
    let query = running(&tokio);
    drop(tokio);
    assert_eq!(query.watch.alive(), 0);
    drop(query.streams);
    drop(query.plan);
    assert_nothing_left(&query.runtime);
}

#[rstest]
fn after_its_streams(#[values(0, 1, 2)] threads: usize) {
    let tokio = tokio_runtime(threads);
    let query = running(&tokio);
    drop(query.streams);
    drop(tokio);
    assert_eq!(query.watch.alive(), 0);
    assert_nothing_left(&query.runtime);
    drop(query.plan);
}

#[rstest]
fn together_with_tasks_that_read(#[values(0, 1, 2)] threads: usize) {
    let tokio = tokio_runtime(threads);
    let query = running(&tokio);
    for mut stream in query.streams {
        tokio.spawn(async move { while stream.next().await.is_some() {} });
    }
    let polls = query.watch.polls();
    tokio.block_on(async {
        while query.watch.polls() < polls + 10 {
            tokio::task::yield_now().await;
        }
    });
    drop(tokio);
    assert_eq!(query.watch.alive(), 0);
    drop(query.plan);
    assert_nothing_left(&query.runtime);
}
