//! A reader takes rows from scratch files while more of them are written. (DataFusion 19425, 20159)

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::physical_expr::Partitioning;
use datafusion_ifile::IFileOptions;
use futures::StreamExt;
use futures::future::join_all;
use rstest::rstest;

use super::support::{
    assert_nothing_left, context, exchange, feed, generated, greedy_runtime, keys, metric, mixed,
    open_all, within,
};

fn one_row(number: usize, width: u64) -> RecordBatch {
    let words = (0..width / 16).map(|word| format!("{:016x}", mixed(number as u64 * 1000 + word)));
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(Int64Array::from(vec![i64::try_from(number).unwrap()]))),
        ("s", Arc::new(StringArray::from(vec![words.collect::<String>()]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[rstest]
#[case::one_row_batches(1)]
#[case::batches_of_rows(16)]
#[case::batches_that_never_fill(20_000)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_comes_in_order(#[case] batch_rows: usize) {
    let rows = 10_000;
    let width = 2048;
    let batch = move |number| (number < rows).then(|| one_row(number, width));
    let (input, _) = feed(&one_row(0, 0).schema(), vec![generated(batch)]);
    let plan = exchange(input, Partitioning::RoundRobinBatch(2), IFileOptions::default());
    let runtime = greedy_runtime(1);
    let mut streams = open_all(&plan, &context(&runtime, batch_rows));
    let mut ahead = streams.remove(0);
    let mut first = Vec::new();
    // The other output's rows go to disk; then both are read, and more of its rows are written.
    while metric(&plan, "spill_count") < 3 {
        let Some(batch) = within(20, ahead.next()).await else { break };
        first.push(batch.unwrap());
    }
    assert!(metric(&plan, "spill_count") > 0, "nothing was spilled");
    streams.insert(0, ahead);
    let reads = streams.into_iter().map(|stream| tokio::spawn(stream.collect::<Vec<_>>()));
    let parts: Vec<Vec<RecordBatch>> = within(60, join_all(reads))
        .await
        .into_iter()
        .map(|part| part.unwrap().into_iter().map(Result::unwrap).collect())
        .collect();
    let expected = |output: i64| (output..rows as i64).step_by(2).collect::<Vec<_>>();
    assert_eq!(keys(first.iter().chain(&parts[0])), expected(0));
    assert_eq!(keys(&parts[1]), expected(1));
    for row in
        parts[1].iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)))
    {
        let number = usize::try_from(keys([&row])[0]).unwrap();
        assert_eq!(row.columns(), one_row(number, width).columns());
    }
    assert_nothing_left(&runtime);
}
