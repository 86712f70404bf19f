//! Sessions, tables and plans that the tests share.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::SessionStateBuilderExt;

pub(crate) fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(4).with_information_schema(true)
}

pub(crate) fn stock_state(config: SessionConfig) -> SessionState {
    SessionStateBuilder::new().with_config(config).with_default_features().build()
}

pub(crate) fn ifile_state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_ifile()
        .build()
}

/// A session with the exchange, and one without.
pub(crate) fn sessions(config: SessionConfig) -> [SessionContext; 2] {
    let ours = ifile_state(config.clone(), Arc::new(RuntimeEnv::default()));
    [ours, stock_state(config)].map(SessionContext::new_with_state)
}

pub(crate) fn session() -> SessionContext {
    SessionContext::new_with_state(ifile_state(config(), Arc::new(RuntimeEnv::default())))
}

/// Rows `start..start + rows` of `k`, a group `g` of 100, and a text `s`.
pub(crate) fn rows(start: i64, rows: i64) -> RecordBatch {
    let numbers = start..start + rows;
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("g", Arc::new(Int64Array::from_iter_values(numbers.clone().map(|k| k % 100)))),
        ("s", Arc::new(StringArray::from_iter_values(numbers.map(|k| format!("text {k}"))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Registers table `t` with 20,000 rows in three partitions.
pub(crate) fn with_table(context: &SessionContext) {
    let partitions = (0..3i64)
        .map(|part| (0..10).map(|batch| rows(part * 10_000 + batch * 1000, 1000)).collect())
        .collect();
    let table = MemTable::try_new(rows(0, 0).schema(), partitions).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
}

pub(crate) async fn physical_plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// How many nodes of a name a plan has.
pub(crate) fn count(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let mut count = 0;
    plan.apply(|node| {
        count += usize::from(node.name() == name);
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    count
}

/// Numbers of our and of stock exchanges in a plan.
pub(crate) fn exchanges(plan: &Arc<dyn ExecutionPlan>) -> (usize, usize) {
    (count(plan, "IFileRepartitionExec"), count(plan, "RepartitionExec"))
}

pub(crate) fn text_of(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

pub(crate) async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let work = async { context.sql(sql).await.unwrap().collect().await.unwrap() };
    tokio::time::timeout(std::time::Duration::from_secs(60), work).await.expect("no hang")
}

/// The answer as text, its rows sorted where the query does not.
pub(crate) async fn answer(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = run(context, sql).await;
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
