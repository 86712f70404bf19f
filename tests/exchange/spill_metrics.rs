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
    let in_files = metric(&plan, "scratch_bytes");
    assert_eq!(bytes_under(directory.path()), in_files as u64);
    assert_eq!(runtime.disk_manager.used_disk_space(), in_files as u64);
    // What the other outputs had read was written over.
    assert_eq!(in_files + metric(&plan, "reused_bytes"), stored);
    let live = metric(&plan, "live_bytes");
    assert!(live > 0 && live <= in_files, "{live} of {in_files} bytes are unread");
    let by_cause =
        ["pool", "share", "headroom"].map(|who| metric(&plan, &format!("spills_by_{who}")));
    assert_eq!(by_cause.iter().sum::<usize>(), runs, "{by_cause:?}");
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
    assert_eq!(metric(&plan, "scratch_bytes") + metric(&plan, "live_bytes"), 0);
    assert!(metric(&plan, "scratch_peak_bytes") >= in_files);
    assert!(metric(&plan, "live_peak_bytes") >= live);
    let (batches, average) = (rows.div_ceil(8192), metric(&plan, "rows_per_batch"));
    assert!(average <= 8192 && average >= rows / (batches + 4), "{average} rows per batch");
    assert_nothing_left(&runtime);
    assert_eq!(bytes_under(directory.path()), 0);
}

/// Nobody reads a row before the input is at its end, so that every byte which was written is there.
#[rstest]
#[tokio::test]
async fn unread_spills_are_the_files(#[values(false, true)] own_directories: bool) {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime_in(1, directory.path());
    let batches: Vec<_> = (0..100).map(|batch| numbered(batch * 8192, 8192)).collect();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let input = memory_plan(std::slice::from_ref(&batches), &batches[0].schema());
    let partitioning = range(&input, "k", SortOptions::default(), &[400_000, 10_000_000]);
    let mut options = IFileOptions::default();
    if own_directories {
        options.scratch_dirs = directory.path().to_str().unwrap().parse().unwrap();
    }
    let plan = exchange(input, partitioning, options);
    let mut streams = open_all(&plan, &context(&runtime, 8192));
    let mut empty = streams.pop().unwrap();
    assert!(within(60, empty.next()).await.is_none());
    let stored = metric(&plan, "spilled_bytes");
    assert!(metric(&plan, "spill_count") > 1);
    assert_eq!(bytes_under(directory.path()), stored as u64);
    for name in ["scratch_bytes", "scratch_peak_bytes", "live_bytes", "live_peak_bytes"] {
        assert_eq!(metric(&plan, name), stored, "{name}");
    }
    assert_eq!(metric(&plan, "reused_bytes") + metric(&plan, "punched_bytes"), 0);
    if own_directories {
        assert_eq!(runtime.disk_manager.used_disk_space(), 0);
    }
    let mut read = 0;
    for stream in streams {
        read += Digest::of(&within(60, stream.try_collect::<Vec<_>>()).await.unwrap()).rows;
    }
    assert_eq!(read, rows);
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
