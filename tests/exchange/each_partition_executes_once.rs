//! A partition is executed once; asking again, or for one that is not there, is an error and
//! disturbs nobody.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::physical_expr::Partitioning;
use datafusion_ifile::IFileOptions;
use futures::TryStreamExt;

use super::support::{ample, exchange, memory_plan, numbered, open_all, sorted_keys, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executing_twice_or_out_of_range_is_an_error() {
    let batches: Vec<_> = (0..10).map(|batch| numbered(batch * 100, 100)).collect();
    let input = memory_plan(std::slice::from_ref(&batches), &batches[0].schema());
    let plan = exchange(input, Partitioning::RoundRobinBatch(3), IFileOptions::default());
    let context = ample(8192);
    let message = |partition| {
        let error = plan.execute(partition, Arc::clone(&context)).err();
        error.expect("an error").to_string()
    };
    // Out of range first: the outputs that exist are still to be had.
    assert!(message(3).contains("partition 3"), "{}", message(3));
    assert!(message(usize::MAX).contains("does not exist"));
    let mut streams = open_all(&plan, &context);
    for partition in 0..3 {
        let message = message(partition);
        assert!(message.contains(&format!("partition {partition}")), "{message}");
        assert!(message.contains("IFileRepartitionExec"), "{message}");
    }
    let mut rows: Vec<RecordBatch> = Vec::new();
    rows.extend(within(20, streams.remove(0).try_collect::<Vec<_>>()).await.unwrap());
    // Also while it runs, and after it ended.
    assert!(plan.execute(0, Arc::clone(&context)).is_err());
    assert!(plan.execute(1, Arc::clone(&context)).is_err());
    assert!(plan.execute(3, Arc::clone(&context)).is_err());
    for stream in streams {
        rows.extend(within(20, stream.try_collect::<Vec<_>>()).await.unwrap());
    }
    assert_eq!(sorted_keys(rows), (0..1000).collect::<Vec<_>>());
    assert!(plan.execute(2, context).is_err());
}
