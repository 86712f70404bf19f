//! One input ends long before the others, and all that is held spills: the outputs are those of an
//! exchange that never spilled. (DataFusion 20683)

use datafusion_ifile::IFileOptions;
use rstest::rstest;

use super::support::{
    ample, assert_nothing_left, context, digests, drain_in_turn, exchange, greedy_runtime, hash,
    memory_plan, metric, noise,
};

#[rstest]
#[case::as_reported(&[1, 200], 4, 8192)]
#[case::long_first(&[200, 1], 4, 1000)]
#[case::an_input_without_batches(&[0, 200, 1], 4, 8192)]
#[case::many_outputs(&[1, 200], 33, 512)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_and_checksums_are_those_without_spilling(
    #[case] batches: &[u64],
    #[case] outputs: usize,
    #[case] batch_rows: usize,
) {
    let rows = 8192;
    let inputs: Vec<Vec<_>> = (0u64..)
        .zip(batches)
        .map(|(input, &count)| {
            (0..count).map(|batch| noise((input * 1000 + batch) * rows, 8192, 1)).collect()
        })
        .collect();
    let schema = noise(0, 0, 1).schema();
    let plan = || {
        let input = memory_plan(&inputs, &schema);
        let partitioning = hash(&input, "k", outputs);
        exchange(input, partitioning, IFileOptions::default())
    };

    let unspilled = plan();
    let expected = digests(&drain_in_turn(&unspilled, &ample(batch_rows)).await.unwrap());
    assert_eq!(metric(&unspilled, "spill_count"), 0);
    let total: usize = expected.iter().map(|digest| digest.rows).sum();
    assert_eq!(total as u64, batches.iter().sum::<u64>() * rows);

    for pool_bytes in [1, 300_000] {
        let runtime = greedy_runtime(pool_bytes);
        let spilled = plan();
        let parts = drain_in_turn(&spilled, &context(&runtime, batch_rows)).await.unwrap();
        assert_eq!(digests(&parts), expected);
        assert!(metric(&spilled, "spill_count") > 0, "the pool holds too much for this test");
        assert_nothing_left(&runtime);
    }
}
