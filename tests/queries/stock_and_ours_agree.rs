//! Both exchanges give the same rows, whatever the memory, the partitions and the codec.

use crate::compare::{Texts, compare};
use crate::support::{Exchange, context, queries, run};

const CODECS: [&str; 5] = ["none", "snappy", "lz4", "zstd", "zstd:9"];
const PARTITIONS: [usize; 4] = [1, 2, 8, 64];
const AMPLE_BYTES: usize = 1 << 30;
const TINY_BYTES: usize = 8 << 10;

/// That the runs did what they are for.
#[derive(Debug, Default)]
struct Totals {
    exchanges: usize,
    spilled: usize,
}

/// Runs each query with every choice of `settings`.
async fn check(
    group: &str,
    settings: impl Fn(usize, usize) -> Vec<Exchange>,
) -> datafusion::common::Result<Totals> {
    let mut totals = Totals::default();
    for (number, (name, sql)) in queries(group).into_iter().enumerate() {
        let stock = run(&sql, Exchange::Stock, 4).await.map_err(|e| context(e, &name))?;
        for partitions in PARTITIONS {
            for exchange in settings(number, partitions) {
                let case = format!("{group}/{name}, {partitions} partitions, {exchange:?}");
                let ours = run(&sql, exchange, partitions).await.map_err(|e| context(e, &case))?;
                let difference = compare(&stock.rows, &ours.rows, Texts::Exact).unwrap();
                assert!(difference.is_empty(), "{case}: {difference:?}");
                totals.exchanges += ours.exchanges;
                totals.spilled += usize::from(ours.spills > 0);
            }
        }
    }
    Ok(totals)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_with_big_shuffles_with_every_codec_and_memory() {
    let every = |_, _| {
        let codecs = CODECS.iter().flat_map(|codec| {
            [AMPLE_BYTES, TINY_BYTES].map(|bytes| Exchange::Ours { codec, bytes })
        });
        codecs.collect()
    };
    let totals = check("shuffle", every).await.unwrap();
    assert!(totals.exchanges >= 300 && totals.spilled >= 30, "{totals:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpcds_queries_with_changing_codecs_and_memory() {
    let some = |number: usize, partitions: usize| {
        let codec = CODECS[(number + partitions.trailing_zeros() as usize) % CODECS.len()];
        [AMPLE_BYTES, TINY_BYTES].map(|bytes| Exchange::Ours { codec, bytes }).to_vec()
    };
    let totals = check("tpcds", some).await.unwrap();
    assert!(totals.exchanges >= 1_000 && totals.spilled >= 50, "{totals:?}");
}
