//! A session that serves many queries, all of which spill, holds no more after the last than after the
//! first.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use super::support::{config, ifile_state, run, with_table};

/// All files below `directory`.
fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap());
    let count = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => files(&entry.path()),
        false => 1,
    };
    entries.map(count).sum()
}

fn descriptors_below(directory: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    targets.filter(|target| target.starts_with(directory)).count()
}

fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// An exchange has a hundredth of the pool, in which no query fits; the others have the rest.
async fn with_little_memory(context: &SessionContext) {
    run(context, "SET ifile.memory_share = 0.01").await;
    // As much is held beyond that.
    run(context, "SET ifile.block_bytes = '16KB'").await;
    run(context, "SET datafusion.execution.sort_spill_reservation_bytes = 65536").await;
}

#[test]
fn a_thousand_queries_leak_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let mode = DiskManagerMode::Directories(vec![directory.path().join("managed")]);
    let pool = Arc::new(GreedyMemoryPool::new(8 << 20));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
        .build();
    let runtime = Arc::new(runtime.unwrap());
    let context = SessionContext::new_with_state(ifile_state(config(), Arc::clone(&runtime)));
    with_table(&context);
    let own = directory.path().join("own").display().to_string();
    let mut after_a_hundred = 0;
    tokio.block_on(async {
        with_little_memory(&context).await;
        for number in 0..1000 {
            let dirs = if number % 2 == 0 { "" } else { own.as_str() };
            run(&context, &format!("SET ifile.scratch_dirs = '{dirs}'")).await;
            let sql = "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY g) FROM t";
            if number % 5 == 4 {
                // One in five is dropped on its way.
                let mut stream = context.sql(sql).await.unwrap().execute_stream().await.unwrap();
                for _ in 0..number % 7 {
                    let Some(batch) = stream.next().await else { break };
                    assert!(batch.unwrap().num_rows() > 0);
                }
            } else {
                let batches = run(&context, sql).await;
                assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 30_000);
            }
            if number == 100 {
                after_a_hundred = status("VmRSS");
            }
        }
    });
    let threads = status("Threads");
    drop((context, tokio));
    assert_eq!(runtime.memory_pool.reserved(), 0);
    let progress = runtime.disk_manager.spilling_progress();
    assert_eq!((progress.current_bytes, progress.active_files_count), (0, 0));
    assert_eq!(files(directory.path()), 0);
    assert_eq!(descriptors_below(directory.path()), 0);
    let grown = status("VmRSS").saturating_sub(after_a_hundred);
    assert!(grown < 64 * 1024, "{grown} KiB more resident memory than after a hundred queries");
    // Those of this test, of the others of this binary, and of the harness.
    assert!(threads < 64, "{threads} threads");
}

/// That the queries of the test above spill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queries_spill() {
    use super::support::physical_plan;
    let pool = Arc::new(GreedyMemoryPool::new(8 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap();
    let context = SessionContext::new_with_state(ifile_state(config(), Arc::new(runtime)));
    with_table(&context);
    with_little_memory(&context).await;
    let sql = "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY g) FROM t";
    let plan = physical_plan(&context, sql).await;
    datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let mut spills = 0;
    let mut nodes = vec![plan];
    while let Some(node) = nodes.pop() {
        if node.name() == "IFileRepartitionExec" {
            let metrics = node.metrics().unwrap();
            spills += metrics.spill_count().unwrap();
        }
        nodes.extend(node.children().into_iter().cloned());
    }
    assert!(spills > 0);
}
