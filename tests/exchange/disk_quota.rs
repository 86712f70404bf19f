//! A query beyond the disk quota fails and gives back what it took. (DataFusion 24228, 24230)

use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    Digest, assert_nothing_left, context, drain_in_turn, exchange, feed, generated, hash, metric,
    noise, nothing_left_soon, runtime_with_quota,
};

#[rstest]
#[case::as_reported(1 << 20, 8192)]
#[case::no_disk_at_all(0, 8192)]
#[case::small_batches(1 << 20, 100)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_beyond_the_quota_fails_and_the_next_one_runs(
    #[case] quota: u64,
    #[case] batch_rows: usize,
) {
    let runtime = runtime_with_quota(1, quota);
    let plan = |bytes: usize| {
        let batches = bytes / (4096 * 16);
        let batch = move |number| (number < batches).then(|| noise(number as u64 * 4096, 4096, 2));
        let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
        let partitioning = hash(&input, "k", 2);
        exchange(input, partitioning, IFileOptions::default())
    };
    for _ in 0..3 {
        let error =
            drain_in_turn(&plan(16 << 20), &context(&runtime, batch_rows)).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("datafusion.runtime.max_temp_directory_size"), "{message}");
        nothing_left_soon(&runtime).await;
    }
    if quota > 0 {
        // 2.25 MB of rows, half of them for the second output: a part of them goes to disk.
        let small = plan(9 << 18);
        let parts = drain_in_turn(&small, &context(&runtime, batch_rows)).await.unwrap();
        assert_eq!(Digest::of(parts.iter().flatten()).rows, (9 << 18) / 16);
        let stored = metric(&small, "spilled_bytes");
        assert!(stored > 0, "nothing went to disk");
        assert_nothing_left(&runtime);
    }
}
