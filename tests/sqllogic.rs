//! The files of `sql/slt` with the exchange off, on, and on in a pool that is far too small: the same
//! answers, which an engine of another kind has given.
//!
//! A record that depends on the exchange names the labels `off`, `on` or `tiny`.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::MemTable;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use datafusion_ifile::SessionStateBuilderExt;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

#[path = "queries/pool.rs"]
mod pool;

const TINY_BYTES: usize = 8 << 10;

/// Rows of the sorted table, in so many partitions.
const SORTED_ROWS: i64 = 6_000;
const SORTED_PARTITIONS: i64 = 3;

struct Session {
    context: SessionContext,
    spills: Arc<AtomicUsize>,
}

impl Session {
    fn new(label: &str, spills: Arc<AtomicUsize>) -> Self {
        let config = SessionConfig::new()
            .with_target_partitions(4)
            .with_batch_size(512)
            .with_information_schema(true);
        let mut runtime = RuntimeEnvBuilder::new();
        if label == "tiny" {
            runtime = runtime.with_memory_pool(Arc::new(pool::ExchangeLimitPool::new(TINY_BYTES)));
        }
        let mut builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime.build_arc().unwrap())
            .with_default_features()
            .with_ifile();
        let options = builder.config().get_or_insert_default().options_mut();
        options.set("ifile.enabled", if label == "off" { "false" } else { "true" }).unwrap();
        // What an exchange holds when it is refused everything goes by the size of a block.
        options.set("ifile.block_bytes", "4KB").unwrap();
        // Small tables would be joined without an exchange.
        options.set("datafusion.optimizer.hash_join_single_partition_threshold", "0").unwrap();
        options.set("datafusion.optimizer.hash_join_single_partition_threshold_rows", "0").unwrap();
        let context = SessionContext::new_with_state(builder.build());
        context.register_table("sorted", Arc::new(sorted())).unwrap();
        Self { context, spills }
    }

    /// The rows of an answer, and how many columns it has: none for a statement.
    async fn answer(&self, sql: &str) -> Result<(Vec<Vec<String>>, usize), DataFusionError> {
        let plan = self.context.sql(sql).await?.create_physical_plan().await?;
        let columns = plan.schema().fields().len();
        let batches = collect(Arc::clone(&plan), self.context.task_ctx()).await?;
        self.spills.fetch_add(spills(plan.as_ref()), Ordering::Relaxed);
        let mut rows = Vec::new();
        for batch in &batches {
            rows.extend(texts(batch)?);
        }
        Ok(if sql.starts_with("EXPLAIN") { (exchanges(&rows), 1) } else { (rows, columns) })
    }
}

/// `k` in order in every partition, and `v` beside it.
fn sorted() -> MemTable {
    let partition = |first: i64| {
        let keys: Vec<i64> = (first..SORTED_ROWS).step_by(3).collect();
        let values = keys.iter().map(|key| key % 7).collect::<Vec<_>>();
        let columns = [
            ("k", Arc::new(Int64Array::from(keys)) as _),
            ("v", Arc::new(Int64Array::from(values)) as _),
        ];
        vec![RecordBatch::try_from_iter(columns).unwrap()]
    };
    let partitions: Vec<_> = (0..SORTED_PARTITIONS).map(partition).collect();
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).unwrap();
    table.with_sort_order(vec![vec![col("k").sort(true, false)]])
}

fn texts(batch: &RecordBatch) -> Result<Vec<Vec<String>>, DataFusionError> {
    let options = FormatOptions::new().with_null("NULL");
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let text = |column: &ArrayFormatter<'_>, row| match column.value(row).to_string() {
        text if text.is_empty() => "(empty)".to_owned(),
        text => text,
    };
    let row = |row| columns.iter().map(|column| text(column, row)).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}

/// The lines of a plan that are exchanges.
fn exchanges(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let lines = rows.iter().flatten().flat_map(|cell| cell.lines());
    let lines = lines.map(str::trim).filter(|line| line.contains("RepartitionExec"));
    lines.map(|line| vec![line.to_owned()]).collect()
}

fn spills(plan: &dyn ExecutionPlan) -> usize {
    let here = plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
    let here = if plan.name() == "IFileRepartitionExec" { here } else { 0 };
    here + plan.children().iter().map(|child| spills(child.as_ref())).sum::<usize>()
}

#[async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DataFusionError> {
        let (rows, columns) = self.answer(sql).await?;
        Ok(match columns {
            0 => DBOutput::StatementComplete(0),
            _ => DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows },
        })
    }

    async fn shutdown(&mut self) {}
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Runs every file; returns how many there were, and the spills of the exchanges.
async fn run(label: &str) -> (usize, usize) {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sql"));
    let spills = Arc::new(AtomicUsize::new(0));
    let mut faults = Vec::new();
    for file in &files {
        let mut runner = Runner::new(|| {
            let session = Session::new(label, Arc::clone(&spills));
            async { Ok(session) }
        });
        runner.add_label(label);
        if let Err(error) = runner.run_file_async(file).await {
            faults.push(error.display(false).to_string());
        }
    }
    assert!(faults.is_empty(), "{label}:\n{}", faults.join("\n"));
    (files.len(), spills.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_stock_exchange() {
    let (files, spills) = run("off").await;
    assert!(files >= 8, "{files} files");
    assert_eq!(spills, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_ifile_exchange() {
    run("on").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_ifile_exchange_in_a_tiny_pool() {
    let (_, spills) = run("tiny").await;
    assert!(spills >= 20, "{spills} spills");
}
