//! Sessions that run queries: in this process, or on a cluster.

use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::Result;
use crate::register::register_tables;

/// How a session runs queries on a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) partitions: usize,
    pub(crate) adaptive: bool,
    pub(crate) force_remote: bool,
    /// Tries of a fetch after the first, and how long each waits.
    pub(crate) retries: Option<(u8, Duration)>,
}

/// A session on the cluster whose scheduler is at `port`, with the tables of `tables`.
pub(crate) async fn on_cluster(
    port: u16,
    setting: Setting,
    tables: &Path,
) -> Result<SessionContext> {
    let mut config = SessionConfig::new_with_ballista()
        .with_target_partitions(setting.partitions)
        .with_ballista_adaptive_query_planner(setting.adaptive)
        .with_ballista_shuffle_reader_force_remote_read(setting.force_remote);
    if let Some((times, wait)) = setting.retries {
        let options = config.options_mut();
        options.set("ballista.client.io_retries_times", &times.to_string())?;
        options.set("ballista.client.io_retry_wait_time_ms", &wait.as_millis().to_string())?;
    }
    let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
    let context =
        SessionContext::remote_with_state(&format!("df://127.0.0.1:{port}"), state).await?;
    register_tables(&context, tables).await?;
    Ok(context)
}

/// A session of DataFusion in this process.
pub(crate) async fn in_process(partitions: usize, tables: &Path) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let context = SessionContext::new_with_config(config);
    register_tables(&context, tables).await?;
    Ok(context)
}

/// The rows of the last statement of `sql`, and how long all took.
pub(crate) async fn run(context: &SessionContext, sql: &str) -> Result<(RecordBatch, Duration)> {
    let begun = Instant::now();
    let mut rows = None;
    for statement in sql.split(';').filter(|statement| !statement.trim().is_empty()) {
        let frame = context.sql(statement).await?;
        let schema = frame.schema().inner().clone();
        let batches = frame.collect().await?;
        let schema = batches.first().map_or(schema, RecordBatch::schema);
        rows = Some(concat_batches(&schema, &batches)?);
    }
    Ok((rows.ok_or("no statement")?, begun.elapsed()))
}
