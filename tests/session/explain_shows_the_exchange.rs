//! What `EXPLAIN` and `EXPLAIN ANALYZE` say of the exchange.

use std::sync::Arc;

use arrow::array::{Array, StringArray};
use datafusion::catalog::MemTable;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionContext, col};

use super::support::{config, ifile_state, rows, run, session, with_table};

const GROUPS: &str = "SELECT s, count(*) FROM t GROUP BY s";

async fn explained(context: &SessionContext, sql: &str) -> String {
    let batches = run(context, sql).await;
    let batch = batches.last().unwrap();
    let plans = batch.column_by_name("plan").unwrap();
    let plans = plans.as_any().downcast_ref::<StringArray>().unwrap();
    plans.value(plans.len() - 1).to_owned()
}

fn exchange_lines(plan: &str) -> String {
    let lines = plan.lines().filter(|line| line.contains("RepartitionExec"));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn partitioning_codec_and_mode() {
    let context = session();
    with_table(&context);
    let plan = explained(&context, &format!("EXPLAIN FORMAT INDENT {GROUPS}")).await;
    insta::assert_snapshot!(exchange_lines(&plan), @"IFileRepartitionExec: partitioning=Hash([s@0], 4), input_partitions=4, codec=lz4, mode=fifo");
    run(&context, "SET ifile.codec = 'zstd:5'").await;
    let plan = explained(&context, &format!("EXPLAIN FORMAT INDENT {GROUPS}")).await;
    assert!(exchange_lines(&plan).contains("codec=zstd:5"), "{plan}");
}

#[tokio::test]
async fn one_sorted_input() {
    let context = session();
    with_table(&context);
    let sorted = "SELECT a.k, sum(a.c) OVER (PARTITION BY a.k ORDER BY a.g) FROM \
                  (SELECT k, g, count(*) AS c FROM t GROUP BY k, g ORDER BY k, g LIMIT 100000) a";
    let plan = explained(&context, &format!("EXPLAIN FORMAT INDENT {sorted}")).await;
    insta::assert_snapshot!(exchange_lines(&plan), @r"
    IFileRepartitionExec: partitioning=Hash([k@0], 4), input_partitions=1, codec=lz4, mode=fifo, maintains_sort_order=true
    IFileRepartitionExec: partitioning=Hash([k@0, g@1], 4), input_partitions=4, codec=lz4, mode=fifo
    ");
}

#[tokio::test]
async fn a_merge_and_its_order() {
    let context = session();
    let partitions = (0..4i64).map(|part| vec![rows(part * 500, 2000)]).collect();
    let table = MemTable::try_new(rows(0, 0).schema(), partitions).unwrap();
    let order = vec![vec![col("k").sort(true, false)]];
    context.register_table("sorted", Arc::new(table.with_sort_order(order))).unwrap();
    run(&context, "SET datafusion.optimizer.prefer_existing_sort = true").await;
    let sql = "SELECT k, sum(g) OVER (PARTITION BY k) FROM sorted";
    let plan = explained(&context, &format!("EXPLAIN FORMAT INDENT {sql}")).await;
    insta::assert_snapshot!(exchange_lines(&plan), @"IFileRepartitionExec: partitioning=Hash([k@0], 4), input_partitions=4, codec=lz4, mode=merge, preserve_order=true, sort_exprs=k@0 ASC NULLS LAST");
}

#[tokio::test]
async fn the_tree() {
    let context = session();
    with_table(&context);
    let plan = explained(&context, &format!("EXPLAIN FORMAT TREE {GROUPS}")).await;
    for part in ["IFileRepartitionExec", "partition_count(in->out)", "4 -> 4", "codec: lz4"] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_of_an_exchange() {
    let pool = Arc::new(GreedyMemoryPool::new(256 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap();
    let context = SessionContext::new_with_state(ifile_state(config(), Arc::new(runtime)));
    with_table(&context);
    let plan = explained(&context, &format!("EXPLAIN ANALYZE {GROUPS}")).await;
    let line = plan
        .lines()
        .find(|line| line.contains("IFileRepartitionExec: partitioning=Hash"))
        .unwrap_or_else(|| panic!("no exchange in {plan}"));
    for name in [
        "output_rows=",
        "elapsed_compute=",
        "fetch_time=",
        "repartition_time=",
        "spill_count=",
        "spilled_bytes=",
        "spilled_rows=",
        "spilled_raw_bytes=",
        "encode_time=",
        "write_time=",
        "read_time=",
        "decode_time=",
        "peak_reserved=",
        "rows_per_batch=",
        "refused_by_share=",
        "spills_by_pool=",
        "spill_ratio=",
        "compress_time=",
        "raw_blocks_incompressible=",
        "scratch_bytes=",
        "scratch_peak_bytes=",
        "live_peak_bytes=",
        "punched_bytes=",
    ] {
        assert!(line.contains(name), "{name} is missing in {line}");
    }
    assert!(!line.contains("peak_reserved=0"), "{line}");
}
