//! Without scratch files, too little memory is one clear error. (DataFusion 18538)

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::IFileOptions;
use futures::StreamExt;

use super::support::{
    Digest, assert_nothing_left, context, drain, drain_in_turn, exchange, hash, memory_plan, noise,
    nothing_left_soon, open_all, runtime_without_disk, within,
};

fn plan(batches: u64) -> Arc<dyn ExecutionPlan> {
    let batches: Vec<_> = (0..batches).map(|batch| noise(batch * 8192, 8192, 2)).collect();
    let schema = noise(0, 0, 2).schema();
    let input = memory_plan(&[batches.clone(), batches], &schema);
    let partitioning = hash(&input, "k", 4);
    exchange(input, partitioning, IFileOptions::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_error_names_the_operator_and_the_setting() {
    for pool_bytes in [1, 64 << 10, 2 << 20] {
        let runtime = runtime_without_disk(pool_bytes);
        let plan = plan(100);
        let error = drain_in_turn(&plan, &context(&runtime, 8192)).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error:?}");
        let message = error.to_string();
        for part in ["IFileRepartitionExec", "DiskManager", "datafusion.runtime.temp_directory"] {
            assert!(message.contains(part), "{message}");
        }
        drop(plan);
        nothing_left_soon(&runtime).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_output_gets_the_error_once_and_ends() {
    let runtime = runtime_without_disk(1);
    let plan = plan(100);
    let streams = open_all(&plan, &context(&runtime, 8192));
    let mut failed = 0;
    for mut stream in streams {
        let mut errors = 0;
        while let Some(item) = within(20, stream.next()).await {
            errors += usize::from(item.is_err());
        }
        assert!(within(20, stream.next()).await.is_none());
        assert_eq!(errors, 1);
        failed += errors;
    }
    assert_eq!(failed, 4);
    nothing_left_soon(&runtime).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_enough_needs_no_files() {
    let runtime = runtime_without_disk(256 << 20);
    let parts = drain(&plan(20), &context(&runtime, 8192)).await.unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()).rows, 2 * 20 * 8192);
    assert_nothing_left(&runtime);
}
