//! Others hold nearly all of the pool and input batches are larger than what is left: the exchange
//! spills and does not fail. (DataFusion 17334)

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::Partitioning;
use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    Digest, context, drain, drain_in_turn, exchange, fair_runtime, greedy_runtime, hash,
    memory_plan, metric, mixed,
};

const MB: usize = 1 << 20;

/// `rows` rows of a number and a text of `width` bytes that does not compress well.
fn wide(start: u64, rows: u64, width: usize) -> RecordBatch {
    let text = |row: u64| {
        let words = (0..width as u64 / 16).map(|word| format!("{:016x}", mixed(row * 1000 + word)));
        words.collect::<String>()
    };
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(Int64Array::from_iter_values((start..start + rows).map(u64::cast_signed)))),
        ("s", Arc::new(StringArray::from_iter_values((start..start + rows).map(text)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[rstest]
#[case::batches_of_3_mb(8192, 384, 1 << 20, 12)]
#[case::rows_of_1_mb(3, 1 << 20, 1 << 20, 12)]
#[case::nothing_is_left(8192, 384, 0, 6)]
#[case::batches_of_12_mb(8192, 1536, 1 << 20, 4)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_spills_and_does_not_fail(
    #[case] rows: u64,
    #[case] width: usize,
    #[case] free_bytes: usize,
    #[case] batches: u64,
    #[values(false, true)] round_robin: bool,
) {
    let batches: Vec<_> = (0..batches).map(|batch| wide(batch * rows, rows, width)).collect();
    let schema = batches[0].schema();
    let expected = Digest::of(&batches);
    let runtime = greedy_runtime(64 * MB);
    let other = MemoryConsumer::new("another operator").register(&runtime.memory_pool);
    other.try_grow(64 * MB - free_bytes).unwrap();
    let input = memory_plan(&[batches], &schema);
    let partitioning =
        if round_robin { Partitioning::RoundRobinBatch(3) } else { hash(&input, "k", 3) };
    let plan = exchange(input, partitioning, IFileOptions::default());
    let parts = drain_in_turn(&plan, &context(&runtime, 8192)).await.unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()), expected);
    assert!(metric(&plan, "spill_count") > 0, "it had memory enough");
    assert_eq!(runtime.memory_pool.reserved(), other.size());
    assert_eq!(runtime.disk_manager.used_disk_space(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_cannot_spill_hold_a_fair_pool() {
    let batches: Vec<_> = (0..12).map(|batch| wide(batch * 8192, 8192, 384)).collect();
    let schema = batches[0].schema();
    let expected = Digest::of(&batches);
    let runtime = fair_runtime(64 * MB);
    let other = MemoryConsumer::new("another operator").register(&runtime.memory_pool);
    other.try_grow(63 * MB).unwrap();
    let input = memory_plan(&[batches], &schema);
    let partitioning = hash(&input, "k", 3);
    let plan = exchange(input, partitioning, IFileOptions::default());
    let parts = drain(&plan, &context(&runtime, 8192)).await.unwrap();
    assert_eq!(Digest::of(parts.iter().flatten()), expected);
    assert_eq!(runtime.memory_pool.reserved(), other.size());
}
