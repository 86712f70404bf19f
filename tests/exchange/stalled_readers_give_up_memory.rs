//! What is held ready for a reader that stays away is given up when memory is short.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::IFileOptions;
use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use rstest::rstest;

use super::support::{
    Digest, PeakPool, ample, context, digests, drain, exchange, feed, generated, hash, metric,
    noise, nothing_left_soon, open_all, runtime_on, within,
};

const OUTPUTS: usize = 8;
const BATCH_ROWS: usize = 8192;

/// Two columns of noise.
const BATCH_BYTES: usize = BATCH_ROWS * 16;

fn plan() -> Arc<dyn ExecutionPlan> {
    let inputs = (0..2).map(|input| {
        generated(move |number| {
            (number < 200).then(|| noise((input * 200 + number) as u64 * 8192, 8192, 2))
        })
    });
    let (input, _) = feed(&noise(0, 0, 2).schema(), inputs.collect());
    let partitioning = hash(&input, "k", OUTPUTS);
    let options =
        IFileOptions { memory_share: 1.0, memory_headroom: 0.0, ..IFileOptions::default() };
    exchange(input, partitioning, options)
}

async fn digest_of(mut stream: SendableRecordBatchStream) -> Digest {
    let mut digest = Digest::default();
    while let Some(batch) = stream.next().await {
        digest.add(&batch.unwrap());
    }
    digest
}

/// Each stalled output is polled until it has given `before` batches and waits for the next.
#[rstest]
#[tokio::test]
async fn a_pool_of_one_batch(
    #[values(1, OUTPUTS - 1)] stalled: usize,
    #[values(0, 2)] before: usize,
    #[values(1, 4)] pool_batches: usize,
) {
    let pool = PeakPool::new(pool_batches * BATCH_BYTES);
    let runtime = runtime_on(Arc::clone(&pool) as Arc<dyn MemoryPool>);
    let plan = plan();
    let mut streams = open_all(&plan, &context(&runtime, BATCH_ROWS));
    let readers = streams.split_off(stalled);
    let mut digests_of_stalled = vec![Digest::default(); stalled];
    for (stream, digest) in streams.iter_mut().zip(&mut digests_of_stalled) {
        for _ in 0..before {
            digest.add(&within(60, stream.next()).await.unwrap().unwrap());
        }
        // Once more, and not again: it waits, or takes a batch that is there.
        if let Some(Some(batch)) = stream.next().now_or_never() {
            digest.add(&batch.unwrap());
        }
    }
    let read = join_all(readers.into_iter().map(|stream| tokio::spawn(digest_of(stream))));
    let mut found: Vec<Digest> =
        within(60, read).await.into_iter().map(|digest| digest.unwrap()).collect();
    // The working set, an encoder, the writer of runs, and a decoded batch of each reader.
    let most = pool_batches * BATCH_BYTES + (6 << 20) + OUTPUTS * BATCH_BYTES;
    assert!(pool.peak() <= most, "{} bytes at the peak, {most} at most", pool.peak());
    assert!(metric(&plan, "unread_count") > 0, "nothing was given up");
    // Nothing is being read or written now: what is held are the places of blocks and the like.
    let held = runtime.memory_pool.reserved();
    assert!(
        held <= (2 << 20) + stalled * 64 * 1024,
        "{held} bytes held for readers that stay away"
    );
    for (stream, digest) in streams.into_iter().zip(digests_of_stalled).rev() {
        found.insert(0, digest.plus(within(60, digest_of(stream)).await));
    }
    let expected = digests(&drain(&self::plan(), &ample(BATCH_ROWS)).await.unwrap());
    assert_eq!(found, expected);
    drop(plan);
    nothing_left_soon(&runtime).await;
}
