//! Few distinct keys, small batches and a small pool: it ends, and every row arrives.
//! (DataFusion 24883, delta-rs 4614)

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    assert_nothing_left, context, drain, exchange, fair_runtime, greedy_runtime, hash, memory_plan,
    mixed, multiset, within,
};

fn grouped(start: i64, rows: i64, groups: i64, texts: i64) -> RecordBatch {
    let numbers = start..start + rows;
    let ids = numbers.clone().map(|v| format!("{:016x}", mixed((v % texts).cast_unsigned())));
    let columns: [(&str, ArrayRef); 2] = [
        ("g", Arc::new(Int64Array::from_iter_values(numbers.map(|v| v % groups)))),
        ("id", Arc::new(StringArray::from_iter_values(ids))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[rstest]
#[case::as_reported(13, 337, 2, 64, 2 << 20)]
#[case::a_pool_of_64_kb(13, 337, 2, 64, 64 << 10)]
#[case::no_pool_at_all(13, 337, 5, 64, 1)]
#[case::one_group(1, 337, 4, 64, 256 << 10)]
#[case::groups_are_rows(40_000, 40_000, 3, 1000, 256 << 10)]
#[case::one_batch_per_output(13, 337, 2, 100_000, 512 << 10)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_arrives(
    #[case] groups: i64,
    #[case] texts: i64,
    #[case] outputs: usize,
    #[case] batch_rows: usize,
    #[case] pool_bytes: usize,
) {
    let batches: Vec<_> = (0..625).map(|batch| grouped(batch * 64, 64, groups, texts)).collect();
    let expected = multiset(&batches);
    assert_eq!(expected.len(), 40_000);
    let schema = batches[0].schema();
    let (left, right) = batches.split_at(batches.len() / 2);
    let inputs = [left.to_vec(), right.to_vec()];
    for run in 0..12 {
        let runtime =
            if run % 2 == 0 { fair_runtime(pool_bytes) } else { greedy_runtime(pool_bytes) };
        let input = memory_plan(&inputs, &schema);
        let partitioning = hash(&input, "g", outputs);
        let plan = exchange(input, partitioning, IFileOptions::default());
        let parts = within(20, drain(&plan, &context(&runtime, batch_rows))).await.unwrap();
        assert_eq!(multiset(parts.iter().flatten()), expected, "run {run}");
        drop((plan, parts));
        assert_nothing_left(&runtime);
    }
}
