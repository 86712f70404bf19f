//! A write of DataFusion's spill files that fails leaves its length in the disk manager's used bytes. An exchange leaves that
//! of one such write, and nothing where its files are its own.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_ifile::IFileOptions;

use super::support::{
    argument, context, drain_in_turn, exchange, feed, generated, greedy_runtime, hash,
    left_by_stock, noise, run_with_short_files, within,
};

/// The error of a query that spills to `dirs`, or to the disk manager where there are none. It holds nothing but, maybe,
/// used bytes.
async fn failed_query(runtime: &Arc<RuntimeEnv>, dirs: &str) -> String {
    let batch = |number: usize| (number < 100).then(|| noise(number as u64 * 4096, 4096, 2));
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
    let partitioning = hash(&input, "k", 4);
    let options = IFileOptions { scratch_dirs: dirs.parse().unwrap(), ..IFileOptions::default() };
    let plan = exchange(input, partitioning, options);
    let error = drain_in_turn(&plan, &context(runtime, 1024)).await.unwrap_err();
    drop(plan);
    let progress = || runtime.disk_manager.spilling_progress();
    within(60, async {
        while runtime.memory_pool.reserved() > 0 || progress().active_files_count > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for directory in runtime.disk_manager.temp_dir_paths() {
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    }
    error.to_string()
}

/// The length in "writing 123 bytes at offset 456 of file".
fn length_of_write(message: &str) -> usize {
    let (before, _) = message.split_once(" bytes at offset ").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "run by an_exchange_leaves_one_write"]
async fn an_exchange_with_short_files() {
    let runtime = greedy_runtime(1);
    let message = failed_query(&runtime, "").await;
    assert!(message.contains("File too large") && message.contains("partitions"), "{message}");
    let len = length_of_write(&message);
    assert_eq!(runtime.disk_manager.used_disk_space(), len as u64, "{message}");
    assert_eq!(left_by_stock(len), len as u64);
}

#[test]
fn an_exchange_leaves_one_write() {
    let test = "a_failed_write_leaves_what_stock_leaves::an_exchange_with_short_files";
    run_with_short_files(test, "");
}

#[tokio::test]
#[ignore = "run by own_directories_leave_nothing"]
async fn own_directories_with_short_files() {
    let runtime = greedy_runtime(1);
    let message = failed_query(&runtime, &argument()).await;
    assert!(message.contains("File too large") && length_of_write(&message) > 0, "{message}");
    assert_eq!(runtime.disk_manager.used_disk_space(), 0);
    assert_eq!(std::fs::read_dir(argument()).unwrap().count(), 0);
}

#[test]
fn own_directories_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let test = "a_failed_write_leaves_what_stock_leaves::own_directories_with_short_files";
    run_with_short_files(test, directory.path().to_str().unwrap());
}
