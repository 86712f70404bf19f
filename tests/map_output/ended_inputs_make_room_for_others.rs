//! What an input holds when it ends is the first to go when another one needs memory.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_ifile::map_output::{IndexLayout, OutputIndex, SegmentSource};
use datafusion_ifile::map_status::MapStatus;
use datafusion_ifile::{IFileOptions, IFileShuffleWriterExec};
use futures::future::ready;
use futures::stream::{self, StreamExt};
use tokio::sync::oneshot;

use crate::support::*;

fn batches(numbers: Range<i64>) -> impl Iterator<Item = RecordBatch> {
    numbers.step_by(1000).map(|n| rows(n, n + 1000))
}

/// Inputs of the rows `0..first` and `first..all`; the second one begins when the first one has ended.
fn one_after_the_other(first: i64, all: i64) -> Arc<dyn ExecutionPlan> {
    let (open, ended) = oneshot::channel::<()>();
    let before = stream::iter(batches(0..first)).map(move |batch| {
        let _until_this_is_dropped = &open;
        Ok(batch)
    });
    let after = stream::once(ended).filter_map(|_| ready(None));
    let after = after.chain(stream::iter(batches(first..all)).map(Ok));
    streamed(vec![before.boxed(), after.boxed()])
}

/// Rows of the output's segments by the run that they were written in; what was still in memory at the end is the last.
fn rows_of_runs(status: &MapStatus) -> Vec<u64> {
    let source = source(status);
    let mut open = source.open().unwrap();
    let (layout, name) = (source.layout(), source.name());
    let partitions = status.placement.count;
    let mut index = OutputIndex::open(open.as_mut(), layout, partitions, &name, None).unwrap();
    let mut rows = vec![];
    for partition in 0..partitions {
        for segment in index.segments(open.as_mut(), partition).unwrap() {
            let run = segment.run as usize;
            rows.resize(rows.len().max(run + 1), 0);
            rows[run] += segment.rows;
        }
    }
    rows
}

#[tokio::test]
async fn what_ended_inputs_hold_is_spilled_for_others() {
    let (first, all, pool) = (80_000, 600_000, 3 << 20);
    let directory = tempfile::tempdir().unwrap();
    let runtime = limited(pool);
    let context = context(&runtime, 1000);
    let mut write_to = write_to(directory.path(), 0, IndexLayout::IFile);
    // Rows become blocks early, so that the first input ends with most of the pool.
    write_to.output.staged_bytes = 1 << 20;
    let options =
        IFileOptions { memory_share: 1.0, memory_headroom: 0.0, ..IFileOptions::default() };
    let input = one_after_the_other(first, all);
    let writer = IFileShuffleWriterExec::try_new(input, hash(20), write_to, options).unwrap();
    let writer = Arc::new(writer);
    let plan: Arc<dyn ExecutionPlan> = Arc::<IFileShuffleWriterExec>::clone(&writer);
    let summary = collect(plan, Arc::clone(&context)).await.unwrap();
    let written = Written::of(&summary[0]);
    let of_runs = rows_of_runs(&written.status);
    assert_eq!(of_runs[0], first as u64, "rows of runs: {of_runs:?}");
    let peak = writer.metrics().unwrap().sum_by_name("peak_reserved").unwrap().as_usize();
    assert!(peak <= pool + (1 << 20), "{peak} bytes");
    let reads = reads(std::slice::from_ref(&written.status));
    assert_all_rows(&read(&written.status, reads, &context).await.unwrap(), all);
    assert_eq!(runtime.memory_pool.reserved(), 0);
    assert_eq!(runtime.disk_manager.used_disk_space(), 0);
}
