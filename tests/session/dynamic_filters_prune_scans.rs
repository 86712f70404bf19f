//! Filters that joins, TopK and aggregates make while they run reach the scans below an exchange, and
//! prune as much as with the stock node.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_ifile::IFileOptions;

use super::support::{config, exchanges, rows, sessions, text_of};

const GROUP_ROWS: i64 = 1000;
const FILES: i64 = 8;
const GROUPS: i64 = 10;

/// Eight files of ten row groups of 1,000 rows each, ascending in `k`, the same rows in one file,
/// and a table of 50 rows.
fn write_tables(directory: &Path) {
    let big = directory.join("big/parts");
    std::fs::create_dir_all(&big).unwrap();
    let properties = || {
        let size = usize::try_from(GROUP_ROWS).unwrap();
        WriterProperties::builder().set_max_row_group_row_count(Some(size)).build()
    };
    let write = |path: &Path, batches: Vec<_>| {
        let file = File::create(path).unwrap();
        let schema = rows(0, 0).schema();
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties())).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.close().unwrap();
    };
    for file in 0..FILES {
        let start = |group: i64| (file * GROUPS + group) * GROUP_ROWS;
        let batches = (0..GROUPS).map(|group| rows(start(group), GROUP_ROWS)).collect();
        write(&big.join(format!("{file}.parquet")), batches);
    }
    write(&directory.join("small.parquet"), vec![rows(42_000, 50)]);
    let all = (0..FILES * GROUPS).map(|group| rows(group * GROUP_ROWS, GROUP_ROWS)).collect();
    write(&directory.join("big/whole.parquet"), all);
}

async fn register(context: &SessionContext, directory: &Path) {
    let options = ParquetReadOptions::default;
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    context.register_parquet("big", path("big/parts"), options()).await.unwrap();
    context.register_parquet("whole", path("big/whole.parquet"), options()).await.unwrap();
    context.register_parquet("small", path("small.parquet"), options()).await.unwrap();
}

/// What the scans of the large tables did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scanned {
    output_rows: usize,
    pruned_row_groups: usize,
}

fn scanned(plan: &Arc<dyn ExecutionPlan>) -> Scanned {
    let mut scanned = Scanned::default();
    plan.apply(|node| {
        let is_big = text_of(node).lines().next().is_some_and(|line| line.contains("/big/"));
        if is_big && node.children().is_empty() {
            let metrics = node.metrics().unwrap();
            scanned.output_rows += metrics.output_rows().unwrap();
            for metric in metrics.iter() {
                scanned.pruned_row_groups += match metric.value() {
                    MetricValue::PruningMetrics { name, pruning_metrics }
                        if name.contains("row_groups") =>
                    {
                        pruning_metrics.pruned()
                    }
                    MetricValue::Count { name, count } if name.contains("row_groups_pruned") => {
                        count.value()
                    }
                    _ => 0,
                };
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    scanned
}

/// The plans and the scans of a query, with our exchange and with the stock one, and the answers.
async fn both(config: SessionConfig, sql: &str) -> [(Scanned, String); 2] {
    let directory = tempfile::tempdir().unwrap();
    write_tables(directory.path());
    let mut results = Vec::new();
    for (index, context) in sessions(config).iter().enumerate() {
        register(context, directory.path()).await;
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let text = text_of(&plan);
        let exchanges = exchanges(&plan);
        assert!(text.contains("DynamicFilter"), "{text}");
        match index {
            0 => assert!(exchanges.0 > 0 && exchanges.1 == 0, "{text}"),
            _ => assert!(exchanges.0 == 0 && exchanges.1 > 0, "{text}"),
        }
        let work = collect(Arc::clone(&plan), context.task_ctx());
        let limit = std::time::Duration::from_secs(60);
        let batches = tokio::time::timeout(limit, work).await.expect("no hang").unwrap();
        let answer = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        results.push((scanned(&plan), answer));
    }
    results.try_into().unwrap()
}

const ALL_ROWS: usize = 80_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_partitioned_join() {
    let config = config()
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold", 0)
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0)
        // Each partition of the join has a filter of its own: they prune rows, not row groups.
        .set_bool("datafusion.execution.parquet.pushdown_filters", true);
    let sql = "SELECT count(*), sum(big.k) FROM small JOIN big ON small.k = big.k";
    let [(ours, our_answer), (stock, answer)] = both(config, sql).await;
    assert_eq!(our_answer, answer);
    assert!(answer.contains("| 50 "), "{answer}");
    assert_eq!(ours, stock);
    assert!(ours.output_rows < 1000, "{ours:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_join_that_collects_its_left_side() {
    // The exchange is below the join on its other side, for the group by.
    let sql = "SELECT count(*), sum(b.n) FROM small JOIN \
               (SELECT k, count(*) AS n FROM big GROUP BY k) b ON small.k = b.k";
    let [(ours, our_answer), (stock, answer)] = both(config(), sql).await;
    assert_eq!(our_answer, answer);
    assert!(answer.contains("| 50 "), "{answer}");
    assert_eq!(ours, stock);
    assert!(ours.output_rows <= 2000, "{ours:?}");
}

/// The inputs of the exchange for the group by are parts of a join that wait for each other: none of
/// them waits for its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_join_below_an_exchange_that_reads_one_input_at_a_time() {
    let mut config = config()
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold", 0)
        .set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
    let options = IFileOptions { max_active_inputs: 1, ..IFileOptions::default() };
    config.options_mut().extensions.insert(options);
    let sql =
        "SELECT big.g, count(*) FROM small JOIN big ON small.k = big.k GROUP BY big.g ORDER BY 1";
    let [(_, our_answer), (_, answer)] = both(config, sql).await;
    assert_eq!(our_answer, answer);
}

/// One reader for a file, so that there is an exchange above the scan, and a scan that looks at the
/// filter again before every row group: it does not where pages are selected.
fn one_scan() -> SessionConfig {
    config()
        .set_bool("datafusion.optimizer.repartition_file_scans", false)
        .set_bool("datafusion.execution.parquet.enable_page_index", false)
        .set_usize("datafusion.execution.batch_size", 500)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_top_k() {
    let sql = "SELECT k, s FROM whole WHERE g <> 3 ORDER BY k LIMIT 5";
    let [(ours, our_answer), (stock, answer)] = both(one_scan(), sql).await;
    assert_eq!(our_answer, answer);
    // How far the scan gets before the filter is known is a matter of time.
    assert!(stock.output_rows < ALL_ROWS, "{stock:?}");
    assert!(ours.output_rows < ALL_ROWS, "{ours:?} and with the stock node {stock:?}");
    assert!(ours.pruned_row_groups > 0, "{ours:?} and with the stock node {stock:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_aggregate() {
    let sql = "SELECT min(k) FROM whole WHERE g <> 3";
    let [(ours, our_answer), (stock, answer)] = both(one_scan(), sql).await;
    assert_eq!(our_answer, answer);
    assert!(stock.output_rows < ALL_ROWS, "{stock:?}");
    assert!(ours.output_rows < ALL_ROWS, "{ours:?} and with the stock node {stock:?}");
}
