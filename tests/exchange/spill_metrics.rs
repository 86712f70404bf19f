//! The spill metrics state what was written. (Comet 1437, Ballista 2143)

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::{SortOptions, concat_batches};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_ifile::{Codec, IFileOptions};
use futures::{StreamExt, TryStreamExt};
use rstest::rstest;

use super::support::{
    Digest, assert_nothing_left, bytes_under, context, drain_in_turn, exchange, greedy_runtime,
    hash, keys, memory_plan, metric, noise, numbered, open_all, range, runtime_in, within,
};

fn plan(batches: Vec<RecordBatch>, codec: Codec) -> Arc<dyn ExecutionPlan> {
    let schema = batches[0].schema();
    let input = memory_plan(&[batches], &schema);
    let partitioning = hash(&input, "k", 4);
    exchange(input, partitioning, IFileOptions { codec, ..IFileOptions::default() })
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spilled_bytes_are_the_bytes_of_the_files(
    #[values(Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd { level: 3 })] codec: Codec,
    #[values(false, true)] compressible: bool,
) {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime_in(1, directory.path());
    let batches: Vec<_> = (0..200)
        .map(|batch| match compressible {
            true => numbered(batch * 8192, 8192),
            false => noise(batch.cast_unsigned() * 8192, 8192, 2),
        })
        .collect();
    let plan = plan(batches, codec);
    let mut streams = open_all(&plan, &context(&runtime, 8192));
    // Rows of the first output stay where they are while the others are read to their end.
    let unread = streams.remove(0);
    let mut rows = 0;
    for mut stream in streams {
        while let Some(batch) = within(60, stream.next()).await {
            rows += batch.unwrap().num_rows();
        }
    }
    let runs = metric(&plan, "spill_count");
    assert!(runs >= 2, "{runs} runs");
    let stored = metric(&plan, "spilled_bytes");
    assert_eq!(bytes_under(directory.path()), stored as u64);
    assert_eq!(runtime.disk_manager.used_disk_space(), stored as u64);
    // Raw bytes are those of the rows in Arrow; noise takes as many in a file, and the heads of
    // blocks are small beside them.
    let raw = metric(&plan, "spilled_raw_bytes");
    let spilled_rows = metric(&plan, "spilled_rows");
    if compressible {
        assert!((20 * spilled_rows..40 * spilled_rows).contains(&raw), "{raw} bytes");
        assert!(stored < raw, "{stored} of {raw} bytes");
    } else {
        assert!((16 * spilled_rows..17 * spilled_rows).contains(&raw), "{raw} bytes");
        assert!((raw - raw / 50..raw + raw / 50).contains(&stored), "{stored} of {raw} bytes");
    }
    let last: Vec<RecordBatch> = within(60, unread.try_collect()).await.unwrap();
    rows += Digest::of(&last).rows;
    assert_eq!(rows, 200 * 8192);
    assert!(spilled_rows > 0 && spilled_rows <= rows);
    // Reading back is no spilling.
    assert_eq!(metric(&plan, "spilled_bytes"), stored);
    assert_nothing_left(&runtime);
    assert_eq!(bytes_under(directory.path()), 0);
}

/// Rows for three of four outputs of which nobody takes any while the input is read, so that spills
/// come at the same rows.
#[tokio::test]
async fn sliced_input_spills_the_same_bytes() {
    let third = |batch: &RecordBatch| {
        let thirds = keys([batch]).into_iter().map(|key| key % 3);
        let columns: [(&str, ArrayRef); 3] = [
            ("third", Arc::new(Int64Array::from_iter_values(thirds))),
            ("k", Arc::clone(batch.column(0))),
            ("s", Arc::clone(batch.column(1))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let whole: Vec<_> = (0..200).map(|batch| third(&numbered(batch * 4096, 4096))).collect();
    let one = concat_batches(&whole[0].schema(), &whole).unwrap();
    let sliced: Vec<_> = (0..200).map(|batch| one.slice(batch * 4096, 4096)).collect();
    let mut spilled = Vec::new();
    for batches in [whole.clone(), whole, sliced] {
        let runtime = greedy_runtime(1);
        let schema = batches[0].schema();
        let input = memory_plan(&[batches], &schema);
        let partitioning = range(&input, "third", SortOptions::default(), &[1, 2, 3]);
        let plan = exchange(input, partitioning, IFileOptions::default());
        let mut streams = open_all(&plan, &context(&runtime, 8192));
        let mut empty = streams.pop().unwrap();
        assert!(within(60, empty.next()).await.is_none());
        let names = ["spill_count", "spilled_rows", "spilled_raw_bytes", "spilled_bytes"];
        spilled.push(names.map(|name| metric(&plan, name)));
        let mut rows = 0;
        for stream in streams {
            rows += Digest::of(&within(60, stream.try_collect::<Vec<_>>()).await.unwrap()).rows;
        }
        assert_eq!(rows, 200 * 4096);
    }
    assert!(spilled[0][0] > 0, "nothing was spilled");
    assert_eq!(spilled[0], spilled[1], "twice the same");
    assert_eq!(spilled[0], spilled[2], "whole and sliced");
}

#[tokio::test]
async fn an_exchange_has_one_metric_of_a_kind_and_rows_per_output() {
    let plan = plan((0..20).map(|batch| numbered(batch * 4096, 4096)).collect(), Codec::Lz4);
    let runtime = greedy_runtime(1 << 30);
    let parts = drain_in_turn(&plan, &context(&runtime, 8192)).await.unwrap();
    let metrics = plan.metrics().unwrap();
    let count = |name| metrics.iter().filter(|metric| metric.value().name() == name).count();
    for name in ["fetch_time", "repartition_time", "encode_time", "write_time", "peak_reserved"] {
        assert_eq!(count(name), 1, "{name}");
    }
    for (output, part) in parts.iter().enumerate() {
        let rows = metrics.sum(|metric| {
            metric.partition() == Some(output) && metric.value().name() == "output_rows"
        });
        assert_eq!(rows.unwrap().as_usize(), Digest::of(part).rows);
    }
    assert_eq!(metrics.output_rows(), Some(20 * 4096));
    assert_eq!(metric(&plan, "spill_count") + metric(&plan, "spilled_bytes"), 0);
}
