//! Inputs, sessions and checks that the tests share.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion::prelude::SessionConfig;
use datafusion_ifile::{IFileOptions, IFileRepartitionExec};

/// A plan over batches in memory, one list per input partition.
pub(crate) fn memory_plan(
    partitions: &[Vec<RecordBatch>],
    schema: &SchemaRef,
) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(partitions, Arc::clone(schema), None).unwrap()
}

/// `rows` rows of a number `k` and a text `s` that depends on it.
pub(crate) fn numbered(start: i64, rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + rows));
    let texts =
        (start..start + rows).map(|k| format!("value {}", k.wrapping_mul(0x9E37_79B9) % 1_000_003));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    RecordBatch::try_from_iter([("k", numbers), ("s", texts)]).unwrap()
}

pub(crate) fn hash(input: &Arc<dyn ExecutionPlan>, key: &str, outputs: usize) -> Partitioning {
    Partitioning::Hash(vec![col(key, &input.schema()).unwrap()], outputs)
}

pub(crate) fn exchange(
    input: Arc<dyn ExecutionPlan>,
    partitioning: Partitioning,
    options: IFileOptions,
) -> Arc<dyn ExecutionPlan> {
    Arc::new(IFileRepartitionExec::try_new(input, partitioning, options).unwrap())
}

/// A runtime whose pool holds `bytes`.
pub(crate) fn greedy_runtime(bytes: usize) -> Arc<RuntimeEnv> {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
    Arc::new(RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap())
}

pub(crate) fn context(runtime: &Arc<RuntimeEnv>, batch_rows: usize) -> Arc<TaskContext> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(Arc::clone(runtime)))
}

/// The rows of every output, drained together.
pub(crate) async fn drain(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Vec<RecordBatch>>> {
    collect_partitioned(Arc::clone(plan), Arc::clone(context)).await
}

/// Column `k` of all rows, sorted.
pub(crate) fn sorted_keys(batches: impl IntoIterator<Item = RecordBatch>) -> Vec<i64> {
    let mut keys: Vec<i64> = batches
        .into_iter()
        .flat_map(|batch| {
            let keys = batch.column_by_name("k").unwrap();
            keys.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
        })
        .collect();
    keys.sort_unstable();
    keys
}

pub(crate) fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let metrics = plan.metrics().unwrap();
    metrics.sum(|metric| metric.value().name() == name).map_or(0, |value| value.as_usize())
}

/// Nothing is reserved, and no scratch space is used, once a query is over.
pub(crate) fn assert_nothing_left(runtime: &RuntimeEnv) {
    assert_eq!(runtime.memory_pool.reserved(), 0, "reserved bytes");
    assert_eq!(runtime.disk_manager.used_disk_space(), 0, "scratch bytes");
    for directory in runtime.disk_manager.temp_dir_paths() {
        let files: Vec<_> = std::fs::read_dir(directory).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
    }
}
