//! A reader that is far behind costs disk, not memory. (DataFusion 22090)

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_expr::Partitioning;
use datafusion_ifile::IFileOptions;
use futures::StreamExt;
use futures::future::join_all;
use rstest::rstest;

use super::support::{
    Digest, PeakPool, assert_nothing_left, context, exchange, feed, generated, hash, metric, noise,
    open_all, runtime_on, within,
};

const MB: usize = 1 << 20;

async fn digest_of(mut stream: datafusion::execution::SendableRecordBatchStream) -> Digest {
    let mut digest = Digest::default();
    while let Some(batch) = stream.next().await {
        digest.add(&batch.unwrap());
    }
    digest
}

#[rstest]
#[case::as_reported("round robin", 16 * MB, 512 * MB, 4)]
#[case::hash("hash", 16 * MB, 128 * MB, 4)]
#[case::a_small_budget("hash", 4 * MB, 64 * MB, 4)]
#[case::two_outputs("round robin", 8 * MB, 64 * MB, 2)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reserved_bytes_stay_in_the_budget(
    #[case] scheme: &str,
    #[case] budget: usize,
    #[case] input_bytes: usize,
    #[case] outputs: usize,
) {
    let batches = input_bytes / (8192 * 16);
    let batch = move |number| (number < batches).then(|| noise(number as u64 * 8192, 8192, 2));
    let (input, _) = feed(&noise(0, 0, 2).schema(), vec![generated(batch)]);
    let partitioning = match scheme {
        "hash" => hash(&input, "k", outputs),
        _ => Partitioning::RoundRobinBatch(outputs),
    };
    let options = IFileOptions::default();
    let block_bytes = options.block_bytes;
    let plan = exchange(input, partitioning, options);
    // Half of the pool is the exchange's.
    let pool = PeakPool::new(2 * budget);
    let runtime = runtime_on(Arc::clone(&pool) as Arc<dyn MemoryPool>);

    let mut streams = open_all(&plan, &context(&runtime, 8192));
    let held_back = streams.pop().unwrap();
    let read = join_all(streams.into_iter().map(|stream| tokio::spawn(digest_of(stream))));
    let mut digests: Vec<_> =
        within(60, read).await.into_iter().map(|digest| digest.unwrap()).collect();
    let peak = pool.peak();
    assert!(peak <= budget + outputs * block_bytes, "{peak} bytes reserved at the peak");
    let overflow = metric(&plan, "spilled_raw_bytes");
    let least = input_bytes / outputs * 9 / 10 - budget - outputs * block_bytes;
    assert!(overflow >= least, "{overflow} bytes on disk, expected at least {least}");

    digests.push(within(60, digest_of(held_back)).await);
    let mut expected = Digest::default();
    (0..batches).for_each(|number| expected.add(&noise(number as u64 * 8192, 8192, 2)));
    let total = digests.iter().fold(Digest::default(), |sum, part| sum.plus(*part));
    assert_eq!(total, expected);
    let peak = pool.peak();
    assert!(peak <= budget + outputs * block_bytes, "{peak} bytes reserved at the peak");
    drop(plan);
    assert_nothing_left(&runtime);
}
