//! Inputs, sessions and checks that the tests share.

#![allow(dead_code, unused_imports, reason = "each test binary takes what it needs")]

mod child;
mod feed;
mod pool;
mod rows;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue, SplitPoint};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect_partitioned};
use datafusion::prelude::SessionConfig;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};
use futures::{FutureExt, TryStreamExt};

pub(crate) use self::child::*;
pub(crate) use self::feed::*;
pub(crate) use self::pool::*;
pub(crate) use self::rows::*;

/// A plan over batches in memory, one list per input partition.
pub(crate) fn memory_plan(
    partitions: &[Vec<RecordBatch>],
    schema: &SchemaRef,
) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(partitions, Arc::clone(schema), None).unwrap()
}

/// The order by one column.
pub(crate) fn order_by(column: &str, schema: &SchemaRef, options: SortOptions) -> LexOrdering {
    [PhysicalSortExpr::new(col(column, schema).unwrap(), options)].into()
}

/// A plan over batches in memory whose rows are sorted by `k`.
pub(crate) fn sorted_memory_plan(
    partitions: &[Vec<RecordBatch>],
    schema: &SchemaRef,
) -> Arc<dyn ExecutionPlan> {
    let source = MemorySourceConfig::try_new(partitions, Arc::clone(schema), None).unwrap();
    let order = order_by("k", schema, SortOptions::default());
    let source = source.try_with_sort_information(vec![order]).unwrap();
    Arc::new(DataSourceExec::new(Arc::new(source)))
}

pub(crate) fn hash(input: &Arc<dyn ExecutionPlan>, key: &str, outputs: usize) -> Partitioning {
    Partitioning::Hash(vec![col(key, &input.schema()).unwrap()], outputs)
}

/// Ranges of an Int64 column that are split at `points`.
pub(crate) fn range(
    input: &Arc<dyn ExecutionPlan>,
    key: &str,
    options: SortOptions,
    points: &[i64],
) -> Partitioning {
    let points = points.iter().map(|&p| SplitPoint::new(vec![ScalarValue::Int64(Some(p))]));
    let order = order_by(key, &input.schema(), options);
    Partitioning::Range(RangePartitioning::try_new(order, points.collect()).unwrap())
}

pub(crate) fn exchange(
    input: Arc<dyn ExecutionPlan>,
    partitioning: Partitioning,
    options: IFileOptions,
) -> Arc<dyn ExecutionPlan> {
    Arc::new(IFileRepartitionExec::try_new(input, partitioning, options).unwrap())
}

/// The stock node and ours over the same input, which can be executed by both.
pub(crate) fn stock_and_ours(
    input: &Arc<dyn ExecutionPlan>,
    partitioning: &Partitioning,
    preserve_order: bool,
) -> (Arc<RepartitionExec>, Arc<IFileRepartitionExec>) {
    let mut stock = RepartitionExec::try_new(Arc::clone(input), partitioning.clone()).unwrap();
    if preserve_order {
        stock = stock.with_preserve_order();
    }
    let ours = IFileRepartitionExec::from_repartition(&stock, IFileOptions::default());
    (Arc::new(stock), Arc::new(ours))
}

pub(crate) fn context(runtime: &Arc<RuntimeEnv>, batch_rows: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(Arc::clone(runtime)))
}

/// A context without limits.
pub(crate) fn ample(batch_rows: usize) -> Arc<TaskContext> {
    context(&Arc::new(RuntimeEnv::default()), batch_rows)
}

/// What `work` gives, unless it hangs.
pub(crate) async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(seconds);
    tokio::time::timeout(limit, work).await.expect("it ends within the time that a hang exceeds")
}

/// The rows of every output, drained together.
pub(crate) async fn drain(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Vec<RecordBatch>>> {
    within(60, collect_partitioned(Arc::clone(plan), Arc::clone(context))).await
}

/// The streams of all outputs.
pub(crate) fn open_all(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Vec<SendableRecordBatchStream> {
    let outputs = plan.output_partitioning().partition_count();
    (0..outputs).map(|output| plan.execute(output, Arc::clone(context)).unwrap()).collect()
}

/// The rows of every output, one output after the other: while the first is drained, the rows of
/// all others have to be kept.
pub(crate) async fn drain_in_turn(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Vec<RecordBatch>>> {
    let mut parts = Vec::new();
    for stream in open_all(plan, context) {
        parts.push(within(60, stream.try_collect()).await?);
    }
    Ok(parts)
}

/// What is there without waiting for anything.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().expect("it is there")
}

pub(crate) fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let metrics = plan.metrics().unwrap();
    metrics.sum(|metric| metric.value().name() == name).map_or(0, |value| value.as_usize())
}

/// Nothing is reserved, and no scratch space is used, once a query is over.
pub(crate) fn assert_nothing_left(runtime: &RuntimeEnv) {
    assert_eq!(runtime.memory_pool.reserved(), 0, "reserved bytes");
    assert_no_files(runtime);
}

/// No scratch space is used, once a query is over.
pub(crate) fn assert_no_files(runtime: &RuntimeEnv) {
    assert_eq!(runtime.disk_manager.used_disk_space(), 0, "scratch bytes");
    for directory in runtime.disk_manager.temp_dir_paths() {
        let files: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
    }
}

/// Like [`assert_nothing_left`], for a query that was given up: a blocking thread may still be at a
/// read or write whose result nobody wants.
pub(crate) async fn nothing_left_soon(runtime: &RuntimeEnv) {
    within(20, async {
        while runtime.memory_pool.reserved() > 0 || runtime.disk_manager.used_disk_space() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_nothing_left(runtime);
}
