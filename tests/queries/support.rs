//! Tables in memory, queries, and sessions with and without the exchange.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::SessionStateBuilderExt;
use tpcdsgen::config::{SessionBuilder, Table};

use crate::tables;

const SCALE: f64 = 0.01;

/// Source rows of a table at most: some do not shrink with the scale.
const MOST_ROWS: u64 = 30_000;

/// Parts of each table, so that exchanges have several inputs.
const PARTS: u64 = 3;

/// A session and what it exchanges with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exchange {
    Stock,
    /// With a codec, and with a share of the pool's `POOL_BYTES`.
    Ours {
        codec: &'static str,
        memory_share: f64,
    },
}

/// What every other operator has enough of.
pub(crate) const POOL_BYTES: usize = 48 << 20;

/// Rows of a query, and what its exchanges spilled.
pub(crate) struct Answer {
    pub(crate) rows: RecordBatch,
    pub(crate) spills: usize,
    pub(crate) exchanges: usize,
}

static TABLES: LazyLock<Vec<(&'static str, Arc<dyn TableProvider>)>> = LazyLock::new(|| {
    tables::TABLES.into_iter().map(|table| (table.get_name(), generate(table))).collect()
});

fn generate(table: Table) -> Arc<dyn TableProvider> {
    let session = SessionBuilder::new().with_scale_factor(SCALE).build().unwrap();
    let rows = session.get_scaling().get_row_count(table);
    // Dates are used from the middle of their table.
    let rows =
        if matches!(table, Table::DateDim | Table::TimeDim) { rows } else { rows.min(MOST_ROWS) };
    let part = |part: u64| {
        let (first, last) = (rows * part / PARTS + 1, rows * (part + 1) / PARTS);
        tables::batches(table, session.clone(), first, last).map(|batch| batch.unwrap()).collect()
    };
    let parts: Vec<Vec<RecordBatch>> = (0..PARTS).map(part).collect();
    Arc::new(MemTable::try_new(tables::schema(table), parts).unwrap())
}

/// Name and text of every query, without the limit of its answer: where rows tie, any may be in it.
pub(crate) fn queries(group: &str) -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(group);
    let mut queries: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap().replace("\nlimit 100;", ";"))
        })
        .collect();
    queries.sort();
    queries
}

/// Runs `sql` in a fresh session.
pub(crate) async fn run(sql: &str, exchange: Exchange, partitions: usize) -> Result<Answer> {
    let context = session(exchange, partitions)?;
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let rows = concat_batches(&plan.schema(), &batches)?;
    let mut answer = Answer { rows, spills: 0, exchanges: 0 };
    count_exchanges(plan.as_ref(), exchange, &mut answer);
    Ok(answer)
}

fn session(exchange: Exchange, partitions: usize) -> Result<SessionContext> {
    let pool = Arc::new(GreedyMemoryPool::new(POOL_BYTES));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(1_000)
        .with_sort_spill_reservation_bytes(64 * 1024);
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features();
    if let Exchange::Ours { codec, memory_share } = exchange {
        builder = builder.with_ifile();
        let config = builder.config().get_or_insert_default().options_mut();
        config.set("ifile.codec", codec)?;
        config.set("ifile.memory_share", &memory_share.to_string())?;
    }
    let context = SessionContext::new_with_state(builder.build());
    for (name, table) in TABLES.iter() {
        context.register_table(*name, Arc::clone(table))?;
    }
    Ok(context)
}

fn count_exchanges(plan: &dyn ExecutionPlan, exchange: Exchange, answer: &mut Answer) {
    let name = match exchange {
        Exchange::Stock => "RepartitionExec",
        Exchange::Ours { .. } => "IFileRepartitionExec",
    };
    if plan.name() == name {
        answer.exchanges += 1;
        answer.spills += plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
    }
    for child in plan.children() {
        count_exchanges(child.as_ref(), exchange, answer);
    }
}

/// For an error that says which run it was.
pub(crate) fn context(error: DataFusionError, run: &str) -> DataFusionError {
    error.context(run.to_owned())
}
