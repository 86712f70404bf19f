use super::support::{
    assert_nothing_left, context, drain, exchange, greedy_runtime, hash, memory_plan, metric,
    numbered, sorted_keys,
};
use datafusion_ifile::IFileOptions;

const ROWS: i64 = 200_000;

async fn keeps_rows(pool_bytes: usize, outputs: usize) -> usize {
    let batches: Vec<_> = (0..ROWS / 1000).map(|batch| numbered(batch * 1000, 1000)).collect();
    let schema = batches[0].schema();
    let (left, right) = batches.split_at(batches.len() / 3);
    let input = memory_plan(&[left.to_vec(), right.to_vec()], &schema);
    let partitioning = hash(&input, "k", outputs);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let runtime = greedy_runtime(pool_bytes);
    let parts = drain(&plan, &context(&runtime, 4096)).await.unwrap();
    for part in &parts {
        let (_, full) = part.split_last().unwrap();
        assert!(full.iter().all(|batch| batch.num_rows() == 4096));
    }
    assert_eq!(sorted_keys(parts.into_iter().flatten()), (0..ROWS).collect::<Vec<_>>());
    assert_nothing_left(&runtime);
    metric(&plan, "spill_count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_memory_to_spare() {
    for outputs in [1, 2, 7] {
        assert_eq!(keeps_rows(1 << 30, outputs).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_little_memory() {
    for outputs in [2, 7, 64] {
        keeps_rows(200_000, outputs).await;
        keeps_rows(1, outputs).await;
    }
}
