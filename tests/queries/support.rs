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
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_ifile::SessionStateBuilderExt;
use tpcdsgen::config::{SessionBuilder, Table};

use crate::pool::ExchangeLimitPool;
use crate::tables;
use crate::tpch;

const SCALE: f64 = 0.01;

/// Source rows of a table at most: some do not shrink with the scale.
const MOST_ROWS: u64 = 30_000;

/// Parts of each table, so that exchanges have several inputs.
const PARTS: u64 = 3;

/// A session and what it exchanges with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exchange {
    Stock,
    /// With a codec, and so many bytes for all exchanges together.
    Ours {
        codec: &'static str,
        bytes: usize,
    },
}

/// Rows of a query, and what its exchanges spilled.
pub(crate) struct Answer {
    pub(crate) rows: RecordBatch,
    pub(crate) spills: usize,
    pub(crate) exchanges: usize,
}

type Tables = Vec<(&'static str, Arc<dyn TableProvider>)>;

static TPCH_TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let table = |name: &'static str| {
        let parts = tpch::parts(name).min(3);
        let part =
            |part| tpch::batches(name, SCALE, part, parts).map(|batch| batch.unwrap()).collect();
        let parts: Vec<Vec<RecordBatch>> = (1..=parts).map(part).collect();
        let table = MemTable::try_new(tpch::schema(name).unwrap(), parts).unwrap();
        (name, Arc::new(table) as _)
    };
    tpch::TABLES.into_iter().map(table).collect()
});

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
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
    let context = session(exchange, partitions, &TABLES)?;
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let rows = concat_batches(&plan.schema(), &batches)?;
    let mut answer = Answer { rows, spills: 0, exchanges: 0 };
    count_exchanges(plan.as_ref(), exchange, &mut answer);
    Ok(answer)
}

/// The plan of a query of `group`. Joins do without an exchange below a hundredth of the usual sizes, as the
/// tables are a hundredth of those of scale 1.
pub(crate) async fn plan(
    group: &str,
    sql: &str,
    exchange: Exchange,
) -> Result<Arc<dyn ExecutionPlan>> {
    let context = session(exchange, 8, if group == "tpch" { &TPCH_TABLES } else { &TABLES })?;
    let state = context.state_ref();
    {
        let mut state = state.write();
        let optimizer = &mut state.config_mut().options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold /= 100;
        optimizer.hash_join_single_partition_threshold_rows /= 100;
    }
    context.sql(sql).await?.create_physical_plan().await
}

fn session(exchange: Exchange, partitions: usize, tables: &Tables) -> Result<SessionContext> {
    let config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_batch_size(1_000)
        .with_sort_spill_reservation_bytes(64 * 1024);
    let mut builder = SessionStateBuilder::new().with_config(config).with_default_features();
    if let Exchange::Ours { codec, bytes } = exchange {
        let pool = Arc::new(ExchangeLimitPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        builder = builder.with_runtime_env(runtime).with_ifile();
        let config = builder.config().get_or_insert_default().options_mut();
        config.set("ifile.codec", codec)?;
        // What an exchange holds when it is refused everything goes by the size of a block.
        config.set("ifile.block_bytes", "16KB")?;
    }
    let context = SessionContext::new_with_state(builder.build());
    for (name, table) in tables {
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
