//! A write of DataFusion's spill files that fails leaves its length in the disk manager's used bytes. A map task leaves that
//! of one such write, and nothing else.

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_ifile::map_output::IndexLayout;

use crate::child::{left_by_stock, run_with_short_files};
use crate::disk::{Factory, Fault, FaultyDisk};
use crate::support::*;

/// What a map task over `disk` leaves.
async fn left_by_a_task(disk: datafusion::execution::disk_manager::DiskManagerBuilder) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let pool = Arc::new(datafusion::execution::memory_pool::GreedyMemoryPool::new(3 << 20));
    let builder = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
    let runtime: Arc<RuntimeEnv> = builder.build_arc().unwrap();
    let write_to = write_to(directory.path(), 0, IndexLayout::IFile);
    let context = context(&runtime, 1000);
    let written = try_write(input(400_000, 1, 2000), hash(20), write_to, &context).await;
    let message = written.err().unwrap().to_string();
    assert!(message.contains("File too large"), "{message}");
    assert!(message.contains("partition") && message.contains("offset"), "{message}");
    released(&runtime).await;
    assert_eq!(files(directory.path()).len(), 0);
    runtime.disk_manager.used_disk_space()
}

#[tokio::test]
#[ignore = "run by a_map_task_leaves_one_write"]
async fn a_map_task_with_short_files() {
    let directory = tempfile::tempdir().unwrap();
    let seen = FaultyDisk::new(Fault::None, Some(directory.path().to_owned()), false);
    let factory = Arc::new(Factory(Arc::clone(&seen)));
    assert_eq!(left_by_a_task(DiskManager::builder().with_temp_file_factory(factory)).await, 0);
    let last_write = seen.last_write_bytes();
    assert!(last_write > 0);
    let left = left_by_a_task(DiskManager::builder()).await;
    assert_eq!(left, last_write as u64);
    assert_eq!(left, left_by_stock(last_write));
}

#[test]
fn a_map_task_leaves_one_write() {
    let test = "a_failed_write_leaves_what_stock_leaves::a_map_task_with_short_files";
    run_with_short_files(test, "");
}
